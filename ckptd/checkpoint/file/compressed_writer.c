#include "checkpoint/file/compressed_writer.h"

#include "format/arena/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES = 16,
	WHOLE = 4, /* chunks: of a file of fewer all is tried */
};

static void pump(struct packer *p);

static void finish(struct packer *p)
{
	if (p->ended)
		return;
	p->ended = true;
	packing_leave(p->packing);
	p->done(p);
}

static void release(struct packer *p, struct packing_buffer *b)
{
	p->active--;
	packing_put(p->packing, b);
}

/* ---- parcels ------------------------------------------------------------------------------------------------------ */

static void arrived(struct parcel *parcel)
{
	struct packer *p = parcel->packer;
	if (p->moved)
		p->moved(p);
	if (parcel == &p->index_parcel || parcel == &p->header_parcel) {
		p->active--;
	} else {
		p->written++;
		release(p, list_entry(parcel, struct packing_buffer, parcel));
	}
}

static void ask_throttle(struct packer *p);

static void parcel_done(struct disk_op *op)
{
	struct parcel *parcel = op->arg;
	struct packer *p = parcel->packer;
	if (op->result < 0 && !p->rc)
		p->rc = (int)op->result;
	parcel->moved += op->len;
	if (list_empty(&p->queue) || list_entry(p->queue.next, struct parcel, link) != parcel) {
		arrived(parcel);
		pump(p);
		return;
	}
	p->turning = false;
	if (parcel->moved == parcel->len || p->rc) {
		list_remove(&parcel->link);
		arrived(parcel);
	} else if (p->moved) {
		p->moved(p);
	}
	ask_throttle(p);
	pump(p);
}

static void submit(struct parcel *parcel, uint64_t len)
{
	parcel->op = (struct disk_op){.kind = DISK_WRITE,
				      .file = parcel->packer->file,
				      .buf = (void *)(parcel->data + parcel->moved),
				      .offset = parcel->at + parcel->moved,
				      .len = len,
				      .done = parcel_done,
				      .arg = parcel};
	disk_submit(parcel->packer->disk, &parcel->op);
}

static void drop_queue(struct packer *p)
{
	for (struct list *node; !p->turning && (node = list_pop(&p->queue));)
		arrived(list_entry(node, struct parcel, link));
}

static void goes(struct turn *turn)
{
	struct packer *p = list_entry(turn, struct packer, turn);
	if (!turn->bytes || p->rc) { /* cancelled */
		p->turning = false;
		pump(p);
		return;
	}
	submit(list_entry(p->queue.next, struct parcel, link), turn->bytes);
}

static void ask_throttle(struct packer *p)
{
	if (p->turning || p->rc || list_empty(&p->queue))
		return;
	struct parcel *first = list_entry(p->queue.next, struct parcel, link);
	p->turning = true;
	p->turn = (struct turn){.job = p->bucket, .bytes = first->len - first->moved, .go = goes};
	throttle_ask(p->throttle, &p->turn);
}

