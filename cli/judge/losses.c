#include "judge/losses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const json_t *line, const char *key, const char *text)
{
	const char *value = json_string_value(json_object_get(line, key));
	return value && !strcmp(value, text);
}

static int take_fault(struct campaign_losses *l, const json_t *line)
{
	void *more = journal_grown(l->faults, l->nfaults, &l->room_faults, sizeof(*l->faults));
	uint64_t from = journal_number(line, "wall_ns");
	double ms = json_number_value(json_object_get(line, "ms"));
	if (!more)
		return -ENOMEM;
	l->faults = more;
	l->faults[l->nfaults++] =
		(struct campaign_span){.from = from,
				       .to = from + (uint64_t)(ms * 1e6),
				       .spike = is(line, "kind", "loss-spike") && is(line, "outcome", "fired")};
	return 0;
}

static int take_named(struct campaign_losses *l, const json_t *line)
{
	void *more = journal_grown(l->named, l->nnamed, &l->room_named, sizeof(*l->named));
	if (!more)
		return -ENOMEM;
	l->named = more;
	l->named[l->nnamed++] = journal_number(line, "wall_ns");
	return 0;
}

int campaign_losses_take(struct campaign_losses *l, const json_t *line)
{
	if (journal_is(line, "fault"))
		return take_fault(l, line);
	if (journal_is(line, "loss") && is(line, "kind", "spike"))
		return take_named(l, line);
	return 0;
}

static bool came_alone(const struct campaign_losses *l, size_t i)
{
	for (size_t k = 0; k < l->nfaults; k++)
		if (k != i && l->faults[k].from <= l->faults[i].to && l->faults[k].to >= l->faults[i].from)
			return false;
	return true;
}

static bool was_named(const struct campaign_losses *l, const struct campaign_span *spike)
{
	for (size_t k = 0; k < l->nnamed; k++)
		if (l->named[k] >= spike->from && l->named[k] <= spike->to)
			return true;
	return false;
}

void campaign_losses_judge(const struct campaign_losses *l, struct invariant *out)
{
	for (size_t i = 0; i < l->nfaults; i++) {
		if (!l->faults[i].spike || !came_alone(l, i))
			continue;
		out->looked_at++;
		if (was_named(l, &l->faults[i]) || !out->held)
			continue;
		out->held = false;
		snprintf(out->text, sizeof(out->text), "spike %zu of the loss was not named", out->looked_at);
	}
}

void campaign_losses_free(struct campaign_losses *l)
{
	free(l->faults);
	free(l->named);
}
