#include "format/message/peer_coord.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLVMFuzzerTestOneInput fuzz_peer_coord
#include "../../../fuzz/fuzz_peer_coord.c"
#undef LLVMFuzzerTestOneInput

static const struct step_id s10 = {10, 3};
static const struct schedule a_schedule = {.epoch = 3,
					   .number = 2,
					   .from = 16,
					   .until = 48,
					   .wanted = 30,
					   .memory_from = 16,
					   .memory_every = 5,
					   .storage_every = 1000};

static struct peer_report a_report(enum peer_type type)
{
	struct peer_report r = {.type = type, .job = "gpt", .epoch = 3};
	struct peer_part part = {.node = {.name = "n1", .file = "node-n1.json", .size = 900, .digest = {1, 2}},
				 .began = 3,
				 .bytes = 1 << 30,
				 .stored = 1 << 29,
				 .files = 7};
	switch (type) {
	case PEER_NODE_JOIN:
		r.node_join = (struct peer_node_join){.world = 16,
						      .nranks = 8,
						      .plan = 3,
						      .known = 2,
						      .replicated = s10,
						      .finished = true,
						      .halt = {4, COMMAND_HALT_BEFORE, 1ull << 60}};
		r.node_join.goes_on = r.node_join.gone = true;
		break;
	case PEER_LEAVE:
		r.leave = PEER_RANKS_COME_AGAIN;
		break;
	case PEER_RANK_JOIN:
	case PEER_LOST:
	case PEER_RANK_NOT_BACK:
		r.rank = (struct peer_rank){.rank = 5, .was_in = true, .why = "its process has died"};
		break;
	case PEER_NODE_READY:
		r.joining = (struct peer_node_ready){2, {4, 5}, {3, 0}, .addresses = "a:1", .goes_on = true};
		r.joining.blobs = (struct job_blobs){.n = 2, .digest = 9, .named = {{"clock", 8}, {"loader", 64}}};
		break;
	case PEER_RESTORING:
	case PEER_PAUSED:
		r.step = UINT64_MAX;
		break;
	case PEER_RESTORE_CANDIDATES:
		r.found.nmemory = 2;
		r.found.memory[0] = s10;
		r.found.memory[1] = (struct step_id){8, 2};
		r.found.nstored = 2;
		r.found.stored[0] = s10;
		r.found.stored[1] = (struct step_id){9, 3};
		r.found.storage_rc = -EIO;
		r.found.others = true;
		snprintf(r.found.why, sizeof(r.found.why), "damaged");
		break;
	case PEER_PREPARED:
		r.prepared.id = s10, r.prepared.maker = 1ull << 40 | 7;
		r.prepared.part = part;
		break;
	case PEER_FETCHED:
	case PEER_COPIED:
	case PEER_REACHED:
	case PEER_UNCOPIED:
	case PEER_READY:
	case PEER_SKIPPED:
	case PEER_CLEARED:
	case PEER_FAILED:
	case PEER_FORGOT:
	case PEER_LEFT_OUT:
		r.save = (struct peer_save){.id = s10, .level = LEVEL_VERIFIED, .rc = -EIO, .text = "the disk"};
		break;
	case PEER_CAPACITY:
		r.assignment = (struct peer_capacity){.want = 8,
						      .least = 4,
						      .processes = 2,
						      .spare = true,
						      .drained = true,
						      .unfit = "its memory has errors",
						      .plan = 3,
						      .world = 6,
						      .n = 2,
						      .ranks = {5, 0}};
		break;
	case PEER_SHARED_PIECES:
		r.shares = (struct shares){.n = 2,
					   .of = {{0x123456789abcdef1, 2, 1ull << 40, 5, 2}, {3, 4, 0, 6, 9}},
					   .listed = 1,
					   .units = (const uint8_t *)"thirty-two bytes of some pieces."};
		break;
	case PEER_QUIESCED:
		r.quiesced = (struct peer_quiesced){.plan = 3, .rc = -EIO, .text = "the disk"};
		break;
	case PEER_REQUEST:
		r.request.command = (struct wire_command){.kind = COMMAND_HALT_BEFORE, .job = "gpt", .at_ns = 7};
		break;
	case PEER_REPLICA_DIGESTS:
		r.replica_digests =
			(struct peer_replica_digests){.id = s10, .n = 2, .of = {{0x123456789abcdef1, 2, 3}, {5, 6, 1}}};
		break;
	case PEER_COMPARED:
		r.compared = (struct peer_compared){.ask = {.id = s10, .set = 9, .first = 64, .count = 1},
						    .n = 2,
						    .of = {{3, 0x123456789abcdef1}, {7, 8}},
						    .name = "h.0.attn"};
		break;
	case PEER_RECOVERED:
		r.recovered = (struct peer_recovered){.at_ns = 1700000000000000000, .len = 10, .text = "{\"step\":3}"};
		break;
	case PEER_SCHEDULE_WANTED:
		r.schedule_wanted = (struct peer_schedule_wanted){
			.step = 30, .held = a_schedule, .memory_every = 4, .storage_every = 40, .steps = 64};
		break;
	case PEER_SILENT:
		r.silent = (struct peer_silent){
			.n = 2,
			.of = {{.rank = 3, .stopped = true, .is = {.beat_ns = 7, .step = 1ull << 40}},
			       {.rank = 5,
				.is = {.in_collective = true,
				       .collective = 9,
				       .bytes = 1ull << 33,
				       .op = "all_reduce"}}}};
		break;
	case PEER_PACE:
		r.pace = (struct peer_pace){
			.clock_ns = 1ull << 50, .n = 2, .of = {{3, 1ull << 40, 1ull << 41, 9}, {5, 7, 8, 1ull << 42}}};
		break;
	case PEER_SPILLED:
		r.spilled = (struct peer_spilled){.owner = 2, .phase = PEER_SPILL_WRITE, .as = s10};
		r.spilled.part = part;
		break;
	default:
		break;
	}
	return r;
}

