/* Streams that a user records, and running what was recorded. */
#include "cuda_fake_machine.h"

#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>

_Thread_local int fake_interaction;

/* ---- what breaks a recording ---- */

static int break_recording(struct recording *recording, int code)
{
	recording->broken = recording->broken ? recording->broken : CODE_RECORDING_BROKEN;
	return code;
}

int fake_unsafe(struct cuda_fake *fake)
{
	int code = 0;
	list_for(it, &fake->recordings) {
		struct recording *recording = list_entry(it, struct recording, entry);
		if (fake_interaction != RT_RELAXED)
			code = break_recording(recording, CODE_RECORDING);
	}
	return code;
}

int fake_implicit(struct cuda_fake *fake, struct rt_stream *stream)
{
	list_for(it, &fake->recordings) {
		struct recording *recording = list_entry(it, struct recording, entry);
		if (recording->blocking && stream == fake->gpus[recording->gpu].standard)
			return break_recording(recording, CODE_IMPLICIT);
	}
	return 0;
}

int fake_stream_records(struct cuda_rt *rt, struct rt_stream *stream, bool *records)
{
	CALL_STREAM(rt, fake, code);
	stream = fake_stream_of(fake, stream);
	*records = stream->recording != NULL;
	list_for(it, &fake->recordings) {
		struct recording *recording = list_entry(it, struct recording, entry);
		*records |= recording->blocking && stream == fake->gpus[recording->gpu].standard;
	}
	return code;
}

int fake_interaction_swap(struct cuda_rt *rt, int *mode)
{
	DRIVER_CALL(rt, fake, code);
	int former = fake_interaction;
	if (!code)
		fake_interaction = *mode;
	*mode = former;
	return code;
}

/* ---- recording ---- */

static struct recording *recording_new(struct cuda_fake *fake, struct rt_stream *stream)
{
	struct recording *recording = calloc(1, sizeof(*recording));
	assert(recording);
	list_init(&recording->ops);
	recording->gpu = stream->gpu;
	list_push(&fake->recordings, &recording->entry);
	fake->live++;
	return stream->recording = recording;
}

static void recording_drop(struct cuda_fake *fake, struct recording *recording)
{
	fake_ops_free(&recording->ops);
	free(recording);
	fake->live--;
}

/* Streams that were drawn into it are as they were. */
static int end_recording(struct cuda_fake *fake, struct recording *recording)
{
	list_for(it, &fake->streams) {
		struct rt_stream *stream = list_entry(it, struct rt_stream, entry);
		if (stream->recording == recording)
			stream->recording = NULL;
	}
	list_remove(&recording->entry);
	return recording->broken;
}

/* ---- the test's side ---- */

void cuda_fake_record(struct cuda_fake *fake, struct rt_stream *stream, bool blocking)
{
	LOCK_SCOPE(&fake->lock);
	struct recording *recording = recording_new(fake, stream);
	recording->blocking = blocking;
}

int cuda_fake_recorded(struct cuda_fake *fake, struct rt_stream *stream)
{
	LOCK_SCOPE(&fake->lock);
	struct recording *recording = stream->recording;
	int code = end_recording(fake, recording);
	list_for(it, &recording->ops) {
		if (!code)
			code = fake_enqueue(fake, stream, list_entry(it, struct op, entry));
	}
	recording_drop(fake, recording);
	return code;
}
