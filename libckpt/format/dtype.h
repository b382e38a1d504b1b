/* Element types: the names are those of the safetensors format, the codes are ours and appear on the wire. */
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
	DTYPE_END
};

/* Bytes per element, 0 for a code outside the enumeration. */
unsigned dtype_size(enum dtype dtype);
/* "BF16"; "?" for a code outside the enumeration. */
const char *dtype_name(enum dtype dtype);
/* The code of a safetensors name, or -EINVAL. */
int dtype_parse(const char *name);

#endif
