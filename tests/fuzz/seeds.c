/* fuzz_seeds DIR: inputs that the encoders write, in a folder for each target: control messages of every type, messages between nodes and
 * coordinator, a registration with its layout, a tag. Those that a store holds come from make_store. */
#include "cluster/link/hello.h"
#include "cluster/link/lane.h"
#include "cluster/net.h"
#include "format/arena/layout.h"
#include "format/files/marks.h"
#include "format/message/peer_coord.h"
#include "format/message/peer_reach.h"
#include "format/message/wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *top;

/* Frees the text. */
static void put(const char *target, const char *name, int rc, struct wbuf *text)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", top, target);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%s/%s", top, target, name);
	FILE *file = rc ? NULL : fopen(path, "w");
	if (!file || fwrite(text->data, 1, text->len, file) != text->len || fclose(file)) {
		fprintf(stderr, "fuzz_seeds: cannot write %s\n", path);
		exit(1);
	}
	wbuf_free(text);
}

#define MESSAGE(type, message, ...)                                                                                    \
	do {                                                                                                           \
		struct wbuf text = {0};                                                                                \
		struct wire_##message m = {__VA_ARGS__};                                                               \
		wbuf_u8(&text, type);                                                                                  \
		put("fuzz_wire", wire_name(type), wire_##message##_encode(&m, &text), &text);                          \
	} while (0)

static void messages(void)
{
	uint32_t lengths[2] = {4, 0};
	uint8_t *addresses = calloc(2, WIRE_ADDRESS_MAX);
	MESSAGE(WIRE_HELLO, hello, WIRE_PROTOCOL, WIRE_PROTOCOL, ROLE_RANK, "gpt", 1, 2, 2, false, 3, 3, 0, "0.1.0");
	MESSAGE(WIRE_WELCOME, welcome, WIRE_PROTOCOL, 3, "n0", "0.1.0", true, false, true, "10.0.0.7");
	MESSAGE(WIRE_ERROR, error, -EBUSY, "rank 1 is process 7");
	MESSAGE(WIRE_ARENA, arena, 2, {0, 1}, {1 << 20, 1 << 20});
	MESSAGE(WIRE_JOIN, join, 3, 1000, 4, "addr");
	MESSAGE(WIRE_JOINED, joined, 3, 2, lengths, addresses);
	MESSAGE(WIRE_RESTORE, restore, 3, UINT64_MAX, 1000);
	MESSAGE(WIRE_RESTORED, restored, 900, 2, WIRE_FROM_STORAGE, 5, 2, {0, 1}, {1, 2}, {false, true}, "older");
	MESSAGE(WIRE_EVENT, event, {900, 2}, -EIO, "the disk");
	MESSAGE(WIRE_EPOCH, epoch, 4, 1, {1}, true, "rank 1 died");
	MESSAGE(WIRE_HOLD, arena_of, 1, 1 << 20);
	MESSAGE(WIRE_RETURN, arena_of, 1, 1 << 20);
	MESSAGE(WIRE_SPAWNED, spawned, 1, 77);
	MESSAGE(WIRE_EXITED, exited, 1, 77, 9);
	MESSAGE(WIRE_COMMAND, command, COMMAND_DRAIN, "gpt", 0, "n1");
	MESSAGE(WIRE_COMMAND, command, COMMAND_REMOVE, "", 0, "n1");
	MESSAGE(WIRE_COMMAND, command, COMMAND_CLEAR, "", 0, "n1");
	MESSAGE(WIRE_USER, user, "ann");
	MESSAGE(WIRE_MARK, mark, 4, {900, 2}, true, "loss is nan");
	MESSAGE(WIRE_MOVED, moved, 2, 3, 3);
	MESSAGE(WIRE_OFFER, offer, 4, 2, 3, true, false, true, true, 7, 2, {2, 0});
	MESSAGE(WIRE_PLAN, plan, 7, 4, 2, {0, 3}, {1, WIRE_NEW_PROCESS});
	free(addresses);
}

#define REPORT(kind, ...)                                                                                              \
	do {                                                                                                           \
		struct wbuf text = {0};                                                                                \
		struct peer_report m = {.type = kind, .job = "gpt", .epoch = 3, __VA_ARGS__};                          \
		wbuf_u8(&text, kind);                                                                                  \
		put("fuzz_peer_coord", peer_coord_name(kind), peer_report_encode(&m, &text), &text);                   \
	} while (0)

#define ORDER(kind, ...)                                                                                               \
	do {                                                                                                           \
		struct wbuf text = {0};                                                                                \
		struct peer_order m = {.type = kind, .job = "gpt", __VA_ARGS__};                                       \
		wbuf_u8(&text, kind);                                                                                  \
		put("fuzz_peer_coord", peer_coord_name(kind), peer_order_encode(&m, &text), &text);                    \
	} while (0)

static void coordination(void)
{
	struct step_id id = {900, 3};
	struct peer_compare ask = {id, 0x123456789abcdef1, 64, 65};
	static const char pieces[] = "two pieces, of sixteen bytes ea.",
			  run[20] = {2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2};
	REPORT(PEER_NODE_JOIN, .node_join = {4, 2, 1, 3, id, true, true, false, {1, COMMAND_HALT_AFTER, 0}});
	REPORT(PEER_LEAVE, .leave = PEER_RANKS_FINISHED);
	REPORT(PEER_REACHED, .save = {.id = id, .level = LEVEL_CAPTURED});
	REPORT(PEER_FAILED, .save = {.id = id, .rc = -EIO, .text = "the disk"});
	REPORT(PEER_LEFT_OUT, .save = {.id = id});
	REPORT(PEER_RECOVERED, .recovered = {1700000000000000000, 2, "{}"});
	REPORT(PEER_SHARED_PIECES, .shares = {.n = 2, .of = {{7, 2}, {8, 4}}});
	REPORT(PEER_SHARED_PIECES,
	       .shares = {.n = 1, .of = {{7, 2, 300, 9, 2}}, .listed = 1, .units = (const uint8_t *)pieces});
	REPORT(PEER_RESTORE_CANDIDATES, .found = {.nmemory = 1, .memory = {id}, .nstored = 1, .stored = {id}});
	REPORT(PEER_CAPACITY, .assignment = {4, 2, 2, true, false, false, "its memory has errors", 3, 4, 2, {1, 0}});
	REPORT(PEER_REPLICA_DIGESTS, .replica_digests = {id, 3, {{5, 6, 1}, {5, 7, 1}, {9, 8, 300}}});
	REPORT(PEER_SCHEDULE_WANTED, .schedule_wanted = {30, {3, 2, 16, 48, 30, 16, 5, 0, 1000}, 4, 40, 64});
	REPORT(PEER_SILENT,
	       .silent = {2, {{0, true, 0, {5, 7}}, {1, false, 0, {6, 7, 0, true, 9, 4096, 0, "reduce"}}}});
	REPORT(PEER_TENSORS,
	       .tensors = {.ask = {.rank = 1}, .digest = 7, .n = 2, .next = 2, .heads = (const uint8_t *)pieces});
	REPORT(PEER_TENSORS, .tensors = {.ask = {1, 0, 9}, .digest = 7, .name = "w", .text = "F32 [10]"});
	REPORT(PEER_PACE, .pace = {1000, 2, {{0, 7, 5, 3}, {1, 7, 6, 3}}});
	REPORT(PEER_COMPARED, .compared = {ask, 3, {{0, 5}, {1, 6}, {1, 7}}, ""});
	ask.count = 1;
	ORDER(PEER_COMPARE, .compare = ask);
	ORDER(PEER_SCHEDULE, .schedule = {3, 2, 16, 48, 30, 16, 5, 0, 1000});
	ORDER(PEER_STANDSTILL, .standstill = {3, true, true, 1, 0, 1000, "last at step 7"});
	ORDER(PEER_STRAGGLERS,
	      .stragglers = {3, 1, 1, {{false, 1, 0, 2000, 1000, 500}}, {{1, true, 910000, 2000, 110000}}});
	ORDER(PEER_HALT, .halt = {2, COMMAND_HALT_BEFORE, 1700000000000000000});
	ORDER(PEER_ADOPT, .word = {.epoch = 3, .flag = true});
	ORDER(PEER_INVALIDATE_PLAN, .number = 3);
	ORDER(PEER_FINISH_STATE, .number = PEER_DISMISSED);
	ORDER(PEER_LIST_PIECES, .number = 3);
	ORDER(PEER_RESIGN, .number = 0);
	ORDER(PEER_LIST_TENSORS, .tensors = {1, 0, 9});
	ORDER(PEER_WRITE,
	      .save = {.id = id,
		       .parts = {.n = 1, .of = {{0, SHARE_MIXED}}, .nruns = 1, .runs = (const uint8_t *)run}});
	ORDER(PEER_LEVEL, .save = {.id = id, .level = LEVEL_DURABLE});
	ORDER(PEER_RESTORE_FETCH, .bring = {.id = id, .stored = true, .nholders = 1, .holders = {{1, 7}}});
	ORDER(PEER_ANSWER, .answer = {7, -EBUSY, 2, "too few"});
}

static void reach(void)
{
	static const struct peer_reach all[] = {
		{.type = PEER_REACH_ASK, .number = 7, .job = "gpt", .n = 2, .nodes = {1, 2}},
		{.type = PEER_REACH_ANSWER, .number = 7, .all = true},
		{.type = PEER_REACH_PING, .number = 8},
	};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct wbuf text = {0};
		wbuf_u8(&text, (uint8_t)(all[i].type - PEER_REACH_ASK));
		put("fuzz_peer_reach", peer_reach_name((uint16_t)all[i].type), peer_reach_encode(&all[i], &text),
		    &text);
	}
}

