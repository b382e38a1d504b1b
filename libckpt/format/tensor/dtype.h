/* Element types: the names are those of the safetensors format (0.8), the codes are ours and appear on the wire. Of its types only
 * those below a byte are missing (F4, F6_E2M3, F6_E3M2): a region counts whole elements, and its bytes must be whole. They are
 * registered as the U8 that they are packed in. */
#ifndef CKPT_FORMAT_DTYPE_H
#define CKPT_FORMAT_DTYPE_H

#include <stdint.h>

enum dtype {
	DTYPE_BOOL = 1,
	DTYPE_U8,
	DTYPE_I8,
	DTYPE_F8_E5M2,
	DTYPE_F8_E4M3,
	DTYPE_I16,
	DTYPE_U16,
	DTYPE_F16,
	DTYPE_BF16,
	DTYPE_I32,
	DTYPE_U32,
	DTYPE_F32,
	DTYPE_C64,
	DTYPE_F64,
	DTYPE_I64,
	DTYPE_U64,
	DTYPE_F8_E8M0, /* scales of MX formats */
	DTYPE_F8_E4M3FNUZ,
	DTYPE_F8_E5M2FNUZ,
	DTYPE_END
};

/* Bytes per element, 0 for a code outside the enumeration. */
unsigned dtype_size(enum dtype dtype);
/* "BF16"; "?" for a code outside the enumeration. */
const char *dtype_name(enum dtype dtype);
/* The code of a safetensors name. -EOPNOTSUPP: one of its types below a byte; -EINVAL: none of its types. */
int dtype_parse(const char *name);

#endif
