#include "nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/errand.h"

/* NVML's C interface, as far as it is used here, and as it has been since its version 11. */
enum {
	NVML_SUCCESS = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_GPU_NOT_FOUND = 28,
};
enum { NVML_TEMPERATURE_GPU = 0 };    /* nvmlTemperatureSensors_t */
enum { NVML_EVENT_XID = 8 };          /* nvmlEventTypeXidCriticalError */
enum { EVENTS_MAX = 64, NO_XID = 0 }; /* events that are looked through */

struct event { /* nvmlEventData_t */
	void *device;
	unsigned long long type, data;
	unsigned int gpu_instance, compute_instance;
};

struct calls {
	int (*init)(void);
	int (*shutdown)(void);
	int (*handle_of)(const char *bus_id, void **device);
	int (*temperature)(void *device, int sensor, unsigned int *degrees);
	int (*set_create)(void **set);
	int (*set_free)(void *set);
	int (*watch)(void *device, unsigned long long types, void *set);
	int (*next)(void *set, struct event *event, unsigned int timeout_ms);
	const char *(*text_of)(int code);
};

static const struct {
	const char *name;
	size_t offset;
} names[] = {
	{"nvmlInit_v2", offsetof(struct calls, init)},
	{"nvmlShutdown", offsetof(struct calls, shutdown)},
	{"nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct calls, handle_of)},
	{"nvmlDeviceGetTemperature", offsetof(struct calls, temperature)},
	{"nvmlEventSetCreate", offsetof(struct calls, set_create)},
	{"nvmlEventSetFree", offsetof(struct calls, set_free)},
	{"nvmlDeviceRegisterEvents", offsetof(struct calls, watch)},
	{"nvmlEventSetWait_v2", offsetof(struct calls, next)},
	{"nvmlErrorString", offsetof(struct calls, text_of)},
};

struct nvml {
	struct calls calls;
	void *library, *set; /* NULL: there is none */
	int ordinal;
	char bus_id[32];
	char missing[160]; /* why nothing is known; "": NVML answers */
	/* what was found out last */
	int code;
	unsigned long long xid;
};

/* ---- the library ---------------------------------------------------------------------------------------------- */

static bool load(struct nvml *n)
{
	const char *named = getenv("CKPT_NVML_LIBRARY"), *file = named && *named ? named : "libnvidia-ml.so.1";

	n->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		snprintf(n->missing, sizeof(n->missing), "%s", dlerror());
		return false;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *call = dlsym(n->library, names[i].name);

		if (!call) {
			snprintf(n->missing, sizeof(n->missing), "%s has no %s", file, names[i].name);
			return false;
		}
		memcpy((char *)&n->calls + names[i].offset, &call, sizeof(call));
	}
	return true;
}

/* Where critical errors cannot be watched, as on some boards, the rest is asked for all the same. */
static void watch_errors(struct nvml *n)
{
	void *device;

	if (n->calls.handle_of(n->bus_id, &device) || n->calls.set_create(&n->set))
		return;
	if (n->calls.watch(device, NVML_EVENT_XID, n->set)) {
		n->calls.set_free(n->set);
		n->set = NULL;
	}
}

struct nvml *nvml_open(int ordinal, const char *bus_id)
{
	struct nvml *n = calloc(1, sizeof(*n));
	int code = 0;

	if (!n)
		return NULL;
	n->ordinal = ordinal;
	snprintf(n->bus_id, sizeof(n->bus_id), "%s", bus_id);
	if (load(n)) {
		code = n->calls.init();
		if (!code)
			watch_errors(n);
		else
			snprintf(n->missing, sizeof(n->missing), "%s", n->calls.text_of(code));
	}
	if (*n->missing && n->library) {
		dlclose(n->library);
		n->library = NULL;
	}
	return n;
}

void nvml_close(struct nvml *n)
{
	if (n && n->set)
		n->calls.set_free(n->set);
	if (n && n->library) {
		n->calls.shutdown();
		dlclose(n->library);
	}
	free(n);
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

/* A device that has fallen off the bus is not found there, or answers nothing. */
static int condition(struct nvml *n)
{
	unsigned int degrees;
	void *device;
	int code = n->calls.handle_of(n->bus_id, &device);

	if (!code)
		code = n->calls.temperature(device, NVML_TEMPERATURE_GPU, &degrees);
	return code == NVML_NOT_FOUND || code == NVML_GPU_NOT_FOUND ? NVML_GPU_IS_LOST : code;
}

static void ask(void *argument)
{
	struct nvml *n = argument;
	struct event event;

	n->code = condition(n);
	for (int i = 0; n->set && i < EVENTS_MAX && !n->calls.next(n->set, &event, 0); i++)
		if (event.type == NVML_EVENT_XID)
			n->xid = event.data;
}

/* What no temperature can be had of is there all the same. */
static bool answers(int code)
{
	return code == NVML_SUCCESS || code == NVML_NOT_SUPPORTED || code == NVML_NO_PERMISSION;
}

static void tell(const struct nvml *n, bool lost, char *text, size_t size)
{
	char odd[96];
	const char *found = lost || n->code == NVML_GPU_IS_LOST ? "is lost"
			    : n->code == NVML_RESET_REQUIRED    ? "must be reset before it can be used again"
			    : answers(n->code)                  ? "answers: this process alone has lost it"
								: odd;
	int at;

	snprintf(odd, sizeof(odd), "is in an unknown state (NVML: %s)", found == odd ? n->calls.text_of(n->code) : "");
	at = snprintf(text, size, "GPU %d (%s) %s", n->ordinal, n->bus_id, found);
	if (n->xid != NO_XID && at < (int)size)
		snprintf(text + at, size - (size_t)at, ": XID %llu", n->xid);
}

void nvml_explain(struct nvml *n, bool lost, int64_t deadline, char *text, size_t size)
{
	int rc;

	text[0] = '\0';
	if (!n)
		return;
	if (!n->library) {
		snprintf(text, size,
			 lost ? "GPU %d (%s) is lost; NVML knows nothing of it: %s"
			      : "NVML knows nothing of GPU %d (%s): %s",
			 n->ordinal, n->bus_id, n->missing);
		return;
	}
	rc = errand_run(ask, n, deadline);
	if (rc == 0)
		tell(n, lost, text, size);
	else
		snprintf(text, size, "GPU %d (%s): NVML %s", n->ordinal, n->bus_id,
			 rc == -ETIMEDOUT ? "does not answer either" : "cannot be asked: no memory for a thread");
}