static void send(struct packer *p, struct parcel *parcel)
{
	parcel->packer = p;
	parcel->moved = 0;
	if (!list_empty(&p->queue) || (p->throttle && throttle_limited(p->throttle, p->bucket))) {
		list_push(&p->queue, &parcel->link);
		ask_throttle(p);
	} else {
		submit(parcel, parcel->len);
	}
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

static void run(struct work *work)
{
	struct packing_buffer *b = list_entry(work, struct packing_buffer, work);
	chunk_pack(b->codec, b->plain, b->chunk.plain, b->chunk.planes, &b->chunk, b->stored);
	b->ran = true;
}

static void place_ready(struct packer *p)
{
	struct packing_buffer *b;
	while (!p->rc && (b = p->ready[p->placed % PACKING_BUFFERS])) {
		p->ready[p->placed % PACKING_BUFFERS] = NULL;
		p->index.chunks[p->placed++] = b->chunk;
		b->parcel = (struct parcel){.data = b->stored, .at = p->at, .len = b->chunk.bytes};
		p->at += b->chunk.bytes;
		send(p, &b->parcel);
	}
}

static void packed(struct work *work)
{
	struct packing_buffer *b = list_entry(work, struct packing_buffer, work);
	struct packer *p = b->parcel.packer;
	if (!b->ran)
		return; /* the daemon ends as in a crash */
	p->ready[b->number % PACKING_BUFFERS] = b;
	place_ready(p);
	pump(p);
}

static void pack(struct packer *p, struct packing_buffer *b)
{
	const struct packed_chunk *c = &p->index.chunks[p->next];
	b->work = (struct work){.run = run, .done = packed};
	b->parcel.packer = p;
	b->number = p->next++;
	b->plain = p->data + c->data_at;
	b->chunk = *c;
	b->ran = false;
	p->active++;
	pool_submit(p->packing->pool, &b->work);
}

/* ---- the sample --------------------------------------------------------------------------------------------------- */

/* Parts of chunks from all over the file; of a file of few chunks all of it. */
static void run_sample(struct work *work)
{
	struct packing_buffer *b = list_entry(work, struct packing_buffer, work);
	const struct packer *p = b->parcel.packer;
	uint32_t n = p->index.nchunks, samples = n < SAMPLES ? n : SAMPLES;
	b->sampled = b->shrunk = 0;
	for (uint32_t i = 0; i < samples; i++) {
		struct packed_chunk c = p->index.chunks[(uint64_t)i * n / samples];
		uint32_t plain = n < WHOLE && c.plain > LEAF_SIZE ? c.plain : (uint32_t)min_u64(c.plain, LEAF_SIZE);
		chunk_pack(b->codec, p->data + c.data_at, plain, c.planes, &c, b->stored);
		b->sampled += plain;
		for (unsigned k = 0; k < c.planes; k++)
			b->shrunk += c.stored[k];
	}
	b->ran = true;
}

/* Each chunk wastes half a block on the average. */
static bool is_worth_it(const struct packer *p, const struct packing_buffer *b)
{
	const struct packed_index *index = &p->index;
	uint64_t plain = p->header_len + index->data_size;
	double data = (double)index->data_size * (double)b->shrunk / (double)b->sampled;
	double whole = data + (double)(packed_index_size(index->nchunks) + p->header_len) +
		       (double)index->nchunks * (LAYOUT_ALIGN / 2.0);
	return whole <= (double)plain - (double)plain / PACKER_GAIN;
}

static void sampled(struct work *work)
{
	struct packing_buffer *b = list_entry(work, struct packing_buffer, work);
	struct packer *p = b->parcel.packer;
	if (!b->ran)
		return; /* the daemon ends as in a crash */
	p->worth_it = is_worth_it(p, b);
	release(p, b);
	finish(p);
}

static void try_sample(struct packer *p)
{
	struct packing_buffer *b = p->rc ? NULL : packing_take(p->packing);
	if (b) {
		b->work = (struct work){.run = run_sample, .done = sampled};
		b->parcel.packer = p;
		b->ran = false;
		p->active++;
		pool_submit(p->packing->pool, &b->work);
		return;
	}
	if (!p->rc)
		p->rc = packing_wait(p->packing, &p->wish);
	if (p->rc)
		finish(p);
}

static void wished_sample(struct packing_wish *wish)
{
	try_sample(list_entry(wish, struct packer, wish));
}

void packer_sample(struct packer *p)
{
	p->ended = false;
	p->wish.go = wished_sample;
	packing_enter(p->packing);
	try_sample(p);
}

/* ---- index and header --------------------------------------------------------------------------------------------- */

static int encode_index(struct packer *p)
{
	AUTO_WBUF struct wbuf text = {0};
	packed_index_place(&p->index);
	int rc = packed_index_encode(&p->index, &text);
	p->index_text = rc ? NULL : aligned_alloc(DISK_ALIGN, text.len);
	if (!p->index_text)
		return -ENOMEM;
	memcpy(p->index_text, text.data, text.len);
	p->packed = (struct manifest_packed){p->index.size, text.len, digest_bytes(text.data, text.len)};
	return 0;
}

static void send_head(struct packer *p)
{
	p->head_sent = true;
	p->rc = encode_index(p);
	if (p->rc)
		return;
	p->index_parcel = (struct parcel){.data = p->index_text, .len = p->packed.index_size};
	p->header_parcel = (struct parcel){.data = p->header, .at = p->packed.index_size, .len = p->header_len};
	p->active += 2;
	send(p, &p->index_parcel);
	send(p, &p->header_parcel);
}

/* ---- the order ---------------------------------------------------------------------------------------------------- */

static void wished(struct packing_wish *wish)
{
	struct packer *p = list_entry(wish, struct packer, wish);
	p->waiting = false;
	pump(p);
}

/* Chunks in flight: one that is packed may have to wait for those before it. Who is held by a limit leaves buffers to others. */
static unsigned depth(const struct packer *p)
{
	return p->throttle && throttle_limited(p->throttle, p->bucket) ? 1 : PACKING_BUFFERS;
}

static void fill(struct packer *p)
{
	while (!p->rc && !p->waiting && p->next < p->index.nchunks && p->next - p->written < depth(p)) {
		struct packing_buffer *b = packing_take(p->packing);
		if (b) {
			pack(p, b);
			continue;
		}
		p->wish.go = wished;
		p->rc = packing_wait(p->packing, &p->wish);
		p->waiting = !p->rc;
	}
}

static void give_back(struct packer *p)
{
	for (unsigned i = 0; i < PACKING_BUFFERS; i++) {
		struct packing_buffer *b = p->ready[i];
		p->ready[i] = NULL;
		if (b)
			release(p, b);
	}
	drop_queue(p);
}

static void pump(struct packer *p)
{
	fill(p);
	if (p->rc)
		give_back(p);
	else if (p->written == p->index.nchunks && !p->head_sent)
		send_head(p);
	if (!p->active && !p->waiting && !p->turning && (p->rc || p->head_sent))
		finish(p);
}

void packer_start(struct packer *p)
{
	p->ended = false;
	p->index.data_at = p->header_len;
	p->at = packed_index_size(p->index.nchunks) + p->header_len;
	list_init(&p->queue);
	packing_enter(p->packing);
	pump(p);
}

void packer_cancel(struct packer *p, int rc)
{
	if (!p->packing || p->rc)
		return;
	p->rc = rc;
	p->turn.bytes = 0;
}

void packer_free(struct packer *p)
{
	packed_index_free(&p->index);
	free(p->index_text);
	p->index_text = NULL;
}
