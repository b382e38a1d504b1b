#include "format/tensor/dtype.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned size;
} dtypes[DTYPE_END] = {
	[DTYPE_BOOL] = {"BOOL", 1},
	[DTYPE_U8] = {"U8", 1},
	[DTYPE_I8] = {"I8", 1},
	[DTYPE_F8_E5M2] = {"F8_E5M2", 1},
	[DTYPE_F8_E4M3] = {"F8_E4M3", 1},
	[DTYPE_I16] = {"I16", 2},
	[DTYPE_U16] = {"U16", 2},
	[DTYPE_F16] = {"F16", 2},
	[DTYPE_BF16] = {"BF16", 2},
	[DTYPE_I32] = {"I32", 4},
	[DTYPE_U32] = {"U32", 4},
	[DTYPE_F32] = {"F32", 4},
	[DTYPE_C64] = {"C64", 8},
	[DTYPE_F64] = {"F64", 8},
	[DTYPE_I64] = {"I64", 8},
	[DTYPE_U64] = {"U64", 8},
	[DTYPE_F8_E8M0] = {"F8_E8M0", 1},
	[DTYPE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 1},
	[DTYPE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 1},
};

static const char *const below_a_byte[] = {"F4", "F6_E2M3", "F6_E3M2"};

unsigned dtype_size(enum dtype dtype)
{
	return (unsigned)dtype < DTYPE_END ? dtypes[dtype].size : 0;
}

const char *dtype_name(enum dtype dtype)
{
	return dtype_size(dtype) ? dtypes[dtype].name : "?";
}

int dtype_parse(const char *name)
{
	for (int code = 1; code < DTYPE_END; code++)
		if (!strcmp(dtypes[code].name, name))
			return code;
	for (size_t i = 0; i < sizeof(below_a_byte) / sizeof(below_a_byte[0]); i++)
		if (!strcmp(below_a_byte[i], name))
			return -EOPNOTSUPP;
	return -EINVAL;
}
