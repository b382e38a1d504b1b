#include "journal/campaign_file.h"

#include "base/cleanup.h"
#include "base/number.h"
#include "base/random.h"
#include "config/value.h"
#include "journal/ways.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LASTED_MAX_MS (10000 * 86400000ull)
enum { LINE_BYTES_MAX = 1024, WORDS_MAX = 8, TIME_MAX_MS = 86400000, MBIT_MAX = 100000, MBIT_DEFAULT = 20 };
enum { PERCENT_MAX = 90, PERCENT_DEFAULT = 5, DELAY_MAX_MS = 10000, DELAY_DEFAULT_MS = 50, STEPS_MAX = 1000000000 };

struct line {
	const char *path;
	unsigned number;
	char *words[WORDS_MAX];
	int n;
	struct err *err;
};

static int wrong(const struct line *l, const char *what)
{
	return err_set(l->err, -EINVAL, "%s:%u: %s", l->path, l->number, what);
}

uint64_t campaign_file_draw(struct campaign_file *file)
{
	return random_next(&file->random);
}

uint32_t campaign_file_each(const struct campaign_file *file)
{
	return file->ranks / (file->nodes - file->spares);
}

/* On one node nothing is drawn: what a seed gives there stays as it was. */
static void place(struct campaign_file *file, struct campaign_fault *f)
{
	uint64_t node = file->nodes > 1 ? campaign_file_draw(file) : 0;
	if (f->entry->target == FAULT_AT_RANK)
		f->node = f->rank / campaign_file_each(file); /* ranks that move are looked for when it comes */
	else if (f->entry->target == FAULT_AT_CHECKPOINT)
		f->node = 0; /* all have the same store */
	else if (f->node == UINT32_MAX)
		f->node = (uint32_t)(node % file->nodes);
}

