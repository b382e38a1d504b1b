#include "format/message/peer_coord.h"

#include "coord_samples.h"
#include "said.h"

#include "format/files/plan_record.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLVMFuzzerTestOneInput fuzz_peer_coord
#include "../../../fuzz/fuzz_peer_coord.c"
#undef LLVMFuzzerTestOneInput

/* In memory of exact size, so that the sanitizer sees an overrun. */
static int decode(enum peer_type type, const struct wbuf *w, size_t len)
{
	uint8_t *body = calloc(1, len ? len : 1);
	struct peer_report r;
	struct peer_order o;
	struct err err = {0};
	memcpy(body, w->data, len < w->len ? len : w->len);
	int rc = type < PEER_REPORT_END ? peer_report_decode(type, body, len, &r, &err)
					: peer_order_decode(type, body, len, &o, &err);
	if (!rc && type >= PEER_ADOPT)
		peer_order_free(&o);
	if (rc)
		cr_expect(strstr(err.text, peer_coord_name(type)), "'%s' does not name the message", err.text);
	free(body);
	return rc;
}

static void no_other_length(enum peer_type type, const struct wbuf *w)
{
	for (size_t len = 0; len <= w->len + 1; len++)
		cr_expect_eq(decode(type, w, len), len == w->len ? 0 : -EBADMSG, "%s: length %zu of %zu",
			     peer_coord_name(type), len, w->len);
}

Test(peer_coord, every_report_comes_back_and_no_other_length_does)
{
	for (enum peer_type type = PEER_NODE_JOIN; type < PEER_REPORT_END; type++) {
		AUTO_WBUF struct wbuf w = {0}, again = {0};
		struct peer_report r = a_report(type), back;
		struct err err = {0};
		cr_assert_eq(peer_report_encode(&r, &w), 0);
		cr_assert_eq(peer_report_decode(type, w.data, w.len, &back, &err), 0, "%s", err.text);
		cr_assert_eq(back.epoch, 3);
		cr_assert_str_eq(back.job, "gpt");
		cr_assert_eq(peer_report_encode(&back, &again), 0);
		cr_assert_eq(again.len, w.len);
		cr_assert_arr_eq(again.data, w.data, w.len);
		no_other_length(type, &w);
	}
}

Test(peer_coord, every_order_comes_back_and_no_other_length_does)
{
	for (enum peer_type type = PEER_ADOPT; type < PEER_ORDER_END; type++) {
		AUTO_WBUF struct wbuf w = {0}, again = {0};
		struct peer_order o = an_order(type), back;
		struct err err = {0};
		cr_assert_eq(peer_order_encode(&o, &w), 0);
		cr_assert_eq(peer_order_decode(type, w.data, w.len, &back, &err), 0, "%s", err.text);
		cr_assert_eq(peer_order_encode(&back, &again), 0);
		cr_assert_eq(again.len, w.len);
		cr_assert_arr_eq(again.data, w.data, w.len);
		peer_order_free(&back);
		no_other_length(type, &w);
	}
}

Test(peer_coord, what_is_said_changes_with_the_number_of_the_protocol)
{
	AUTO_WBUF struct wbuf all = {0};
	for (enum peer_type type = PEER_NODE_JOIN; type < PEER_REPORT_END; type++) {
		struct peer_report r = a_report(type);
		wbuf_u16(&all, type);
		cr_assert_eq(peer_report_encode(&r, &all), 0);
	}
	for (enum peer_type type = PEER_ADOPT; type < PEER_ORDER_END; type++) {
		struct peer_order o = an_order(type);
		wbuf_u16(&all, type);
		cr_assert_eq(peer_order_encode(&o, &all), 0);
	}
	expect_said(&all, "2d566f162c8cf2f6c60e5a72cfdc439d");
}

static void refused(const struct peer_report *r, const char *why)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_report back;
	struct err err = {0};
	cr_assert_eq(peer_report_encode(r, &w), 0);
	cr_expect_eq(peer_report_decode(r->type, w.data, w.len, &back, &err), -EBADMSG, "%s", why);
	cr_expect(strstr(err.text, why), "'%s' does not say '%s'", err.text, why);
}

