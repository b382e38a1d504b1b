#include "cuda_gather.h"

#include "base/bytes.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>

/* Where a run of adjacent spans begins, so that copies and kernels find whole lines. */
enum { ALIGNMENT = 256 };

/* ---- the room ---- */

static void warn_if(struct device *dev, int code, const char *what)
{
	struct err err;
	if (cuda_check(dev, code, what, &err) < 0)
		log_warn("%s", err.text);
}

static void room_free(struct device *dev, struct cuda_room *room)
{
	struct cuda_rt *rt = dev->rt;
	if (room->read)
		warn_if(dev, rt->event_destroy(rt, room->read), "destroying an event");
	if (room->memory)
		warn_if(dev, rt->free(rt, room->memory, dev->copies), "freeing the room to gather in");
	free(room);
}

static void room_put(struct device *dev, struct cuda_room *room)
{
	if (--room->users)
		return;
	if (dev->room == room)
		dev->room = NULL;
	room_free(dev, room);
}

static int room_new(struct device *dev, size_t size, struct cuda_room **out, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	struct cuda_room *room = calloc(1, sizeof(*room));
	if (!room)
		return err_set(err, -ENOMEM, "out of memory");
	room->size = size;
	int rc = cuda_check(dev, rt->alloc(rt, &room->memory, size, dev->copies), "taking memory", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_create(rt, &room->read), "creating an event", err);
	if (rc < 0) {
		room_free(dev, room);
		return rc;
	}
	*out = dev->room = room;
	return 0;
}

/* NULL and 0 where there is no memory for it. */
static int room_take(struct device *dev, size_t size, struct cuda_room **out, struct err *err)
{
	int rc = 0;
	*out = dev->room;
	if (!*out || (*out)->size < size) {
		*out = NULL;
		rc = room_new(dev, size, out, err);
	}
	if (*out)
		(*out)->users++;
	if (rc != -ENOMEM)
		return rc;
	if (!dev->crowded)
		log_warn("GPU %d: no %zu bytes to gather small tensors in: %s. A kernel packs them between the copies, "
			 "and may wait for the training's",
			 dev->ordinal, size, err->text);
	dev->crowded = true;
	return 0;
}

/* ---- which spans, and where ---- */

struct filling {
	uint64_t used, most, arena_end; /* of the last span */
};

/* What is adjacent in the arena is so in the room. What does not fit into what is left is not gathered. */
static bool place(struct filling *f, const struct device *dev, const struct span *span, uint64_t *at)
{
	uint64_t bytes = span_bytes(span);
	uint64_t from = f->used && span->arena_at == f->arena_end ? f->used : align_up(f->used, ALIGNMENT);
	if (!cuda_packs(dev, span) || from > f->most || bytes > f->most - from)
		return false;
	*at = from;
	f->used = from + bytes;
	f->arena_end = span->arena_at + bytes;
	return true;
}

static uint64_t needed(const struct device *dev, const struct cuda_route *route)
{
	struct filling f = {.most = dev->rt->gather_most};
	uint64_t at;
	for (size_t i = 0; i < route->n; i++)
		(void)place(&f, dev, &route->spans[i], &at);
	return f.used;
}

/* Adds to the part what stands at this place of the room, or goes on there. */
static void add(struct cuda_route *route, struct cuda_part *part, struct span span, bool gathered)
{
	struct span *last = part->n ? &route->spans[part->first + part->n - 1] : NULL;
	if (gathered && last && !last->ndim && (char *)last->memory + last->row_bytes == span.memory &&
	    last->arena_at + last->row_bytes == span.arena_at)
		last->row_bytes += span.row_bytes;
	else
		route->spans[part->first + part->n++] = span;
}

/* In place: a route has no more spans than before. */
static size_t replace(struct cuda_gather *gather, const struct device *dev, struct cuda_route *route, size_t nparts,
		      struct span *chosen)
{
	struct filling f = {.most = dev->rt->gather_most};
	size_t n = 0, kept = 0;
	for (size_t p = 0; p < nparts; p++) {
		struct cuda_part former = route->parts[p], *part = &route->parts[p];
		*part = (struct cuda_part){.first = kept};
		for (size_t i = former.first; i < former.first + former.n; i++) {
			struct span span = route->spans[i];
			uint64_t at;
			bool gathered = place(&f, dev, &span, &at);
			if (gathered) {
				chosen[n] = span;
				chosen[n++].arena_at = at;
				span = (struct span){.memory = (char *)gather->room->memory + at,
						     .arena_at = span.arena_at,
						     .row_bytes = span_bytes(&span),
						     .group = span.group};
			}
			add(route, part, span, gathered);
		}
		kept = part->first + part->n;
	}
	route->n = kept;
	return n;
}

int cuda_gather_init(struct cuda_gather *gather, struct device *dev, struct cuda_route *route, size_t nparts,
		     struct err *err)
{
	uint64_t size = needed(dev, route);
	int rc = size ? room_take(dev, size, &gather->room, err) : 0;
	if (rc < 0 || !gather->room)
		return rc;
	struct span *chosen = calloc(route->n, sizeof(*chosen));
	if (!chosen)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", route->n);
	route->room = gather->room->memory;
	route->room_size = gather->room->size;
	size_t n = replace(gather, dev, route, nparts, chosen);
	rc = cuda_table_init(dev, &gather->table, chosen, n, err);
	free(chosen);
	return rc;
}

void cuda_gather_free(struct cuda_gather *gather, struct device *dev)
{
	cuda_table_free(dev, &gather->table);
	if (gather->room)
		room_put(dev, gather->room);
	gather->room = NULL;
}

/* ---- a launch ---- */

int cuda_gather_issue(const struct cuda_gather *gather, struct device *dev, struct rt_stream *stream, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	if (!gather->room)
		return 0;
	int rc = cuda_check(dev, rt->stream_wait(rt, stream, gather->room->read), "waiting for an event", err);
	if (rc == 0)
		rc = cuda_check(dev,
				rt->pack(rt, stream, &gather->table.gpu, 0, gather->table.units, NULL,
					 gather->room->memory, true),
				"starting to gather", err);
	return rc;
}

int cuda_gather_read(const struct cuda_gather *gather, struct device *dev, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	return gather->room ? cuda_check(dev, rt->event_record(rt, gather->room->read, dev->copies),
					 "recording an event", err)
			    : 0;
}