static void registration(void)
{
	struct wbuf table = {0}, text = {0};
	struct region own = region_flat(700, 700), all = region_flat(0, 50), blob = region_flat(0, 37);
	struct entry entries[] = {
		{(char *)"own", ENTRY_TENSOR, false, DTYPE_F32, {2, {40, 35}}, "optimizer", "", 1, &own},
		{(char *)"all", ENTRY_TENSOR, false, DTYPE_U64, {1, {50}}, "params", "dp", 1, &all},
		{(char *)"both", ENTRY_TENSOR, false, DTYPE_U64, {1, {50}}, "params", "dp", 1, &all},
		{(char *)"rng@00001", ENTRY_RANK_BLOB, true, DTYPE_U8, {1, {37}}, "blobs", "", 1, &blob},
	};
	struct registration reg = {1, 2, 4, entries, NULL};
	const struct registration *list = &reg;
	struct layout layout;
	struct err err = {0};
	int rc = layout_make(&list, 1, false, LAYOUT_FILE_MAX, &layout, &err);
	if (rc)
		fprintf(stderr, "fuzz_seeds: %s\n", err.text);
	if (!rc)
		rc = registration_encode(&reg, &table);
	wbuf_u32(&text, (uint32_t)table.len);
	wbuf_put(&text, table.data, table.len);
	if (!rc)
		rc = layout_encode(&layout, &text);
	layout_free(&layout);
	wbuf_free(&table);
	put("fuzz_registration", "registration", rc, &text);
}

