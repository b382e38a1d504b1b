#include "format/files/plan_record.h"

#include "format/document/json_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool goes_on(const struct plan_run *run, const char *node, uint32_t was)
{
	bool follows = run->was == PLAN_NEW ? was == PLAN_NEW : was == run->was + run->n;
	return follows && !strcmp(run->node, node);
}

int plan_record_add(struct plan_record *p, const char *node, uint32_t was)
{
	if (p->nruns && goes_on(&p->runs[p->nruns - 1], node, was)) {
		p->runs[p->nruns - 1].n++;
		p->world++;
		return 0;
	}
	if (!(p->nruns & (p->nruns - 1))) {
		void *grown = reallocarray(p->runs, p->nruns ? (size_t)p->nruns * 2 : 1, sizeof(*p->runs));
		if (!grown)
			return -ENOMEM;
		p->runs = grown;
	}
	struct plan_run *run = &p->runs[p->nruns++];
	*run = (struct plan_run){.n = 1, .was = was};
	snprintf(run->node, sizeof(run->node), "%s", node);
	p->world++;
	return 0;
}

int plan_record_copy(const struct plan_record *p, struct plan_record *copy)
{
	struct plan_run *runs = p->nruns ? reallocarray(NULL, p->nruns, sizeof(*runs)) : NULL;
	*copy = (struct plan_record){0};
	if (p->nruns && !runs)
		return -ENOMEM;
	*copy = *p;
	copy->runs = runs;
	if (runs)
		memcpy(runs, p->runs, p->nruns * sizeof(*runs));
	return 0;
}

void plan_record_free(struct plan_record *p)
{
	free(p->runs);
	*p = (struct plan_record){0};
}

static void put_run(struct wbuf *out, const struct plan_run *run)
{
	jout_raw(out, "[");
	jout_string(out, run->node);
	jout_raw(out, ",");
	jout_u64(out, run->n);
	if (run->was != PLAN_NEW) {
		jout_raw(out, ",");
		jout_u64(out, run->was);
	}
	jout_raw(out, "]");
}

void plan_record_put(struct wbuf *out, const struct plan_record *p)
{
	jout_raw(out, "{\"number\":");
	jout_u64(out, p->number);
	jout_raw(out, ",\"world\":");
	jout_u64(out, p->world);
	jout_raw(out, ",\"ranks\":[");
	for (uint32_t i = 0; i < p->nruns; i++) {
		if (i)
			jout_raw(out, ",");
		put_run(out, &p->runs[i]);
	}
	jout_raw(out, "]}");
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

static void read_run(struct jin *in, struct plan_run *run)
{
	*run = (struct plan_run){.was = PLAN_NEW};
	jin_array(in);
	if (jin_element(in))
		jin_string(in, run->node, sizeof(run->node));
	if (!in->rc)
		jin_check(in, name_check("node", run->node, sizeof(run->node), in->err));
	if (jin_element(in))
		run->n = (uint32_t)jin_u64(in, RANK_MAX);
	if (!in->rc && !run->n)
		jin_fail(in, "gives a node no rank");
	if (jin_element(in)) {
		run->was = (uint32_t)jin_u64(in, RANK_MAX - 1);
		if (!in->rc && (run->was + run->n > RANK_MAX || jin_element(in)))
			jin_fail(in, "is no node, a number of ranks and the rank that the first had before");
	}
}

static void read_runs(struct jin *in, struct plan_record *p)
{
	jin_array(in);
	while (jin_element(in)) {
		p->runs = jin_grow(in, p->runs, p->nruns, sizeof(*p->runs));
		if (in->rc)
			return;
		read_run(in, &p->runs[p->nruns++]);
	}
}

/* No two ranks were the same one. */
static bool distinct(const struct plan_record *p)
{
	uint8_t was[RANK_MAX / 8] = {0};
	for (uint32_t i = 0; i < p->nruns; i++) {
		const struct plan_run *run = &p->runs[i];
		for (uint32_t r = run->was; run->was != PLAN_NEW && r < run->was + run->n; r++) {
			if (was[r / 8] & 1u << r % 8)
				return false;
			was[r / 8] |= (uint8_t)(1u << r % 8);
		}
	}
	return true;
}

static bool is_sound(const struct plan_record *p)
{
	uint64_t ranks = 0;
	for (uint32_t i = 0; i < p->nruns; i++)
		ranks += p->runs[i].n;
	return p->number && ranks == p->world && distinct(p);
}

void plan_record_read(struct jin *in, struct plan_record *p)
{
	enum { NUMBER, WORLD, RANKS };
	static const char *const keys[] = {"number", "world", "ranks", NULL};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == NUMBER)
			p->number = (uint32_t)jin_u64(in, PLAN_NUMBER_MAX);
		else if (k == WORLD)
			p->world = (uint32_t)jin_u64(in, RANK_MAX);
		else
			read_runs(in, p);
	jin_require(in, keys, seen, 1u << NUMBER | 1u << WORLD | 1u << RANKS);
	if (!in->rc && !is_sound(p))
		jin_fail(in, "is no plan that gives each of %u ranks to one node", p->world);
}
