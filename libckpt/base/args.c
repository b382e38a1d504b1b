#include "base/args.h"

#include <string.h>

/* No struct of a later version is as large. */
enum { ARGS_SIZE_MAX = 4096 };

int args_take(void *dst, size_t known, size_t oldest, const void *src, const char *what, struct err *err)
{
	size_t size;
	if (!src)
		return err_set(err, -EINVAL, "the %s is NULL", what);
	memcpy(&size, src, sizeof(size));
	if (size < oldest || size > ARGS_SIZE_MAX)
		return err_set(err, -EINVAL, "%s.size is %zu, not %zu to %d: set it with CKPT_INIT(%s)", what, size,
			       oldest, ARGS_SIZE_MAX, what);
	for (size_t i = known; i < size; i++)
		if (((const unsigned char *)src)[i])
			return err_set(err, -E2BIG,
				       "%s has fields that this library does not know: install the newer one", what);
	memset(dst, 0, known);
	memcpy(dst, src, size < known ? size : known);
	return 0;
}

void args_give(void *dst, const void *src, size_t known)
{
	size_t size;
	memcpy(&size, dst, sizeof(size));
	memset(dst, 0, size);
	memcpy(dst, src, size < known ? size : known);
	memcpy(dst, &size, sizeof(size));
}