Test(peer_coord, what_contradicts_itself_is_refused)
{
	struct peer_report r = a_report(PEER_NODE_JOIN);
	r.node_join.nranks = 17;
	refused(&r, "ranks 17");
	r = a_report(PEER_NODE_JOIN);
	r.node_join.world = 0;
	refused(&r, "world 0");
	r = a_report(PEER_NODE_JOIN);
	r.node_join.replicated.epoch = 0;
	refused(&r, "NODE_JOIN message with a snapshot of epoch 0");
	r = a_report(PEER_NODE_JOIN);
	r.node_join.copied[1].step = STEP_MAX + 1;
	refused(&r, "NODE_JOIN message with step");
	r = a_report(PEER_NODE_JOIN);
	r.node_join.ranks[1] = r.node_join.world;
	refused(&r, "NODE_JOIN message with rank");
	r = a_report(PEER_CAPACITY);
	r.assignment.plan = PLAN_FOLLOWED_MAX + 1; /* else the next plans had numbers that no record can hold */
	refused(&r, "CAPACITY message with plan 1073741824");
	r = a_report(PEER_PREPARED);
	snprintf(r.prepared.part.node.file, sizeof(r.prepared.part.node.file), "node-n2.json");
	refused(&r, "another file");
	r = a_report(PEER_PREPARED);
	snprintf(r.prepared.part.node.name, sizeof(r.prepared.part.node.name), "../n1");
	refused(&r, "PREPARED");
	r = a_report(PEER_RESTORE_CANDIDATES);
	r.found.memory[1].epoch = 0;
	refused(&r, "RESTORE_CANDIDATES message with a snapshot of epoch 0");
	r = a_report(PEER_REACHED);
	r.save.level = LEVEL_VERIFIED + 1;
	refused(&r, "level 5");
	r = a_report(PEER_COPIED);
	r.save.id.epoch = 0;
	refused(&r, "a snapshot of epoch 0");
	r = a_report(PEER_FAILED);
	r.save.rc = 7;
	refused(&r, "code 7");
	r.save.rc = 0;
	refused(&r, "FAILED message with code 0");
	r = a_report(PEER_SKIPPED);
	r.save.rc = 0;
	refused(&r, "SKIPPED message with code 0");
	r = a_report(PEER_FETCHED);
	r.save.rc = 0;
	refused(&r, "FETCHED message with source 4");
	refused(&(struct peer_report){.type = PEER_RESTORING, .job = "gpt", .step = STEP_MAX + 1}, "step");
	r = a_report(PEER_REQUEST);
	r.request.command.kind = 0;
	refused(&r, "kind 0");
	r.request.command = (struct wire_command){.kind = COMMAND_DRAIN, .node = "n1"};
	refused(&r, "kind 6");
	r.request.token = 7;
	r.request.command = (struct wire_command){.kind = COMMAND_FLUSH};
	refused(&r, "kind 1");
	r.request.command.kind = COMMAND_REMOVE;
	refused(&r, "kind 11");
	r.request.command = (struct wire_command){.kind = COMMAND_ROLLBACK, .back.to = {600, 5}};
	refused(&r, "kind 12");
	r.request.command = (struct wire_command){.kind = COMMAND_CLEAR, .node = "n1"};
	refused(&r, "kind 13");
	r.request.command = (struct wire_command){.kind = COMMAND_DRAIN};
	refused(&r, "without a node");
	r = a_report(PEER_REPLICA_DIGESTS);
	r.replica_digests.of[1].pieces = 0;
	refused(&r, "pieces 0");
	r = a_report(PEER_REPLICA_DIGESTS);
	r.replica_digests.id.epoch = 0;
	refused(&r, "REPLICA_DIGESTS message with a snapshot of epoch 0");
	r = a_report(PEER_COMPARED);
	r.compared.of[1].of = RANK_MAX;
	refused(&r, "rank");
	r.compared.ask.count = 2;
	r.compared.of[1].of = PEER_COMPARE_PARTS;
	refused(&r, "part 32");
	r.compared.ask.first = UINT32_MAX;
	r.compared.of[1].of = 0;
	refused(&r, "COMPARED message with pieces");
	r = a_report(PEER_SCHEDULE_WANTED);
	r.schedule_wanted.held.until = 16;
	refused(&r, "SCHEDULE_WANTED message: a schedule of steps 16 to 16");
	r = a_report(PEER_SCHEDULE_WANTED);
	r.schedule_wanted.held.number = UINT32_MAX; /* else the next one had number 0, which all nodes refuse */
	refused(&r, "SCHEDULE_WANTED message: schedule 4294967295");
	r = a_report(PEER_SCHEDULE_WANTED);
	r.schedule_wanted.steps = 0;
	refused(&r, "steps 0");
	r = a_report(PEER_SCHEDULE_WANTED);
	r.schedule_wanted.memory_every = STEP_MAX + 1;
	refused(&r, "an interval of steps");
	r = a_report(PEER_SCHEDULE_WANTED);
	r.schedule_wanted.step = STEP_MAX + 1;
	refused(&r, "step");
	r = a_report(PEER_LEAVE);
	r.leave = PEER_LEAVE_END;
	refused(&r, "LEAVE message with why 3");
	r.epoch = EPOCH_MAX + 1;
	refused(&r, "epoch 10000");
	snprintf(r.job, sizeof(r.job), "a/b");
	refused(&r, "LEAVE message: ");
}

