/* puppet: one rank of a job that does what it is told, for tests in which the order of calls is everything.
 *
 * A line on stdin is a call, a line on stdout its answer: the code, then what there is to say (values, or the sentence of an error).
 *
 *	open [TIMEOUT_MS]         table ELEMENTS [replicated [OTHER]]  join [TIMEOUT_MS]  epoch
 *	set VALUE [FROM]          get                             begin STEP TARGET N     fence N
 *	fill VALUE                check VALUE
 *	wait N LEVEL TIMEOUT_MS   poll N                          drop N                  restore STEP TIMEOUT_MS
 *	mark STEP EPOCH HEALTH    early                           fork                    stop
 *	close                     blob                            due STEP
 *	sized MOST                put BYTES                       size
 *	subset MASK ELEMENTS
 *
 * subset: in place of table, a replicated tensor of ELEMENTS for each bit of MASK.
 * OTHER: what is another table than without: 1 another name, 2 another dtype, 3 one tensor more, 4 the parts in the opposite order, 5 a blob of 100
 * bytes, 6 of 200. fill, check: each element of the whole tensor is VALUE and its own number, so that one in a wrong place shows. N names a
 * snapshot, 0 to 15. FROM: elements before it stay as they are. STEP -1: the newest, -2: the newest that is healthy. HEALTH as in ckpt.h. TARGET: 1 memory, 2 storage. LEVEL as in ckpt.h. `fork` tells the pid of a child that
 * holds every descriptor until its stdin ends. Rank, world, job and socket come from the environment, as for any rank. */
#include "ckpt.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SNAPSHOTS = 16, ARGS = 3, EXIT_USAGE = 2 };

struct puppet {
	ckpt *s;
	float *data, more;
	uint8_t blob[200];
	size_t blob_bytes; /* that are registered of it */
	size_t elements;
	uint64_t first; /* of the elements, in the whole tensor */
	uint32_t mask;  /* which tensors of `each` elements they are of, one after the other; 0: of one tensor */
	size_t each;
	ckpt_snapshot *snapshots[SNAPSHOTS];
	uint64_t early;
	char text[700];
};

static ckpt_snapshot **snapshot(struct puppet *p, long long n)
{
	if (n < 0 || n >= SNAPSHOTS) {
		fprintf(stderr, "puppet: snapshot %lld\n", n);
		exit(EXIT_USAGE);
	}
	return &p->snapshots[n];
}

static int do_open(struct puppet *p, const long long *a)
{
	ckpt_options o = CKPT_INIT(ckpt_options);
	o.timeout_ms = a[0] ? (int)a[0] : 30000;
	return ckpt_open(&o, &p->s, p->text, sizeof(p->text));
}

enum { OTHER_NAME = 1, OTHER_DTYPE, ONE_MORE, OTHER_ORDER, SMALL_BLOB, LARGE_BLOB };

static int add_others(struct puppet *p, long long other)
{
	static const uint64_t one[1] = {1};
	ckpt_piece piece = {.data = &p->more, .count = 1};
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	t.name = "more";
	t.dtype = CKPT_F32;
	t.ndim = 1;
	t.shape = one;
	t.pieces = &piece;
	t.npieces = 1;
	t.replica = "all";
	t.device = CKPT_HOST;
	if (other == ONE_MORE)
		return ckpt_register_tensor(p->s, &t);
	p->blob_bytes = other == SMALL_BLOB ? 100 : other == LARGE_BLOB ? sizeof(p->blob) : 0;
	return p->blob_bytes ? ckpt_register_blob(p->s, "blob", CKPT_SCOPE_JOB, p->blob, p->blob_bytes) : 0;
}

/* "tree", a blob of changing size of the job. */
static int do_sized(struct puppet *p, const long long *a)
{
	return ckpt_register_sized_blob(p->s, "tree", CKPT_SCOPE_JOB, (size_t)a[0]);
}

static uint8_t byte_of(size_t i)
{
	return (uint8_t)(i * 31 + i / 251 + 5);
}

static int do_put(struct puppet *p, const long long *a)
{
	uint8_t *bytes = malloc((size_t)a[0] + 1);
	if (!bytes)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)a[0]; i++)
		bytes[i] = byte_of(i);
	int rc = ckpt_set_blob(p->s, "tree", bytes, (size_t)a[0]);
	free(bytes);
	return rc;
}

/* Its bytes; -EBADMSG: they are not what was put in. */
static int do_size(struct puppet *p, const long long *a)
{
	(void)a;
	int64_t size = ckpt_get_blob(p->s, "tree", NULL, 0);
	uint8_t *bytes = size < 0 ? NULL : malloc((size_t)size + 1);
	if (!bytes)
		return size < 0 ? (int)size : -ENOMEM;
	int64_t got = ckpt_get_blob(p->s, "tree", bytes, (size_t)size);
	for (int64_t i = 0; got == size && i < size; i++)
		if (bytes[i] != byte_of((size_t)i))
			got = -EBADMSG;
	free(bytes);
	snprintf(p->text, sizeof(p->text), "%lld", (long long)size);
	return got < 0 ? (int)got : 0;
}

