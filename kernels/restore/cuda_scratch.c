#include "cuda_scratch.h"

#include "base/log.h"
#include "format/tensor/digest.h"

#include <stdlib.h>

enum { PAGE = 4096, BOUNCE = PIECE_BOUNCED + LEAF_SIZE };

static int make_pinned(struct device *dev, void **out, size_t size, const char *what, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	void *memory = aligned_alloc(PAGE, size);
	if (!memory)
		return err_set(err, -ENOMEM, "out of memory for %s", what);
	int rc = cuda_check(dev, rt->host_register(rt, memory, size), "pinning room for a restore", err);
	if (rc < 0)
		free(memory);
	else
		*out = memory;
	return rc;
}

int cuda_scratch_make(struct device *dev, struct cuda_scratch *scratch, bool bounce, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	int rc = 0;
	for (int i = 0; rc == 0 && i < SCRATCH_PIECES; i++)
		if (!scratch->events[i])
			rc = cuda_check(dev, rt->event_create(rt, &scratch->events[i]), "creating an event", err);
	if (rc == 0 && !scratch->digests)
		rc = make_pinned(dev, (void **)&scratch->digests,
				 sizeof(*scratch->digests) * SCRATCH_PIECES * SCRATCH_DIGESTS,
				 "the digests of what is restored", err);
	if (rc == 0 && bounce && !scratch->bounce)
		rc = make_pinned(dev, (void **)&scratch->bounce, (size_t)BOUNCE * SCRATCH_PIECES,
				 "copies of what is restored", err);
	return rc;
}

static void warn_if(struct device *dev, int code, const char *what)
{
	struct err err;
	if (cuda_check(dev, code, what, &err) < 0)
		log_warn("%s", err.text);
}

static void free_pinned(struct device *dev, void *memory)
{
	if (!memory)
		return;
	warn_if(dev, dev->rt->host_unregister(dev->rt, memory), "unpinning room for a restore");
	free(memory);
}

void cuda_scratch_free(struct device *dev, struct cuda_scratch *scratch, bool idle)
{
	for (int i = 0; i < SCRATCH_PIECES; i++)
		if (scratch->events[i])
			warn_if(dev, dev->rt->event_destroy(dev->rt, scratch->events[i]), "destroying an event");
	if (idle) {
		free_pinned(dev, scratch->digests);
		free_pinned(dev, scratch->bounce);
	}
	*scratch = (struct cuda_scratch){0};
}

char *cuda_scratch_bounce(const struct cuda_scratch *scratch, uint64_t piece)
{
	return scratch->bounce + piece % SCRATCH_PIECES * BOUNCE;
}
