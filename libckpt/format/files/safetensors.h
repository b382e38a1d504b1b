/* The header of a safetensors file: u64 little-endian length, JSON, spaces up to a multiple of LAYOUT_ALIGN, so that the
 * data section starts aligned for direct I/O.
 *
 * Each piece is one entry. A box has the shape of its extent; so has a flat range that happens to be a box (whole rows, a
 * whole tensor, any range of a vector). Any other flat range is a vector [count]. The names in a file are unique. A
 * tensor's first box in the file has the tensor's name, its k-th further one "<name>#k". Its first vector has
 * "<name>#flat", its k-th further one "<name>#flat<k>". A name that a registered tensor has is skipped.
 *
 * __metadata__ carries: "format" "pt", "DCP_VERSION" "1.0" and DCP_SHARDING_INFO (JSON text: name → {"logical_fqn": tensor, or
 * "<tensor>#flat" for a vector, "saved_offsets": [...], "global_shape": [...]}) for every entry, as PyTorch's DCP
 * HuggingFaceStorageWriter writes the second of them; "ckpt.version" "1" and "ckpt.pieces" (JSON text: name → {"tensor", "shape":
 * the global one, and "offset": [...] of the box or "start" of the vector}).
 *
 * DCP's reader knows an entry by its own name alone. It would pass over the others of a tensor, and leave what they hold
 * as it finds it, without an error. So in a file with such entries the first brace of DCP_SHARDING_INFO is a "!": the
 * reader, which parses it before anything else, refuses the directory.
 *
 * That reader does not see packed files at all. So beside them stands a notice: a file without entries, with the same
 * mark. */
#ifndef CKPT_FORMAT_SAFETENSORS_H
#define CKPT_FORMAT_SAFETENSORS_H

#include "format/arena/layout.h"

enum {
	SAFETENSORS_HEADER_MAX = 100000000, /* of the JSON: the upstream reader's bound */
	SAFETENSORS_NAME_MAX = 1024,        /* of an entry, with the NUL: a tensor's name and a suffix */
};

/* Appends the whole header block (length word, JSON, padding: a multiple of LAYOUT_ALIGN) of file `file` of a layout. It
 * depends only on its arguments, so that it is built once per registration. -E2BIG when the JSON would exceed
 * SAFETENSORS_HEADER_MAX: never for what layout_make makes, -ENOMEM. */
int safetensors_header(const struct registration *reg, const struct layout *layout, uint32_t file, struct wbuf *out);
/* Appends all of a notice. It is the same for all checkpoints. 0 or -ENOMEM. */
int safetensors_notice(struct wbuf *out);
/* The JSON of a piece of this entry has no more bytes than this, and what stands around all pieces no more than that:
 * files are cut by them. */
uint64_t safetensors_piece_max(const struct entry *entry);
enum { SAFETENSORS_FRAME_MAX = 2 * LAYOUT_ALIGN }; /* fixed text and padding */

struct safetensors_entry {
	char *name;
	enum dtype dtype;
	struct shape shape;
	uint64_t begin, end; /* in the data section */
};

struct safetensors {
	uint64_t data_at; /* where the data section starts in the file */
	uint32_t nentries;
	struct safetensors_entry *entries; /* by begin */
};

/* How many bytes of the file the header takes, from its first 8 bytes; -EBADMSG when that is above SAFETENSORS_HEADER_MAX
 * or beyond the file's end. So a reader knows what to read before it calls safetensors_parse. */
int safetensors_header_size(const uint8_t word[8], uint64_t file_size, uint64_t *size, struct err *err);
/* Parses and checks a header of any writer: sizes bounded by the file's size before they are used, duplicate keys,
 * unknown dtypes, overlaps, holes, sizes that do not match the shape. `head` is the file's first bytes (all of the header).
 * -EBADMSG with the path; then *st is empty. */
int safetensors_parse(const void *head, size_t len, uint64_t file_size, struct safetensors *st, struct err *err);
void safetensors_free(struct safetensors *st);

#endif
