#include "collective/nccl_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} calls[] = {
	{"ncclGetVersion", offsetof(struct nccl_table, version)},
	{"ncclGetUniqueId", offsetof(struct nccl_table, unique_id)},
	{"ncclCommInitRankConfig", offsetof(struct nccl_table, init)},
	{"ncclCommGetAsyncError", offsetof(struct nccl_table, async_error)},
	{"ncclCommAbort", offsetof(struct nccl_table, abort)},
	{"ncclReduceScatter", offsetof(struct nccl_table, reduce_scatter)},
	{"ncclAllGather", offsetof(struct nccl_table, all_gather)},
	{"ncclGetErrorString", offsetof(struct nccl_table, text_of)},
};

static int take_calls(void *library, const char *file, struct nccl_table *table, char why[NCCL_WHY_SIZE])
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *call = dlsym(library, calls[i].name);

		if (!call) {
			snprintf(why, NCCL_WHY_SIZE, "%s has no %s: NCCL 2.17 or later is needed", file, calls[i].name);
			return -ENOSYS;
		}
		memcpy((char *)table + calls[i].offset, &call, sizeof(call));
	}
	return 0;
}

static int check_version(const struct nccl_table *table, const char *file, char why[NCCL_WHY_SIZE])
{
	int version = 0;

	if (table->version(&version) == NCCL_SUCCESS && version >= NCCL_VERSION_LEAST)
		return 0;
	snprintf(why, NCCL_WHY_SIZE, "%s is NCCL %d.%d.%d: 2.17 or later is needed", file, version / 10000,
		 version / 100 % 100, version % 100);
	return -ENOSYS;
}

int nccl_table_load(const struct nccl_table **table, char why[NCCL_WHY_SIZE])
{
	static struct nccl_table loaded; /* what the loader holds is the process's, too */
	const char *named = getenv("CKPT_NCCL_LIBRARY"), *file = named && *named ? named : "libnccl.so.2";
	struct nccl_table found;
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	int rc;

	*table = NULL;
	if (!library) {
		snprintf(why, NCCL_WHY_SIZE, "%s", dlerror());
		return -ENOENT;
	}
	rc = take_calls(library, file, &found, why);
	if (rc == 0)
		rc = check_version(&found, file, why);
	if (rc < 0) {
		dlclose(library);
		return rc;
	}
	loaded = found;
	*table = &loaded;
	return 0;
}
