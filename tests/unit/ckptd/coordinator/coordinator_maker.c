#include "coordinator_maker.h"

#include "base/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct coord *coord;
static struct coord_orders orders;
struct told told[NODES];
uint32_t surveys;
struct place place;
static uint32_t persisted;
bool slow_record;

static void on_persist(void *arg, uint32_t epoch, const char *reason)
{
	(void)arg;
	(void)reason;
	cr_expect(epoch >= persisted);
	if (!slow_record)
		record(epoch);
}

void record(uint32_t epoch)
{
	persisted = epoch;
	if (coord)
		coord_persisted(coord, epoch);
}

static void on_turn_away(void *arg, uint32_t node, int rc, const char *text)
{
	(void)arg;
	told[node].away = rc;
	snprintf(told[node].text, sizeof(told[node].text), "%s", text);
}

static void on_adopt(void *arg, uint32_t node, uint32_t epoch, bool resumed)
{
	(void)arg;
	(void)resumed;
	told[node].epoch = epoch;
}

static void on_raise(void *arg, uint32_t node, uint32_t epoch, uint32_t lost, const char *reason)
{
	(void)arg;
	cr_expect_eq(persisted, epoch, "told before it was kept");
	told[node].epoch = epoch;
	told[node].raised++;
	told[node].lost = lost;
	snprintf(told[node].text, sizeof(told[node].text), "%s", reason);
}

static void on_tell(void *arg, uint32_t node, uint32_t rank, const char *reason)
{
	(void)arg;
	(void)rank;
	(void)reason;
	told[node].told++;
}

static void on_joined(void *arg, uint32_t node, const struct wire_joined *m)
{
	(void)arg;
	cr_expect_eq(m->epoch, told[node].epoch);
	for (uint32_t r = 0; r < m->world; r++)
		cr_expect_eq(m->addresses[(size_t)r * WIRE_ADDRESS_MAX], 'a' + (char)r);
	told[node].joined++;
}

static void on_look(void *arg, uint32_t node, uint64_t step)
{
	(void)arg;
	(void)step;
	told[node].looked++;
}

static void on_survey(void *arg)
{
	(void)arg;
	surveys++;
}

static void on_fetch(void *arg, uint32_t node, const struct peer_restore_fetch *bring)
{
	(void)arg;
	told[node].bring = *bring;
	told[node].fetched++;
}

static void on_restored(void *arg, uint32_t node, const struct peer_choice *choice)
{
	(void)arg;
	told[node].choice = *choice;
	told[node].restored++;
}

static void on_refuse(void *arg, uint32_t node, int rc, const char *text, const char *why)
{
	(void)arg;
	told[node].refusal = rc;
	told[node].refused++;
	snprintf(told[node].text, sizeof(told[node].text), "%s", text);
	snprintf(told[node].why, sizeof(told[node].why), "%s", why);
}

static void on_level(void *arg, uint32_t node, struct step_id id, enum level_shown level)
{
	(void)arg;
	(void)id;
	cr_expect(level >= told[node].level);
	told[node].level = level;
}

static void on_fail(void *arg, uint32_t node, struct step_id id, int rc, const char *text)
{
	(void)arg;
	told[node].failed = id;
	told[node].failure = rc;
	snprintf(told[node].text, sizeof(told[node].text), "%s", text);
}

static void on_compare(void *arg, uint32_t node, const struct peer_compare *ask)
{
	(void)arg;
	told[node].compares++;
	told[node].ask = *ask;
}

static void on_copy(void *arg, uint32_t node, struct step_id id)
{
	(void)arg;
	told[node].copies++;
	told[node].copied = id;
}

static void on_keep(void *arg, uint32_t node, struct step_id id)
{
	(void)arg;
	cr_expect(step_compare(id, told[node].kept_step) > 0);
	told[node].kept_step = id;
	told[node].kept_in = told[node].epoch;
}

