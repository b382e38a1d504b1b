#include "cuda_pinned.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define ignore_leak(memory) __lsan_ignore_object(memory)
#else
#define ignore_leak(memory) ((void)(memory))
#endif

int cuda_check(struct device *dev, int code, const char *what, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	if (!code)
		return 0;
	return err_set(err, rt->errno_of(rt, code), "GPU %d: %s: %s", dev->ordinal, what, rt->text_of(rt, code));
}

static void put_back(struct device *dev, const struct cuda_former *former)
{
	struct err err;
	if (former->context != dev->context && cuda_check(dev, dev->rt->make_current(dev->rt, former->context),
							  "giving the thread its context back", &err) < 0)
		log_warn("%s", err.text);
}

int cuda_enter(struct device *dev, struct cuda_former *former, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_check(dev, rt->current(rt, &former->context), "asking for the thread's context", err);
	if (rc == 0 && former->context != dev->context)
		rc = cuda_check(dev, rt->make_current(rt, dev->context), "making its context current", err);
	if (rc < 0)
		return rc;
	former->interaction = RT_RELAXED;
	rc = cuda_check(dev, rt->interaction(rt, &former->interaction), "not to end recordings", err);
	if (rc < 0)
		put_back(dev, former);
	return rc;
}

void cuda_leave(struct device *dev, const struct cuda_former *former)
{
	struct err err;
	int interaction = former->interaction;
	if (cuda_check(dev, dev->rt->interaction(dev->rt, &interaction), "leaving recordings as they were", &err) < 0)
		log_warn("%s", err.text);
	put_back(dev, former);
}

/* Asks until the answer is another than "not yet". */
static int wait_for(struct device *dev, int (*ask)(struct device *dev, void *what), void *what, uint64_t patience,
		    struct err *err)
{
	enum { PAUSE_MIN = 10000, PAUSE_MAX = 1000000 };
	uint64_t deadline = clock_deadline(patience);
	struct timespec pause = {.tv_nsec = PAUSE_MIN};
	int failed = 0;
	for (;;) {
		int code = ask(dev, what), before = failed;
		/* An error that does not stay was the question's own: the stream still runs. */
		if (code == 0 || (code != RT_NOT_READY && before))
			return cuda_check(dev, before ? before : code, "waiting for its copies", err);
		if (code != RT_NOT_READY) {
			failed = code;
			continue;
		}
		if (clock_now() >= deadline)
			return err_set(err, -ETIMEDOUT, "GPU %d: its copies did not end within %llu ms", dev->ordinal,
				       (unsigned long long)(patience / CLOCK_NS_PER_MS));
		nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec * 2 > PAUSE_MAX ? PAUSE_MAX : pause.tv_nsec * 2;
	}
}

static int ask_stream(struct device *dev, void *stream)
{
	return dev->rt->stream_query(dev->rt, stream);
}

static int ask_event(struct device *dev, void *event)
{
	return dev->rt->event_query(dev->rt, event);
}

int cuda_drain(struct device *dev, struct rt_stream *stream, struct err *err)
{
	return wait_for(dev, ask_stream, stream, dev->rt->patience, err);
}

int cuda_drain_at_end(struct device *dev, struct err *err)
{
	enum { HUNG = 256 };
	int rc = wait_for(dev, ask_stream, dev->copies, dev->rt->patience / (dev->hung ? HUNG : 1), err);
	dev->hung = rc == -ETIMEDOUT;
	return rc;
}

bool cuda_is_idle(struct device *dev)
{
	struct err err;
	return wait_for(dev, ask_stream, dev->copies, 0, &err) != -ETIMEDOUT;
}

int cuda_await(struct device *dev, struct rt_event *event, struct err *err)
{
	return wait_for(dev, ask_event, event, dev->rt->patience, err);
}

void cuda_lose(struct device *dev, void *memory, bool registered)
{
	if (!memory || dev->nlost == LOST_MAX)
		return;
	dev->lost[dev->nlost].memory = memory;
	dev->lost[dev->nlost++].registered = registered;
}

