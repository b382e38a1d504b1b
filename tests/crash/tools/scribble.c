/* scribble ROUNDS SEED: both ranks of a job of their own ("hostile") that join by the book and then write whatever they like over their
 * arenas: head, slots, status, leaf table, counters that run backwards or beyond the size, while they ring the doorbell. Sometimes they
 * save as ranks do, but for what they say of their replicas, which they go on writing over. They end without a goodbye. Socket
 * from CKPT_SOCKET. Exit: 0 they have done their worst; 1 they did not get that far. */
#include "base/channel.h"
#include "base/clock.h"
#include "format/arena/arena.h"
#include "format/arena/layout.h"
#include "format/message/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 2, TENSORS = 3, TENSOR_BYTES = 300000, WAIT_S = 20 };

struct hostile {
	uint32_t rank;
	int sock, doorbell;
	struct frame *f;
	uint8_t *base;
	uint64_t size;
	struct arena_head head; /* as it was handed out */
	struct registration reg;
	struct layout layout; /* out of the arena, when it was handed out */
	uint64_t seed, step;
	uint32_t epoch;
};

static uint64_t chance(struct hostile *h, uint64_t below)
{
	h->seed ^= h->seed << 13;
	h->seed ^= h->seed >> 7;
	h->seed ^= h->seed << 17;
	return h->seed % below;
}

static void give_up(const char *what, int rc)
{
	fprintf(stderr, "scribble: %s: %s\n", what, err_name(rc));
	exit(1);
}

static uint64_t deadline(void)
{
	return clock_deadline(WAIT_S * CLOCK_NS_PER_S);
}

static void say(struct hostile *h, uint16_t type, struct wbuf *body)
{
	int rc = channel_send(h->sock, type, 9, body->data, body->len, NULL, 0, deadline());
	wbuf_free(body);
	if (rc)
		give_up(wire_name(type), rc);
}

static void hear(struct hostile *h, uint16_t want)
{
	int rc = 0;
	while (!rc) {
		frame_free(h->f);
		rc = channel_recv(h->sock, h->f, deadline());
		if (!rc && h->f->seq == 9)
			break;
	}
	struct wire_error refusal = {0};
	struct err err = {{0}};
	if (!rc && h->f->type == WIRE_ERROR && !wire_error_decode(h->f->body, h->f->len, &refusal, &err))
		fprintf(stderr, "scribble: refused: %s\n", refusal.text);
	if (!rc && h->f->type != want)
		rc = -EPROTO;
	if (rc)
		give_up(wire_name(want), rc);
}

static void greet(struct hostile *h)
{
	struct err err = {{0}};
	struct wbuf body = {0};
	struct wire_hello hello = {.protocol_min = WIRE_PROTOCOL,
				   .protocol_max = WIRE_PROTOCOL,
				   .role = ROLE_RANK,
				   .job = "hostile",
				   .rank = h->rank,
				   .world = RANKS,
				   .local_world = RANKS,
				   .slots = ARENA_SLOTS_MIN};
	h->sock = channel_connect(getenv("CKPT_SOCKET"), deadline(), &err);
	if (h->sock < 0)
		give_up("connect", h->sock);
	wire_hello_encode(&hello, &body);
	say(h, WIRE_HELLO, &body);
	hear(h, WIRE_WELCOME);
}

static void enlist(struct hostile *h)
{
	struct shape shape = {.ndim = 1, .dim = {TENSOR_BYTES}};
	struct region whole = region_whole(&shape);
	struct entry entries[TENSORS];
	char names[TENSORS][16];
	struct wbuf body = {0}, text = {0};
	struct err err = {{0}};
	for (int i = 0; i < TENSORS; i++) {
		snprintf(names[i], sizeof(names[i]), "t%d", i);
		entries[i] = (struct entry){.name = names[i],
					    .kind = ENTRY_TENSOR,
					    .dtype = DTYPE_U8,
					    .shape = shape,
					    .group = "params",
					    .replica = "all",
					    .npieces = 1,
					    .pieces = &whole};
	}
	struct registration reg = {.rank = h->rank, .world = RANKS, .nentries = TENSORS, .entries = entries};
	registration_encode(&reg, &text);
	int rc = registration_decode(text.data, text.len, &h->reg, &err);
	wbuf_free(&text);
	if (rc)
		give_up(err.text, rc);
	wbuf_u32(&body, 5000); /* ms */
	registration_encode(&reg, &body);
	say(h, WIRE_REGISTER, &body);
}

