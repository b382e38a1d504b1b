#include "format/files/share_plan.h"

#include "base/cleanup.h"
#include "format/files/share_balance.h"
#include "format/files/share_units.h"
#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (1ull << 62) /* of all pieces */
#define HOLDERS_MAX (1u << 22) /* that are considered for all classes: each has some of its nodes then */

/* What a share consists of, as the first node that has it lists it. */
struct table {
	uint64_t key, what;
	const uint8_t *units;
	uint32_t n, first_unit; /* among those of all tables */
	uint32_t node;          /* whose it is */
	uint32_t first_holder, nholders;
};

/* A unit of a table. */
struct mention {
	uint64_t sum;
	uint32_t table, index;
};

/* A registered piece, of however many tables: mentions[first..first + n). */
struct piece {
	uint32_t first, n;
	uint32_t class;
	bool divides;
	uint64_t bytes, begin; /* in its class */
};

struct planning {
	const struct share_planning *in;
	struct table *tables;
	uint32_t ntables;
	uint32_t *holders; /* nodes, by table */
	struct mention *mentions;
	uint32_t nmentions;
	struct piece *pieces; /* by class */
	uint32_t npieces;
	uint32_t *piece_of; /* by unit */
	struct balance_class *classes;
	uint32_t *first_piece; /* by class, and one more */
	uint32_t nclasses;
	struct balance_part *parts;
	uint64_t *from; /* by part, and one more: where in its class it begins, which is where the one before it ends */
	uint32_t nparts;
};

static void planning_free(struct planning *p)
{
	free(p->tables);
	free(p->holders);
	free(p->mentions);
	free(p->pieces);
	free(p->piece_of);
	free(p->classes);
	free(p->first_piece);
	free(p->parts);
	free(p->from);
}

/* ---- what each share consists of ---------------------------------------------------------------------------------- */

static int by_share(const void *a, const void *b)
{
	const struct table *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

static struct table *table_of(const struct planning *p, const struct held_share *share)
{
	struct table wanted = {.key = share->key, .what = share->what};
	return p->ntables ? bsearch(&wanted, p->tables, p->ntables, sizeof(wanted), by_share) : NULL;
}

/* Node i's. */
static int add_tables(struct planning *p, uint32_t i, struct err *err)
{
	const struct shares *s = p->in->shares[i];
	const uint8_t *at = s->units;
	if (shares_units(s, p->in->mixed[i]) > SHARE_UNITS_MAX)
		return err_set(err, -E2BIG,
			       "a node holds %lu pieces of replica groups that other nodes hold in part: more than %d "
			       "cannot be "
			       "divided",
			       (unsigned long)shares_units(s, p->in->mixed[i]), SHARE_UNITS_MAX);
	if (p->in->first[i] & ~s->listed)
		return err_set(err, -EBADMSG, "a node has not said which pieces it holds");
	for (uint32_t k = 0; k < s->n; k++) {
		const struct held_share *of = &s->of[k];
		if (p->in->first[i] & 1u << k)
			p->tables[p->ntables++] = (struct table){
				.key = of->key, .what = of->what, .units = at, .n = of->units, .node = i};
		at += s->listed & 1u << k ? (size_t)of->units * SHARE_UNIT_SIZE : 0;
	}
	return 0;
}

static int find_tables(struct planning *p, struct err *err)
{
	uint64_t units = 0;
	int rc = 0;
	p->tables = calloc((size_t)p->in->n * SHARES_MAX + 1, sizeof(*p->tables));
	if (!p->tables)
		return -ENOMEM;
	for (uint32_t i = 0; !rc && i < p->in->n; i++)
		rc = add_tables(p, i, err);
	if (rc)
		return rc;
	qsort(p->tables, p->ntables, sizeof(*p->tables), by_share);
	for (uint32_t t = 0; t < p->ntables; t++) {
		p->tables[t].first_unit = (uint32_t)min_u64(units, UINT32_MAX);
		units += p->tables[t].n;
	}
	if (units > SHARE_PLAN_MAX)
		return err_set(err, -E2BIG,
			       "nodes hold replica groups in part, in so many mixtures that %lu pieces are to be "
			       "compared: more than "
			       "%u are not",
			       (unsigned long)units, SHARE_PLAN_MAX);
	p->nmentions = (uint32_t)units;
	return 0;
}

static uint32_t each_share(struct planning *p, bool put)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < p->in->n; i++)
		for (uint32_t k = 0; k < p->in->shares[i]->n; k++) {
			struct table *t = p->in->mixed[i] & 1u << k ? table_of(p, &p->in->shares[i]->of[k]) : NULL;
			if (!t)
				continue;
			sum++;
			if (put)
				p->holders[t->first_holder + t->nholders] = i;
			t->nholders++;
		}
	return sum;
}

