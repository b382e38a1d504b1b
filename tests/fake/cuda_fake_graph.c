/* Recording streams, and running what was recorded. */
#include "cuda_fake_machine.h"

#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>

_Thread_local int fake_interaction;

/* ---- users' recordings ---- */

static int break_recording(struct rt_graph *graph, int code)
{
	graph->broken = graph->broken ? graph->broken : CODE_RECORDING_BROKEN;
	return code;
}

int fake_unsafe(struct cuda_fake *fake)
{
	int code = 0;
	list_for(it, &fake->recordings) {
		struct rt_graph *graph = list_entry(it, struct rt_graph, entry);
		if (graph->users && fake_interaction != RT_RELAXED)
			code = break_recording(graph, CODE_RECORDING);
	}
	return code;
}

int fake_implicit(struct cuda_fake *fake, struct rt_stream *stream)
{
	list_for(it, &fake->recordings) {
		struct rt_graph *graph = list_entry(it, struct rt_graph, entry);
		if (graph->blocking && stream == fake->gpus[graph->gpu].standard)
			return break_recording(graph, CODE_IMPLICIT);
	}
	return 0;
}

int fake_stream_records(struct cuda_rt *rt, struct rt_stream *stream, bool *records)
{
	CALL_STREAM(rt, fake, code);
	stream = fake_stream_of(fake, stream);
	*records = stream->recording != NULL;
	list_for(it, &fake->recordings) {
		struct rt_graph *graph = list_entry(it, struct rt_graph, entry);
		*records |= graph->blocking && stream == fake->gpus[graph->gpu].standard;
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

static struct rt_graph *graph_new(struct cuda_fake *fake, struct rt_stream *stream)
{
	struct rt_graph *graph = calloc(1, sizeof(*graph));
	assert(graph);
	list_init(&graph->ops);
	graph->gpu = stream->gpu;
	list_push(&fake->recordings, &graph->entry);
	fake->live++;
	return stream->recording = graph;
}

int fake_capture_begin(struct cuda_rt *rt, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	if (!code && (stream->recording || stream->gpu != fake_gpu(fake)))
		code = CODE_INVALID_HANDLE;
	if (!code)
		(void)graph_new(fake, stream);
	return code;
}

static void graph_drop(struct cuda_fake *fake, struct rt_graph *graph)
{
	fake->nodes -= graph->nodes;
	fake_ops_free(&graph->ops);
	free(graph);
	fake->live--;
}

/* Streams that were drawn into it are as they were. */
static int end_recording(struct cuda_fake *fake, struct rt_graph *graph)
{
	list_for(it, &fake->streams) {
		struct rt_stream *stream = list_entry(it, struct rt_stream, entry);
		if (stream->recording == graph)
			stream->recording = NULL;
	}
	list_remove(&graph->entry);
	return graph->broken;
}

int fake_capture_end(struct cuda_rt *rt, struct rt_stream *stream, struct rt_graph **graph)
{
	CALL_STREAM(rt, fake, code);
	struct rt_graph *recorded = stream->recording;
	if (!recorded)
		return code ? code : CODE_INVALID_HANDLE;
	int broken = end_recording(fake, recorded);
	code = code ? code : broken;
	if (code) {
		graph_drop(fake, recorded);
		return code;
	}
	list_for(it, &recorded->ops)
		recorded->nodes++;
	fake->nodes += recorded->nodes;
	*graph = recorded;
	return 0;
}

int fake_graph_launch(struct cuda_rt *rt, struct rt_graph *graph, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	list_for(it, &graph->ops) {
		if (!code)
			code = fake_enqueue(fake, stream, list_entry(it, struct op, entry));
	}
	return code;
}

int fake_graph_destroy(struct cuda_rt *rt, struct rt_graph *graph)
{
	CALL_ON(rt, fake, code, graph->gpu);
	graph_drop(fake, graph);
	return code;
}

/* ---- the test's side ---- */

void cuda_fake_record(struct cuda_fake *fake, struct rt_stream *stream, bool blocking)
{
	LOCK_SCOPE(&fake->lock);
	struct rt_graph *graph = graph_new(fake, stream);
	graph->users = true;
	graph->blocking = blocking;
}

int cuda_fake_recorded(struct cuda_fake *fake, struct rt_stream *stream)
{
	LOCK_SCOPE(&fake->lock);
	struct rt_graph *graph = stream->recording;
	int code = end_recording(fake, graph);
	list_for(it, &graph->ops) {
		if (!code)
			code = fake_enqueue(fake, stream, list_entry(it, struct op, entry));
	}
	graph_drop(fake, graph);
	return code;
}