static void read_layout(struct hostile *h)
{
	struct err err = {{0}};
	if (h->head.table_at > h->size || h->head.table_len > h->size - h->head.table_at)
		give_up("the arena's head", -EBADMSG);
	struct rbuf in = rbuf_of(h->base + h->head.table_at, h->head.table_len);
	rbuf_take(&in, rbuf_u32(&in));
	int rc = layout_decode(&in, &h->reg, &h->layout, &err);
	if (rc)
		give_up(err.text, rc);
}

static void take_arena(struct hostile *h)
{
	struct wire_arena arena;
	struct err err = {{0}};
	hear(h, WIRE_ARENA);
	int rc = wire_arena_decode(h->f->body, h->f->len, &arena, &err);
	if (rc)
		give_up("ARENA", rc);
	h->doorbell = frame_take_fd(h->f, 0);
	for (uint32_t i = 0; i < arena.nlocal; i++)
		if (arena.ranks[i] == h->rank) {
			h->size = arena.size[i];
			h->base = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED, h->f->fds[i + 1], 0);
		}
	if (!h->base || h->base == MAP_FAILED)
		give_up("mmap", -errno);
	memcpy(&h->head, h->base, sizeof(h->head));
	read_layout(h);
}

static void enter(struct hostile *all)
{
	struct wire_join join = {.timeout_ms = 5000};
	for (uint32_t r = 0; r < RANKS; r++)
		greet(&all[r]);
	for (uint32_t r = 0; r < RANKS; r++)
		enlist(&all[r]);
	for (uint32_t r = 0; r < RANKS; r++)
		take_arena(&all[r]);
	for (uint32_t r = 0; r < RANKS; r++) {
		struct wbuf body = {0};
		wire_join_encode(&join, &body);
		say(&all[r], WIRE_JOIN, &body);
	}
	for (uint32_t r = 0; r < RANKS; r++) {
		hear(&all[r], WIRE_JOINED);
		all[r].epoch = ((struct arena_head *)all[r].base)->epoch;
	}
}

/* ---- the worst ----------------------------------------------------------------------------------------------------- */

static void noise(struct hostile *h, void *at, size_t bytes)
{
	uint8_t *p = at;
	for (size_t i = 0; i < bytes; i++)
		p[i] = chance(h, 3) ? (uint8_t)chance(h, 256) : 0xff;
}

static void ring(struct hostile *h)
{
	uint64_t one = 1;
	ssize_t ignored = write(h->doorbell, &one, sizeof(one));
	(void)ignored;
}

static struct arena_head *head_of(struct hostile *h)
{
	return (struct arena_head *)h->base;
}

static struct arena_slot *begin(struct hostile *h)
{
	struct arena_slot *slot = &head_of(h)->slots[chance(h, ARENA_SLOTS_MAX)];
	slot->step = ++h->step;
	slot->epoch = h->epoch;
	slot->target = chance(h, 4) ? SLOT_STORAGE : (uint32_t)chance(h, 1000);
	slot->flags = (uint32_t)chance(h, 4);
	slot->state = SLOT_CAPTURING;
	return slot;
}

/* Counters that run backwards and beyond the size, while workers digest what they say has arrived. */
static void lie_about_progress(struct hostile *h)
{
	static const uint64_t lies[] = {2 * TENSOR_BYTES, TENSOR_BYTES, 0, 1, UINT64_MAX, 65536,
					TENSOR_BYTES - 1, 131073};
	struct arena_slot *slot = begin(h);
	for (int i = 0; i < 6; i++) {
		slot->progress = lies[chance(h, sizeof(lies) / sizeof(lies[0]))];
		ring(h);
		usleep((useconds_t)chance(h, 500));
	}
	slot->done = chance(h, 2) ? 1 : (uint32_t)chance(h, UINT32_MAX);
	slot->fenced = (uint32_t)chance(h, 3);
}