static void greeting(void)
{
	struct hello hello = {.protocol = HELLO_PROTOCOL,
			      .from = "a",
			      .to = "b",
			      .incarnation = 7,
			      .attempt = 1,
			      .resumes = 1,
			      .way = 2,
			      .registry = "/ckpt/",
			      .copies = {{1, 2}, 2}};
	struct wbuf text = {0};
	hello_encode(&hello, &text);
	put("fuzz_peer_frame", "hello", 0, &text);

	struct lane_hello lane = {.from = "a", .token = {1, 2, 3}};
	uint8_t said[LANE_REQUEST_BYTES + LANE_ANSWER_BYTES];
	lane_hello_encode(&lane, &text);
	put("fuzz_peer_frame", "lane", 0, &text);
	lane_request_encode(&(struct lane_request){NET_READ, LANE_PIECE, 7, 4096}, said);
	lane_answer_encode(&(struct lane_answer){0, LANE_PIECE}, said + LANE_REQUEST_BYTES);
	wbuf_put(&text, said, sizeof(said));
	put("fuzz_peer_frame", "request", 0, &text);
}

int main(int argc, char **argv)
{
	struct tag tag = {"gpt", {1000, 3}, 1700000000, "best"};
	struct wbuf text = {0};
	if (argc != 2) {
		fputs("usage: fuzz_seeds DIR\n", stderr);
		return 2;
	}
	top = argv[1];
	messages();
	coordination();
	reach();
	registration();
	greeting();
	put("fuzz_marks", "tag", tag_encode(&tag, &text), &text);
	return 0;
}
