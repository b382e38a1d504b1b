/* Memory: one rank's arena as the daemon holds it. Created here and handed out, or handed back by a rank or a launcher that
 * held it while the daemon was gone. Everything inside the arena is the word of an untrusted process: what decides is the
 * daemon's own view (slots[]). Belongs to the loop's thread. */
#ifndef CKPTD_ARENA_MEMORY_H
#define CKPTD_ARENA_MEMORY_H

#include "arena/head_block.h"
#include "arena/table.h"
#include "base/err.h"
#include "format/arena/arena.h"
#include "format/arena/layout.h"
#include "format/arena/witness.h"

#include <stdbool.h>
#include <sys/types.h>

struct disk;

enum { MEMORY_HELD_SLOTS = 2 };

/* --huge-pages: what arenas are made of. */
enum huge_pages {
	HUGE_PAGES_AUTO =
		0, /* of the kernel's pool (hugetlb) if it has enough, else transparent, else ordinary pages */
	HUGE_PAGES_TRANSPARENT, /* the pool is left to others */
	HUGE_PAGES_NEVER,
};

struct slot_view {
	bool used;         /* belongs to a snapshot (or is being filled) */
	struct step_id id; /* of that snapshot */
	unsigned copies;   /* to or from other nodes that are under way: it is not given back meanwhile */
	bool left; /* what stands there is kept for later ranks (restore/former.h): nothing gives it back meanwhile */
	uint32_t began,
		lacks; /* of what is no arena, which has them in its head: as in struct arena_slot; see memory_lacks */
};

/* What is told of a slot while it is filled to be restored (struct arena_bring). */
struct bring {
	bool open;
	uint32_t slot;
	uint64_t granule; /* leaves */
	_Atomic uint64_t *
		left; /* of each granule: leaves that are not there; NULL: there was no memory for it, nothing is told */
};

struct memory {
	unsigned refs;   /* memory_get, memory_put */
	int fd, fd_read; /* fd_read: the same memory, opened read-only, for the neighbours */
	uint8_t *base;
	uint64_t size;
	struct arena_head *head;                 /* == base */
	uint64_t leaves_at, slots_at, slot_size; /* our copy: the head's can be scribbled over */
	uint64_t slot_leaves;                    /* room for a slot's, the witnesses' included */
	uint32_t nslots;
	struct table *table; /* a reference: what the rank has registered */
	struct layout layout;
	struct witnesses witnesses; /* of replicas, if there are other ranks */
	struct digest sum;          /* of the table in the arena */
	uint64_t table_len;         /* and its bytes */
	struct head_block *heads;   /* layout.nfiles */
	struct slot_view slots[ARENA_SLOTS_MAX];
	bool reserved; /* pages of the kernel's pool */
	bool ready; /* may be handed out. Else its pages are not all there, and whoever touches a missing one may die */
	bool held;  /* the launcher was told of it */
	bool kept;  /* the service manager holds it, too */
	int failed; /* it will never be ready: 0 or -errno */
	uint64_t huge_bytes; /* that are in transparent huge pages, as far as is known */
	bool adopted;   /* came back from an earlier incarnation of the daemon: its slots may be of an earlier epoch */
	bool inspected; /* adopted, and its slots are followed although no living process was sent it since */
	struct disk *disk; /* where the memory is registered for fixed buffers; token < 0: it is not */
	int token;
	int unpinned; /* 0, or -errno: why it is not, or not all of it, registered */
	bool settled; /* all pages have been touched: huge_bytes is final */
	bool near; /* its pages are wanted of one NUMA node: huge ones come from there only if a small one is there already */
	struct bring bring;
};

/* Creates, sizes, seals and maps an arena. It holds a reference to the table; the layout is taken over (emptied) in any
 * case. -ENOMEM, -EMFILE. When it is not ready, memory_fill must complete it, or memory_fall_back replace it, before
 * anybody else learns of it. */
int memory_create(const char *job, struct table *table, struct layout *layout, uint32_t nslots, enum huge_pages policy,
		  struct memory **out, struct err *err);
/* Takes over an arena that comes back; fd is taken over in any case. -EBADMSG: it is not one of ours, not sealed, or
 * damaged. */
int memory_adopt(int fd, const char *job, struct memory **out, struct err *err);
/* Of one that has come back: snapshots whose commit or read-back the last daemon did not finish, and whose slot it had
 * given back. This one cannot go on with them, and who waits must not wait in vain. `stands` (NULL: never) is asked of
 * those below durable: what it says is shown with the end, since whoever saw the end alone would take the snapshot for
 * lost. */
void memory_close_levels(struct memory *mem, bool (*stands)(void *arg, struct step_id id), void *arg);
/* Writes anew what the daemon alone writes in the head, and the table. The process before may have scribbled over it, and
 * the next one must be able to map it. 0 or -ENOMEM. */
int memory_renew(struct memory *mem, const char *job);
/* Snapshots and commits that read the arena hold a reference, so that it outlives the job's interest in it. */
struct memory *memory_get(struct memory *mem);
void memory_put(struct memory *mem); /* NULL is allowed */

/* Memory for the snapshots of a rank of another node (arena/memory_held.c): no arena, but the same places of leaves and
 * slots, and the table at the beginning. Table and layout (but layout.nleaves) are not there until memory_learn has read
 * what was copied to it: -EBADMSG. */
int memory_hold(struct digest sum, uint64_t table_len, uint64_t nleaves, uint64_t slot_size, struct memory **out,
		struct err *err);