static void on_pass(void *arg, uint32_t node, struct step_id id, int rc, const char *text)
{
	(void)arg;
	(void)id;
	(void)text;
	told[node].passed = rc;
}

static void on_write(void *arg, uint32_t node, struct step_id id, bool found, const struct share_parts *parts)
{
	(void)arg;
	(void)id;
	told[node].writes++;
	told[node].found = found;
	told[node].parts = *parts;
}

static void on_clear(void *arg, uint32_t node, struct step_id id, bool kept)
{
	(void)arg;
	(void)id;
	told[node].clears++;
	told[node].kept = kept;
}

static void on_spill(void *arg, uint32_t node, const struct peer_spill *order)
{
	(void)arg;
	told[node].spills[order->owner] = *order;
	told[node].spill_orders++;
}

static void on_finish(void *arg, uint32_t node, enum peer_finish_state is)
{
	(void)arg;
	told[node].finish = is;
}

static void on_make(void *arg, struct step_id id)
{
	(void)arg;
	place.id = id;
	place.made++;
}

static void on_seal(void *arg, struct step_id id, const struct wbuf *manifest)
{
	(void)arg;
	(void)id;
	place.sealed++;
	snprintf(place.manifest, sizeof(place.manifest), "%.*s", (int)manifest->len, (const char *)manifest->data);
}

static void on_drop(void *arg, struct step_id id, int rc, const char *why)
{
	(void)arg;
	(void)id;
	(void)why;
	cr_expect_lt(rc, 0);
	place.dropped++;
}

static void on_remove(void *arg, struct step_id id)
{
	(void)arg;
	(void)id;
	place.removed++;
}

struct coord_from from(uint32_t node)
{
	return (struct coord_from){.node = node, .epoch = told[node].epoch};
}

void hold(uint32_t node, uint64_t what, uint64_t cut)
{
	coord_shares(coord, node, &(struct shares){.n = 1, .of[0] = {what, cut}});
}

void coord_maker_setup(void)
{
	log_set_level(LOG_ERROR);
	persisted = surveys = 0;
	slow_record = false;
	memset(told, 0, sizeof(told));
	memset(&place, 0, sizeof(place));
	orders = (struct coord_orders){.persist = on_persist,
				       .adopt = on_adopt,
				       .raise = on_raise,
				       .tell = on_tell,
				       .turn_away = on_turn_away,
				       .joined = on_joined,
				       .look = on_look,
				       .survey = on_survey,
				       .fetch = on_fetch,
				       .restored = on_restored,
				       .refuse = on_refuse,
				       .level = on_level,
				       .fail = on_fail,
				       .compare = on_compare,
				       .copy = on_copy,
				       .keep = on_keep,
				       .pass = on_pass,
				       .write = on_write,
				       .clear = on_clear,
				       .spill = on_spill,
				       .finish = on_finish,
				       .make = on_make,
				       .seal = on_seal,
				       .drop = on_drop,
				       .remove = on_remove};
	cr_assert_eq(coord_new("main", WORLD, NODES, 1, &orders, &coord), 0);
	for (uint32_t n = 0; n < NODES; n++) {
		coord_node_join(coord, from(n), EACH, 0);
		cr_assert_eq(told[n].epoch, 1);
	}
	for (uint32_t n = 0; n < NODES; n++)
		hold(n, 7, 1);
}

void coord_maker_teardown(void)
{
	coord_free(coord);
}

void join(uint32_t node)
{
	struct peer_node_ready m = {.n = EACH};
	for (uint32_t i = 0; i < EACH; i++) {
		m.ranks[i] = node + i * NODES;
		m.lens[i] = 1;
		m.addresses[i * WIRE_ADDRESS_MAX] = (uint8_t)('a' + m.ranks[i]);
	}
	coord_want(coord, from(node), node);
	coord_joining(coord, from(node), &m);
}

void join_all(void)
{
	for (uint32_t n = 0; n < NODES; n++)
		join(n);
}
