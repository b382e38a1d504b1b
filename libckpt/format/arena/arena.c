#include "format/arena/arena.h"

#include "base/bytes.h"
#include "format/arena/layout.h"

#include <string.h>

static bool add_aligned(uint64_t base, uint64_t bytes, uint64_t align, uint64_t *out)
{
	uint64_t end;
	if (__builtin_add_overflow(base, bytes, &end) || __builtin_add_overflow(end, align - 1, &end))
		return false;
	*out = end / align * align;
	return true;
}

int arena_plan(uint64_t table_len, uint64_t nleaves, uint64_t slot_size, uint32_t nslots, struct arena_plan *out)
{
	struct arena_plan plan = {.table_at = ARENA_HEAD};
	uint64_t leaves, slots;
	if (nslots < ARENA_SLOTS_MIN || nslots > ARENA_SLOTS_MAX)
		return -EINVAL;
	if (__builtin_mul_overflow(nleaves, (uint64_t)nslots * sizeof(uint64_t), &leaves) ||
	    __builtin_mul_overflow(slot_size, (uint64_t)nslots, &slots) ||
	    !add_aligned(plan.table_at, table_len, LAYOUT_ALIGN, &plan.leaves_at) ||
	    !add_aligned(plan.leaves_at, leaves, ARENA_ALIGN, &plan.slots_at) ||
	    !add_aligned(plan.slots_at, slots, ARENA_ALIGN, &plan.size) || plan.size > INT64_MAX)
		return -EOVERFLOW;
	*out = plan;
	return 0;
}

static int check_identity(const struct arena_head *h, struct err *err)
{
	if (h->magic != ARENA_MAGIC)
		return err_set(err, -EBADMSG, "not an arena: magic %016llx", (unsigned long long)h->magic);
	if (h->version != ARENA_VERSION)
		return err_set(err, -EBADMSG, "arena of layout version %u; this build knows %u", h->version,
			       ARENA_VERSION);
	if (!memchr(h->job, 0, sizeof(h->job)) || name_check("job", h->job, sizeof(h->job), NULL))
		return err_set(err, -EBADMSG, "arena without a valid job name");
	if (!h->world || h->world > RANK_MAX || h->rank >= h->world)
		return err_set(err, -EBADMSG, "arena of rank %u of %u", h->rank, h->world);
	return 0;
}

int arena_check(const struct arena_head *copy, uint64_t size, struct err *err)
{
	int rc = check_identity(copy, err);
	if (rc)
		return rc;
	struct arena_plan plan;
	uint64_t leaves;
	if (copy->slot_size % LAYOUT_ALIGN)
		return err_set(err, -EBADMSG, "arena slots of %llu bytes, not a multiple of %u",
			       (unsigned long long)copy->slot_size, LAYOUT_ALIGN);
	if (__builtin_add_overflow(copy->nleaves, copy->nwitnesses, &leaves) ||
	    arena_plan(copy->table_len, leaves, copy->slot_size, copy->nslots, &plan))
		return err_set(err, -EBADMSG, "arena of %u slots of %llu bytes and %llu + %llu leaves is impossible",
			       copy->nslots, (unsigned long long)copy->slot_size, (unsigned long long)copy->nleaves,
			       (unsigned long long)copy->nwitnesses);
	if (copy->table_at != plan.table_at || copy->leaves_at != plan.leaves_at || copy->slots_at != plan.slots_at ||
	    copy->size != plan.size)
		return err_set(err, -EBADMSG, "arena whose parts do not stand where its sizes put them");
	if (plan.size != size)
		return err_set(err, -EBADMSG, "arena says %llu bytes but has %llu", (unsigned long long)plan.size,
			       (unsigned long long)size);
	return 0;
}

uint32_t arena_status_newest(const struct arena_head *head)
{
	uint32_t newest = atomic_load(&head->status[0].seq);
	for (uint32_t i = 1; i < ARENA_STATUS; i++) {
		uint32_t seq = atomic_load(&head->status[i].seq);
		if (arena_status_older(newest, seq))
			newest = seq;
	}
	return newest;
}

void arena_leave_out(struct arena_head *head, struct step_id id)
{
	atomic_store(&head->left_out.epoch, 0);
	atomic_store(&head->left_out.step, id.step);
	atomic_store(&head->left_out.epoch, id.epoch);
}

/* Within an epoch either step that is found was left out. */
struct step_id arena_left_out(const struct arena_head *head)
{
	uint32_t epoch = atomic_load(&head->left_out.epoch);
	struct step_id id = {.step = atomic_load(&head->left_out.step), .epoch = epoch};
	return atomic_load(&head->left_out.epoch) == epoch ? id : (struct step_id){0};
}
