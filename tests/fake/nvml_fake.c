/* NVML as far as the trainer and ckptd use it, as a library of its own, which plays what NVML_FAKE says, words with commas between: lost (no call about the
 * device succeeds), gone (it is not on the bus), reset (it wants one), unloaded (there is no driver), hang (no answer), blind (no events can be
 * watched), odd (an error that means nothing), xid=N (reported since it is watched), none (no device), ecc=N (uncorrected errors), slow=N (reasons of
 * lower clocks), lanes=N (of 16), idle (low performance, and a link of generation 1), mute (what can be left out is not supported). */
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	SUCCESS = 0,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	UNLOADED = 9,
	TIMEOUT = 10,
	LOST = 15,
	RESET = 16,
	UNKNOWN = 999
};

struct event {
	void *device;
	unsigned long long type, data;
	unsigned int gpu_instance, compute_instance;
};

struct pci {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
};

static int device, set;
static bool watched, taken;

static const char *said(const char *word)
{
	const char *all = getenv("NVML_FAKE"), *at = all ? strstr(all, word) : NULL;
	return at ? at + strlen(word) : NULL;
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **out);
int nvmlDeviceGetTemperature(void *of, int sensor, unsigned int *degrees);
int nvmlEventSetCreate(void **out);
int nvmlEventSetFree(void *of);
int nvmlDeviceRegisterEvents(void *of, unsigned long long types, void *to);
int nvmlEventSetWait_v2(void *of, struct event *event, unsigned int timeout_ms);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned int *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **out);
int nvmlDeviceGetPciInfo_v3(void *of, struct pci *out);
int nvmlDeviceGetTotalEccErrors(void *of, int type, int counter, unsigned long long *n);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *of, unsigned long long *reasons);
int nvmlDeviceGetPerformanceState(void *of, int *state);
int nvmlDeviceGetCurrPcieLinkWidth(void *of, unsigned int *n);
int nvmlDeviceGetMaxPcieLinkWidth(void *of, unsigned int *n);
int nvmlDeviceGetCurrPcieLinkGeneration(void *of, unsigned int *n);
int nvmlDeviceGetMaxPcieLinkGeneration(void *of, unsigned int *n);

int nvmlInit_v2(void)
{
	watched = taken = false;
	return said("unloaded") ? UNLOADED : SUCCESS;
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **out)
{
	*out = &device;
	return said("gone") || strcmp(bus_id, "0000:1B:00.0") != 0 ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetTemperature(void *of, int sensor, unsigned int *degrees)
{
	*degrees = 40;
	if (said("hang"))
		poll(NULL, 0, -1);
	if (of != &device || sensor != 0)
		return NOT_FOUND;
	return said("lost") ? LOST : said("reset") ? RESET : said("odd") ? UNKNOWN : SUCCESS;
}

int nvmlEventSetCreate(void **out)
{
	*out = &set;
	return SUCCESS;
}

int nvmlEventSetFree(void *of)
{
	return of == &set ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceRegisterEvents(void *of, unsigned long long types, void *to)
{
	if (said("blind"))
		return NOT_SUPPORTED;
	watched = of == &device && types == 8 && to == &set;
	return watched ? SUCCESS : NOT_FOUND;
}

/* Other events may come as well. */
int nvmlEventSetWait_v2(void *of, struct event *event, unsigned int timeout_ms)
{
	const char *xid = said("xid=");
	*event = (struct event){.device = &device, .type = 2};
	if (of != &set || timeout_ms || !watched || !xid || taken)
		return TIMEOUT;
	event->type = 8;
	event->data = strtoull(xid, NULL, 10);
	taken = true;
	return SUCCESS;
}

const char *nvmlErrorString(int code)
{
	return code == UNLOADED ? "Driver Not Loaded" : "Unknown Error";
}

/* ---- what ckptd asks besides ------------------------------------------------------------------------------------ */

static unsigned long long number(const char *word, unsigned long long otherwise)
{
	const char *at = said(word);
	return at ? strtoull(at, NULL, 10) : otherwise;
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = !said("none");
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **out)
{
	*out = &device;
	return index || said("gone") ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *of, struct pci *out)
{
	*out = (struct pci){.legacy = "0000:1B:00.0", .bus = 0x1b, .bus_id = "00000000:1B:00.0"};
	return of == &device ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetPerformanceState(void *of, int *state)
{
	*state = said("idle") ? 8 : 0;
	if (said("hang"))
		poll(NULL, 0, -1);
	return of != &device   ? NOT_FOUND
	       : said("lost")  ? LOST
	       : said("reset") ? RESET
	       : said("odd")   ? UNKNOWN
			       : SUCCESS;
}

/* Uncorrected, since the driver was loaded. */
int nvmlDeviceGetTotalEccErrors(void *of, int type, int counter, unsigned long long *n)
{
	*n = number("ecc=", 0);
	return said("mute") ? NOT_SUPPORTED : of == &device && type == 1 && counter == 0 ? SUCCESS : NOT_FOUND;
}

/* The older of its two names. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *of, unsigned long long *reasons)
{
	*reasons = number("slow=", 0);
	return said("mute") ? NOT_SUPPORTED : of == &device ? SUCCESS : NOT_FOUND;
}

static int tell_link(const void *of, unsigned int *n, unsigned int is)
{
	*n = is;
	return said("mute") ? NOT_SUPPORTED : of == &device ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *of, unsigned int *n)
{
	return tell_link(of, n, (unsigned int)number("lanes=", 16));
}

int nvmlDeviceGetMaxPcieLinkWidth(void *of, unsigned int *n)
{
	return tell_link(of, n, 16);
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *of, unsigned int *n)
{
	return tell_link(of, n, said("idle") ? 1 : 5);
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *of, unsigned int *n)
{
	return tell_link(of, n, 5);
}
