#include "platform_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/deadline.h"
#include "engine_cuda.h"
#include "gpu_faults.h"
#include "gpu_memory.h"

/* How long NVML may take to say what it knows: a rank that is lost has nothing else to do. */
enum { EXPLAIN_MS = 3000 };

/* Errors of the device show here first, whatever caused them. */
static int query(struct device *d)
{
	struct cuda *c = (struct cuda *)((char *)d - offsetof(struct cuda, base.device));
	const char *text;
	int done;

	if (d->failure == DEVICE_LOST || d->failure == DEVICE_ECC) {
		snprintf(d->why, sizeof(d->why), "%s", device_failure_text(d->failure));
		return -EIO;
	}
	done = gpu_query(c->stream, &text);
	if (done < 0)
		snprintf(d->why, sizeof(d->why), "device %d: CUDA: %s", c->ordinal, text);
	return done;
}

/* That a device is gone, or its memory has failed, cannot be brought about from here: it is played. */
static int break_down(struct device *d, enum device_failure failure)
{
	struct cuda *c = (struct cuda *)((char *)d - offsetof(struct cuda, base.device));
	int code = 0;

	d->failure = failure;
	if (failure == DEVICE_TRAP)
		code = gpu_trap(c->stream);
	else if (failure == DEVICE_ILLEGAL_ADDRESS)
		code = gpu_illegal_address(c->stream);
	else if (failure == DEVICE_NEVER_ENDS)
		code = gpu_never_end(c->stream);
	return code ? cuda_fail(c, "breaking the device", code) : 0;
}

/* Of one that is played to be lost, NVML says nothing of the kind: the rest is the same. */
static void explain(struct device *d, char *text, size_t size)
{
	struct cuda *c = (struct cuda *)((char *)d - offsetof(struct cuda, base.device));

	nvml_explain(c->nvml, d->failure == DEVICE_LOST, deadline_in_ms(EXPLAIN_MS), text, size);
}

static int query_for_nccl(void *self)
{
	struct cuda *c = self;

	return query(&c->base.device);
}

int cuda_fail(struct cuda *c, const char *doing, int code)
{
	snprintf(c->base.device.why, sizeof(c->base.device.why), "device %d, %s: CUDA: %s", c->ordinal, doing,
		 gpu_text(code));
	return -ENOTRECOVERABLE;
}

static void close_platform(struct platform *p)
{
	nvml_close(((struct cuda *)p)->nvml);
	gpu_close(((struct cuda *)p)->stream);
	free(p);
}

/* From the start: what is reported before anybody watches is not told later. */
static void watch(struct cuda *c)
{
	char bus_id[32];

	if (gpu_bus_id(c->ordinal, bus_id, sizeof(bus_id)))
		snprintf(bus_id, sizeof(bus_id), "unknown");
	c->nvml = nvml_open(c->ordinal, bus_id);
}

int platform_cuda_with(const struct blas_table *blas, const struct nccl_table *nccl, int ordinal,
		       struct platform **platform, char why[PLATFORM_WHY_SIZE])
{
	struct cuda *c = calloc(1, sizeof(*c));
	int code;

	*platform = NULL;
	if (!c) {
		snprintf(why, PLATFORM_WHY_SIZE, "out of memory");
		return -ENOMEM;
	}
	c->blas = blas;
	c->ordinal = ordinal;
	code = gpu_open(ordinal, &c->stream);
	if (code) {
		snprintf(why, PLATFORM_WHY_SIZE, "device %d: CUDA: %s", ordinal, gpu_text(code));
		free(c);
		return -ENODEV;
	}
	c->base = (struct platform){
		.name = "cuda",
		.device = {.name = "cuda", .query = query, .break_down = break_down, .explain = explain},
		.way = {.nccl = nccl, .stream = {.stream = c->stream, .query = query_for_nccl, .self = c}},
		.create = engine_cuda_create,
		.close = close_platform,
	};
	watch(c);
	*platform = &c->base;
	return 0;
}

static unsigned long number_of(const char *variable, unsigned long absent)
{
	const char *text = getenv(variable);

	return text && *text ? strtoul(text, NULL, 10) : absent;
}

/* Several ranks on one device: what NCCL must be told, before it is loaded. Only where it is asked for: a rank may see no other device than its
 * own, and these settings would keep it from the links between them. */
static void share_device(unsigned long local)
{
	static const char *const settings[][2] = {
		{"NCCL_NET", "Socket"},
		{"NCCL_SOCKET_IFNAME", "lo"},
		{"NCCL_NVLS_ENABLE", "0"},
		{"NCCL_MNNVL_ENABLE", "0"},
		{"NCCL_MAX_CTAS", "2"},
		/* Others are said to take twice the time where ranks share slices; not measured here. */
		{"NCCL_PROTO", "Simple"},
		{"NCCL_RAS_ENABLE", "0"}};
	char host[32];

	snprintf(host, sizeof(host), "ckpt-%lu", local);
	setenv("NCCL_HOSTID", host, 0);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		setenv(settings[i][0], settings[i][1], 0);
}

int platform_cuda(struct platform **platform, char why[PLATFORM_WHY_SIZE])
{
	unsigned long local = number_of("LOCAL_RANK", 0);
	const struct blas_table *blas;
	const struct nccl_table *nccl;
	int devices = gpu_count(), rc;

	*platform = NULL;
	if (devices < 1) {
		snprintf(why, PLATFORM_WHY_SIZE, "there is no GPU, or no driver for it");
		return -ENODEV;
	}
	if (number_of("CKPT_SHARE_GPU", 0))
		share_device(local);
	rc = blas_table_load(&blas, why);
	if (rc == 0)
		rc = nccl_table_load(&nccl, why);
	if (rc < 0)
		return rc;
	return platform_cuda_with(blas, nccl, (int)(local % (unsigned long)devices), platform, why);
}
