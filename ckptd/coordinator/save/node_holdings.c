#include "coordinator/save/node_holdings.h"

#include "base/cleanup.h"
#include "format/files/share_plan.h"
#include "format/files/share_units.h"

#include <stdlib.h>

static bool same_shares(const struct shares *a, const struct shares *b)
{
	bool same = a->n == b->n;
	for (uint32_t i = 0; same && i < a->n; i++)
		same = a->of[i].key == b->of[i].key && a->of[i].what == b->of[i].what && a->of[i].cut == b->of[i].cut;
	return same;
}

int node_holdings_hear(struct node_holdings *h, const struct shares *said)
{
	struct wbuf units = {0};
	if (same_shares(&h->shares, said) && !said->listed)
		return 0;
	wbuf_put(&units, said->units, (size_t)shares_units(said, said->listed) * SHARE_UNIT_SIZE);
	if (wbuf_finish(&units)) {
		wbuf_free(&units);
		return -ENOMEM;
	}
	wbuf_free(&h->units);
	h->units = units;
	h->shares = *said;
	h->shares.units = units.data;
	return 1;
}

void node_holdings_forget_parts(struct node_holdings *h)
{
	wbuf_free(&h->runs);
	h->runs = (struct wbuf){0};
	h->parts = (struct share_parts){0};
}

void node_holdings_free(struct node_holdings *h)
{
	node_holdings_forget_parts(h);
	wbuf_free(&h->units);
	*h = (struct node_holdings){0};
}

/* ---- between nodes ------------------------------------------------------------------------------------------------- */

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "no memory to divide what nodes hold alike");
}

int division_make(struct division *d, uint32_t n, struct err *err)
{
	*d = (struct division){.of = calloc(n + 1ull, sizeof(*d->of)),
			       .mixed = calloc(n + 1ull, sizeof(*d->mixed)),
			       .first = calloc(n + 1ull, sizeof(*d->first))};
	if (d->of && d->mixed && d->first)
		return 0;
	division_free(d);
	return no_memory(err);
}

void division_free(struct division *d)
{
	free(d->of);
	free(d->mixed);
	free(d->first);
	*d = (struct division){0};
}

static const struct shares **list_shares(const struct division *d)
{
	const struct shares **shares = calloc(d->n + 1ull, sizeof(*shares));
	for (uint32_t i = 0; shares && i < d->n; i++)
		shares[i] = &d->of[i]->shares;
	return shares;
}

int division_look(struct division *d, struct err *err)
{
	AUTO_FREE const struct shares **shares = list_shares(d);
	return shares && !shares_mixed(shares, d->n, d->mixed, d->first) ? 0 : no_memory(err);
}

uint32_t division_lacks(const struct division *d, uint32_t i)
{
	bool fits = shares_units(&d->of[i]->shares, d->mixed[i]) <= SHARE_UNITS_MAX; /* else it is told as an error */
	return fits && d->first[i] & ~d->of[i]->shares.listed ? d->first[i] : 0;
}

static int settle(struct division *d, struct share_parts **parts, struct wbuf **runs, struct err *err)
{
	AUTO_FREE const struct shares **shares = list_shares(d);
	struct share_planning planning = {
		.n = d->n, .shares = shares, .mixed = d->mixed, .first = d->first, .part_min = SHARE_PART_MIN};
	bool any = false;
	for (uint32_t i = 0; i < d->n; i++)
		any |= d->mixed[i] != 0;
	int rc = shares ? shares_assign(shares, d->mixed, parts, d->n, SHARE_PART_MIN) : -ENOMEM;
	if (rc)
		return no_memory(err);
	return any ? share_plan_make(&planning, runs, parts, err) : 0;
}

int division_settle(struct division *d, struct err *err)
{
	AUTO_FREE struct share_parts **parts = calloc(d->n + 1ull, sizeof(*parts));
	AUTO_FREE struct wbuf **runs = calloc(d->n + 1ull, sizeof(*runs));
	if (!parts || !runs)
		return no_memory(err);
	for (uint32_t i = 0; i < d->n; i++) {
		node_holdings_forget_parts(d->of[i]);
		parts[i] = &d->of[i]->parts;
		runs[i] = &d->of[i]->runs;
	}
	int rc = settle(d, parts, runs, err);
	for (uint32_t i = 0; rc && i < d->n; i++)
		node_holdings_forget_parts(d->of[i]);
	return rc;
}