static void order_is_refused(const struct peer_order *o, const char *why)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_order back;
	struct err err = {0};
	cr_assert_eq(peer_order_encode(o, &w), 0);
	cr_expect_eq(peer_order_decode(o->type, w.data, w.len, &back, &err), -EBADMSG);
	cr_expect(strstr(err.text, why), "%s", err.text);
}

Test(peer_coord, orders_without_an_epoch_or_a_reason_are_refused)
{
	for (enum peer_type type = PEER_ADOPT; type <= PEER_REJECT; type++)
		order_is_refused(&(struct peer_order){.type = type, .job = "gpt"}, peer_coord_name(type));
}

/* A snapshot that has failed with no code has not failed: the next such order would end its daemon. */
Test(peer_coord, no_save_fails_without_a_code)
{
	struct peer_order fail = an_order(PEER_FAIL), skip = an_order(PEER_SKIP);
	fail.save.rc = skip.save.rc = 0;
	order_is_refused(&fail, "FAIL message with code 0");
	order_is_refused(&skip, "SKIP message with code 0");
}

Test(peer_coord, ranks_that_cannot_be_are_not_brought)
{
	struct peer_order o = an_order(PEER_RESTORE_FETCH);
	o.bring.holders[1].rank = RANK_MAX;
	order_is_refused(&o, "RESTORE_FETCH message with rank");
}

Test(peer_coord, what_is_asked_for_later_has_a_kind_and_a_number)
{
	struct peer_order o = an_order(PEER_HALT);
	struct peer_report r = a_report(PEER_NODE_JOIN);
	o.halt.number = 0;
	order_is_refused(&o, "HALT message with number of a halt 0");
	o.halt.number = UINT64_MAX;
	order_is_refused(&o, "number of a halt");
	r.node_join.halt.kind = COMMAND_GO_ON;
	refused(&r, "NODE_JOIN message with kind of halt");
}

Test(peer_coord, rollbacks_that_cannot_be_are_not_looked_by_and_no_node_is_told_to_go_back)
{
	struct peer_order look = an_order(PEER_LOOK), command = an_order(PEER_COMMAND);
	look.look.back.of[1].to.epoch = 3;
	order_is_refused(&look, "rollbacks 2");
	command.command = (struct wire_command){.kind = COMMAND_ROLLBACK, .job = "gpt", .back.to = {600, 5}};
	order_is_refused(&command, "kind 12");
}

static void spill_is_refused(const struct peer_spill *spill, const char *why)
{
	order_is_refused(&(struct peer_order){.type = PEER_SPILL, .job = "gpt", .spill = *spill}, why);
}

Test(peer_coord, a_spill_that_cannot_be_is_refused)
{
	static const uint8_t no_pieces[SHARE_RUN_SIZE] = {0};
	struct peer_spill m = an_order(PEER_SPILL).spill;
	m.bring.nholders = 0;
	spill_is_refused(&m, "holders");
	m.phase = PEER_SPILL_WRITE;
	m.parts = (struct share_parts){.n = 1, .of[0] = {2, 2}};
	spill_is_refused(&m, "malformed");
	m.parts.n = SHARES_MAX + 1;
	spill_is_refused(&m, "malformed");
	m.parts = (struct share_parts){.n = 1, .nruns = 1, .runs = no_pieces};
	spill_is_refused(&m, "malformed");
	m.parts = (struct share_parts){.n = 0};
	m.phase = PEER_SPILL_FAILED;
	spill_is_refused(&m, "phase");
	struct peer_report r = a_report(PEER_SPILLED);
	r.spilled.rc = -EIO;
	refused(&r, "code");
	r = a_report(PEER_SPILLED);
	r.spilled.phase = PEER_SPILL_GATHER;
	r.spilled.shares.n = SHARES_MAX + 1;
	refused(&r, "malformed");
	r = a_report(PEER_RECOVERED);
	r.recovered.text = "{\"step\":\n}";
	refused(&r, "RECOVERED message with a control character at byte 8");
	r.recovered.text = "{\"step\":\0}";
	refused(&r, "RECOVERED message with a control character at byte 8");
	r.recovered.len = 0;
	refused(&r, "RECOVERED message with a text of bytes 0");
	r = a_report(PEER_SPILLED);
	r.spilled.part.node.size = 0;
	refused(&r, "SPILLED message with a node manifest of size 0");
}

Test(peer_coord, flipped_bits_do_no_harm)
{
	for (uint16_t type = 1; type < PEER_ORDER_END; type++) {
		AUTO_WBUF struct wbuf w = {0};
		struct peer_report r = a_report(type);
		struct peer_order o = an_order(type);
		wbuf_u8(&w, (uint8_t)type);
		if (type < PEER_REPORT_END)
			peer_report_encode(&r, &w);
		else if (type >= PEER_ADOPT)
			peer_order_encode(&o, &w);
		for (size_t bit = 8; bit < 8 * w.len; bit++) {
			w.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_expect_eq(fuzz_peer_coord(w.data, w.len), 0);
			w.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}
