#include "blas_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} calls[] = {
	{"cublasCreate_v2", offsetof(struct blas_table, create)},
	{"cublasDestroy_v2", offsetof(struct blas_table, destroy)},
	{"cublasSetStream_v2", offsetof(struct blas_table, set_stream)},
	{"cublasGemmEx", offsetof(struct blas_table, product)},
	{"cublasGemmStridedBatchedEx", offsetof(struct blas_table, products)},
	{"cublasGetStatusString", offsetof(struct blas_table, text_of)},
};

static void *open_library(const char **file, char why[BLAS_WHY_SIZE])
{
	static const char *const files[] = {"libcublas.so.13", "libcublas.so.12"};
	const char *named = getenv("CKPT_CUBLAS_LIBRARY");
	void *library = NULL;

	if (named && *named) {
		*file = named;
		library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
	}
	for (size_t i = 0; !library && !(named && *named) && i < sizeof(files) / sizeof(files[0]); i++) {
		*file = files[i];
		library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	}
	if (!library)
		snprintf(why, BLAS_WHY_SIZE, "%s", dlerror());
	return library;
}

int blas_table_load(const struct blas_table **table, char why[BLAS_WHY_SIZE])
{
	static struct blas_table loaded; /* what the loader holds is the process's, too */
	struct blas_table found;
	const char *file;
	void *library = open_library(&file, why);

	*table = NULL;
	if (!library)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *call = dlsym(library, calls[i].name);

		if (!call) {
			snprintf(why, BLAS_WHY_SIZE, "%s has no %s", file, calls[i].name);
			dlclose(library);
			return -ENOSYS;
		}
		memcpy((char *)&found + calls[i].offset, &call, sizeof(call));
	}
	loaded = found;
	*table = &loaded;
	return 0;
}