int memory_learn(struct memory *mem, struct err *err);
/* The first blocks of its files, which it lacks unless it is to be written. 0 or -ENOMEM. */
int memory_make_heads(struct memory *mem, struct err *err);
/* What the first would take; 0 on overflow. */
uint64_t memory_hold_cost(uint64_t table_len, uint64_t nleaves, uint64_t slot_size);
/* The bytes of its table. 0 or -ENOMEM. */
int memory_table(const struct memory *mem, struct wbuf *out);

/* Bytes that an arena for these would take; 0 on overflow. */
uint64_t memory_cost(const struct table *table, const struct layout *layout, uint32_t nslots);

static inline uint8_t *memory_slot(const struct memory *mem, uint32_t slot)
{
	return mem->base + mem->slots_at + slot * mem->slot_size;
}

static inline uint64_t *memory_leaves(const struct memory *mem, uint32_t slot)
{
	return (uint64_t *)(mem->base + mem->leaves_at) + slot * mem->slot_leaves;
}

/* Digests a range of leaves of a slot into out[0..count). Thread-safe while the slot is held. */
void memory_digest(const struct memory *mem, uint32_t slot, uint64_t first, uint64_t count, uint64_t *out);
/* Which tensor, and which bytes of its registered piece, a leaf belongs to. */
void memory_name_leaf(const struct memory *mem, uint64_t leaf, char *dst, size_t size);
/* Where a leaf begins in a slot (that behind the last: the slot's end), and how many leaves end within its first bytes. */
uint64_t memory_leaf_at(const struct memory *mem, uint64_t leaf);
uint64_t memory_leaves_within(const struct memory *mem, uint64_t bytes);

/* Claims a free slot for the daemon's own use (filling it from storage): the rank cannot take it. -EBUSY. */
int memory_claim(struct memory *mem, struct step_id id);
/* In which epoch the state in a slot began without a restore; never behind the snapshot's own, whatever a rank wrote
 * there. */
uint32_t memory_began(const struct memory *mem, uint32_t slot);
/* What fills a claimed slot says so. */
void memory_tell_began(struct memory *mem, uint32_t slot, uint32_t began);
/* What of the step was not restored to the slot: SLOT_PARTIAL, SLOT_NO_BLOBS. */
uint32_t memory_lacks(const struct memory *mem, uint32_t slot);
void memory_tell_lacks(struct memory *mem, uint32_t slot, uint32_t lacks);
/* Marks a claimed slot as a complete snapshot in memory. */
void memory_complete(struct memory *mem, uint32_t slot, struct step_id id);
/* Gives a slot back to the rank. intact: every byte in it was found to match its leaf table, and nobody has written to it
 * since. */
void memory_release(struct memory *mem, uint32_t slot, bool intact);

/* A step is brought into the slot, or what stands there is checked: from here on the ranks are told what is there. Ends
 * what was told before; memory_release of the slot ends it. */
void memory_bring(struct memory *mem, uint32_t slot, struct step_id id);
/* The saved world did not have this rank. Before anything is there. */
void memory_bring_no_blobs(struct memory *mem);
/* Leaves, each once, are in the slot and match their digests, which stand there as well. true: a granule is whole, who
 * waits should be woken. From any thread, while none can call memory_bring. */
bool memory_brought(struct memory *mem, uint64_t first, uint64_t count);
/* Before anything else happens to the slot. */
void memory_bring_end(struct memory *mem);

/* Publishes a snapshot's level to the rank (status ring) and wakes who waits. */
struct level {
	struct step_id id;
	int level, error;
	uint32_t late_rank, late_phase;
};
void memory_publish(struct memory *mem, const struct level *level);
/* The level that is shown of it, perhaps by an earlier incarnation of the daemon. */
uint32_t memory_shown(const struct memory *mem, struct step_id id);
/* A step before this one, of its epoch, of which the same is shown: it has failed since replicas differed. Epoch 0: none. */
struct step_id memory_deviated(const struct memory *mem, struct step_id id);
void memory_set_epoch(struct memory *mem, uint32_t epoch);
/* The daemon lets it go while a process may be at work in it: what is begun there from now on is refused. */
void memory_retire(struct memory *mem);
void memory_set_stop(struct memory *mem, bool stop);
/* Until the next epoch, in the fence of this step or a later one; 0: no more. */
void memory_set_pause(struct memory *mem, uint64_t step);
void memory_wake(struct memory *mem);

/* The pages that are not there yet are to come from the NUMA node of the processors that this process may run on, where
 * that is one of several. root: NUMA_NODES. -ENOENT: it is not; else why they cannot. */
int memory_near(struct memory *mem, pid_t pid, const char *root);

/* What follows has slices of 64 MiB and runs on a worker; it does not change the memory's fields. */

/* Takes the next slice from *at on out of the pool. So what the daemon's cgroup may have of the pool is found out here,
 * and not by a signal at first touch. 1: goes on; 0: all is there; -ENOSPC, -ENOMEM. */
int memory_fill(struct memory *mem, uint64_t *at);
/* Makes the next slice present, in huge pages where that is wanted and possible; false when all is there or no more can
 * be done. */
struct prefaulted {
	uint64_t bytes, huge;
	bool short_of_huge; /* the kernel finds no more */
};
bool memory_prefault(struct memory *mem, bool huge, struct prefaulted *p);

/* Moves an arena that is not ready, and that nobody else has seen, into ordinary memory (on the loop's thread). On an
 * error it is as it was. */
int memory_fall_back(struct memory *mem, const char *job, struct err *err);
/* The size of the pages it is made of, as far as is known: of the smaller ones while they differ. */
uint64_t memory_page_bytes(const struct memory *mem);

#endif
