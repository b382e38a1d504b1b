#include "format/message/fault.h"
#include "client/session/session.h"

#include <stdio.h>

int ckpt_fault(ckpt *s, char *name, size_t size, uint64_t *ms)
{
	if (!s || !name || !ms || !atomic_load_explicit(s->alive, memory_order_relaxed))
		return 0;
	struct stage *stage = session_stage(s);
	struct arena_fault *fault = stage ? &stage_head(stage)->fault : NULL;
	uint32_t seq = fault ? atomic_load_explicit(&fault->seq, memory_order_acquire) : 0;
	const struct fault_entry *entry = NULL;
	if (fault && seq != atomic_load_explicit(&fault->taken, memory_order_relaxed)) {
		entry = fault_of((enum fault_kind)atomic_load(&fault->kind)); /* NULL: it was taken back */
		*ms = atomic_load(&fault->ms);
		atomic_store_explicit(&fault->taken, seq, memory_order_release);
	}
	if (entry)
		snprintf(name, size, "%s", entry->name);
	stage_put(stage);
	return entry != NULL;
}
