#include "cluster/net/fabric.h"

#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libfabric.so.1"

static struct fabric fabric;

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	{"fi_getinfo", offsetof(struct fabric, getinfo)},   {"fi_freeinfo", offsetof(struct fabric, freeinfo)},
	{"fi_dupinfo", offsetof(struct fabric, dupinfo)},   {"fi_fabric", offsetof(struct fabric, fabric)},
	{"fi_strerror", offsetof(struct fabric, strerror)},
};

static int find_symbols(void *library, struct fabric *out, struct err *err)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (!symbol)
			return err_set(err, -ENOPKG, LIBRARY " has no %s: it is too old, or another library",
				       symbols[i].name);
		memcpy((char *)out + symbols[i].offset, &symbol, sizeof(symbol));
	}
	return 0;
}

/* Loads it and takes back the handlers that were set meanwhile. */
static void *open_library(void)
{
	static const int taken[] = {SIGINT, SIGTERM, SIGILL, SIGABRT, SIGBUS, SIGSEGV};
	enum { TAKEN = sizeof(taken) / sizeof(taken[0]) };
	struct sigaction before[TAKEN];
	for (unsigned i = 0; i < TAKEN; i++)
		sigaction(taken[i], NULL, &before[i]);
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	for (unsigned i = 0; i < TAKEN; i++)
		sigaction(taken[i], &before[i], NULL);
	return library;
}

int fabric_load(const struct fabric **out, struct err *err)
{
	if (!fabric.getinfo) {
		struct fabric found;
		void *library = open_library();
		if (!library)
			return err_set(err, -ENOPKG,
				       "copies by RDMA (fabric-provider) need libfabric: %s: install libfabric1, or "
				       "let copies go over tcp",
				       dlerror());
		int rc = find_symbols(library, &found, err);
		if (rc)
			return rc;
		fabric = found;
	}
	*out = &fabric;
	return 0;
}

const char *fabric_error(int rc)
{
	return fabric.strerror(-rc);
}
