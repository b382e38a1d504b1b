#include "cuda_table.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "gpu/gpu_table.h"

#include <stdlib.h>

/* Spans and then `before`, in one block. */
static size_t before_at(size_t n)
{
	return n * sizeof(struct gpu_span);
}

static size_t table_bytes(size_t n)
{
	return before_at(n) + (n + 1) * sizeof(uint64_t);
}

int cuda_table_start(struct device *dev, struct cuda_table *table, const struct span *spans, size_t n, void **out,
		     struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	size_t size = table_bytes(n);
	*table = (struct cuda_table){0};
	if (!n)
		return 0;
	char *filled = *out = malloc(size);
	if (!filled)
		return err_set(err, -ENOMEM, "out of memory for a table of %zu spans", n);
	table->units = gpu_table_fill(spans, n, (void *)filled, (void *)(filled + before_at(n)));
	int rc = cuda_check(dev, rt->alloc(rt, &table->memory, size, dev->copies), "taking memory for a table of spans",
			    err);
	if (rc < 0)
		return rc;
	table->gpu = (struct gpu_table){
		.spans = table->memory, .before = (const void *)((char *)table->memory + before_at(n)), .n = n};
	return cuda_check(dev, rt->copy(rt, table->memory, filled, size, dev->copies), "copying a table of spans", err);
}

int cuda_table_init(struct device *dev, struct cuda_table *table, const struct span *spans, size_t n, struct err *err)
{
	AUTO_FREE void *filled = NULL;
	int rc = cuda_table_start(dev, table, spans, n, &filled, err);
	int drained = n ? cuda_drain(dev, dev->copies, rc < 0 ? NULL : err) : 0;
	rc = rc < 0 ? rc : drained;
	if (drained == -ETIMEDOUT)
		cuda_lose(dev, steal_ptr(&filled), false);
	if (rc < 0)
		cuda_table_free(dev, table);
	return rc;
}

void cuda_table_free(struct device *dev, struct cuda_table *table)
{
	struct err err;
	if (table->memory &&
	    cuda_check(dev, dev->rt->free(dev->rt, table->memory, dev->copies), "freeing a table of spans", &err) < 0)
		log_warn("%s", err.text);
	*table = (struct cuda_table){0};
}
