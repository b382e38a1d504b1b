#include "ckptd/coordinator/coordinator_maker.h"

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
bool slow_record, shut;

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

static void on_raise(struct told *t, const struct peer_word *word)
{
	cr_expect_eq(persisted, word->epoch, "told before it was kept");
	t->epoch = word->epoch;
	t->raised++;
	t->lost = word->flag ? word->rank : COORD_NOBODY;
	t->loss = word->loss;
	snprintf(t->text, sizeof(t->text), "%s", word->text);
}

static void on_joined(struct told *t, const struct wire_joined *m)
{
	cr_expect_eq(m->epoch, t->epoch);
	for (uint32_t r = 0; r < m->world; r++)
		cr_expect_eq(m->addresses[(size_t)r * WIRE_ADDRESS_MAX], 'a' + (char)r);
	t->joined++;
}

static void on_keep(struct told *t, struct step_id id)
{
	cr_expect(step_compare(id, t->kept_step) > 0);
	t->kept_step = id;
	t->kept_in = t->epoch;
}

static void on_save(struct told *t, enum peer_type type, const struct peer_save *save)
{
	switch (type) {
	case PEER_LEVEL:
		cr_expect(save->level >= t->level);
		t->level = save->level;
		return;
	case PEER_FAIL:
		t->failed = save->id;
		t->failure = save->rc;
		t->towards_storage = save->flag;
		snprintf(t->text, sizeof(t->text), "%s", save->text);
		return;
	case PEER_COPY:
		t->copies++;
		t->copied = save->id;
		return;
	case PEER_PIN_REPLICATED:
		on_keep(t, save->id);
		return;
	case PEER_SKIP:
		t->passed = save->rc;
		return;
	case PEER_WRITE:
		t->writes++;
		t->found = save->flag;
		t->parts = save->parts;
		return;
	case PEER_CLEAR:
		t->clears++;
		t->kept = save->flag;
		return;
	default:
		cr_assert(false, "order %d", type);
	}
}

static void on_order(void *arg, uint32_t node, const struct peer_order *order)
{
	struct told *t = &told[node];
	(void)arg;
	cr_expect_str_eq(order->job, "main");
	switch (order->type) {
	case PEER_ADOPT:
		t->epoch = order->word.epoch;
		return;
	case PEER_RAISE:
		on_raise(t, &order->word);
		return;
	case PEER_RESUME:
		t->resumes++;
		t->resumed = order->word.epoch;
		return;
	case PEER_RANK_WANTED:
		t->told++;
		return;
	case PEER_REJECT:
		t->away = order->word.rc;
		snprintf(t->text, sizeof(t->text), "%s", order->word.text);
		return;
	case PEER_JOINED:
		on_joined(t, &order->joined);
		return;
	case PEER_LOOK:
		t->looked++;
		t->look = order->look;
		return;
	case PEER_RESTORE_FETCH:
		t->bring = order->bring;
		t->fetched++;
		return;
	case PEER_RESTORED:
		t->choice = order->choice;
		t->restored++;
		return;
	case PEER_REFUSE:
		t->refusal = order->refuse.rc;
		t->refused++;
		snprintf(t->text, sizeof(t->text), "%s", order->refuse.text);
		snprintf(t->why, sizeof(t->why), "%s", order->refuse.why);
		return;
	case PEER_COMPARE:
		t->compares++;
		t->ask = order->compare;
		return;
	case PEER_SCHEDULE:
		t->schedule = order->schedule;
		t->schedules++;
		return;
	case PEER_STANDSTILL:
		t->standstill = order->standstill;
		t->standstills++;
		return;
	case PEER_STRAGGLERS:
		t->stragglers = order->stragglers;
		t->paces++;
		return;
	case PEER_SPILL:
		t->spills[order->spill.owner] = order->spill;
		t->spill_orders++;
		return;
	case PEER_LIST_PIECES:
		t->list = order->number;
		t->lists++;
		return;
	case PEER_FINISH_STATE:
		t->finish = (enum peer_finish_state)order->number;
		return;
	default:
		on_save(t, order->type, &order->save);
	}
}

static void on_survey(void *arg)
{
	(void)arg;
	surveys++;
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

static bool on_may_enter(void *arg, bool goes_on)
{
	(void)arg;
	(void)goes_on;
	return !shut;
}

struct coord_from from(uint32_t node)
{
	return (struct coord_from){.node = node, .epoch = told[node].epoch};
}

void hold(uint32_t node, uint64_t what, uint64_t cut)
{
	coord_shares(coord, node, &(struct shares){.n = 1, .of[0] = {.what = what, .cut = cut, .key = what}});
}

void coord_maker_setup_in(uint32_t epoch)
{
	log_set_level(LOG_ERROR);
	persisted = surveys = 0;
	slow_record = shut = false;
	memset(told, 0, sizeof(told));
	memset(&place, 0, sizeof(place));
	orders = (struct coord_orders){.emit = on_order,
				       .persist = on_persist,
				       .survey = on_survey,
				       .make = on_make,
				       .seal = on_seal,
				       .drop = on_drop,
				       .remove = on_remove,
				       .may_enter = on_may_enter};
	cr_assert_eq(coord_new("main", WORLD, NODES, epoch, &orders, &coord), 0);
	for (uint32_t n = 0; n < NODES; n++) {
		coord_node_join(coord, from(n), EACH, 0);
		cr_assert_eq(told[n].epoch, epoch);
	}
	for (uint32_t n = 0; n < NODES; n++)
		hold(n, 7, 1);
}

void coord_maker_setup(void)
{
	coord_maker_setup_in(1);
}

void coord_maker_take_over(uint32_t epoch)
{
	coord_maker_setup();
	coord_free(coord);
	coord = NULL;
	memset(told, 0, sizeof(told));
	for (uint32_t n = 0; n < NODES; n++)
		told[n].epoch = epoch;
	cr_assert_eq(coord_new("main", WORLD, NODES, epoch, &orders, &coord), 0);
	coord_resume(coord);
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
