/* scribble ROUNDS SEED: a rank of a job of its own ("hostile") that joins by the book and then writes whatever it likes over its
 * arena: head, slots, status, leaf table, counters that run backwards or beyond the size, while it rings the doorbell. It ends without
 * a farewell. Socket from CKPT_SOCKET. Exit: 0 it has done its worst; 1 it did not get that far. */
#include "base/channel.h"
#include "base/clock.h"
#include "format/arena.h"
#include "format/registration.h"
#include "format/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TENSORS = 3, TENSOR_BYTES = 300000, WAIT_S = 20 };

struct hostile {
	int sock, doorbell;
	struct frame *f;
	uint8_t *base;
	uint64_t size;
	struct arena_head head; /* as it was handed out */
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

/* Sends a request and waits for its reply. */
static void ask(struct hostile *h, uint16_t type, struct wbuf *body, uint16_t want)
{
	int rc = channel_send(h->sock, type, 9, body->data, body->len, NULL, 0, deadline());
	wbuf_free(body);
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
		give_up(wire_name(type), rc);
}

static void enter(struct hostile *h)
{
	struct err err = {{0}};
	struct wbuf body = {0};
	struct wire_hello hello = {.protocol_min = WIRE_PROTOCOL,
				   .protocol_max = WIRE_PROTOCOL,
				   .role = ROLE_RANK,
				   .job = "hostile",
				   .world = 1,
				   .local_world = 1,
				   .slots = ARENA_SLOTS_MIN};
	h->sock = channel_connect(getenv("CKPT_SOCKET"), deadline(), &err);
	if (h->sock < 0)
		give_up("connect", h->sock);
	wire_hello_encode(&hello, &body);
	ask(h, WIRE_HELLO, &body, WIRE_WELCOME);
	struct shape shape = {.ndim = 1, .dim = {TENSOR_BYTES}};
	struct region whole = region_whole(&shape);
	struct entry entries[TENSORS];
	char names[TENSORS][16];
	for (int i = 0; i < TENSORS; i++) {
		snprintf(names[i], sizeof(names[i]), "t%d", i);
		entries[i] = (struct entry){.name = names[i],
					    .kind = ENTRY_TENSOR,
					    .dtype = DTYPE_U8,
					    .shape = shape,
					    .group = "params",
					    .npieces = 1,
					    .pieces = &whole};
	}
	struct registration reg = {.world = 1, .nentries = TENSORS, .entries = entries};
	wbuf_u32(&body, 5000); /* ms */
	registration_encode(&reg, &body);
	ask(h, WIRE_REGISTER, &body, WIRE_ARENA);
	struct wire_arena arena;
	int rc = wire_arena_decode(h->f->body, h->f->len, &arena, &err);
	if (rc)
		give_up("ARENA", rc);
	h->doorbell = frame_take_fd(h->f, 0);
	h->size = arena.size[0];
	h->base = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED, h->f->fds[1], 0);
	if (h->base == MAP_FAILED)
		give_up("mmap", -errno);
	memcpy(&h->head, h->base, sizeof(h->head));
	struct wire_join join = {.timeout_ms = 5000};
	wire_join_encode(&join, &body);
	ask(h, WIRE_JOIN, &body, WIRE_JOINED);
	h->epoch = ((struct arena_head *)h->base)->epoch;
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
	struct hostile h = {.f = &frame, .seed = 88172645463325252ull};
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
	if (argc > 2)
		h.seed ^= strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull;
	enter(&h);
	while (rounds-- > 0) {
		round_of(&h);
		usleep((useconds_t)chance(&h, 2000));
	}
	return 0;
}
