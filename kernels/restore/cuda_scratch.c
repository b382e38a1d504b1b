#include "cuda_scratch.h"

#include "base/log.h"
#include "format/tensor/digest.h"

#include <sys/mman.h>

enum { BOUNCE = PIECE_BOUNCED + LEAF_SIZE };
/* Bytes of all pieces. */
enum { DIGESTS = sizeof(uint64_t) * SCRATCH_PIECES * SCRATCH_DIGESTS, BOUNCES = BOUNCE * SCRATCH_PIECES };

static int make_pinned(struct device *dev, void **out, size_t size, const char *what, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return err_set(err, -ENOMEM, "out of memory for %s", what);
	/* A fork would let the host and the GPU have two pages in the place of one, when the host writes to it next. */
	int rc = madvise(memory, size, MADV_DONTFORK) ? err_set(err, -errno, "madvise: %s", err_name(errno)) : 0;
	if (rc == 0)
		rc = cuda_check(dev, rt->host_register(rt, memory, size), "pinning room for a restore", err);
	if (rc < 0)
		munmap(memory, size);
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
		rc = make_pinned(dev, (void **)&scratch->digests, DIGESTS, "the digests of what is restored", err);
	if (rc == 0 && bounce && !scratch->bounce)
		rc = make_pinned(dev, (void **)&scratch->bounce, BOUNCES, "copies of what is restored", err);
	return rc;
}

static void warn_if(struct device *dev, int code, const char *what)
{
	struct err err;
	if (cuda_check(dev, code, what, &err) < 0)
		log_warn("%s", err.text);
}

static void free_pinned(struct device *dev, void *memory, size_t size)
{
	if (!memory)
		return;
	warn_if(dev, dev->rt->host_unregister(dev->rt, memory), "unpinning room for a restore");
	munmap(memory, size);
}

void cuda_scratch_free(struct device *dev, struct cuda_scratch *scratch, bool idle)
{
	for (int i = 0; i < SCRATCH_PIECES; i++)
		if (scratch->events[i])
			warn_if(dev, dev->rt->event_destroy(dev->rt, scratch->events[i]), "destroying an event");
	if (idle) {
		free_pinned(dev, scratch->digests, DIGESTS);
		free_pinned(dev, scratch->bounce, BOUNCES);
	}
	*scratch = (struct cuda_scratch){0};
}

char *cuda_scratch_bounce(const struct cuda_scratch *scratch, uint64_t piece)
{
	return scratch->bounce + piece % SCRATCH_PIECES * BOUNCE;
}
