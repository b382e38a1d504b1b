#include "format/arena/tensor_heads.h"

#include <stdio.h>
#include <string.h>

static uint64_t hash_name(const char *name)
{
	return digest_bytes(name, strlen(name)).low;
}

static struct tensor_head head_of(const struct entry *e)
{
	uint8_t text[2 * sizeof(uint32_t) + NDIM_MAX * sizeof(uint64_t)];
	struct wbuf out = wbuf_over(text, sizeof(text));
	wbuf_u32(&out, e->dtype);
	wbuf_u32(&out, e->shape.ndim);
	for (uint32_t d = 0; d < e->shape.ndim; d++)
		wbuf_u64(&out, e->shape.dim[d]);
	return (struct tensor_head){.name = hash_name(e->name), .is = digest_bytes(text, out.len).low};
}

static const struct entry *nth(const struct registration *reg, uint32_t i)
{
	return &reg->entries[reg->by_name[i]];
}

uint64_t tensor_heads_digest(const struct registration *reg)
{
	uint64_t chained = 0;
	for (uint32_t i = 0; i < reg->nentries; i++) {
		const struct entry *e = nth(reg, i);
		if (e->kind != ENTRY_TENSOR)
			continue;
		struct tensor_head head = head_of(e);
		uint64_t link[] = {chained, head.name, head.is};
		chained = digest_bytes(link, sizeof(link)).low;
	}
	return chained;
}

uint32_t tensor_heads_put(const struct registration *reg, uint32_t first, uint32_t max, struct wbuf *out,
			  uint32_t *next)
{
	uint32_t n = 0, i = first;
	for (; i < reg->nentries && i - first < max; i++) {
		if (nth(reg, i)->kind != ENTRY_TENSOR)
			continue;
		struct tensor_head head = head_of(nth(reg, i));
		wbuf_u64(out, head.name);
		wbuf_u64(out, head.is);
		n++;
	}
	*next = i < reg->nentries ? i : 0;
	return n;
}

struct tensor_head tensor_heads_get(const uint8_t *encoded, uint32_t i)
{
	struct rbuf in = rbuf_of(encoded + (size_t)i * TENSOR_HEAD_SIZE, TENSOR_HEAD_SIZE);
	struct tensor_head head = {.name = rbuf_u64(&in)};
	head.is = rbuf_u64(&in);
	return head;
}

const struct entry *tensor_heads_find(const struct registration *reg, uint64_t name)
{
	for (uint32_t i = 0; i < reg->nentries; i++)
		if (reg->entries[i].kind == ENTRY_TENSOR && hash_name(reg->entries[i].name) == name)
			return &reg->entries[i];
	return NULL;
}

char *tensor_head_text(const struct entry *tensor, char *dst, size_t size)
{
	char shape[TENSOR_HEAD_TEXT];
	snprintf(dst, size, "%s %s", dtype_name(tensor->dtype), shape_text(&tensor->shape, shape, sizeof(shape)));
	return dst;
}
