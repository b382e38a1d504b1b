/* How a device is ordered by a stream of another GPU. */
#include "device_cuda.h"

#include "base/log.h"

/* What is put on such a stream runs when the graph does, again and again, and would draw the device's own stream into it. */
static int refuse_recording(struct device *dev, struct rt_stream *stream, struct err *err)
{
	bool records = false;
	int rc = cuda_check(dev, dev->rt->stream_records(dev->rt, stream, &records),
			    "asking whether the stream records", err);
	if (rc < 0 || !records)
		return rc;
	return err_set(err, -EINVAL, "GPU %d: %s is recording a graph: call this outside of the recording",
		       dev->ordinal, stream ? "the stream" : "the default stream, or one that synchronises with it,");
}

int cuda_foreign(struct device *dev, struct rt_stream *stream, bool *foreign, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	int ordinal = dev->ordinal, rc = refuse_recording(dev, stream, err);
	/* A driver that cannot tell refuses to record an event of this device on a stream of another. */
	if (rc == 0 && stream && rt->stream_device)
		rc = cuda_check(dev, rt->stream_device(rt, stream, &ordinal), "asking whose the stream is", err);
	*foreign = rc == 0 && ordinal != dev->ordinal;
	return *foreign ? refuse_recording(dev, NULL, err) : rc;
}

/* The event lives until it has come, whoever has destroyed it. */
static int wait_across(struct device *dev, struct rt_stream *stream, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	struct rt_event *event;
	struct rt_context *theirs;
	struct err why;
	int rc = cuda_check(dev, rt->stream_context(rt, stream, &theirs), "asking whose the stream is", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->make_current(rt, theirs), "turning to the stream's GPU", err);
	if (rc < 0)
		return rc;
	rc = cuda_check(dev, rt->event_create(rt, &event), "creating an event", err);
	int back = cuda_check(dev, rt->make_current(rt, dev->context), "turning back to it", rc < 0 ? NULL : err);
	if (rc < 0)
		return rc;
	rc = back;
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, event, stream), "recording an event", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->stream_wait(rt, NULL, event), "waiting for an event", err);
	if (cuda_check(dev, rt->event_destroy(rt, event), "destroying an event", &why) < 0)
		log_warn("%s", why.text);
	return rc;
}

int cuda_stand_in(struct device *dev, struct rt_stream *stream, struct rt_stream **own, struct err *err)
{
	bool foreign;
	int rc = cuda_foreign(dev, stream, &foreign, err);
	*own = foreign ? NULL : stream;
	return rc == 0 && foreign ? wait_across(dev, stream, err) : rc;
}
