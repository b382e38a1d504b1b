#include "format/message/field.h"

#include "format/tensor/fields.h"

const struct field field_one_u32[] = {{.kind = FIELD_U32}, {0}};
const struct field field_one_id[] = {{.kind = FIELD_ID}, {0}};

static uint32_t u32_at(const void *at)
{
	return *(const uint32_t *)at;
}

static void put_list(struct wbuf *out, const struct field *f, const uint8_t *at, uint32_t n)
{
	wbuf_u32(out, n);
	for (uint32_t i = 0; i < n; i++)
		fields_put(out, f->of, at + i * f->size);
}

void fields_put(struct wbuf *out, const struct field *fields, const void *m)
{
	for (const struct field *f = fields; f && f->kind; f++) {
		const uint8_t *at = (const uint8_t *)m + f->at;
		switch (f->kind) {
		case FIELD_U8:
			wbuf_u8(out, (uint8_t)u32_at(at));
			break;
		case FIELD_BOOL:
			wbuf_u8(out, *(const bool *)at);
			break;
		case FIELD_U32:
			wbuf_u32(out, u32_at(at));
			break;
		case FIELD_U64:
			wbuf_u64(out, *(const uint64_t *)at);
			break;
		case FIELD_ID:
			put_id(out, *(const struct step_id *)at);
			break;
		case FIELD_DIGEST:
			put_digest(out, *(const struct digest *)at);
			break;
		case FIELD_NAME:
		case FIELD_TEXT:
			wbuf_str(out, (const char *)at);
			break;
		case FIELD_PART:
			fields_put(out, f->of, at);
			break;
		case FIELD_LIST:
			put_list(out, f, at, u32_at((const uint8_t *)m + f->n_at));
			break;
		case FIELD_CODEC:
			f->codec->put(out, at);
			break;
		case FIELD_END:
			break;
		}
	}
}

static void get_list(struct rbuf *r, const struct field *f, uint8_t *at, uint32_t *n)
{
	*n = rbuf_u32(r);
	if (*n > f->max)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < *n; i++)
		fields_get(r, f->of, at + i * f->size);
}

void fields_get(struct rbuf *r, const struct field *fields, void *m)
{
	for (const struct field *f = fields; f && f->kind; f++) {
		uint8_t *at = (uint8_t *)m + f->at;
		switch (f->kind) {
		case FIELD_U8:
			*(uint32_t *)at = rbuf_u8(r);
			break;
		case FIELD_BOOL:
			*(bool *)at = get_bool(r);
			break;
		case FIELD_U32:
			*(uint32_t *)at = rbuf_u32(r);
			break;
		case FIELD_U64:
			*(uint64_t *)at = rbuf_u64(r);
			break;
		case FIELD_ID:
			*(struct step_id *)at = get_id(r);
			break;
		case FIELD_DIGEST:
			*(struct digest *)at = get_digest(r);
			break;
		case FIELD_NAME:
			rbuf_str(r, (char *)at, f->size);
			break;
		case FIELD_TEXT:
			get_text(r, (char *)at, f->size);
			break;
		case FIELD_PART:
			fields_get(r, f->of, at);
			break;
		case FIELD_LIST:
			get_list(r, f, at, (uint32_t *)((uint8_t *)m + f->n_at));
			break;
		case FIELD_CODEC:
			f->codec->get(r, at);
			break;
		case FIELD_END:
			break;
		}
	}
}