/* Replicated: every rank holds the whole; else each holds its part of a tensor that is `world` times as long. */
static int do_table(struct puppet *p, const long long *a)
{
	uint64_t rank = (uint64_t)ckpt_rank(p->s);
	p->elements = (size_t)a[0];
	p->data = calloc(p->elements + 1, sizeof(*p->data));
	if (!p->data)
		return -ENOMEM;
	uint64_t shape[1] = {p->elements * (a[1] ? 1 : (uint64_t)ckpt_world(p->s))};
	ckpt_piece piece = {.data = p->data};
	if (!a[1]) {
		p->first = p->elements * (a[2] == OTHER_ORDER ? (uint64_t)ckpt_world(p->s) - 1 - rank : rank);
		piece.start = p->first;
		piece.count = p->elements;
	}
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	t.name = a[2] == OTHER_NAME ? "v" : "w";
	t.dtype = a[2] == OTHER_DTYPE ? CKPT_I32 : CKPT_F32;
	t.ndim = 1;
	t.shape = shape;
	t.pieces = &piece;
	t.npieces = 1;
	t.replica = a[1] ? "all" : NULL;
	t.device = CKPT_HOST;
	int rc = ckpt_register_tensor(p->s, &t);
	return rc ? rc : add_others(p, a[2]);
}

static int add_of_subset(struct puppet *p, unsigned k, float *data)
{
	uint64_t shape[1] = {p->each};
	char name[8];
	snprintf(name, sizeof(name), "s%u", k);
	ckpt_piece piece = {.data = data};
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	t.name = name;
	t.dtype = CKPT_F32;
	t.ndim = 1;
	t.shape = shape;
	t.pieces = &piece;
	t.npieces = 1;
	t.replica = "all";
	t.device = CKPT_HOST;
	return ckpt_register_tensor(p->s, &t);
}

static int do_subset(struct puppet *p, const long long *a)
{
	int rc = 0;
	p->mask = (uint32_t)a[0];
	p->each = (size_t)a[1];
	p->data = calloc(p->each * (size_t)__builtin_popcount(p->mask) + 1, sizeof(*p->data));
	if (!p->data)
		return -ENOMEM;
	for (unsigned k = 0; !rc && k < 32; k++) {
		if (!(p->mask & 1u << k))
			continue;
		rc = add_of_subset(p, k, p->data + p->elements);
		p->elements += p->each;
	}
	return rc;
}

/* Of the whole job. */
static int do_blob(struct puppet *p, const long long *a)
{
	static uint64_t blob;
	(void)a;
	return ckpt_register_blob(p->s, "loader", CKPT_SCOPE_JOB, &blob, sizeof(blob));
}

static int do_join(struct puppet *p, const long long *a)
{
	return ckpt_join(p->s, NULL, 0, NULL, a[0] ? (int)a[0] : -1);
}

static int do_epoch(struct puppet *p, const long long *a)
{
	(void)a;
	return (int)ckpt_epoch(p->s);
}

static int do_set(struct puppet *p, const long long *a)
{
	for (size_t i = (size_t)a[1]; i < p->elements; i++)
		p->data[i] = (float)a[0];
	return 0;
}

static int do_get(struct puppet *p, const long long *a)
{
	size_t differ = 0;
	(void)a;
	for (size_t i = 0; i < p->elements; i++)
		differ += p->data[i] != p->data[0];
	snprintf(p->text, sizeof(p->text), "%g%s", (double)p->data[0], differ ? " mixed" : "");
	return 0;
}

/* Its number in the whole tensor, or in all tensors of which there may be some. */
static size_t number_of(const struct puppet *p, size_t i)
{
	unsigned k = 0;
	if (!p->mask)
		return p->first + i;
	for (size_t before = i / p->each; before || !(p->mask & 1u << k); k++)
		before -= (p->mask & 1u << k) != 0;
	return k * p->each + i % p->each;
}

static float filled(const struct puppet *p, long long value, size_t i)
{
	return (float)value + (float)number_of(p, i);
}

static int do_fill(struct puppet *p, const long long *a)
{
	for (size_t i = 0; i < p->elements; i++)
		p->data[i] = filled(p, a[0], i);
	memset(p->blob, (int)(a[0] & 0xff), p->blob_bytes);
	return 0;
}

static int do_check(struct puppet *p, const long long *a)
{
	size_t i = 0, k = 0;
	while (i < p->elements && p->data[i] == filled(p, a[0], i))
		i++;
	while (k < p->blob_bytes && p->blob[k] == (a[0] & 0xff))
		k++;
	if (i == p->elements && k == p->blob_bytes)
		return 0;
	if (i < p->elements)
		snprintf(p->text, sizeof(p->text), "element %zu is %g", i, (double)p->data[i]);
	else
		snprintf(p->text, sizeof(p->text), "byte %zu of the blob is %u", k, p->blob[k]);
	return -EBADMSG;
}