static int find_holders(struct planning *p)
{
	uint32_t at = 0;
	p->holders = calloc(each_share(p, false) + 1ull, sizeof(*p->holders));
	if (!p->holders)
		return -ENOMEM;
	for (uint32_t t = 0; t < p->ntables; t++) {
		p->tables[t].first_holder = at;
		at += p->tables[t].nholders;
		p->tables[t].nholders = 0;
	}
	each_share(p, true);
	return 0;
}

/* ---- which piece is in which of them ------------------------------------------------------------------------------ */

static int by_sum(const void *a, const void *b)
{
	const struct mention *x = a, *y = b;
	if (x->sum != y->sum)
		return x->sum < y->sum ? -1 : 1;
	return x->table < y->table ? -1 : x->table > y->table;
}

static int add_piece(struct planning *p, uint32_t first, uint32_t n, uint64_t *all, struct err *err)
{
	const struct mention *m = &p->mentions[first];
	struct piece piece = {.first = first, .n = n};
	uint64_t sum;
	share_unit_get(p->tables[m->table].units, m->index, &sum, &piece.bytes, &piece.divides);
	if (piece.bytes > BYTES_MAX || *all + piece.bytes > BYTES_MAX)
		return err_set(err, -EBADMSG, "a node holds pieces of more than 2^62 bytes");
	*all += piece.bytes;
	p->pieces[p->npieces++] = piece;
	return 0;
}

static int find_pieces(struct planning *p, struct err *err)
{
	uint64_t ignored, all = 0;
	bool divides;
	uint32_t n = 0;
	int rc = 0;
	p->mentions = calloc(p->nmentions + 1ull, sizeof(*p->mentions));
	p->pieces = calloc(p->nmentions + 1ull, sizeof(*p->pieces));
	p->piece_of = calloc(p->nmentions + 1ull, sizeof(*p->piece_of));
	if (!p->mentions || !p->pieces || !p->piece_of)
		return -ENOMEM;
	for (uint32_t t = 0; t < p->ntables; t++)
		for (uint32_t i = 0; i < p->tables[t].n; i++) {
			struct mention *m = &p->mentions[n++];
			*m = (struct mention){.table = t, .index = i};
			share_unit_get(p->tables[t].units, i, &m->sum, &ignored, &divides);
		}
	qsort(p->mentions, n, sizeof(*p->mentions), by_sum);
	for (uint32_t i = 0, end; !rc && i < n; i = end) {
		for (end = i + 1; end < n && p->mentions[end].sum == p->mentions[i].sum;)
			end++;
		rc = add_piece(p, i, end - i, &all, err);
	}
	return rc;
}

static int compare_tables(const struct planning *p, const struct piece *a, const struct piece *b)
{
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	for (uint32_t i = 0; i < a->n; i++) {
		uint32_t x = p->mentions[a->first + i].table, y = p->mentions[b->first + i].table;
		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

/* Within a class in the order of the first table, so that a part of it is a part of the slot, as far as other classes leave it one. */
static int by_class(const void *a, const void *b, void *planning)
{
	const struct planning *p = planning;
	const struct piece *x = a, *y = b;
	int order = compare_tables(p, x, y);
	uint32_t i = p->mentions[x->first].index, k = p->mentions[y->first].index;
	return order ? order : i < k ? -1 : i > k;
}

/* ---- who writes how much ------------------------------------------------------------------------------------------ */

static int by_node(const void *a, const void *b)
{
	const struct balance_part *x = a, *y = b;
	return x->node < y->node ? -1 : x->node > y->node;
}

static uint32_t count_holders(const struct planning *p, const struct piece *piece)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < piece->n; i++)
		sum += p->tables[p->mentions[piece->first + i].table].nholders;
	return sum;
}