/* Before memory goes away that the device may still touch. There is nobody to return an error to. false: it hangs, and may touch it yet; one
 * that is dead touches nothing. */
static bool drain_or_warn(struct device *dev)
{
	struct err err;
	int rc = cuda_drain_at_end(dev, &err);
	if (rc < 0)
		log_warn("%s", err.text);
	return rc != -ETIMEDOUT;
}

/* It stays for the rest of the process's life, which is no leak that anybody could mend. */
static void leave_lost(struct device *dev)
{
	for (unsigned i = 0; i < dev->nlost; i++)
		ignore_leak(dev->lost[i].memory);
}

/* The device is entered. */
static void free_lost(struct device *dev)
{
	struct err err;
	if (dev->nlost && !drain_or_warn(dev)) {
		leave_lost(dev);
		return;
	}
	for (unsigned i = 0; i < dev->nlost; i++) {
		void *memory = dev->lost[i].memory;
		if (dev->lost[i].registered &&
		    cuda_check(dev, dev->rt->host_unregister(dev->rt, memory), "unpinning memory", &err) < 0)
			log_warn("%s", err.text);
		free(memory);
	}
}

int cuda_tell(struct device *dev, void *at, uint64_t value, unsigned width, const char *what, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	if (!dev->traits.writes)
		return cuda_check(dev, rt->tell(rt, dev->copies, at, value, width), what, err);
	return cuda_check(dev,
			  width == 8 ? rt->write64(rt, dev->copies, at, value)
				     : rt->write32(rt, dev->copies, at, (uint32_t)value),
			  what, err);
}

/* Also so that no save does, which would wait for all that the device is at. */
static int load_kernels(struct device *dev, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	struct err why;
	int rc = cuda_check(dev, rt->load(rt), "loading kernels", &why);
	if (rc < 0)
		return err_set(err, rc,
			       "%s (its compute capability is %d.%d; this build has kernels for 8.0 and newer)",
			       why.text, dev->traits.major, dev->traits.minor);
	return 0;
}

static int make_handles(struct device *dev, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	struct cuda_former former;
	int rc = cuda_check(dev, rt->context_retain(rt, dev->ordinal, &dev->context), "making a context", err);
	if (rc == 0)
		rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	rc = cuda_check(dev, rt->traits(rt, dev->ordinal, &dev->traits), "asking what it can do", err);
	if (rc == 0)
		rc = load_kernels(dev, err);
	if (rc == 0)
		rc = cuda_check(dev, rt->pitch_max(rt, &dev->pitch_max), "asking how it copies rows", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->stream_create(rt, &dev->copies), "creating a stream", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_create(rt, &dev->order), "creating an event", err);
	cuda_leave(dev, &former);
	return rc;
}

static int probe(struct device *dev, struct err *err)
{
	int devices = 0;
	int rc = cuda_check(dev, dev->rt->count(dev->rt, &devices), "counting GPUs", err);
	if (rc == 0 && (dev->ordinal < 0 || dev->ordinal >= devices))
		rc = err_set(err, -ENODEV, "there is no GPU %d: the driver shows %d", dev->ordinal, devices);
	return rc;
}

void device_cuda_release(struct device *dev)
{
	struct cuda_rt *rt = dev->rt;
	struct err err;
	struct cuda_former former;
	if (atomic_fetch_sub(&dev->holders, 1) > 1)
		return;
	bool entered = dev->context && cuda_enter(dev, &former, &err) == 0;
	/* A device that is dead, or that nobody can turn to, touches nothing; to one that hangs all is left. */
	cuda_restoring_free(dev, !entered || cuda_drain_at_end(dev, &err) != -ETIMEDOUT);
	if (entered)
		free_lost(dev);
	cuda_pinned_forget(dev); /* also when it is dead: nobody may ask it any more */
	if (dev->order && cuda_check(dev, rt->event_destroy(rt, dev->order), "destroying an event", &err) < 0)
		log_warn("%s", err.text);
	if (dev->copies && cuda_check(dev, rt->stream_destroy(rt, dev->copies), "destroying a stream", &err) < 0)
		log_warn("%s", err.text);
	if (entered)
		cuda_leave(dev, &former);
	if (dev->context && cuda_check(dev, rt->context_release(rt, dev->ordinal), "releasing its context", &err) < 0)
		log_warn("%s", err.text);
	if (rt->release)
		rt->release(rt);
	free(dev);
}

