#include "machine/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVML's C interface, as far as it is used here. */
enum { NVML_SUCCESS = 0, NVML_NOT_FOUND = 6, NVML_GPU_IS_LOST = 15, NVML_RESET_REQUIRED = 16, NVML_GPU_NOT_FOUND = 28 };
enum { NVML_UNCORRECTED = 1, NVML_VOLATILE = 0, NVML_FULL_PERFORMANCE = 0 };
enum { NVML_EVENT_XID = 8, EVENTS_MAX = 64 /* that are looked through at once */ };
/* Of nvmlClocksEventReasons: hardware slowdown, thermal by software and by hardware, power brake. Not: idle, clocks that were set, and the power cap,
 * which a GPU reaches under load. */
#define NVML_SLOWED (0x8ull | 0x20ull | 0x40ull | 0x80ull)

struct event { /* nvmlEventData_t */
	void *device;
	unsigned long long type, data;
	unsigned int gpu_instance, compute_instance;
};

struct pci { /* nvmlPciInfo_t, as nvmlDeviceGetPciInfo_v3 fills it in */
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[GPU_BUS_MAX];
};

struct calls {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *n);
	int (*handle)(unsigned int index, void **device);
	int (*pci)(void *device, struct pci *pci);
	int (*ecc)(void *device, int type, int counter, unsigned long long *n);
	int (*reasons)(void *device, unsigned long long *reasons);
	int (*state)(void *device, int *state);
	int (*width)(void *device, unsigned int *n);
	int (*width_max)(void *device, unsigned int *n);
	int (*generation)(void *device, unsigned int *n);
	int (*generation_max)(void *device, unsigned int *n);
	int (*set_create)(void **set);
	int (*set_free)(void *set);
	int (*watch)(void *device, unsigned long long types, void *set);
	int (*next)(void *set, struct event *event, unsigned int timeout_ms);
};

/* The older name of a call, where it has one. */
static const struct {
	const char *name, *older;
	size_t offset;
} names[] = {
	{"nvmlInit_v2", NULL, offsetof(struct calls, init)},
	{"nvmlShutdown", NULL, offsetof(struct calls, shutdown)},
	{"nvmlDeviceGetCount_v2", NULL, offsetof(struct calls, count)},
	{"nvmlDeviceGetHandleByIndex_v2", NULL, offsetof(struct calls, handle)},
	{"nvmlDeviceGetPciInfo_v3", NULL, offsetof(struct calls, pci)},
	{"nvmlDeviceGetTotalEccErrors", NULL, offsetof(struct calls, ecc)},
	{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
	 offsetof(struct calls, reasons)},
	{"nvmlDeviceGetPerformanceState", NULL, offsetof(struct calls, state)},
	{"nvmlDeviceGetCurrPcieLinkWidth", NULL, offsetof(struct calls, width)},
	{"nvmlDeviceGetMaxPcieLinkWidth", NULL, offsetof(struct calls, width_max)},
	{"nvmlDeviceGetCurrPcieLinkGeneration", NULL, offsetof(struct calls, generation)},
	{"nvmlDeviceGetMaxPcieLinkGeneration", NULL, offsetof(struct calls, generation_max)},
	{"nvmlEventSetCreate", NULL, offsetof(struct calls, set_create)},
	{"nvmlEventSetFree", NULL, offsetof(struct calls, set_free)},
	{"nvmlDeviceRegisterEvents", NULL, offsetof(struct calls, watch)},
	{"nvmlEventSetWait_v2", NULL, offsetof(struct calls, next)},
};

struct gpus {
	struct calls calls;
	void *library, *set; /* NULL: there is none */
	unsigned n;
	void *device[GPU_MAX]; /* NULL: it has never answered */
	struct gpu last[GPU_MAX];
};

/* ---- the library ----------------------------------------------------------------------------------------------- */

static int load(struct gpus *g)
{
	const char *named = getenv("CKPT_NVML_LIBRARY");
	g->library = dlopen(named && *named ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!g->library)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *call = dlsym(g->library, names[i].name);
		if (!call && names[i].older)
			call = dlsym(g->library, names[i].older);
		if (!call)
			return -EIO;
		memcpy((char *)&g->calls + names[i].offset, &call, sizeof(call));
	}
	return 0;
}

static void find_devices(struct gpus *g)
{
	struct pci pci;
	for (unsigned i = 0; i < g->n; i++) {
		snprintf(g->last[i].bus_id, sizeof(g->last[i].bus_id), "number %u", i);
		if (g->calls.handle(i, &g->device[i]))
			g->device[i] = NULL;
		else if (!g->calls.pci(g->device[i], &pci))
			snprintf(g->last[i].bus_id, sizeof(g->last[i].bus_id), "%.*s", GPU_BUS_MAX - 1, pci.bus_id);
	}
}

