/* Fields that several messages have in common, on top of base/bytes.h. */
#ifndef CKPT_FORMAT_FIELDS_H
#define CKPT_FORMAT_FIELDS_H

#include "base/bytes.h"
#include "format/tensor/digest.h"
#include "format/tensor/names.h"

/* Text of the other side ends on terminals and in logs: control characters do not get through. */
static inline void get_text(struct rbuf *r, char *dst, size_t size)
{
	rbuf_str(r, dst, size);
	for (char *p = dst; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

static inline bool get_bool(struct rbuf *r)
{
	uint8_t v = rbuf_u8(r);
	if (v > 1)
		r->failed = true;
	return v == 1;
}

static inline void put_id(struct wbuf *out, struct step_id id)
{
	wbuf_u64(out, id.step);
	wbuf_u32(out, id.epoch);
}

static inline struct step_id get_id(struct rbuf *r)
{
	struct step_id id = {.step = rbuf_u64(r)};
	id.epoch = rbuf_u32(r);
	return id;
}

static inline void put_digest(struct wbuf *out, struct digest d)
{
	wbuf_u64(out, d.low);
	wbuf_u64(out, d.high);
}

static inline struct digest get_digest(struct rbuf *r)
{
	struct digest d = {.low = rbuf_u64(r)};
	d.high = rbuf_u64(r);
	return d;
}

#endif
