/* Transactions: what was committed and is not decided. Several are under way at a time, so no order is kept among them. */
#include "registry/registry_private.h"

#include "base/clock.h"
#include "registry/request_private.h"

#include <stdlib.h>
#include <string.h>

enum { RUNNING_MAX = 16 };

struct transaction {
	struct list list; /* of those that wait, or of those that run */
	struct wbuf body;
	uint64_t deadline;
	uint64_t lease; /* what it puts goes with it; 0: no lease */
	bool puts;
	bool running;
	registry_done *done;
	void *arg;
};

static void free_transaction(struct registry *r, struct transaction *t)
{
	list_remove(&t->list);
	r->transactions.all--;
	r->transactions.running -= t->running;
	wbuf_free(&t->body);
	free(t);
}

static void finish(struct registry *r, struct transaction *t, const struct registry_result *result)
{
	registry_done *done = t->done;
	void *arg = t->arg;
	r->counts.applied += !result->rc && result->applied;
	r->counts.failed += result->rc != 0;
	free_transaction(r, t);
	done(arg, result);
}

static void fail(struct registry *r, struct transaction *t, int rc, const char *why)
{
	finish(r, t, &(struct registry_result){.rc = rc, .why = why});
}

static void on_result(struct registry *r, void *arg, const struct outcome *outcome)
{
	struct transaction *t = arg;
	struct registry_result result = {.rc = outcome->rc, .why = outcome->why};
	struct err why = {{0}};
	if (outcome->failure == FAILURE_NONE) {
		result.why = why.text;
		result.rc = answer_txn(outcome->body, outcome->len, &result.applied, &result.revision, &why);
	}
	if (!result.rc && result.applied && t->puts)
		follow_expect(r, result.revision);
	if (outcome->failure == FAILURE_LEASE)
		renew_lost(r, t->lease);
	finish(r, t, &result);
}

static void run(struct registry *r, struct transaction *t, uint64_t now)
{
	if (now >= t->deadline) {
		fail(r, t, -EHOSTUNREACH, "too many other transactions went first");
		return;
	}
	if (t->lease && (r->lease.state != LEASE_HELD || r->lease.id != t->lease)) {
		fail(r, t, -ESTALE, "the lease has ended");
		return;
	}
	int rc = call_begin(r, &(struct call_plan){.path = "/v3/kv/txn",
						   .body = &t->body,
						   .deadline = t->deadline,
						   .try_ns = registry_try_ns(r),
						   .once = true,
						   .done = on_result,
						   .arg = t});
	if (rc) {
		fail(r, t, rc, "no memory for a transaction");
		return;
	}
	t->running = true;
	r->transactions.running++;
	list_push(&r->transactions.begun, &t->list);
}

uint64_t transaction_turn(struct registry *r, uint64_t now)
{
	struct transactions *all = &r->transactions;
	for (struct list *node; all->running < RUNNING_MAX && (node = list_pop(&all->waiting));)
		run(r, list_entry(node, struct transaction, list), now);
	return list_empty(&all->waiting) ? UINT64_MAX
					 : list_entry(all->waiting.next, struct transaction, list)->deadline;
}

static void end_list(struct registry *r, struct list *transactions)
{
	list_for_safe(it, transactions)
		fail(r, list_entry(it, struct transaction, list), -ESHUTDOWN, "this daemon ends");
}

void transaction_end_all(struct registry *r)
{
	end_list(r, &r->transactions.waiting);
	end_list(r, &r->transactions.begun);
}

/* ---- registry_commit --------------------------------------------------------------------------------------------- */

static bool is_key(const char *key)
{
	size_t len = key ? strlen(key) : 0;
	return len && len < REGISTRY_KEY_MAX;
}

static int check(const struct registry_compare *compare, unsigned ncompare, const struct registry_change *change,
		 unsigned nchange)
{
	if (ncompare > REGISTRY_CHANGES_MAX || nchange > REGISTRY_CHANGES_MAX)
		return -EMSGSIZE;
	for (unsigned i = 0; i < ncompare; i++)
		if (!is_key(compare[i].key))
			return -EINVAL;
	for (unsigned i = 0; i < nchange; i++) {
		if (!is_key(change[i].key))
			return -EINVAL;
		if (change[i].value && change[i].len > REGISTRY_VALUE_MAX)
			return -EMSGSIZE;
		for (unsigned j = 0; j < i; j++)
			if (!strcmp(change[i].key, change[j].key))
				return -EINVAL;
	}
	return 0;
}

int registry_commit(struct registry *r, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *done, void *arg)
{
	bool leased = false, puts = false;
	int rc = check(compare, ncompare, change, nchange);
	if (rc)
		return rc;
	for (unsigned i = 0; i < nchange; i++) {
		leased |= change[i].value && change[i].leased;
		puts |= change[i].value != NULL;
	}
	if (leased && !registry_lease_left(r))
		return -ENOLCK;
	if (r->transactions.all == REGISTRY_CALLS_MAX)
		return -ENOBUFS;
	struct transaction *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct transaction){.deadline = clock_since_boot() + r->timeout_ns,
				  .lease = leased ? r->lease.id : 0,
				  .puts = puts,
				  .done = done,
				  .arg = arg};
	request_txn(&t->body, r->url.prefix, t->lease, compare, ncompare, change, nchange);
	rc = wbuf_finish(&t->body);
	r->transactions.all++;
	r->counts.transactions++;
	list_push(&r->transactions.waiting, &t->list);
	if (rc)
		free_transaction(r, t);
	else if (!r->polling)
		pump_wake(&r->pump, 0);
	return rc;
}