int device_cuda_open(struct cuda_rt *rt, int ordinal, struct device **out, struct err *err)
{
	*out = NULL;
	struct device *dev = calloc(1, sizeof(*dev));
	if (!dev) {
		if (rt->release)
			rt->release(rt);
		return err_set(err, -ENOMEM, "out of memory for GPU %d", ordinal);
	}
	dev->rt = rt;
	dev->ordinal = ordinal;
	atomic_init(&dev->holders, 1);
	int rc = probe(dev, err);
	if (rc == 0)
		rc = make_handles(dev, err);
	if (rc < 0) {
		device_cuda_release(dev);
		return rc;
	}
	*out = dev;
	return 0;
}

static int cuda_open(int ordinal, struct device **out, struct err *err)
{
#ifdef CKPT_HAVE_CUDA
	struct cuda_rt *rt;
	*out = NULL;
	int rc = cuda_rt_real(&rt, err);
	return rc < 0 ? rc : device_cuda_open(rt, ordinal, out, err);
#else
	*out = NULL;
	return err_set(err, -ENODEV, "GPU %d: this build was made without the CUDA toolkit", ordinal);
#endif
}

static void cuda_close(struct device *dev)
{
	struct err err;
	struct cuda_former former;
	if (!dev)
		return;
	atomic_store(&dev->closed, true);
	if (cuda_enter(dev, &former, &err) == 0) {
		(void)drain_or_warn(dev);
		cuda_leave(dev, &former);
	} else {
		log_warn("%s", err.text);
	}
	device_cuda_release(dev);
}

static bool cuda_digests(const struct device *dev)
{
	return dev->rt->digest != NULL;
}

static int cuda_attach(struct device *dev, void *base, size_t size, struct err *err)
{
	struct cuda_former former;
	int rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	rc = cuda_pin(dev, base, size, err);
	cuda_leave(dev, &former);
	return rc;
}

static void cuda_detach(struct device *dev, void *base)
{
	struct err err;
	struct cuda_former former;
	bool entered = cuda_enter(dev, &former, &err) == 0;
	cuda_unpin(dev, base, drain_or_warn(dev));
	if (entered)
		cuda_leave(dev, &former);
}

/* Captures and restores of a device share one stream. Where the thread cannot even turn to the device, that is the answer: it is dead. */
static int cuda_idle(struct device *dev, uint64_t deadline, struct err *err)
{
	uint64_t now = clock_now();
	struct cuda_former former;
	int rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	rc = wait_for(dev, ask_stream, dev->copies, deadline > now ? deadline - now : 0, err);
	cuda_leave(dev, &former);
	/* Whoever waits in slices knows how long it was. */
	return rc == -ETIMEDOUT ? err_set(err, rc, "GPU %d: its copies have not ended", dev->ordinal) : rc;
}

const struct device_ops device_cuda_ops = {
	.name = "cuda",
	.open = cuda_open,
	.close = cuda_close,
	.digests = cuda_digests,
	.idle = cuda_idle,
	.arena_attach = cuda_attach,
	.arena_detach = cuda_detach,
	.plan_new = cuda_plan_new,
	.plan_free = cuda_plan_free,
	.plan_rebind = cuda_plan_rebind,
	.plan_launch = cuda_plan_launch,
	.plan_fence = cuda_plan_fence,
	.plan_cancel = cuda_plan_cancel,
	.restore = cuda_restore,
	.restore_put = cuda_restore_put,
	.restore_end = cuda_restore_end,
};

const struct device_ops *device_cuda(void)
{
#ifdef CKPT_HAVE_CUDA
	return &device_cuda_ops;
#else
	return NULL;
#endif
}