static int do_begin(struct puppet *p, const long long *a)
{
	return ckpt_begin(p->s, (uint64_t)a[0], (ckpt_target)a[1], NULL, snapshot(p, a[2]));
}

static int do_fence(struct puppet *p, const long long *a)
{
	return ckpt_fence(*snapshot(p, a[0]), NULL);
}

static int do_due(struct puppet *p, const long long *a)
{
	return ckpt_due(p->s, (uint64_t)a[0]);
}

static int do_wait(struct puppet *p, const long long *a)
{
	return ckpt_wait(*snapshot(p, a[0]), (ckpt_level)a[1], (int)a[2]);
}

static int do_slot(struct puppet *p, const long long *a)
{
	return ckpt_wait_slot(p->s, (int)a[0]);
}

static int do_poll(struct puppet *p, const long long *a)
{
	return ckpt_poll(*snapshot(p, a[0]));
}

static int do_drop(struct puppet *p, const long long *a)
{
	ckpt_snapshot_free(*snapshot(p, a[0]));
	*snapshot(p, a[0]) = NULL;
	return 0;
}

static int do_restore(struct puppet *p, const long long *a)
{
	static const char *const sources[] = {"?", "memory", "peer", "storage"};
	ckpt_restored r = CKPT_INIT(ckpt_restored);
	uint64_t step = a[0] == -1 ? CKPT_LATEST : a[0] == -2 ? CKPT_LATEST_HEALTHY : (uint64_t)a[0];
	int rc = ckpt_restore(p->s, step, NULL, &r, a[1] ? (int)a[1] : -1);
	if (!rc)
		snprintf(p->text, sizeof(p->text), "%llu %u %s", (unsigned long long)r.step, r.epoch,
			 sources[r.source]);
	p->early = rc ? 0 : r.early_bytes;
	return rc;
}

/* Bytes that the last restore loaded while others were still brought. */
static int do_early(struct puppet *p, const long long *a)
{
	(void)a;
	snprintf(p->text, sizeof(p->text), "%llu", (unsigned long long)p->early);
	return 0;
}

static int do_mark(struct puppet *p, const long long *a)
{
	return ckpt_mark(p->s, (uint64_t)a[0], (uint32_t)a[1], (ckpt_health)a[2], "as told", -1);
}

/* The loss of a step in thousandths; negative: it is no number. */
static int do_loss(struct puppet *p, const long long *a)
{
	ckpt_beat_loss(p->s, (uint64_t)a[0], CKPT_PHASE_OPTIMIZER, a[1] < 0 ? NAN : (double)a[1] / 1000, -1);
	return 0;
}

static int do_fork(struct puppet *p, const long long *a)
{
	char byte;
	(void)a;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid) {
		snprintf(p->text, sizeof(p->text), "%d", (int)pid);
		return 0;
	}
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}

static int do_close(struct puppet *p, const long long *a)
{
	(void)a;
	int rc = ckpt_close(p->s);
	p->s = NULL;
	return rc;
}

static int do_stop(struct puppet *p, const long long *args)
{
	(void)args;
	return ckpt_should_stop(p->s);
}

static const struct {
	const char *name;
	int (*call)(struct puppet *p, const long long *args);
} calls[] = {
	{"open", do_open}, {"table", do_table},     {"join", do_join},   {"epoch", do_epoch}, {"set", do_set},
	{"get", do_get},   {"begin", do_begin},     {"fence", do_fence}, {"wait", do_wait},   {"poll", do_poll},
	{"drop", do_drop}, {"restore", do_restore}, {"fork", do_fork},   {"close", do_close}, {"early", do_early},
	{"mark", do_mark}, {"slot", do_slot},       {"stop", do_stop},   {"fill", do_fill},   {"check", do_check},
	{"blob", do_blob}, {"sized", do_sized},     {"put", do_put},     {"size", do_size},   {"due", do_due},
	{"loss", do_loss}, {"subset", do_subset},
};

static void obey(struct puppet *p, const char *line)
{
	char name[32] = "";
	long long args[ARGS] = {0};
	sscanf(line, "%31s %lld %lld %lld", name, &args[0], &args[1], &args[2]);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		p->text[0] = 0;
		int rc = calls[i].call(p, args);
		if (rc < 0 && p->s && !p->text[0])
			snprintf(p->text, sizeof(p->text), "%s", ckpt_error(p->s));
		printf("%d %s\n", rc, p->text);
		return;
	}
	fprintf(stderr, "puppet: %s: no such call\n", name);
	exit(EXIT_USAGE);
}

int main(void)
{
	struct puppet p = {0};
	char line[200];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		obey(&p, line);
	_exit(0); /* without a goodbye: whoever wants one says close */
}
