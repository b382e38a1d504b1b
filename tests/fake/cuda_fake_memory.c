/* Memory of the host and of the fake GPUs. */
#include "cuda_fake_machine.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int fake_host_register(struct cuda_rt *rt, void *base, size_t size)
{
	CALL(rt, fake, code);
	code = code ? code : fake_unsafe(fake);
	for (int i = 0; !code && i < REGISTRATIONS; i++) {
		const char *other = fake->registered[i].base, *from = base;
		if (other && from < other + fake->registered[i].size && other < from + size)
			code = CODE_REGISTERED;
	}
	for (int i = 0; !code && i < REGISTRATIONS; i++) {
		if (fake->registered[i].base)
			continue;
		fake->registered[i].base = base;
		fake->registered[i].size = size;
		fake->live++;
		return 0;
	}
	return code ? code : CODE_INVALID_VALUE;
}

int fake_host_unregister(struct cuda_rt *rt, void *base)
{
	CALL(rt, fake, code);
	for (int i = 0; i < REGISTRATIONS; i++) {
		if (fake->registered[i].base != base)
			continue;
		if (fake_in_use(fake, base, fake->registered[i].size))
			return CODE_BUSY;
		fake->registered[i].base = NULL;
		fake->live--;
		return code;
	}
	return code ? code : CODE_INVALID_VALUE;
}

bool fake_is_registered(struct cuda_fake *fake, const void *at, size_t n)
{
	for (int i = 0; i < REGISTRATIONS; i++) {
		const char *base = fake->registered[i].base, *p = at;
		if (base && p >= base && p + n <= base + fake->registered[i].size)
			return true;
	}
	return false;
}

int fake_leaves_allocation(struct cuda_fake *fake, const void *at, size_t n)
{
	for (unsigned i = 0; i < fake->nallocated; i++) {
		const char *base = fake->allocated[i].base, *p = at, *end = base + fake->allocated[i].size;
		if (p >= base && p < end && n > (size_t)(end - p))
			return CODE_INVALID_VALUE;
	}
	return 0;
}

int fake_leaves_registration(struct cuda_fake *fake, const void *at, size_t n)
{
	return fake_is_registered(fake, at, 1) && !fake_is_registered(fake, at, n) ? CODE_INVALID_VALUE : 0;
}

int fake_allocation(struct cuda_rt *rt, const void *memory, void **base, size_t *size)
{
	DRIVER_CALL(rt, fake, code);
	*size = 0;
	for (unsigned i = 0; !code && i < fake->nallocated; i++) {
		char *from = fake->allocated[i].base;
		if ((const char *)memory < from || (const char *)memory >= from + fake->allocated[i].size)
			continue;
		*base = from;
		*size = fake->allocated[i].size;
	}
	return code;
}

/* There at once: the device layer waits before it uses memory on another stream. Not zeroed. */
int fake_alloc_memory(struct cuda_rt *rt, void **out, size_t size, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	if (!code && fake_stream_of(fake, stream)->gpu != fake_gpu(fake))
		code = CODE_INVALID_HANDLE;
	if (!code && size > fake->spare)
		code = FAKE_CALL_FAILS;
	if (code)
		return code;
	*out = aligned_alloc(256, align_up(size, 256));
	assert(*out);
	memset(*out, 0xa5, size);
	fake->live++;
	return 0;
}

/* At its turn, so that who uses it later is found. */
int fake_free_memory(struct cuda_rt *rt, void *memory, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	struct rt_context *current = fake_context;
	fake->live--;
	if (fake->gpus[fake_stream_of(fake, stream)->gpu].sticky) {
		free(memory);
		return code;
	}
	fake_context = &fake->contexts[fake_stream_of(fake, stream)->gpu]; /* whichever is the thread's */
	(void)fake_enqueue(fake, stream, &(struct op){.kind = OP_FREE, .dst = memory});
	fake_context = current;
	return code;
}
