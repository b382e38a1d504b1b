/* NVML as far as the trainer uses it, as a library of its own, which plays what NVML_FAKE says, words with commas between: lost (no call about the
 * device succeeds), gone (it is not on the bus), reset (it wants one), unloaded (there is no driver), hang (no answer), blind (no events can be
 * watched), odd (an error that means nothing), xid=N (reported since it is watched). */
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
