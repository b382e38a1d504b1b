/* Memory that holds snapshots of a rank of another node: ordinary memory of this process, which no other process maps. */
#include "arena/memory_private.h"

#include "base/bytes.h"

#include <sys/mman.h>

struct held_plan {
	uint64_t leaves_at, slots_at, size;
};

static bool plan_held(uint64_t table_len, uint64_t nleaves, uint64_t slot_size, struct held_plan *plan)
{
	uint64_t leaves, slots, end;
	if (table_len > INT64_MAX / 2 ||
	    __builtin_mul_overflow(nleaves, MEMORY_HELD_SLOTS * sizeof(uint64_t), &leaves) ||
	    __builtin_mul_overflow(slot_size, (uint64_t)MEMORY_HELD_SLOTS, &slots))
		return false;
	plan->leaves_at = align_up(table_len, LAYOUT_ALIGN);
	if (__builtin_add_overflow(plan->leaves_at, leaves, &end) || end > INT64_MAX / 2)
		return false;
	plan->slots_at = align_up(end, ARENA_ALIGN);
	if (__builtin_add_overflow(plan->slots_at, slots, &end) || end > INT64_MAX / 2)
		return false;
	plan->size = align_up(end, ARENA_ALIGN);
	return true;
}

uint64_t memory_hold_cost(uint64_t table_len, uint64_t nleaves, uint64_t slot_size)
{
	struct held_plan plan;
	return plan_held(table_len, nleaves, slot_size, &plan) ? plan.size : 0;
}

int memory_hold(struct digest sum, uint64_t table_len, uint64_t nleaves, uint64_t slot_size, struct memory **out,
		struct err *err)
{
	struct held_plan plan;
	char text[16];
	if (!plan_held(table_len, nleaves, slot_size, &plan))
		return err_set(err, -EOVERFLOW, "a snapshot of %lu leaves in slots of %lu bytes is too large",
			       (unsigned long)nleaves, (unsigned long)slot_size);
	struct memory *mem = memory_alloc();
	if (!mem)
		return err_set(err, -ENOMEM, "no memory to hold a snapshot");
	void *base = mmap(NULL, plan.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
		int rc = -errno;
		memory_put(mem);
		return err_set(err, rc, "cannot map %s to hold a snapshot: %s",
			       bytes_human(text, sizeof(text), plan.size), err_name(rc));
	}
	madvise(base, plan.size, MADV_DONTFORK);
	mem->base = base;
	mem->size = plan.size;
	mem->leaves_at = plan.leaves_at;
	mem->slots_at = plan.slots_at;
	mem->slot_size = slot_size;
	mem->layout.nleaves = mem->slot_leaves = nleaves;
	mem->nslots = MEMORY_HELD_SLOTS;
	mem->sum = sum;
	mem->table_len = table_len;
	*out = mem;
	return 0;
}

int memory_learn(struct memory *mem, struct err *err)
{
	uint64_t nleaves = mem->layout.nleaves;
	int rc = memory_decode_table(mem, mem->base, mem->table_len, err);
	if (!rc && (mem->layout.nleaves != nleaves || mem->layout.slot_size != mem->slot_size))
		rc = err_set(err, -EBADMSG,
			     "the table says %lu leaves in slots of %lu bytes, the offer said %lu and %lu",
			     (unsigned long)mem->layout.nleaves, (unsigned long)mem->layout.slot_size,
			     (unsigned long)nleaves, (unsigned long)mem->slot_size);
	if (!rc)
		return 0;
	layout_free(&mem->layout);
	table_put(mem->table);
	mem->table = NULL;
	mem->layout.nleaves = nleaves; /* another try may bring the right one */
	return rc;
}
