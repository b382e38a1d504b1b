/* Inside the fake: the machine (cuda_fake.c), what tests do to it (cuda_fake_control.c), and the calls on it (cuda_fake_calls.c,
 * cuda_fake_memory.c, cuda_fake_recording.c). Everything under fake.lock. */
#ifndef CKPT_TESTS_CUDA_FAKE_MACHINE_H
#define CKPT_TESTS_CUDA_FAKE_MACHINE_H

#include "cuda_fake.h"

#include "base/list.h"

#include <pthread.h>

enum { REGISTRATIONS = 16, ALLOCATIONS = 16 };

enum op_kind { OP_COPY, OP_WRITE, OP_RECORD, OP_WAIT, OP_DIGEST, OP_PACK, OP_UNPACK, OP_FREE, OP_CALL };

struct op {
	struct list entry;
	uint64_t turn_in_queue;
	bool started;
	enum op_kind kind;
	/* copy: rows of row_bytes; `moved` bytes of all rows are there. pack: dst is the base; free: the memory */
	char *dst;
	const char *src;
	size_t dst_pitch, src_pitch, row_bytes, rows, moved;
	uint64_t value;
	size_t width;
	struct rt_event *event;
	uint64_t turn;          /* of the event */
	struct gpu_table table; /* digest, pack: `units` from `unit` on */
	uint64_t unit, units;
	uint64_t *leaves;
	uint8_t *changed; /* digest writes it, pack reads it */
	void (*fn)(void *arg);
	void *arg;
};

struct rt_event {
	uint64_t recorded, completed; /* turns */
	unsigned holders;             /* the owner and the operations that name it */
	int gpu;
	struct recording *recorded_in; /* NULL: when it was recorded last, its stream ran */
};

struct rt_context {
	int gpu;
	bool made;
	unsigned retained;
};

struct recording {
	struct list entry; /* in fake.recordings, while it is made */
	struct list ops;
	int gpu;
	bool blocking;
	int broken; /* why it cannot be ended */
};

struct rt_stream {
	struct list entry; /* in fake.streams */
	struct list ops;
	struct recording *recording;
	int gpu;
	bool destroyed; /* goes when it is empty */
	bool urgent;    /* of the greatest priority */
	uint64_t number;
};

struct executor {
	struct cuda_fake *fake;
	pthread_t thread;
	struct rt_stream *favourite, *standard;
	int gpu;
	int sticky;     /* the code with which it died */
	uint64_t burst; /* steps for which the favourite keeps its turn */
};

struct cuda_fake {
	struct cuda_rt rt; /* first */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct executor gpus[FAKE_GPUS];
	struct rt_context contexts[FAKE_GPUS];
	struct list streams, recordings;
	struct {
		char *base;
		size_t size;
	} registered[REGISTRATIONS];
	struct {
		char *base;
		size_t size;
	} allocated[ALLOCATIONS];
	unsigned nallocated;
	unsigned connections;
	uint64_t nstreams, enqueued;
	uint64_t rng, calls, ops, live, pending, frees; /* frees: of those pending */
	uint64_t fail_call, fail_op;
	size_t spare;      /* the most that one piece of device memory may take */
	size_t pitch;      /* the most of a copy of rows */
	bool full;         /* of the training's kernels */
	uint64_t pageable; /* bytes of copies, as cuda_fake_pageable says */
	bool fail_sticky, held, stop, emulate, no_writes, no_image;
	const char *failed;
	void (*watch)(void *arg);
	void *watch_arg;
};

/* The calls, over one fake. */
extern const struct cuda_rt cuda_fake_table;
/* Of the calling thread. */
extern _Thread_local struct rt_context *fake_context;
/* The GPU of the thread's context; GPU 0, where it has none, and makes one there. */
int fake_gpu(struct cuda_fake *fake);

struct rt_stream *fake_stream_new(struct cuda_fake *fake, int gpu);
/* With all that is still on it. */
void fake_stream_drop(struct cuda_fake *fake, struct rt_stream *stream);
/* It is of a dead GPU, or waits for one. */
bool fake_is_lost(struct cuda_fake *fake, struct rt_stream *stream);
/* The thread's default stream for NULL. */
struct rt_stream *fake_stream_of(struct cuda_fake *fake, struct rt_stream *stream);
void fake_event_put(struct rt_event *event);
void fake_ops_free(struct list *ops);
/* Puts a copy of *op on the stream, or into its recording; a code when the stream is another GPU's, unless the operation only waits
 * or is waited for. */
