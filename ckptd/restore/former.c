#include "restore/former.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "runtime/room.h"
#include "service/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct former_step *former_newest(const struct former *former)
{
	for (uint32_t i = former->n; i-- > 0;)
		if (!former->steps[i].damaged)
			return &former->steps[i];
	return NULL;
}

struct former_step *former_find(struct former *list, struct step_id id, struct former **of)
{
	struct former_step *found = NULL;
	for (struct former *former = list; former; former = former->next)
		for (uint32_t i = 0; i < former->n; i++) {
			struct former_step *step = &former->steps[i];
			if (step_compare(step->id, id) != 0 || step->damaged || (found && !found->partial))
				continue;
			*of = former;
			found = step;
		}
	return found;
}

const char *former_text(const struct former *former, char *dst, size_t size)
{
	const struct former_step *step = former_newest(former);
	struct step_id id = step ? step->id : former->steps[former->n - 1].id;
	snprintf(dst, size, "step %lu of epoch %u, left in memory by a world of %u%s", (unsigned long)id.step, id.epoch,
		 former->world,
		 !step          ? " and damaged"
		 : step->stored ? " and on storage"
				: "");
	return dst;
}

void former_insert(struct former **list, struct former *former)
{
	const struct former_step *step = former_newest(former);
	while (*list && step) {
		const struct former_step *other = former_newest(*list);
		if (!other || step_compare(other->id, step->id) < 0)
			break;
		list = &(*list)->next;
	}
	former->next = *list;
	*list = former;
}

void former_count(struct runtime *runtime, struct former *former)
{
	for (uint32_t r = 0; r < former->nlocal; r++)
		former->bytes += former->mems[r]->size;
	runtime->memory.arenas += former->bytes;
}

void former_end(struct runtime *runtime, struct former *former)
{
	for (uint32_t r = 0; r < former->nlocal; r++) {
		if (former->kept[r] && !runtime->stopping)
			manager_drop(runtime->manager, former->job, former->mems[r]->table->reg.rank);
		memory_put(former->mems[r]);
	}
	runtime->memory.arenas -= former->bytes;
	free(former);
}

uint32_t former_epoch(const struct former *list)
{
	uint32_t epoch = 0;
	for (; list; list = list->next)
		epoch = list->epoch > epoch ? list->epoch : epoch;
	return epoch;
}

uint64_t formers_bytes(const struct former *list)
{
	uint64_t bytes = 0;
	for (; list; list = list->next)
		bytes += list->bytes;
	return bytes;
}

void former_explain(const struct former *list, struct err *err)
{
	char bytes[16], text[WIRE_TEXT_MAX / 2];
	size_t at = strlen(err->text);
	snprintf(err->text + at, sizeof(err->text) - at,
		 "; %s of it hold %s: that is kept for %lu s, unless ranks that fit it come first",
		 bytes_human(bytes, sizeof(bytes), formers_bytes(list)), former_text(list, text, sizeof(text)),
		 (unsigned long)(list->linger_ns / CLOCK_NS_PER_S));
}

/* ---- for recover ----------------------------------------------------------------------------------------------- */

static bool is_found(const struct peer_restore_candidates *found, struct step_id id)
{
	for (uint32_t i = 0; i < found->nmemory; i++)
		if (!step_compare(found->memory[i], id))
			return true;
	return false;
}

void former_found(const struct former *list, bool (*wanted)(void *arg, struct step_id id), void *arg,
		  struct peer_restore_candidates *found)
{
	for (const struct former *former = list; former; former = former->next)
		for (uint32_t i = former->n; i-- > 0;) {
			struct step_id id = former->steps[i].id;
			if (former->steps[i].damaged || is_found(found, id))
				continue;
			if (!wanted(arg, id))
				found->others = true;
			else if (found->nmemory < PEER_MEMORY)
				found->memory[found->nmemory++] = id;
		}
}

int former_source_make(struct former_source *source, uint32_t n)
{
	source->n = 0;
	source->mems = calloc(n ? n : 1, sizeof(struct memory *));
	source->slots = calloc(n ? n : 1, sizeof(*source->slots));
	if (source->mems && source->slots)
		return 0;
	former_source_end(source);
	return -ENOMEM;
}

void former_source_add(struct former_source *source, struct memory *mem, uint32_t slot)
{
	source->slots[source->n] = slot;
	source->mems[source->n++] = memory_get(mem);
	source->partial |= (memory_lacks(mem, slot) & SLOT_PARTIAL) != 0;
	if (memory_lacks(mem, slot) & SLOT_NO_BLOBS)
		source->saved_world = (uint32_t)min_u64(source->saved_world, mem->table->reg.rank);
}

int former_source(struct former *list, struct step_id id, struct former_source *out)
{
	struct former *former;
	const struct former_step *step = former_find(list, id, &former);
	if (!step)
		return -ENOENT;
	*out = (struct former_source){
		.id = id, .world = former->world, .saved_world = former->world, .partial = step->partial};
	int rc = former_source_make(out, former->nlocal);
	for (uint32_t r = 0; !rc && r < former->nlocal; r++)
		former_source_add(out, former->mems[r], step->slots[r]);
	return rc;
}

void former_source_end(struct former_source *source)
{
	for (uint32_t r = 0; r < source->n; r++)
		memory_put(source->mems[r]);
	free(source->mems);
	free(source->slots);
	source->mems = NULL;
	source->slots = NULL;
	source->n = 0;
}

void former_damaged(struct former *list, struct step_id id)
{
	struct former *former;
	struct former_step *step = former_find(list, id, &former);
	if (step)
		step->damaged = true;
}
