/* A rank for ckpt run: rank 1 enters another collective than the others (mismatched type: the same one with another type of elements), and all wait for ever, as a communicator does that notices nothing.
 * When the epoch moves on they end; who is started later ends at once. */
#include "ckpt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void raise_fd(void *arg, uint32_t epoch, const char *reason)
{
	(void)epoch;
	(void)reason;
	eventfd_write(*(int *)arg, 1);
}

static int stay(ckpt *s, const int *fd, bool type)
{
	static uint8_t state[16];
	eventfd_t ignored;
	int rc = ckpt_register_blob(s, "state", CKPT_SCOPE_RANK, state, sizeof(state));
	if (!rc)
		rc = ckpt_join(s, NULL, 0, NULL, -1);
	if (rc) {
		fprintf(stderr, "mismatched: %s\n", ckpt_error(s));
		return 1;
	}
	ckpt_beat(s, 5, CKPT_PHASE_COLLECTIVE);
	if (type)
		ckpt_collective_enter_typed(s, "reduce_scatter", ckpt_rank(s) == 1 ? CKPT_BF16 : CKPT_F32, 7, 4096);
	else if (ckpt_rank(s) == 1)
		ckpt_collective_enter(s, "all_gather", 7, 512);
	else
		ckpt_collective_enter(s, "reduce_scatter", 7, 4096);
	eventfd_read(*fd, &ignored);
	return 0;
}

int main(int argc, char **argv)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	ckpt_options o = CKPT_INIT(ckpt_options);
	char why[256];
	ckpt *s;
	const char *epoch = getenv("CKPT_EPOCH");
	if (!epoch || strtoul(epoch, NULL, 10) > 1)
		return 0;
	o.on_epoch = raise_fd;
	o.on_epoch_arg = &fd;
	if (ckpt_open(&o, &s, why, sizeof(why))) {
		fprintf(stderr, "mismatched: %s\n", why);
		return 1;
	}
	int rc = stay(s, &fd, argc > 1 && !strcmp(argv[1], "type"));
	ckpt_close(s);
	return rc;
}