/* Where they cannot be watched, as on some boards, all else is asked for all the same. */
static void watch_events(struct gpus *g)
{
	if (g->calls.set_create(&g->set)) {
		g->set = NULL;
		return;
	}
	for (unsigned i = 0; i < g->n; i++)
		if (g->device[i])
			(void)g->calls.watch(g->device[i], NVML_EVENT_XID, g->set);
}

static void unload(struct gpus *g)
{
	if (g->library)
		dlclose(g->library);
	*g = (struct gpus){.library = NULL};
}

/* A driver may be loaded later. */
static int begin(struct gpus *g)
{
	unsigned int n = 0;
	int rc = load(g);
	if (!rc && g->calls.init())
		rc = -EIO;
	if (rc) {
		unload(g);
		return rc;
	}
	int code = g->calls.count(&n);
	if (code || !n) {
		g->calls.shutdown();
		unload(g);
		return code ? -EIO : -ENOENT;
	}
	g->n = n < GPU_MAX ? n : GPU_MAX;
	find_devices(g);
	watch_events(g);
	return 0;
}

struct gpus *gpus_open(void)
{
	return calloc(1, sizeof(struct gpus));
}

void gpus_close(struct gpus *g)
{
	if (g && g->set)
		g->calls.set_free(g->set);
	if (g && g->library)
		g->calls.shutdown();
	if (g)
		unload(g);
	free(g);
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

bool gpu_xid_is_hard(uint64_t xid)
{
	/* By NVIDIA's catalogue of XIDs: double-bit ECC, remapping of rows failed, NVLink, off the bus, uncontained and unrecovered ECC, GSP. */
	static const uint64_t hard[] = {48, 64, 74, 79, 95, 119, 120, 140};
	for (size_t i = 0; i < sizeof(hard) / sizeof(hard[0]); i++)
		if (hard[i] == xid)
			return true;
	return false;
}

static void note(struct gpus *g, const struct event *event)
{
	for (unsigned i = 0; i < g->n; i++) {
		if (g->device[i] != event->device)
			continue;
		if (!gpu_xid_is_hard(event->data)) {
			g->last[i].others++;
			continue;
		}
		g->last[i].xid = (unsigned)event->data;
		g->last[i].xids++;
	}
}

static void take_events(struct gpus *g)
{
	struct event event;
	for (unsigned i = 0; i < g->n; i++)
		g->last[i].xid = 0;
	for (int i = 0; g->set && i < EVENTS_MAX && !g->calls.next(g->set, &event, 0); i++)
		if (event.type == NVML_EVENT_XID)
			note(g, &event);
}

static bool is_lost(int code)
{
	return code == NVML_GPU_IS_LOST || code == NVML_NOT_FOUND || code == NVML_GPU_NOT_FOUND;
}

static void ask_link(const struct calls *c, void *device, struct gpu *gpu)
{
	if (c->width(device, &gpu->width) || c->width_max(device, &gpu->width_max))
		gpu->width = gpu->width_max = 0;
	if (c->generation(device, &gpu->generation) || c->generation_max(device, &gpu->generation_max))
		gpu->generation = gpu->generation_max = 0;
}

/* The first question tells whether the GPU is there: all that are there answer it. */
static void ask(const struct calls *c, void *device, struct gpu *gpu)
{
	unsigned long long reasons = 0, errors = 0;
	int state = -1, code = device ? c->state(device, &state) : NVML_GPU_IS_LOST;
	gpu->lost = is_lost(code);
	gpu->reset = code == NVML_RESET_REQUIRED;
	gpu->full = !code && state == NVML_FULL_PERFORMANCE;
	gpu->slowed = false;
	if (gpu->lost || gpu->reset)
		return;
	if (!c->ecc(device, NVML_UNCORRECTED, NVML_VOLATILE, &errors))
		gpu->uncorrected = errors;
	if (!c->reasons(device, &reasons))
		gpu->slowed = reasons & NVML_SLOWED;
	ask_link(c, device, gpu);
}

int gpus_read(struct gpus *g, struct gpu *out, unsigned *n)
{
	int rc = g->library ? 0 : begin(g);
	*n = 0;
	if (rc)
		return rc;
	take_events(g);
	for (unsigned i = 0; i < g->n; i++) {
		ask(&g->calls, g->device[i], &g->last[i]);
		out[i] = g->last[i];
	}
	*n = g->n;
	return 0;
}
