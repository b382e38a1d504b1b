#include "checkpoint/file/compress_buffers.h"

#include <stdlib.h>

void packing_init(struct packing *packing, struct pool *pool)
{
	*packing = (struct packing){.pool = pool};
	list_init(&packing->free);
	list_init(&packing->waiting);
}

static void buffer_free(struct packing_buffer *b)
{
	chunk_packer_free(b->codec);
	free(b->stored);
	free(b);
}

static struct packing_buffer *buffer_new(void)
{
	struct packing_buffer *b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->stored = aligned_alloc(DISK_ALIGN, PACKED_CHUNK);
	if (!b->stored || chunk_packer_new(&b->codec) < 0) {
		buffer_free(b);
		return NULL;
	}
	return b;
}

void packing_free(struct packing *packing)
{
	for (unsigned i = 0; i < packing->made; i++)
		buffer_free(packing->all[i]);
	packing->made = 0;
	list_init(&packing->free);
}

void packing_enter(struct packing *packing)
{
	packing->users++;
}

void packing_leave(struct packing *packing)
{
	if (!--packing->users)
		packing_free(packing);
}

struct packing_buffer *packing_take(struct packing *packing)
{
	struct list *node = list_pop(&packing->free);
	if (node)
		return list_entry(node, struct packing_buffer, link);
	struct packing_buffer *b = packing->made < PACKING_BUFFERS ? buffer_new() : NULL;
	if (b)
		packing->all[packing->made++] = b;
	return b;
}

int packing_wait(struct packing *packing, struct packing_wish *wish)
{
	if (!packing->made)
		return -ENOMEM;
	list_push(&packing->waiting, &wish->link);
	return 0;
}

void packing_put(struct packing *packing, struct packing_buffer *buffer)
{
	list_push(&packing->free, &buffer->link);
	/* Who wished may not want it any more: then the next one is asked. */
	for (struct list *node; !list_empty(&packing->free) && (node = list_pop(&packing->waiting));) {
		struct packing_wish *wish = list_entry(node, struct packing_wish, link);
		wish->go(wish);
	}
}