/* The parts of a class are sorted. A node that stood there twice would be told one part, and nobody wrote the other. */
static bool names_a_node_twice(const struct balance_part *parts, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (parts[i].node == parts[i - 1].node)
			return true;
	return false;
}

/* Of the class of this piece: `most` of them at most, others for another class. False: a node has listed the piece twice. */
static bool add_holders(struct planning *p, const struct piece *piece, uint32_t most)
{
	struct balance_class *c = &p->classes[p->nclasses];
	uint32_t all = count_holders(p, piece), skip = all > most ? p->nclasses % (all - most + 1) : 0, at = 0;
	c->first = p->nparts;
	for (uint32_t i = 0; i < piece->n; i++) {
		const struct table *t = &p->tables[p->mentions[piece->first + i].table];
		for (uint32_t h = 0; h < t->nholders; h++, at++)
			if (at >= skip && c->n < most)
				p->parts[c->first + c->n++].node = p->holders[t->first_holder + h];
	}
	qsort(p->parts + c->first, c->n, sizeof(*p->parts), by_node);
	p->nparts += c->n;
	return !names_a_node_twice(p->parts + c->first, c->n);
}

/* The pieces are sorted. False: see add_holders(). */
static bool add_class(struct planning *p, uint32_t first, uint32_t end, uint32_t most)
{
	struct balance_class *c = &p->classes[p->nclasses];
	for (uint32_t i = first; i < end; i++) {
		struct piece *piece = &p->pieces[i];
		piece->class = p->nclasses;
		piece->begin = c->bytes;
		c->bytes += piece->bytes;
		for (uint32_t m = 0; m < piece->n; m++) {
			const struct mention *of = &p->mentions[piece->first + m];
			p->piece_of[p->tables[of->table].first_unit + of->index] = i;
		}
	}
	bool sound = add_holders(p, &p->pieces[first], most);
	p->first_piece[p->nclasses++] = first;
	return sound;
}

static uint32_t class_end(const struct planning *p, uint32_t first)
{
	uint32_t end = first + 1;
	while (end < p->npieces && !compare_tables(p, &p->pieces[first], &p->pieces[end]))
		end++;
	return end;
}

static int find_classes(struct planning *p, struct err *err)
{
	uint64_t classes = 0, holders = 0;
	qsort_r(p->pieces, p->npieces, sizeof(*p->pieces), by_class, p);
	for (uint32_t i = 0; i < p->npieces; i = class_end(p, i), classes++)
		holders += count_holders(p, &p->pieces[i]);
	uint32_t most = holders > HOLDERS_MAX ? (uint32_t)(HOLDERS_MAX / classes) : UINT32_MAX;
	p->classes = calloc(classes + 1, sizeof(*p->classes));
	p->first_piece = calloc(classes + 1, sizeof(*p->first_piece));
	p->parts = calloc(min_u64(holders, HOLDERS_MAX) + 1, sizeof(*p->parts));
	p->from = calloc(min_u64(holders, HOLDERS_MAX) + 1, sizeof(*p->from));
	if (!p->classes || !p->first_piece || !p->parts || !p->from)
		return -ENOMEM;
	for (uint32_t i = 0, end; i < p->npieces; i = end) {
		end = class_end(p, i);
		if (!add_class(p, i, end, most))
			return err_set(err, -EBADMSG, "a node says twice that it holds a piece");
	}
	p->first_piece[p->nclasses] = p->npieces;
	return 0;
}

