/* Small tensors and strided rows, gathered: one kernel on the caller's stream, in front of the digests, packs them into a
 * buffer of the device, and the copy engine takes them from there. So no kernel stands between the copies of a capture,
 * where it would wait for its turn on a GPU that the training fills. The buffer, the room, is bounded; plans of a device
 * share it and take turns: a launch that fills it waits for the last copy out of it. */
#ifndef CKPT_KERNELS_CUDA_GATHER_H
#define CKPT_KERNELS_CUDA_GATHER_H

#include "cuda_route.h"

/* Lives as long as any plan uses it; one that needs more makes a larger one for the plans to come. */
struct cuda_room {
	void *memory;
	size_t size;
	unsigned users;
	struct rt_event *read; /* of the device's own stream: behind the last copy out of it */
};

struct cuda_gather {
	struct cuda_room *room;  /* NULL: nothing is gathered */
	struct cuda_table table; /* what is gathered, with its place in the room */
};

/* Chooses what is gathered among the spans of the route, and puts the places in the room in their stead. Where the device has no memory to
 * spare nothing is, which a line of the log says once. After an error it is to be freed as well. The device is entered. */
int cuda_gather_init(struct cuda_gather *gather, struct device *dev, struct cuda_route *route, size_t nparts,
		     struct err *err);
/* The device is entered, and its own stream drained or ordered behind all that gathered. */
void cuda_gather_free(struct cuda_gather *gather, struct device *dev);

/* Puts the gathering on the caller's stream; nothing where nothing is gathered. */
int cuda_gather_issue(const struct cuda_gather *gather, struct device *dev, struct rt_stream *stream, struct err *err);
/* All copies out of the room are on the device's own stream. */
int cuda_gather_read(const struct cuda_gather *gather, struct device *dev, struct err *err);

#endif
