/* The bytes of each message between a node and its coordinator, as the half of a digest: a change of one is seen by its name. Where one changes a
 * daemon of another release misreads it: HELLO_PROTOCOL is to be raised (said.h). */
#include "coord_samples.h"
#include "said.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const said[] = {
	"NODE_JOIN ab6e5db28c00003f",
	"LEAVE b8bdf71e4a447ec8",
	"RANK_JOIN ca71251a8690514a",
	"NODE_READY 55ef399ba2d9a14c",
	"NOT_JOINING 61c64b000fdebbda",
	"LOST ca71251a8690514a",
	"RANK_NOT_BACK ca71251a8690514a",
	"RESTORING c460f6e661221905",
	"NOT_RESTORING 61c64b000fdebbda",
	"RESTORE_CANDIDATES e88905d61c15d1f4",
	"FETCHED ba0c897d9583f7ab",
	"COPIED ba0c897d9583f7ab",
	"REACHED ba0c897d9583f7ab",
	"UNCOPIED ba0c897d9583f7ab",
	"PREPARED 05f82c68dba30c1f",
	"READY ba0c897d9583f7ab",
	"SKIPPED ba0c897d9583f7ab",
	"CLEARED ba0c897d9583f7ab",
	"FAILED c4579ca6bf8c3324",
	"FORGOT ba0c897d9583f7ab",
	"SHARED_PIECES 29bd87dd2c8b7c0d",
	"CAPACITY 686a3c45f2b634da",
	"QUIESCED acb064fd2947da68",
	"SPILLED 78be3bc044bb3b77",
	"PAUSED c460f6e661221905",
	"REQUEST b92bb08b14022fad",
	"REPLICA_DIGESTS 5a4efd6cd331b5cd",
	"COMPARED ec386645ba0e1b1f",
	"LEFT_OUT ba0c897d9583f7ab",
	"RECOVERED 83e0153b11fcb225",
	"SCHEDULE_WANTED 9b953dcc59c59d5d",
	"SILENT a9775aca3a81b0fd",
	"PACE a623581d1648798e",
	"TENSORS 461ac009da813034",
	"ADOPT 320b522806830b66",
	"RAISE 320b522806830b66",
	"RANK_WANTED 320b522806830b66",
	"REJECT 320b522806830b66",
	"END 320b522806830b66",
	"JOINED 6a7de53caf749ab2",
	"LOOK 1ee80641db072431",
	"RESTORE_FETCH 4c5704ba5283bebf",
	"RESTORED 1b17b4f1839b30be",
	"REFUSE 6b7d58c9aa98957a",
	"LEVEL 82f15aaf369e0f1d",
	"FAIL 82f15aaf369e0f1d",
	"COPY 82f15aaf369e0f1d",
	"SKIP 82f15aaf369e0f1d",
	"WRITE 82f15aaf369e0f1d",
	"CLEAR 82f15aaf369e0f1d",
	"QUIESCE 61c64b000fdebbda",
	"PLAN 98de69e3815fd049",
	"SPILL ff0225d3880979fa",
	"PIN_REPLICATED 82f15aaf369e0f1d",
	"PAUSE f5d14d6aaee5b6f4",
	"COMMAND c96d270ce57814e2",
	"ANSWER 1793183790fac85a",
	"COMPARE 2792797bc8a7d2d3",
	"INVALIDATE_PLAN 61c64b000fdebbda",
	"FINISH_STATE 34c51b43fc8c89d6",
	"ANNOUNCE 61c64b000fdebbda",
	"RESUME 320b522806830b66",
	"SCHEDULE 94949bd03872f08d",
	"STANDSTILL 5269de7f88ce35ce",
	"STRAGGLERS 807f9093029555cf",
	"HALT d8439ec372b3143d",
	"LIST_PIECES 61c64b000fdebbda",
	"LIST_TENSORS 28938f0f92fa28dc",
	"RESIGN 61c64b000fdebbda",
};

/* What the samples leave empty. */
static struct peer_report a_full_report(enum peer_type type)
{
	static const uint8_t heads[2 * TENSOR_HEAD_SIZE] = {1, 2, 3};
	struct peer_report r = a_report(type);
	switch (type) {
	case PEER_NODE_JOIN:
		r.node_join.in = 4;
		for (uint32_t i = 0; i < r.node_join.nranks; i++)
			r.node_join.ranks[i] = 3 + i;
		break;
	case PEER_RESTORE_CANDIDATES:
		r.found.nranks = 2;
		r.found.ranks[0] = 7, r.found.ranks[1] = 9;
		break;
	case PEER_CAPACITY:
		r.assignment.leaving = true;
		break;
	case PEER_SPILLED:
		r.spilled.phase = PEER_SPILL_GATHER;
		r.spilled.shares = a_report(PEER_SHARED_PIECES).shares;
		break;
	case PEER_FAILED:
		r.save.flag = true, r.save.maker = 1ull << 41;
		break;
	case PEER_REQUEST:
		r.request.token = 1ull << 42;
		break;
	case PEER_TENSORS:
		r.tensors = (struct peer_tensors){.ask = {5, 2, 1ull << 50},
						  .digest = 1ull << 51,
						  .n = 2,
						  .next = 9,
						  .heads = heads,
						  .name = "h.0.attn",
						  .text = "F32 [4, 3]"};
		break;
	default:
		break;
	}
	return r;
}

static struct peer_order a_full_order(enum peer_type type)
{
	struct peer_order o = an_order(type);
	switch (type) {
	case PEER_SPILL:
		o.spill.phase = PEER_SPILL_WRITE;
		o.spill.parts = (struct share_parts){.n = 2, .of = {{1, 3}, {0, 0}}};
		break;
	case PEER_REFUSE:
		snprintf(o.refuse.why, sizeof(o.refuse.why), "since all are damaged");
		break;
	case PEER_LIST_TENSORS:
		o.tensors = (struct peer_tensors_ask){5, 2, 1ull << 50};
		break;
	case PEER_END:
		o.word.flag = true;
		break;
	default:
		break;
	}
	return o;
}

static void told(enum peer_type type, const struct wbuf *w, size_t *row)
{
	char line[80], digest[DIGEST_TEXT];
	digest_text(digest_bytes(w->data, w->len), digest);
	snprintf(line, sizeof(line), "%s %.16s", peer_coord_name(type), digest);
	cr_assert_lt(*row, sizeof(said) / sizeof(*said), "%s", line);
	cr_expect_str_eq(line, said[*row], "is: %s", line);
	++*row;
}

Test(peer_bytes, each_message_is_what_it_was)
{
	size_t row = 0;
	for (enum peer_type type = PEER_NODE_JOIN; type < PEER_REPORT_END; type++) {
		AUTO_WBUF struct wbuf w = {0};
		struct peer_report few = a_report(type), all = a_full_report(type);
		cr_assert_eq(peer_report_encode(&few, &w), 0);
		cr_assert_eq(peer_report_encode(&all, &w), 0);
		told(type, &w, &row);
	}
	for (enum peer_type type = PEER_ADOPT; type < PEER_ORDER_END; type++) {
		AUTO_WBUF struct wbuf w = {0};
		struct peer_order few = an_order(type), all = a_full_order(type);
		cr_assert_eq(peer_order_encode(&few, &w), 0);
		cr_assert_eq(peer_order_encode(&all, &w), 0);
		told(type, &w, &row);
	}
	cr_assert_eq(row, sizeof(said) / sizeof(*said));
}
