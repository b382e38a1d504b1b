/* How a device is ordered by a stream of another GPU. */
#include "device_cuda.h"

#include "base/log.h"

int cuda_foreign(struct device *dev, struct rt_stream *stream, bool *foreign, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	int ordinal = dev->ordinal, rc = 0;
	/* A driver that cannot tell refuses to record an event of this device on a stream of another. */
	if (stream && rt->stream_device)
		rc = cuda_check(dev, rt->stream_device(rt, stream, &ordinal), "asking whose the stream is", err);
	*foreign = rc == 0 && ordinal != dev->ordinal;
	return rc;
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
