/* actor: one rank of a job whose table is told line by line, for tests that change what a job is between two of its runs (tests/loss).
 *
 * A line on stdin is a call, a line on stdout its answer: the word, the code, then what there is to say (values, or the sentence of an error).
 *
 *	open                                        from the environment, as any rank
 *	tensor NAME DTYPE GROUP REPLICA SHAPE PIECE…    DTYPE: a number of ckpt.h. GROUP, REPLICA: - for none. SHAPE: 4x8, - for a scalar.
 *	                                            PIECE: whole, OFFSET+EXTENT (0,2+4,6), the same with a leading ~ in strided memory, START:COUNT
 *	blob NAME SCOPE BYTES                       SCOPE: 1 job, 2 rank
 *	sized NAME SCOPE BYTES MOST                 of changing size: there is room for BYTES, at most MOST are in it
 *	join                                        says the epoch
 *	poison SALT                                 fills the state as nobody has saved it
 *	restore STEP                                -1: the newest, -2: the newest healthy one. Says step, epoch, source
 *	check STEP SALT WORLD POISON                whether the state is what a world of that size saved
 *	save STEP TARGET LEVEL SALT                 fills the state, saves it, waits for the level; says the epoch. "acknowledged LEVEL STEP EPOCH"
 *	                                            comes on lines before the answer, as soon as it is so
 *	mark STEP EPOCH HEALTH
 *	return                                      until a daemon that was restarted has all ranks back
 *	close
 *
 * The state is a function of name, element, step and SALT: a run has a salt of its own. */
#include "ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 32, PIECES = 16, WORDS = 24, LINE = 4000, EXIT_USAGE = 2, RETURN_MS = 120000 };

struct piece {
	uint64_t offset[CKPT_NDIM_MAX], extent[CKPT_NDIM_MAX];
	int64_t stride[CKPT_NDIM_MAX];
	uint64_t start, count; /* count: elements of any piece */
	bool box;
	uint8_t *data, *former;
	size_t room;
};

struct entry {
	char name[64];
	int scope;   /* 0: a tensor */
	size_t most; /* of changing size: at most so many bytes are in it; 0: it is not */
	size_t size; /* of an element */
	int ndim;
	uint64_t shape[CKPT_NDIM_MAX];
	struct piece pieces[PIECES];
	int npieces;
};

struct actor {
	ckpt *s;
	struct entry entries[ENTRIES];
	int n;
	char text[1000];
};

static void usage(const char *what)
{
	fprintf(stderr, "actor: %s\n", what);
	exit(EXIT_USAGE);
}

static int number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);
	if (end == text || *end || value < 0 || value > INT32_MAX)
		usage(text);
	return (int)value;
}

/* ---- the state ------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t seed_of(const struct entry *e, uint64_t rank, uint64_t step, uint64_t salt)
{
	uint64_t h = mix(salt * 1000003 + step);
	for (const char *c = e->name; *c; c++)
		h = mix(h + (uint8_t)*c);
	return mix(h + (e->scope == CKPT_SCOPE_RANK ? rank + 1 : 0));
}

/* Where element k of the piece stands in the whole, and in memory. */
static uint64_t place(const struct entry *e, const struct piece *p, uint64_t k, uint8_t **at)
{
	uint64_t whole = 0, unit = 1;
	if (!p->box) {
		*at = p->data + k * e->size;
		return p->start + k;
	}
	*at = p->data;
	for (int d = e->ndim; d-- > 0; k /= p->extent[d]) {
		uint64_t i = k % p->extent[d];
		whole += (p->offset[d] + i) * unit;
		unit *= e->shape[d];
		*at += (int64_t)i * p->stride[d];
	}
	return whole;
}

/* What is in a blob of changing size; its bytes. To be freed. */
static uint8_t *content_of(const struct entry *e, uint64_t seed, size_t *n)
{
	*n = mix(seed + e->most) % (e->most + 1);
	uint8_t *bytes = malloc(*n + 1);
	for (size_t i = 0; bytes && i < *n; i++)
		bytes[i] = (uint8_t)mix(seed + i);
	return bytes;
}

static void put(struct actor *a, const struct entry *e, uint64_t seed)
{
	size_t n;
	uint8_t *bytes = content_of(e, seed, &n);
	if (!bytes || ckpt_set_blob(a->s, e->name, bytes, n))
		usage(e->name);
	free(bytes);
}

