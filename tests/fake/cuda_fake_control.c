/* The test's side of the fake. */
#include "cuda_fake_machine.h"

#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>

static bool any_died(const struct cuda_fake *fake)
{
	bool died = false;
	for (int i = 0; i < FAKE_GPUS; i++)
		died |= fake->gpus[i].sticky != 0;
	return died;
}

struct cuda_fake *cuda_fake_new(uint64_t seed)
{
	struct cuda_fake *fake = calloc(1, sizeof(*fake));
	assert(fake);
	fake->rt = cuda_fake_table;
	fake->spare = SIZE_MAX;
	fake->pitch = INT32_MAX;
	fake->rng = (seed + 1) * 0x9e3779b97f4a7c15ull;
	pthread_mutex_init(&fake->lock, NULL);
	pthread_cond_init(&fake->changed, NULL);
	list_init(&fake->streams);
	list_init(&fake->recordings);
	fake_interaction = 0;
	fake_context = NULL;
	for (int i = 0; i < FAKE_GPUS; i++) {
		struct executor *gpu = &fake->gpus[i];
		fake->contexts[i].gpu = i;
		*gpu = (struct executor){.fake = fake, .gpu = i, .standard = fake_stream_new(fake, i)};
		fake->live--; /* the default stream is nobody's */
		int rc = pthread_create(&gpu->thread, NULL, fake_execute, gpu);
		assert(rc == 0);
	}
	return fake;
}

void cuda_fake_free(struct cuda_fake *fake)
{
	pthread_mutex_lock(&fake->lock);
	fake->stop = true;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
	for (int i = 0; i < FAKE_GPUS; i++)
		pthread_join(fake->gpus[i].thread, NULL);
	list_for_safe(it, &fake->streams)
		fake_stream_drop(fake, list_entry(it, struct rt_stream, entry));
	pthread_cond_destroy(&fake->changed);
	pthread_mutex_destroy(&fake->lock);
	free(fake);
}

struct cuda_rt *cuda_fake_rt(struct cuda_fake *fake)
{
	return &fake->rt;
}

void cuda_fake_select(struct cuda_fake *fake, int gpu)
{
	LOCK_SCOPE(&fake->lock);
	fake_context = &fake->contexts[gpu];
	fake_context->made = true;
}

unsigned cuda_fake_contexts(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	unsigned made = 0;
	for (int i = 0; i < FAKE_GPUS; i++)
		made |= (unsigned)fake->contexts[i].made << i;
	return made;
}

struct rt_stream *cuda_fake_stream(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake_stream_new(fake, fake_gpu(fake));
}

void cuda_fake_connections(struct cuda_fake *fake, unsigned n)
{
	LOCK_SCOPE(&fake->lock);
	fake->connections = n;
}

void cuda_fake_call(struct cuda_fake *fake, struct rt_stream *stream, void (*fn)(void *arg), void *arg)
{
	LOCK_SCOPE(&fake->lock);
	int code = fake_enqueue(fake, stream, &(struct op){.kind = OP_CALL, .fn = fn, .arg = arg});
	assert(code == 0);
}

void cuda_fake_hold(struct cuda_fake *fake, bool held)
{
	LOCK_SCOPE(&fake->lock);
	fake->held = held;
	pthread_cond_broadcast(&fake->changed);
}

void cuda_fake_settle(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	while (any_died(fake) || fake->full ? fake_can_go_on(fake) : fake->pending != 0)
		pthread_cond_wait(&fake->changed, &fake->lock);
}

void cuda_fake_emulate(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	fake->emulate = true;
}

void cuda_fake_spare(struct cuda_fake *fake, size_t most)
{
	LOCK_SCOPE(&fake->lock);
	fake->spare = most;
}

uint64_t cuda_fake_pageable(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake->pageable;
}

void cuda_fake_no_writes(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	fake->no_writes = true;
}

void cuda_fake_no_image(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	fake->no_image = true;
}

void cuda_fake_pitch(struct cuda_fake *fake, size_t most)
{
	LOCK_SCOPE(&fake->lock);
	fake->pitch = most;
}

void cuda_fake_allocated(struct cuda_fake *fake, void *base, size_t size)
{
	LOCK_SCOPE(&fake->lock);
	assert(fake->nallocated < ALLOCATIONS);
	fake->allocated[fake->nallocated].base = base;
	fake->allocated[fake->nallocated++].size = size;
}

void cuda_fake_fill(struct cuda_fake *fake, bool full)
{
	LOCK_SCOPE(&fake->lock);
	fake->full = full;
	pthread_cond_broadcast(&fake->changed);
}

void cuda_fake_watch(struct cuda_fake *fake, void (*fn)(void *arg), void *arg)
{
	LOCK_SCOPE(&fake->lock);
	fake->watch = fn;
	fake->watch_arg = arg;
}

void cuda_fake_fail_call(struct cuda_fake *fake, uint64_t n, bool sticky)
{
	LOCK_SCOPE(&fake->lock);
	fake->fail_call = n ? fake->calls + n : 0;
	fake->fail_sticky = sticky;
}

void cuda_fake_fail_op(struct cuda_fake *fake, uint64_t n)
{
	LOCK_SCOPE(&fake->lock);
	fake->fail_op = n ? fake->ops + n : 0;
}

bool cuda_fake_dead(struct cuda_fake *fake, int gpu)
{
	LOCK_SCOPE(&fake->lock);
	return fake->gpus[gpu].sticky;
}

const char *cuda_fake_failed(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake->failed;
}

uint64_t cuda_fake_calls(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake->calls;
}

uint64_t cuda_fake_enqueued(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake->enqueued;
}

uint64_t cuda_fake_pending(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake->pending - fake->frees;
}

uint64_t cuda_fake_live(struct cuda_fake *fake)
{
	LOCK_SCOPE(&fake->lock);
	return fake->live;
}