/* A slot as a rank leaves it, but for the digests of what others capture, which are noise; or 1: there is no free one. */
static int save(struct hostile *h, uint64_t step)
{
	struct arena_head *head = head_of(h);
	struct arena_plan plan;
	uint64_t nleaves = h->layout.nleaves + h->layout.nwitnesses;
	uint32_t at = 0;
	while (at < ARENA_SLOTS_MIN && head->slots[at].state != SLOT_FREE)
		at++;
	if (at == ARENA_SLOTS_MIN ||
	    arena_plan(h->head.table_len, nleaves, h->layout.slot_size, ARENA_SLOTS_MIN, &plan) || plan.size != h->size)
		return 1;
	struct arena_slot *slot = &head->slots[at];
	uint64_t *leaves = (uint64_t *)(h->base + plan.leaves_at) + at * nleaves;
	for (uint32_t p = 0; p < h->layout.npieces; p++) {
		const struct layout_piece *piece = &h->layout.pieces[p];
		digest_leaves(h->base + plan.slots_at + at * h->layout.slot_size + piece->slot_at, piece->bytes,
			      leaves + piece->first_leaf);
	}
	noise(h, leaves + h->layout.nleaves, h->layout.nwitnesses * sizeof(*leaves));
	slot->step = h->step = step;
	slot->epoch = h->epoch;
	slot->target = SLOT_STORAGE;
	slot->flags = SLOT_WITNESSES;
	slot->progress = h->layout.data_bytes;
	slot->done = slot->fenced = 1;
	slot->state = SLOT_CAPTURING;
	ring(h);
	for (int i = 0; i < 8; i++) {
		noise(h, leaves + h->layout.nleaves, h->layout.nwitnesses * sizeof(*leaves));
		usleep((useconds_t)chance(h, 300));
	}
	return 0;
}

/* Both ranks, so that there is something to compare. */
static void save_both(struct hostile *all)
{
	uint64_t step = 1;
	for (uint32_t r = 0; r < RANKS; r++)
		step = step > all[r].step ? step : all[r].step + 1;
	for (uint32_t r = 0; r < RANKS; r++)
		save(&all[r], step);
}

static void round_of(struct hostile *h)
{
	struct arena_head *head = head_of(h);
	switch (chance(h, 8)) {
	case 0:
		noise(h, h->base, ARENA_HEAD);
		break;
	case 1:
		noise(h, head->slots, sizeof(head->slots));
		break;
	case 2:
		noise(h, head->status, sizeof(head->status));
		break;
	case 3:
		if (h->head.table_at > h->size / 2 || h->head.table_len > h->size / 2 ||
		    h->head.leaves_at > h->size / 2)
			break; /* the rank before has scribbled over the head that it was handed */
		noise(h, h->base + h->head.table_at, h->head.table_len);
		noise(h, h->base + h->head.leaves_at, 1024);
		break;
	case 4:
		noise(h, &head->flight, sizeof(head->flight));
		noise(h, &head->waited, sizeof(head->waited));
		noise(h, &head->losses, sizeof(head->losses));
		break;
	case 5: {
		struct arena_slot *slot = begin(h);
		slot->done = (uint32_t)INT32_MIN + (uint32_t)chance(h, 2);
		break;
	}
	default:
		lie_about_progress(h);
	}
	ring(h);
}

int main(int argc, char **argv)
{
	static struct frame frame;
	static struct hostile all[RANKS];
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull : 0;
	for (uint32_t r = 0; r < RANKS; r++)
		all[r] = (struct hostile){
			.rank = r, .f = &frame, .seed = 88172645463325252ull ^ seed ^ (uint64_t)r << 40};
	enter(all);
	for (long i = 0; i < rounds; i++) {
		struct hostile *h = &all[chance(&all[0], RANKS)];
		if (i % 8)
			round_of(h);
		else
			save_both(all);
		usleep((useconds_t)chance(h, 2000));
	}
	return 0;
}
