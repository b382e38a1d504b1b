#include "loop/agree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that the bits of a run depend on, or that ranks must do together. */
static const char *const names[] = {
	"--steps",
	"--batch",
	"--layers",
	"--width",
	"--seq",
	"--heads",
	"--lr",
	"--warmup",
	"--seed",
	"--save-memory-every",
	"--save-storage-every",
	"--save-auto",
	"--healthy-after",
	"--compress",
	"--no-vote",
	"the text (fingerprint)",
};

enum { FIELDS = sizeof(names) / sizeof(names[0]), FIELD_RATE = 6 };

static void fill(uint64_t row[FIELDS], const struct train_options *o, uint64_t text)
{
	const uint64_t values[FIELDS] = {
		o->steps,
		o->batch,
		(uint64_t)o->model.layers,
		(uint64_t)o->model.width,
		(uint64_t)o->model.seq_len,
		(uint64_t)o->model.heads,
		0,
		o->warmup,
		o->seed,
		o->memory_every,
		o->storage_every,
		o->save_auto,
		o->healthy_after,
		(uint64_t)o->compress,
		o->no_vote,
		text,
	};

	memcpy(row, values, sizeof(values));
	memcpy(&row[FIELD_RATE], &o->rate, sizeof(o->rate)); /* its bits */
}

static void describe(char text[64], int field, uint64_t value)
{
	double rate;

	memcpy(&rate, &value, sizeof(rate));
	if (field == FIELD_RATE)
		snprintf(text, 64, "%.17g", rate);
	else
		snprintf(text, 64, "%" PRIu64, value);
}

/* Against rank 0, so that all ranks say the same. */
static int compare(struct communicator *c, const uint64_t *all)
{
	char ours[64], theirs[64];

	for (int rank = 1; rank < c->world; rank++) {
		for (int i = 0; i < FIELDS; i++) {
			if (all[rank * FIELDS + i] == all[i])
				continue;
			describe(ours, i, all[i]);
			describe(theirs, i, all[rank * FIELDS + i]);
			snprintf(c->why, sizeof(c->why), "ranks 0 and %d differ in %s: %s and %s", rank, names[i], ours,
				 theirs);
			return -EINVAL;
		}
	}
	return 0;
}

int agree(struct communicator *c, const struct train_options *options, uint64_t text)
{
	uint64_t *all = calloc((size_t)c->world, FIELDS * sizeof(*all));
	int rc;

	if (!all) {
		snprintf(c->why, sizeof(c->why), "out of memory");
		return -ENOMEM;
	}
	fill(all + (size_t)c->rank * FIELDS, options, text);
	rc = communicator_gather(c, all, FIELDS * sizeof(*all));
	if (rc == 0)
		rc = compare(c, all);
	free(all);
	return rc;
}
