/* A fake of the CUDA runtime calls that the device layer uses (kernels/cuda_rt.h). Device memory is host memory. Each
 * fake GPU has a thread that runs the operations of its streams: in order within a stream, in a hostile order drawn
 * from the seed between streams, copies in pieces, and everything as late as it likes. Only events order streams, so a
 * dependency that the code forgot shows as wrong bytes. Calls check what the real runtime checks: that a stream belongs
 * to the thread's current GPU (waiting for an event of another is allowed, recording one on a stream of another is not), that values are written to
 * registered memory, that memory is registered once; and what it does not check: that nothing touches memory which is unregistered. Failures can be
 * injected at any call and at any operation; a GPU that dies leaves the others alive, whose streams wait for ever for what it has not done. */
#ifndef CKPT_TESTS_CUDA_FAKE_H
#define CKPT_TESTS_CUDA_FAKE_H

#include "runtime/cuda_rt.h"

enum { FAKE_GPUS = 2, FAKE_CALL_FAILS = 2, FAKE_STICKY = 700 }; /* codes of out of memory, illegal address */

struct cuda_fake;

struct cuda_fake *cuda_fake_new(uint64_t seed);
/* Every stream must be idle or the device dead or held. */
void cuda_fake_free(struct cuda_fake *fake);
/* The table; tests may replace its members. */
struct cuda_rt *cuda_fake_rt(struct cuda_fake *fake);

/* As cudaSetDevice: makes a context where there is none. A thread has none at first. */
void cuda_fake_select(struct cuda_fake *fake, int gpu);
/* The GPUs of which a context was made, a bit for each: what was asked for, and what the runtime made on GPU 0 for a call of a thread that had
 * none. A context that is released counts on. */
unsigned cuda_fake_contexts(struct cuda_fake *fake);
/* A user's stream, of the thread's GPU, which does not synchronise with the default stream. */
struct rt_stream *cuda_fake_stream(struct cuda_fake *fake);
/* Streams of users share so many hardware queues (CUDA_DEVICE_MAX_CONNECTIONS): an operation starts when all that were put into its queue
 * before it have. Those of another priority have a queue of their own. 0, the state at first: each stream has one. */
void cuda_fake_connections(struct cuda_fake *fake, unsigned n);
/* The user records a stream, in the runtime's default mode: a question about an event of a thread that is not relaxed, or memory that it pins,
 * ends it. blocking: the stream synchronises with the default stream of its GPU, which cannot be used meanwhile. */
void cuda_fake_record(struct cuda_fake *fake, struct rt_stream *stream, bool blocking);
/* Ends the recording, and runs it once. A code of the runtime: why there is none. */
int cuda_fake_recorded(struct cuda_fake *fake, struct rt_stream *stream);
/* A user's kernel: runs fn(arg) on the stream. fn must not call the fake. */
void cuda_fake_call(struct cuda_fake *fake, struct rt_stream *stream, void (*fn)(void *arg), void *arg);
/* Holds all GPUs still, or lets them run (the state at first). Whatever is submitted while they are held then runs in
 * an order that depends on the seed alone. */
void cuda_fake_hold(struct cuda_fake *fake, bool held);
/* Waits until every stream is empty, or none of a living GPU can go on. */
void cuda_fake_settle(struct cuda_fake *fake);
/* Runs the kernels themselves from now on, in the emulator; else their references. */
void cuda_fake_emulate(struct cuda_fake *fake);
/* No piece of device memory above this is given. */
void cuda_fake_spare(struct cuda_fake *fake, size_t most);
/* Bytes, so far, of copies of which neither side was pinned: what a GPU cannot do by itself. */
uint64_t cuda_fake_pageable(struct cuda_fake *fake);
/* The device has no stream memory operations; it has no code for the GPU. To be said before a device is opened. */
void cuda_fake_no_writes(struct cuda_fake *fake);
void cuda_fake_no_image(struct cuda_fake *fake);
/* Rows that are further apart than this, or longer, are not copied with one call; to be said before a device is opened. */
void cuda_fake_pitch(struct cuda_fake *fake, size_t most);
/* An allocation of the device: no copy goes beyond its end. What was not said to be one may be any. */
void cuda_fake_allocated(struct cuda_fake *fake, void *base, size_t size);
/* The training fills the GPU: no kernel finds a place but those of users' streams, behind which the device's own wait for ever. */
void cuda_fake_fill(struct cuda_fake *fake, bool full);
/* Called after every operation and piece of one, with the fake's lock held. */
void cuda_fake_watch(struct cuda_fake *fake, void (*fn)(void *arg), void *arg);

/* The n-th call from now (from 1) fails; sticky: and so do all later ones on its GPU, where nothing runs any more. 0: none. */
void cuda_fake_fail_call(struct cuda_fake *fake, uint64_t n, bool sticky);
/* The n-th operation that a GPU completes from now fails instead: a sticky error. */
void cuda_fake_fail_op(struct cuda_fake *fake, uint64_t n);
bool cuda_fake_dead(struct cuda_fake *fake, int gpu);
/* The name of the call at which the failure was injected; NULL: it did not come to it. */
const char *cuda_fake_failed(struct cuda_fake *fake);

uint64_t cuda_fake_calls(struct cuda_fake *fake);    /* so far */
uint64_t cuda_fake_enqueued(struct cuda_fake *fake); /* operations that were put on streams so far */
uint64_t cuda_fake_pending(struct cuda_fake *fake);  /* operations in all streams, but those that free memory */
uint64_t cuda_fake_live(struct cuda_fake *fake); /* streams, events, memory and registrations that were not released */

#endif
