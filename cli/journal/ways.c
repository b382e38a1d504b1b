#include "journal/ways.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

enum { LIST_BYTES_MAX = 128 };

static uint32_t bit(uint32_t node)
{
	return UINT32_C(1) << node;
}

bool campaign_ways_is_lost(const struct campaign_ways *ways, uint32_t from, uint32_t to)
{
	return ways->lost[from] & bit(to);
}

static bool has_sides(const struct campaign_fault *fault)
{
	for (uint32_t k = 0; k < CAMPAIGN_NODES_MAX; k++)
		if (fault->side[k])
			return true;
	return false;
}

static bool loses(const struct campaign_fault *f, uint32_t from, uint32_t to)
{
	if (campaign_ways_open(f->entry->kind))
		return false;
	if (f->entry->kind == FAULT_ONE_WAY)
		return from == f->node && (!f->to || f->to & bit(to));
	if (f->entry->kind == FAULT_PARTITION && has_sides(f))
		return f->side[from] && f->side[to] && f->side[from] != f->side[to];
	return from == f->node || to == f->node;
}

void campaign_ways_of(const struct campaign_fault *fault, uint32_t nodes, struct campaign_ways *out)
{
	*out = (struct campaign_ways){.nodes = nodes};
	for (uint32_t from = 0; from < nodes; from++)
		for (uint32_t to = 0; to < nodes; to++)
			if (from != to && loses(fault, from, to))
				out->lost[from] |= bit(to);
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t left;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	size_t len = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
	t->at += len;
	t->left -= len;
}

static void add_nodes(struct text *t, uint32_t bits)
{
	const char *between = "";
	for (uint32_t k = 0; k < CAMPAIGN_NODES_MAX; k++)
		if (bits & bit(k)) {
			add(t, "%snode-%u", between, k);
			between = ", ";
		}
}

static void add_sides(struct text *t, const struct campaign_fault *f, uint32_t nodes)
{
	const char *between = "";
	for (uint32_t side = 1; side <= CAMPAIGN_NODES_MAX; side++) {
		uint32_t bits = 0;
		for (uint32_t k = 0; k < nodes; k++)
			bits |= f->side[k] == side ? bit(k) : 0;
		if (!bits)
			continue;
		add(t, "%s", between);
		add_nodes(t, bits);
		between = " / ";
	}
}

char *campaign_ways_text(const struct campaign_fault *f, const struct campaign_ways *ways, char *dst, size_t size)
{
	struct text t = {.at = dst, .left = size};
	if (f->entry->kind == FAULT_LINK_DOWN || f->entry->kind == FAULT_REBOOT) {
		add(&t, "the cable of node-%u was pulled", f->node);
	} else if (f->entry->kind == FAULT_LINK_SLOW) {
		add(&t, "the cable of node-%u had %u Mbit/s", f->node, f->mbit);
	} else if (f->entry->kind == FAULT_LINK_LOSS) {
		add(&t, "the cable of node-%u lost %u%% of the packets", f->node, f->percent);
	} else if (f->entry->kind == FAULT_LINK_DELAY) {
		add(&t, "what passed the cable of node-%u came %u ms later", f->node, f->delay_ms);
	} else if (f->entry->kind == FAULT_ONE_WAY) {
		add(&t, "what node-%u sent did not reach ", f->node);
		add_nodes(&t, ways->lost[f->node]);
	} else {
		add(&t, "sides were apart: ");
		if (has_sides(f))
			add_sides(&t, f, ways->nodes);
		else
			add(&t, "node-%u / all others", f->node);
	}
	return dst;
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

bool campaign_ways_parse_nodes(const char *text, uint32_t nodes, uint32_t *bits)
{
	char list[LIST_BYTES_MAX], *rest = list;
	*bits = 0;
	if (snprintf(list, sizeof(list), "%s", text) >= (int)sizeof(list))
		return false;
	for (char *one; (one = strsep(&rest, ","));) {
		uint64_t node;
		if (!number_parse(one, nodes - 1, &node) || *bits & bit((uint32_t)node))
			return false;
		*bits |= bit((uint32_t)node);
	}
	return true;
}

bool campaign_ways_parse_sides(const char *text, uint32_t nodes, uint8_t side[CAMPAIGN_NODES_MAX])
{
	char list[LIST_BYTES_MAX], *rest = list;
	uint8_t sides = 0;
	memset(side, 0, CAMPAIGN_NODES_MAX);
	if (snprintf(list, sizeof(list), "%s", text) >= (int)sizeof(list))
		return false;
	for (char *one; (one = strsep(&rest, "/")); sides++) {
		uint32_t bits;
		if (!campaign_ways_parse_nodes(one, nodes, &bits))
			return false;
		for (uint32_t k = 0; k < nodes; k++) {
			if (bits & bit(k) && side[k])
				return false;
			if (bits & bit(k))
				side[k] = (uint8_t)(sides + 1);
		}
	}
	return sides > 1;
}