/* The place of the class nearest to `at` where it may be divided. */
static uint64_t boundary(const struct planning *p, uint32_t class, uint64_t at)
{
	uint32_t low = p->first_piece[class], high = p->first_piece[class + 1];
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (p->pieces[mid].begin <= at)
			low = mid;
		else
			high = mid;
	}
	const struct piece *piece = &p->pieces[low];
	uint64_t within = min_u64(at - piece->begin, piece->bytes);
	if (within == piece->bytes)
		return piece->begin + piece->bytes;
	if (!piece->divides)
		return piece->begin + (within < piece->bytes - within ? 0 : piece->bytes);
	return piece->begin + min_u64((within + LEAF_SIZE / 2) / LEAF_SIZE * LEAF_SIZE, piece->bytes);
}

static int divide(struct planning *p)
{
	int rc = share_balance(p->classes, p->nclasses, p->parts, p->in->n, p->in->part_min);
	for (uint32_t c = 0; !rc && c < p->nclasses; c++) {
		uint64_t at = 0;
		for (uint32_t i = p->classes[c].first; i < p->classes[c].first + p->classes[c].n; i++) {
			p->from[i] = boundary(p, c, at);
			at += p->parts[i].bytes;
		}
	}
	return rc;
}

/* ---- what each node is told --------------------------------------------------------------------------------------- */

/* Of a class; false: nothing. */
static bool part_of(const struct planning *p, uint32_t class, uint32_t node, uint64_t *from, uint64_t *to)
{
	const struct balance_class *c = &p->classes[class];
	struct balance_part wanted = {.node = node};
	const struct balance_part *part = bsearch(&wanted, p->parts + c->first, c->n, sizeof(wanted), by_node);
	if (!part)
		return false;
	uint32_t i = (uint32_t)(part - p->parts);
	*from = p->from[i];
	*to = i + 1 < c->first + c->n ? p->from[i + 1] : c->bytes;
	return true;
}

static struct share_run run_of(const struct planning *p, const struct piece *piece, uint32_t node)
{
	struct share_run run = {.units = 1};
	uint64_t from, to, end = piece->begin + piece->bytes;
	if (!part_of(p, piece->class, node, &from, &to) || to <= piece->begin || from >= end || from >= to)
		return run;
	run.from = from > piece->begin ? from - piece->begin : 0;
	run.to = to < end ? to - piece->begin : UINT64_MAX;
	return run;
}

struct telling {
	struct wbuf *out;
	struct share_run run; /* that is not out yet; units 0: none */
	uint32_t n;
};

static void flush(struct telling *t)
{
	if (t->run.units)
		share_run_put(t->out, &t->run);
	t->n += t->run.units > 0;
	t->run.units = 0;
}

static void tell(struct telling *t, struct share_run run)
{
	if (t->run.units && t->run.from == run.from && t->run.to == run.to) {
		t->run.units++;
		return;
	}
	flush(t);
	t->run = run;
}

static int tell_node(const struct planning *p, uint32_t node, struct wbuf *out, struct share_parts *parts)
{
	const struct shares *s = p->in->shares[node];
	struct telling t = {.out = out};
	for (uint32_t k = 0; k < s->n; k++) {
		const struct table *table = p->in->mixed[node] & 1u << k ? table_of(p, &s->of[k]) : NULL;
		for (uint32_t i = 0; table && i < table->n; i++)
			tell(&t, run_of(p, &p->pieces[p->piece_of[table->first_unit + i]], node));
		flush(&t);
	}
	parts->nruns = t.n;
	parts->runs = t.n ? out->data : NULL;
	return wbuf_finish(out);
}

static int plan(struct planning *p, struct wbuf *const *runs, struct share_parts *const *parts, struct err *err)
{
	int rc = find_tables(p, err);
	if (!rc)
		rc = find_holders(p);
	if (!rc)
		rc = find_pieces(p, err);
	if (!rc)
		rc = find_classes(p, err);
	if (!rc)
		rc = divide(p);
	for (uint32_t i = 0; !rc && i < p->in->n; i++)
		rc = tell_node(p, i, runs[i], parts[i]);
	return rc;
}

int share_plan_make(const struct share_planning *in, struct wbuf *const *runs, struct share_parts *const *parts,
		    struct err *err)
{
	struct planning p = {.in = in};
	int rc = plan(&p, runs, parts, err);
	planning_free(&p);
	return rc == -ENOMEM ? err_set(err, rc, "no memory to divide what nodes hold in part") : rc;
}
