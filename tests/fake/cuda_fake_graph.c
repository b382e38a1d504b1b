/* Recording streams, and running what was recorded. */
#include "cuda_fake_machine.h"

#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>

int fake_capture_begin(struct cuda_rt *rt, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	if (!code && (stream->recording || stream->gpu != fake_gpu(fake)))
		code = CODE_INVALID_HANDLE;
	if (code)
		return code;
	stream->recording = calloc(1, sizeof(*stream->recording));
	assert(stream->recording);
	list_init(&stream->recording->ops);
	stream->recording->gpu = stream->gpu;
	fake->live++;
	return 0;
}

static void graph_drop(struct cuda_fake *fake, struct rt_graph *graph)
{
	fake_ops_free(&graph->ops);
	free(graph);
	fake->live--;
}

int fake_capture_end(struct cuda_rt *rt, struct rt_stream *stream, struct rt_graph **graph)
{
	CALL_STREAM(rt, fake, code);
	struct rt_graph *recorded = stream->recording;
	stream->recording = NULL;
	if (!recorded)
		return code ? code : CODE_INVALID_HANDLE;
	if (code)
		graph_drop(fake, recorded);
	else
		*graph = recorded;
	return code;
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