static struct peer_order an_order(enum peer_type type)
{
	static uint32_t lens[2] = {3, 0};
	static uint8_t addresses[2 * WIRE_ADDRESS_MAX] = "a:1";
	struct peer_order o = {.type = type, .job = "gpt"};
	switch (type) {
	case PEER_JOINED:
		o.joined = (struct wire_joined){.epoch = 3, .world = 2, .address_len = lens, .addresses = addresses};
		break;
	case PEER_LOOK:
		o.look = (struct peer_look){.step = 10, .back = {2, {{4, {7, 3}}, {9, {8, 5}}}}};
		break;
	case PEER_PAUSE:
		o.step = 10;
		break;
	case PEER_RESTORE_FETCH:
		o.bring = (struct peer_restore_fetch){.id = s10,
						      .world = 6,
						      .stored = true,
						      .recut = true,
						      .nholders = 2,
						      .holders = {{.rank = 1, .node = 7}, {5, 2}}};
		break;
	case PEER_SCHEDULE:
		o.schedule = a_schedule;
		break;
	case PEER_STANDSTILL:
		o.standstill = (struct peer_standstill){.epoch = 3,
							.is = true,
							.named = true,
							.rank = 5,
							.node = 1,
							.silent_ns = 1ull << 33,
							.text = "last at step 7, in no collective"};
		break;
	case PEER_STRAGGLERS:
		o.stragglers = (struct peer_stragglers){
			.epoch = 3,
			.n = 2,
			.nown = 1,
			.of = {{true, 0, 1, 2000, 1ull << 40, 1ull << 39}, {false, 5, 2, 1700, 1ull << 33, 0}},
			.own = {{5, true, 910000, 2000, 110000}}};
		break;
	case PEER_HALT:
		o.halt = (struct peer_halt){4, COMMAND_HALT_BEFORE, 1ull << 60};
		break;
	case PEER_COMPARE:
		o.compare = (struct peer_compare){.id = s10, .set = 9, .first = 64, .count = 2};
		break;
	case PEER_COMMAND:
		o.command = (struct wire_command){.kind = COMMAND_FLUSH, .job = "gpt"};
		break;
	case PEER_ANSWER:
		o.answer = (struct peer_answer){.token = 7, .rc = -EBUSY, .left = 2, .text = "too few"};
		break;
	case PEER_SPILL:
		o.spill = (struct peer_spill){.owner = 2, .phase = PEER_SPILL_GATHER, .as = s10, .maker = 1ull << 40};
		o.spill.bring = (struct peer_restore_fetch){
			.id = s10, .nholders = 2, .holders = {{.rank = 1, .node = 7}, {5, 2}}};
		break;
	case PEER_RESTORED:
		o.choice = (struct peer_choice){.id = s10, .source = WIRE_FROM_STORAGE, .why = "older"};
		break;
	case PEER_REFUSE:
		o.refuse.rc = -ENOENT;
		snprintf(o.refuse.text, sizeof(o.refuse.text), "there is none");
		break;
	case PEER_LEVEL:
	case PEER_FAIL:
	case PEER_COPY:
	case PEER_PIN_REPLICATED:
	case PEER_SKIP:
	case PEER_WRITE:
	case PEER_CLEAR:
		o.save = (struct peer_save){.id = s10,
					    .level = LEVEL_DURABLE,
					    .flag = true,
					    .maker = 1ull << 40,
					    .parts = {.n = 2, .of = {{1, 3}, {0, 0}}},
					    .rc = -EIO,
					    .text = "the disk"};
		break;
	case PEER_QUIESCE:
	case PEER_INVALIDATE_PLAN:
		o.number = 3;
		break;
	case PEER_FINISH_STATE:
		o.number = PEER_NEEDED;
		break;
	case PEER_PLAN:
		o.plan = (struct wire_plan){
			.number = 4, .world = 6, .n = 2, .ranks = {1, 5}, .was = {1, WIRE_NEW_PROCESS}};
		break;
	default:
		o.word = (struct peer_word){.epoch = 3, .rank = 1, .rc = -EBUSY, .text = "a reason"};
		break;
	}
	return o;
}

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
