/* Messages as tables: the fields of a structure in the order in which they stand on the wire. One table makes both the
 * encoder and the decoder. What a table cannot say (a field that is there only with another one, a text of its own length) has a codec. */
#ifndef CKPT_FORMAT_FIELD_H
#define CKPT_FORMAT_FIELD_H

#include "base/bytes.h"

enum field_kind {
	FIELD_END,
	FIELD_U8,   /* of a uint32_t or an enum */
	FIELD_BOOL, /* nothing but 0 and 1 comes in */
	FIELD_U32,  /* also of an int32_t */
	FIELD_U64,
	FIELD_ID,     /* struct step_id */
	FIELD_DIGEST, /* struct digest */
	FIELD_NAME,   /* a char array; whoever decodes checks it */
	FIELD_TEXT,   /* the same, for people: control characters do not come in */
	FIELD_PART,   /* a structure with a table of its own */
	FIELD_LIST,   /* an array of such, behind a uint32_t, which says how many */
	FIELD_CODEC,
};

struct field_codec {
	void (*put)(struct wbuf *out, const void *m);
	void (*get)(struct rbuf *r, void *m);
};

struct field {
	enum field_kind kind;
	size_t at, size; /* in the structure; size: NAME, TEXT: with the NUL, LIST: of one element */
	/* LIST: more elements do not come in; and where their number stands, always in front of them */
	size_t max, n_at;
	const struct field *of;          /* PART, LIST */
	const struct field_codec *codec; /* CODEC */
};

/* NULL: no fields. get: what is malformed leaves r->failed. */
void fields_put(struct wbuf *out, const struct field *fields, const void *m);
void fields_get(struct rbuf *r, const struct field *fields, void *m);

#define FIELD_SIZE(type, name) sizeof(((type *)0)->name)
/* at, if the field is of that size */
#define FIELD_AT(type, name, due)                                                                                      \
	(offsetof(type, name) + 0 * sizeof(struct {                                                                    \
					_Static_assert(FIELD_SIZE(type, name) == (due), "its size");                   \
					int is;                                                                        \
				}))

#define FIELD_U8_OF(type, name)                                                                                        \
	{                                                                                                              \
		.kind = FIELD_U8, .at = FIELD_AT(type, name, 4)                                                        \
	}
#define FIELD_BOOL_OF(type, name)                                                                                      \
	{                                                                                                              \
		.kind = FIELD_BOOL, .at = FIELD_AT(type, name, sizeof(bool))                                           \
	}
#define FIELD_U32_OF(type, name)                                                                                       \
	{                                                                                                              \
		.kind = FIELD_U32, .at = FIELD_AT(type, name, 4)                                                       \
	}
#define FIELD_U64_OF(type, name)                                                                                       \
	{                                                                                                              \
		.kind = FIELD_U64, .at = FIELD_AT(type, name, 8)                                                       \
	}
#define FIELD_ID_OF(type, name)                                                                                        \
	{                                                                                                              \
		.kind = FIELD_ID, .at = FIELD_AT(type, name, sizeof(struct step_id))                                   \
	}
#define FIELD_DIGEST_OF(type, name)                                                                                    \
	{                                                                                                              \
		.kind = FIELD_DIGEST, .at = FIELD_AT(type, name, sizeof(struct digest))                                \
	}
#define FIELD_NAME_OF(type, name)                                                                                      \
	{                                                                                                              \
		.kind = FIELD_NAME, .at = offsetof(type, name), .size = FIELD_SIZE(type, name)                         \
	}
#define FIELD_TEXT_OF(type, name)                                                                                      \
	{                                                                                                              \
		.kind = FIELD_TEXT, .at = offsetof(type, name), .size = FIELD_SIZE(type, name)                         \
	}
#define FIELD_PART_OF(type, name, fields)                                                                              \
	{                                                                                                              \
		.kind = FIELD_PART, .at = offsetof(type, name), .of = (fields)                                         \
	}
#define FIELD_CODEC_OF(type, name, with)                                                                               \
	{                                                                                                              \
		.kind = FIELD_CODEC, .at = offsetof(type, name), .codec = &(with)                                      \
	}
/* count: the uint32_t that has the number; its place on the wire is here. */
#define FIELD_LIST_OF(type, count, name, fields)                                                                       \
	{                                                                                                              \
		.kind = FIELD_LIST, .at = offsetof(type, name), .size = FIELD_SIZE(type, name[0]),                     \
		.max = FIELD_SIZE(type, name) / FIELD_SIZE(type, name[0]), .n_at = FIELD_AT(type, count, 4),           \
		.of = (fields)                                                                                         \
	}

/* What a list of plain numbers consists of. */
extern const struct field field_one_u32[];
extern const struct field field_one_id[];

/* NAME_codec, of two functions that know the structure. */
#define FIELD_CODEC_OF_TYPE(name, type, put_it, get_it)                                                                \
	static void name##_put_any(struct wbuf *out, const void *m)                                                    \
	{                                                                                                              \
		const type *own = m;                                                                                   \
		put_it(out, own);                                                                                      \
	}                                                                                                              \
	static void name##_get_any(struct rbuf *r, void *m)                                                            \
	{                                                                                                              \
		type *own = m;                                                                                         \
		get_it(r, own);                                                                                        \
	}                                                                                                              \
	static const struct field_codec name##_codec = {name##_put_any, name##_get_any}

#endif