int fake_enqueue(struct cuda_fake *fake, struct rt_stream *stream, const struct op *op);

/* The thread of a GPU, a struct executor. */
void *fake_execute(void *gpu);
/* Whether a GPU that lives has anything to do. */
bool fake_can_go_on(struct cuda_fake *fake);
/* Whether anything that is still to run touches these bytes. */
bool fake_in_use(struct cuda_fake *fake, const char *base, size_t size);

/* Every call of the runtime passes here first. gpu: whose stream or event it is about. */
int fake_enter_call(struct cuda_fake *fake, const char *name, int gpu);
/* A call of the driver, which makes no context. A thread can turn its back on a dead GPU. */
int fake_enter_driver(struct cuda_fake *fake, const char *name);
int fake_touch(struct cuda_fake *fake, const struct rt_stream *stream);

#define DRIVER_CALL(rt, fake, code)                                                                                    \
	struct cuda_fake *fake = (struct cuda_fake *)(rt);                                                             \
	LOCK_SCOPE(&fake->lock);                                                                                       \
	int code = fake_enter_driver(fake, __func__)
#define CALL_ON(rt, fake, code, gpu)                                                                                   \
	struct cuda_fake *fake = (struct cuda_fake *)(rt);                                                             \
	LOCK_SCOPE(&fake->lock);                                                                                       \
	int code = fake_enter_call(fake, __func__, gpu)
#define CALL(rt, fake, code) CALL_ON(rt, fake, code, fake_gpu(fake))
#define CALL_STREAM(rt, fake, code) CALL_ON(rt, fake, code, stream ? fake_touch(fake, stream) : fake_gpu(fake))

/* How calls of the thread get on with recordings: the runtime's numbers. */
extern _Thread_local int fake_interaction;
/* Of a call that ends the recordings of users where the thread is not relaxed; a code then. */
int fake_unsafe(struct cuda_fake *fake);
/* A code where a user's blocking stream records, and this is the default stream; the recording is over then. */
int fake_implicit(struct cuda_fake *fake, struct rt_stream *stream);
/* The bytes are registered. */
bool fake_is_registered(struct cuda_fake *fake, const void *at, size_t n);
int fake_host_register(struct cuda_rt *rt, void *base, size_t size);
int fake_host_unregister(struct cuda_rt *rt, void *base);
/* 0, or the code for a copy that begins in a registration and does not end there. */
int fake_leaves_registration(struct cuda_fake *fake, const void *at, size_t n);
/* A code where the bytes leave the allocation that they begin in. */
int fake_leaves_allocation(struct cuda_fake *fake, const void *at, size_t n);
int fake_allocation(struct cuda_rt *rt, const void *memory, void **base, size_t *size);
int fake_alloc_memory(struct cuda_rt *rt, void **out, size_t size, struct rt_stream *stream);
int fake_free_memory(struct cuda_rt *rt, void *memory, struct rt_stream *stream);
int fake_stream_records(struct cuda_rt *rt, struct rt_stream *stream, bool *records);
int fake_interaction_swap(struct cuda_rt *rt, int *mode);

enum {
	CODE_INVALID_VALUE = 1,
	CODE_NO_DEVICE = 100,
	CODE_INVALID_DEVICE = 101,
	CODE_INVALID_HANDLE = 400,
	CODE_NO_IMAGE = 209,
	CODE_BUSY = 600, /* no code of the runtime: it waits for ever, or goes wrong */
	CODE_REGISTERED = 712,
	CODE_UNSUPPORTED = 801,
	CODE_RECORDING = 900,
	CODE_RECORDING_BROKEN = 901,
	CODE_MERGE = 902,
	CODE_UNJOINED = 904,
	CODE_ISOLATION = 905,
	CODE_IMPLICIT = 906,
	CODE_RECORDED_EVENT = 907
};

#endif
