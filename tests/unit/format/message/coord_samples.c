#include "coord_samples.h"

#include <errno.h>
#include <stdio.h>

static const struct step_id s10 = {10, 3};
static const struct schedule a_schedule = {.epoch = 3,
					   .number = 2,
					   .from = 16,
					   .until = 48,
					   .wanted = 30,
					   .memory_from = 16,
					   .memory_every = 5,
					   .storage_every = 1000};

struct peer_report a_report(enum peer_type type)
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
		r.node_join.ncopied = 2;
		r.node_join.copied[0] = (struct peer_copied){.step = 12};
		r.node_join.copied[1] = (struct peer_copied){.step = 11, .captured = true};
		for (uint32_t i = 0; i < r.node_join.nranks; i++)
			r.node_join.ranks[i] = i;
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
				       .op = "all_reduce",
				       .dtype = 9}}}};
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

struct peer_order an_order(enum peer_type type)
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
		o.word = (struct peer_word){
			.epoch = 3, .rank = 1, .flag = true, .loss = LOST_HANG, .rc = -EBUSY, .text = "a reason"};
		break;
	}
	return o;
}