static bool is_wrong(const struct actor *a, const struct entry *e, uint64_t seed)
{
	size_t n;
	uint8_t *wanted = content_of(e, seed, &n), *is = malloc(n + 1);
	bool same = ckpt_get_blob(a->s, e->name, is, n) == (int64_t)n && !memcmp(is, wanted, n);
	free(wanted);
	free(is);
	return !same;
}

static void fill(struct actor *a, uint64_t step, uint64_t salt)
{
	for (int n = 0; n < a->n; n++) {
		const struct entry *e = &a->entries[n];
		uint64_t seed = seed_of(e, (uint64_t)ckpt_rank(a->s), step, salt);
		if (e->most)
			put(a, e, seed);
		for (int i = 0; i < e->npieces; i++)
			for (uint64_t k = 0; k < e->pieces[i].count; k++) {
				uint8_t *at;
				uint64_t value = mix(seed + place(e, &e->pieces[i], k, &at));
				memcpy(at, &value, e->size);
			}
	}
}

static uint64_t wrong_in(const struct actor *a, const struct entry *e, uint64_t seed)
{
	uint64_t wrong = e->most && is_wrong(a, e, seed);
	for (int i = 0; i < e->npieces; i++)
		for (uint64_t k = 0; k < e->pieces[i].count; k++) {
			uint8_t *at;
			uint64_t value = mix(seed + place(e, &e->pieces[i], k, &at));
			wrong += memcmp(at, &value, e->size) != 0;
		}
	return wrong;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static int numbers(const char *text, char between, uint64_t out[CKPT_NDIM_MAX])
{
	int n = 0;
	for (char *end; *text && strcmp(text, "-") != 0; text = end + (*end == between)) {
		if (n == CKPT_NDIM_MAX)
			usage("too many dimensions");
		out[n++] = strtoull(text, &end, 10);
		if (end == text)
			usage(text);
	}
	return n;
}

/* Strided: behind each row, and each layer of rows, there is room for one element. */
static void make_box(struct entry *e, struct piece *p, char *text, bool strided)
{
	char *plus = strchr(text, '+');
	if (!plus)
		usage(text);
	*plus = 0;
	p->box = true;
	numbers(text, ',', p->offset);
	numbers(plus + 1, ',', p->extent);
	int64_t stride = (int64_t)e->size;
	p->count = 1;
	for (int d = e->ndim; d-- > 0;) {
		p->stride[d] = stride;
		stride = stride * (int64_t)p->extent[d] + (strided ? (int64_t)e->size : 0);
		p->count *= p->extent[d];
	}
	p->room = (size_t)stride + 8;
	p->data = calloc(1, p->room);
}

static void make_piece(struct entry *e, char *text)
{
	if (e->npieces == PIECES)
		usage("too many pieces");
	struct piece *p = &e->pieces[e->npieces++];
	char *colon = strchr(text, ':');
	if (strchr(text, '+')) {
		make_box(e, p, text + (*text == '~'), *text == '~');
		return;
	}
	p->count = 1;
	for (int d = 0; d < e->ndim; d++)
		p->count *= e->shape[d];
	if (colon) {
		p->start = strtoull(text, NULL, 10);
		p->count = strtoull(colon + 1, NULL, 10);
	}
	p->room = p->count * e->size + 8;
	p->data = calloc(1, p->room);
}

static struct entry *add(struct actor *a, const char *name)
{
	if (a->n == ENTRIES)
		usage("too many entries");
	struct entry *e = &a->entries[a->n++];
	snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}

static size_t size_of(int dtype)
{
	static const uint8_t sizes[] = {0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 1, 1, 1};
	if (dtype < 1 || dtype > CKPT_F8_E5M2FNUZ)
		usage("no such dtype");
	return sizes[dtype];
}

static const char *named(const char *word)
{
	return strcmp(word, "-") != 0 ? word : NULL;
}

static int do_tensor(struct actor *a, char **w, int n)
{
	struct entry *e = add(a, w[1]);
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	ckpt_piece pieces[PIECES] = {0};
	t.dtype = (ckpt_dtype)number(w[2]);
	e->size = size_of(number(w[2]));
	e->ndim = numbers(w[5], 'x', e->shape);
	for (int i = 6; i < n; i++)
		make_piece(e, w[i]);
	for (int i = 0; i < e->npieces; i++) {
		struct piece *p = &e->pieces[i];
		pieces[i].data = p->data;
		if (p->box) {
			pieces[i].offset = p->offset;
			pieces[i].extent = p->extent;
			pieces[i].stride = p->stride;
		} else if (strchr(w[6 + i], ':') || e->ndim == 0) {
			pieces[i].start = p->start;
			pieces[i].count = e->ndim ? p->count : 0;
		}
	}
	t.name = e->name;
	t.ndim = e->ndim;
	t.shape = e->shape;
	t.pieces = pieces;
	t.npieces = e->npieces;
	t.group = named(w[3]);
	t.replica = named(w[4]);
	t.device = CKPT_HOST;
	return ckpt_register_tensor(a->s, &t);
}

static int do_blob(struct actor *a, char **w, int n)
{
	(void)n;
	struct entry *e = add(a, w[1]);
	struct piece *p = &e->pieces[e->npieces++];
	e->scope = number(w[2]);
	e->size = 1;
	p->count = strtoull(w[3], NULL, 10);
	p->room = p->count + 8;
	p->data = calloc(1, p->room);
	return ckpt_register_blob(a->s, e->name, (ckpt_scope)e->scope, p->data, p->count);
}

static int do_sized(struct actor *a, char **w, int n)
{
	(void)n;
	struct entry *e = add(a, w[1]);
	e->scope = number(w[2]);
	e->most = (size_t)number(w[4]);
	return ckpt_register_sized_blob(a->s, e->name, (ckpt_scope)e->scope, (size_t)number(w[3]));
}

/* Elsewhere in memory. keep: what is there is not done with, and take_over follows. */
static void move_all(struct actor *a, bool keep)
{
	for (int n = 0; n < a->n; n++)
		for (int i = 0; i < a->entries[n].npieces; i++) {
			struct piece *p = &a->entries[n].pieces[i];
			p->former = p->data;
			p->data = malloc(p->room);
			memset(p->data, 0x5a, p->room);
			if (ckpt_rebind(a->s, a->entries[n].name, i, p->data))
				usage(ckpt_error(a->s));
			free(keep ? NULL : p->former);
		}
}

static void take_over(struct actor *a)
{
	for (int n = 0; n < a->n; n++)
		for (int i = 0; i < a->entries[n].npieces; i++) {
			struct piece *p = &a->entries[n].pieces[i];
			memcpy(p->data, p->former, p->room);
			free(p->former);
		}
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static int do_open(struct actor *a, char **w, int n)
{
	(void)w;
	(void)n;
	return ckpt_open(NULL, &a->s, a->text, sizeof(a->text));
}

static int do_join(struct actor *a, char **w, int n)
{
	(void)w;
	(void)n;
	int rc = ckpt_join(a->s, NULL, 0, NULL, -1);
	if (!rc)
		snprintf(a->text, sizeof(a->text), "%" PRIu32, ckpt_epoch(a->s));
	return rc;
}

static int do_poison(struct actor *a, char **w, int n)
{
	(void)n;
	move_all(a, false);
	fill(a, 0, strtoull(w[1], NULL, 10));
	return 0;
}

static int do_restore(struct actor *a, char **w, int n)
{
	static const char *const sources[] = {"?", "memory", "peer", "storage"};
	(void)n;
	ckpt_restored r = CKPT_INIT(ckpt_restored);
	long long step = strtoll(w[1], NULL, 10);
	int rc = ckpt_restore(a->s,
			      step == -1   ? CKPT_LATEST
			      : step == -2 ? CKPT_LATEST_HEALTHY
					   : (uint64_t)step,
			      NULL, &r, -1);
	if (!rc)
		snprintf(a->text, sizeof(a->text), "%" PRIu64 " %" PRIu32 " %s %s", r.step, r.epoch, sources[r.source],
			 r.why);
	return rc;
}

/* What is of a rank that was not there when it was saved stays as it was before. */
static int do_check(struct actor *a, char **w, int n)
{
	(void)n;
	uint64_t step = strtoull(w[1], NULL, 10), salt = strtoull(w[2], NULL, 10), poison = strtoull(w[4], NULL, 10);
	uint64_t rank = (uint64_t)ckpt_rank(a->s), world = strtoull(w[3], NULL, 10), wrong;
	for (int i = 0; i < a->n; i++) {
		const struct entry *e = &a->entries[i];
		bool kept = e->scope == CKPT_SCOPE_RANK && rank >= world;
		wrong = wrong_in(a, e, kept ? seed_of(e, rank, 0, poison) : seed_of(e, rank, step, salt));
		if (!wrong)
			continue;
		snprintf(a->text, sizeof(a->text), "%s: %" PRIu64 " elements are not those of step %" PRIu64, e->name,
			 wrong, step);
		return -EBADMSG;
	}
	return 0;
}

static int reach(struct actor *a, ckpt_snapshot *snap, ckpt_level level)
{
	int rc = ckpt_wait(snap, level, -1);
	if (rc)
		snprintf(a->text, sizeof(a->text), "%s", ckpt_error(a->s));
	else
		printf("acknowledged %d %" PRIu64 " %" PRIu32 "\n", level, ckpt_snapshot_step(snap), ckpt_epoch(a->s));
	return rc;
}

static int do_save(struct actor *a, char **w, int n)
{
	(void)n;
	uint64_t step = strtoull(w[1], NULL, 10);
	int level = number(w[3]);
	ckpt_snapshot *snap = NULL;
	uint64_t how = mix(strtoull(w[4], NULL, 10) * 77 + step + (uint64_t)ckpt_rank(a->s)) % 4;
	if (how == 0)
		move_all(a, false);
	fill(a, step, strtoull(w[4], NULL, 10));
	int rc = ckpt_wait_slot(a->s, -1);
	if (!rc)
		rc = ckpt_begin(a->s, step, (ckpt_target)number(w[2]), NULL, &snap);
	bool moved = !rc && how == 1;
	if (moved)
		move_all(a, true);
	if (!rc)
		rc = ckpt_fence(snap, NULL);
	if (moved)
		take_over(a);
	if (rc)
		snprintf(a->text, sizeof(a->text), "%s", ckpt_error(a->s));
	if (!rc && level >= CKPT_CAPTURED)
		rc = reach(a, snap, CKPT_CAPTURED);
	if (!rc && level > CKPT_CAPTURED)
		rc = reach(a, snap, (ckpt_level)level);
	ckpt_snapshot_free(snap);
	if (!rc)
		snprintf(a->text, sizeof(a->text), "%" PRIu32, ckpt_epoch(a->s));
	return rc;
}

static int do_mark(struct actor *a, char **w, int n)
{
	(void)n;
	return ckpt_mark(a->s, strtoull(w[1], NULL, 10), (uint32_t)number(w[2]), (ckpt_health)number(w[3]), "as told",
			 -1);
}

/* There is no event for it. */
static int do_return(struct actor *a, char **w, int n)
{
	(void)w;
	(void)n;
	const struct timespec pause = {.tv_nsec = 5000000};
	int rc = -ENOTCONN;
	for (int ms = 0; rc == -ENOTCONN && ms < RETURN_MS; ms += 5) {
		nanosleep(&pause, NULL);
		rc = ckpt_wait_slot(a->s, -1);
	}
	return rc;
}

static int do_close(struct actor *a, char **w, int n)
{
	(void)w;
	(void)n;
	int rc = ckpt_close(a->s);
	a->s = NULL;
	return rc;
}

static const struct {
	const char *name;
	int words; /* at least */
	int (*call)(struct actor *a, char **words, int n);
} calls[] = {
	{"open", 1, do_open},     {"tensor", 6, do_tensor},   {"blob", 4, do_blob},   {"join", 1, do_join},
	{"poison", 2, do_poison}, {"restore", 2, do_restore}, {"check", 5, do_check}, {"save", 5, do_save},
	{"mark", 4, do_mark},     {"return", 1, do_return},   {"close", 1, do_close}, {"sized", 5, do_sized},
};

static void obey(struct actor *a, char *line)
{
	char *words[WORDS] = {0}, *rest = NULL;
	int n = 0;
	for (char *word = strtok_r(line, " \n", &rest); word && n < WORDS; word = strtok_r(NULL, " \n", &rest))
		words[n++] = word;
	for (size_t i = 0; n && i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i].name, words[0]) != 0 || n < calls[i].words)
			continue;
		a->text[0] = 0;
		int rc = calls[i].call(a, words, n);
		if (rc < 0 && a->s && !a->text[0])
			snprintf(a->text, sizeof(a->text), "%s", ckpt_error(a->s));
		printf("%s %d %s\n", words[0], rc, a->text);
		return;
	}
	usage(n ? words[0] : "an empty line");
}

int main(void)
{
	static struct actor a;
	char line[LINE];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		obey(&a, line);
	_exit(0); /* without a goodbye: whoever wants one says close */
}