int campaign_file_add(struct campaign_file *file, const struct campaign_fault *fault, bool timed, struct err *err)
{
	if (file->n == CAMPAIGN_FAULTS_MAX)
		return err_set(err, -E2BIG, "more than %d faults", CAMPAIGN_FAULTS_MAX);
	if (file->n == file->room) {
		size_t room = file->room ? 2 * file->room : 64;
		struct campaign_fault *more = realloc(file->faults, room * sizeof(*more));
		if (!more)
			return err_set(err, -ENOMEM, "out of memory");
		file->faults = more;
		file->room = room;
	}
	struct campaign_fault *f = &file->faults[file->n++];
	*f = *fault;
	f->order = file->n;
	uint64_t at = campaign_file_draw(file), rank = campaign_file_draw(file);
	if (!timed)
		f->at_ms = at % file->over_ms;
	file->drawn |= !timed;
	if (f->entry->target != FAULT_AT_RANK)
		f->rank = 0;
	else if (f->rank == UINT32_MAX)
		f->rank = (uint32_t)(rank % file->ranks);
	place(file, f);
	if (!f->mbit && f->entry->kind == FAULT_LINK_SLOW)
		f->mbit = MBIT_DEFAULT;
	if (!f->percent && f->entry->kind == FAULT_LINK_LOSS)
		f->percent = PERCENT_DEFAULT;
	if (!f->delay_ms && f->entry->kind == FAULT_LINK_DELAY)
		f->delay_ms = DELAY_DEFAULT_MS;
	if (!f->for_ms && f->entry->time == FAULT_TIME_MUST)
		f->for_ms = campaign_default_ms(f->entry);
	return 0;
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

static int take_time_to(const struct line *l, const char *text, uint64_t most, uint64_t *ms)
{
	const struct setting kind = {.type = SETTING_DURATION, .min = 1, .max = most};
	struct value value;
	size_t len = text ? strlen(text) : 0;
	bool alone = !len || (text[len - 1] >= '0' && text[len - 1] <= '9'); /* without a unit */
	if (alone || value_parse(&kind, text, &value, NULL))
		return wrong(l, "a time such as 3s, 250ms or 1.5m is wanted");
	*ms = value.number;
	return 0;
}

static int take_time(const struct line *l, const char *text, uint64_t *ms)
{
	return take_time_to(l, text, TIME_MAX_MS, ms);
}

static int take_number(const struct line *l, const char *text, uint64_t least, uint64_t most, uint64_t *n)
{
	char what[96];
	snprintf(what, sizeof(what), "a number from %lu to %lu is wanted", (unsigned long)least, (unsigned long)most);
	return text && number_parse(text, most, n) && *n >= least ? 0 : wrong(l, what);
}

static int take_kind(const struct line *l, const char *text, const struct campaign_file *file, struct campaign_fault *f)
{
	*f = (struct campaign_fault){.rank = UINT32_MAX, .node = UINT32_MAX};
	f->entry = text ? campaign_kind(text, strlen(text), file) : NULL;
	if (f->entry)
		return 0;
	return wrong(l, file->nodes > 1 ? "a fault is wanted: of ckpt fault list, all, but drain only with "
					  "min-ranks or spares"
					: "a fault is wanted that one node has: of ckpt fault list, all but "
					  "flip-replica, power-cut, kill-node, drain and what breaks a network");
}

static int take_rank(const struct line *l, const char *text, const struct campaign_file *file, struct campaign_fault *f)
{
	uint64_t rank;
	int rc = strcmp(text, "any") != 0 ? take_number(l, text, 0, file->ranks - 1, &rank) : 0;
	if (!rc && strcmp(text, "any") != 0)
		f->rank = (uint32_t)rank;
	return rc;
}

static int take_node(const struct line *l, const char *text, const struct campaign_file *file, struct campaign_fault *f)
{
	uint64_t node;
	if (f->entry->target == FAULT_AT_RANK || f->entry->target == FAULT_AT_CHECKPOINT)
		return wrong(l, "this fault takes no node=");
	int rc = strcmp(text, "any") != 0 ? take_number(l, text, 0, file->nodes - 1, &node) : 0;
	if (!rc && strcmp(text, "any") != 0)
		f->node = (uint32_t)node;
	return rc;
}

static int take_for(const struct line *l, const char *text, struct campaign_fault *f)
{
	int rc = take_time(l, text, &f->for_ms);
	return !rc && f->entry->time == FAULT_TIME_NONE ? wrong(l, "this fault takes no for=") : rc;
}

static int take_to(const struct line *l, const char *text, const struct campaign_file *file, struct campaign_fault *f)
{
	if (f->entry->kind == FAULT_ONE_WAY && campaign_ways_parse_nodes(text, file->nodes, &f->to))
		return 0;
	return wrong(l, "one-way alone takes to=, with nodes such as to=0,2");
}

static int take_sides(const struct line *l, const char *text, const struct campaign_file *file,
		      struct campaign_fault *f)
{
	if (f->entry->kind == FAULT_PARTITION && campaign_ways_parse_sides(text, file->nodes, f->side))
		return 0;
	return wrong(l, "partition alone takes sides=, with nodes such as sides=0,1/2");
}

static int take_mbit(const struct line *l, const char *text, struct campaign_fault *f)
{
	uint64_t mbit = 0;
	if (f->entry->kind != FAULT_LINK_SLOW)
		return wrong(l, "link-slow alone takes mbit=");
	int rc = take_number(l, text, 1, MBIT_MAX, &mbit);
	f->mbit = (uint32_t)mbit;
	return rc;
}

static int take_percent(const struct line *l, const char *text, struct campaign_fault *f)
{
	uint64_t percent = 0;
	if (f->entry->kind != FAULT_LINK_LOSS)
		return wrong(l, "link-loss alone takes percent=");
	int rc = take_number(l, text, 1, PERCENT_MAX, &percent);
	f->percent = (uint32_t)percent;
	return rc;
}

static int take_delay(const struct line *l, const char *text, struct campaign_fault *f)
{
	uint64_t ms = 0;
	if (f->entry->kind != FAULT_LINK_DELAY)
		return wrong(l, "link-delay alone takes delay=");
	int rc = take_time(l, text, &ms);
	f->delay_ms = (uint32_t)ms;
	return !rc && ms > DELAY_MAX_MS ? wrong(l, "a delay of 10 s at most is wanted") : rc;
}

/* rank=…, node=…, for=… and so on, from the i-th word on. */
static int take_what(const struct line *l, int i, const struct campaign_file *file, struct campaign_fault *f)
{
	int rc = 0;
	for (; !rc && i < l->n; i++) {
		const char *word = l->words[i];
		if (!strncmp(word, "for=", 4))
			rc = take_for(l, word + 4, f);
		else if (!strncmp(word, "rank=", 5))
			rc = take_rank(l, word + 5, file, f);
		else if (!strncmp(word, "node=", 5))
			rc = take_node(l, word + 5, file, f);
		else if (!strncmp(word, "to=", 3))
			rc = take_to(l, word + 3, file, f);
		else if (!strncmp(word, "sides=", 6))
			rc = take_sides(l, word + 6, file, f);
		else if (!strncmp(word, "mbit=", 5))
			rc = take_mbit(l, word + 5, f);
		else if (!strncmp(word, "percent=", 8))
			rc = take_percent(l, word + 8, f);
		else if (!strncmp(word, "delay=", 6))
			rc = take_delay(l, word + 6, f);
		else
			rc = wrong(l, "rank=N, rank=any, node=N, node=any, for=TIME, to=NODES, sides=NODES/NODES, "
				      "mbit=N, percent=N or delay=TIME may stand here");
	}
	if (!rc && f->to && (f->node == UINT32_MAX || f->to >> f->node & 1))
		rc = wrong(l, "with to= the node that they do not hear is wanted, such as node=1, and is none of them");
	return rc;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

static int take_at(const struct line *l, struct campaign_file *file)
{
	struct campaign_fault f;
	uint64_t at;
	int rc = take_time(l, l->n > 1 ? l->words[1] : NULL, &at);
	if (!rc)
		rc = take_kind(l, l->n > 2 ? l->words[2] : NULL, file, &f);
	if (!rc)
		rc = take_what(l, 3, file, &f);
	f.at_ms = at;
	return rc ? rc : campaign_file_add(file, &f, true, l->err);
}

/* Of the time it is as the fault before it, and so comes behind it. */
static int take_after(const struct line *l, struct campaign_file *file)
{
	struct campaign_fault f;
	uint64_t steps = 0;
	int rc = take_number(l, l->n > 1 ? l->words[1] : NULL, 1, STEPS_MAX, &steps);
	if (!rc)
		rc = take_kind(l, l->n > 2 ? l->words[2] : NULL, file, &f);
	if (!rc)
		rc = take_what(l, 3, file, &f);
	f.steps = steps;
	f.at_ms = file->n ? file->faults[file->n - 1].at_ms : 0;
	return rc ? rc : campaign_file_add(file, &f, true, l->err);
}

/* At the same time, and behind it in the same order. */
static int take_with(const struct line *l, size_t together, struct campaign_file *file)
{
	struct campaign_fault f;
	if (!together || together == CAMPAIGN_TOGETHER_MAX)
		return wrong(l, "with stands behind at, after or another with; at most 8 faults come together");
	int rc = take_kind(l, l->n > 1 ? l->words[1] : NULL, file, &f);
	if (!rc && campaign_cuts(f.entry) && !campaign_cuts(file->faults[file->n - 1].entry))
		rc = wrong(l, "faults of the network stand first: the others come while they last");
	if (!rc)
		rc = take_what(l, 2, file, &f);
	f.with = true;
	f.at_ms = file->faults[file->n - 1].at_ms;
	f.steps = file->faults[file->n - 1].steps;
	file->together = together + 1;
	return rc ? rc : campaign_file_add(file, &f, true, l->err);
}

static int take_rate(const struct line *l, struct campaign_file *file)
{
	struct campaign_fault f;
	uint64_t n = 0;
	int rc = take_kind(l, l->n > 1 ? l->words[1] : NULL, file, &f);
	if (!rc)
		rc = take_number(l, l->n > 2 ? l->words[2] : NULL, 1, CAMPAIGN_FAULTS_MAX, &n);
	if (!rc)
		rc = take_what(l, 3, file, &f);
	for (uint64_t i = 0; !rc && i < n; i++)
		rc = campaign_file_add(file, &f, false, l->err);
	return rc;
}

static int take_table(const struct line *l, struct campaign_file *file)
{
	char path[PATH_MAX];
	const char *slash = strrchr(l->path, '/');
	uint64_t total = 100;
	if (l->n < 2 || l->n > 3)
		return wrong(l, "table FILE [total=N] is wanted");
	if (l->n == 3 && strncmp(l->words[2], "total=", 6) != 0)
		return wrong(l, "total=N may stand here");
	int rc = l->n == 3 ? take_number(l, l->words[2] + 6, 1, CAMPAIGN_FAULTS_MAX, &total) : 0;
	int folder = *l->words[1] == '/' || !slash ? 0 : (int)(slash - l->path + 1);
	if (!rc && snprintf(path, sizeof(path), "%.*s%s", folder, l->path, l->words[1]) >= (int)sizeof(path))
		rc = wrong(l, "the path is too long");
	return rc ? rc : campaign_table_read(file, path, total, l->err);
}

/* What holds for all faults is known. */
static int check_world(const struct line *l, struct campaign_file *file)
{
	if (file->spares >= file->nodes)
		return wrong(l, "spares are some of the nodes: fewer than nodes are wanted");
	if (file->ranks % (file->nodes - file->spares))
		return wrong(l, "as many ranks are wanted on each node: ranks is no multiple of nodes, without spares");
	if (file->min_ranks > file->ranks)
		return wrong(l, "min-ranks is more than ranks");
	if (file->min_ranks && file->nodes == 1)
		return wrong(l, "min-ranks is for a job on several nodes");
	if (file->spares && !file->min_ranks)
		file->min_ranks = file->ranks;
	return 0;
}

static int take_count(const struct line *l, const char *text, uint64_t least, uint64_t most, uint32_t *n)
{
	uint64_t number = *n;
	int rc = take_number(l, text, least, most, &number);
	*n = rc ? *n : (uint32_t)number;
	return rc;
}

static int take_line(const struct line *l, struct campaign_file *file)
{
	const char *key = l->words[0], *value = l->n == 2 ? l->words[1] : NULL;
	size_t together = file->together;
	bool one = !strcmp(key, "at") || !strcmp(key, "after");
	bool fault = one || !strcmp(key, "with") || !strcmp(key, "rate") || !strcmp(key, "table");
	file->together = one;
	if (file->n && (!strcmp(key, "ranks") || !strcmp(key, "nodes")))
		return wrong(l, "ranks and nodes stand before the first fault: which rank and node it hits was drawn");
	int rc = fault ? check_world(l, file) : 0;
	if (rc)
		return rc;
	if (!strcmp(key, "at"))
		return take_at(l, file);
	if (!strcmp(key, "after"))
		return take_after(l, file);
	if (!strcmp(key, "with"))
		return take_with(l, together, file);
	if (!strcmp(key, "rate"))
		return take_rate(l, file);
	if (!strcmp(key, "table"))
		return take_table(l, file);
	if (file->n)
		return wrong(l,
			     "at, after, with, rate or table is wanted: what holds for all faults stands before them");
	if (!strcmp(key, "seed")) {
		rc = take_number(l, value, 0, UINT64_MAX / 16, &file->seed);
		file->random = file->seed;
		return rc;
	}
	if (!strcmp(key, "ranks"))
		return take_count(l, value, 1, CAMPAIGN_RANKS_MAX, &file->ranks);
	if (!strcmp(key, "nodes"))
		return take_count(l, value, 1, CAMPAIGN_NODES_MAX, &file->nodes);
	if (!strcmp(key, "spares"))
		return take_count(l, value, 0, CAMPAIGN_NODES_MAX - 1, &file->spares);
	if (!strcmp(key, "min-ranks"))
		return take_count(l, value, 1, CAMPAIGN_RANKS_MAX, &file->min_ranks);
	if (!strcmp(key, "save-memory-every"))
		return take_number(l, value, 1, 1000000, &file->memory_every);
	if (!strcmp(key, "save-storage-every"))
		return take_number(l, value, 1, 1000000, &file->storage_every);
	if (!strcmp(key, "least-steps"))
		return take_number(l, value, 1, STEPS_MAX, &file->least_steps);
	if (!strcmp(key, "hang-timeout"))
		return take_time(l, value, &file->hang_ms);
	if (!strcmp(key, "lasted"))
		return take_time_to(l, value, LASTED_MAX_MS, &file->lasted_ms);
	if (!strcmp(key, "over"))
		return take_time(l, value, &file->over_ms);
	return wrong(l, "seed, nodes, spares, ranks, min-ranks, save-memory-every, save-storage-every, hang-timeout, "
			"least-steps, over, lasted, at, after, with, rate or table is wanted");
}

static int split(struct line *l, char *text)
{
	char *rest = NULL;
	text[strcspn(text, "#\n")] = '\0';
	l->n = 0;
	for (char *w = strtok_r(text, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
		if (l->n == WORDS_MAX)
			return wrong(l, "too many words");
		l->words[l->n++] = w;
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct campaign_fault *x = a, *y = b;
	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

int campaign_file_read(const char *path, struct campaign_file *out, struct err *err)
{
	char text[LINE_BYTES_MAX];
	struct line l = {.path = path, .err = err};
	*out = (struct campaign_file){.ranks = 2,
				      .nodes = 1,
				      .memory_every = 2,
				      .storage_every = 10,
				      .hang_ms = 5000,
				      .least_steps = 1,
				      .over_ms = 60000};
	FILE *f = fopen(path, "re");
	int rc = f ? 0 : -errno;
	if (rc)
		return err_set(err, rc, "%s: %s", path, err_name(rc));
	while (!rc && fgets(text, sizeof(text), f)) {
		l.number++;
		if (!strchr(text, '\n') && !feof(f))
			rc = wrong(&l, "the line is too long");
		if (!rc)
			rc = split(&l, text);
		if (!rc && l.n)
			rc = take_line(&l, out);
	}
	fclose(f);
	if (!rc && !out->n)
		rc = err_set(err, -EINVAL, "%s: no fault stands there", path);
	if (!rc)
		qsort(out->faults, out->n, sizeof(*out->faults), by_time);
	return rc;
}

uint64_t campaign_file_span(const struct campaign_file *file)
{
	uint64_t last = file->n ? file->faults[file->n - 1].at_ms : 0;
	return file->drawn && file->over_ms > last ? file->over_ms : last;
}

uint64_t campaign_file_steps(const struct campaign_file *file)
{
	uint64_t steps = 0;
	for (size_t i = 0; i < file->n; i++)
		steps += file->faults[i].with ? 0 : file->faults[i].steps;
	return steps;
}

size_t campaign_file_together(const struct campaign_file *file, size_t first)
{
	size_t n = 1;
	while (first + n < file->n && file->faults[first + n].with)
		n++;
	return n;
}

/* Those of the network stand first: of what came with them the first that is left comes at their time. */
size_t campaign_file_leave_out_network(struct campaign_file *file, enum fault_kind only)
{
	size_t kept = 0, n = file->n;
	bool first_left = true; /* of those that come together one has been kept */
	for (size_t i = 0; i < n; i++) {
		struct campaign_fault *f = &file->faults[i];
		first_left &= f->with;
		if (campaign_cuts(f->entry) && (!only || f->entry->kind == only))
			continue;
		f->with &= first_left;
		first_left = true;
		file->faults[kept++] = *f;
	}
	file->n = kept;
	file->left_out += n - kept;
	return n - kept;
}

void campaign_file_free(struct campaign_file *file)
{
	free(file->faults);
	*file = (struct campaign_file){0};
}
