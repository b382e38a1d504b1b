/* Watches operations for what they leave that is not durable, and loses it. */
#include "store/disk/disk_real.h"
#include "store/disk/disk_real_unsynced.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"

#include <pthread.h>
#include <stdatomic.h>

#define SETTLE_NS (5 * CLOCK_NS_PER_S)

static _Atomic bool remembers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of what is unsynced */
static uint64_t instant;

void power_begin(struct disk_op *op)
{
	if (!atomic_load_explicit(&remembers, memory_order_relaxed))
		return;
	LOCK_SCOPE(&lock);
	switch (op->kind) {
	case DISK_FSYNC:
		op->first = ++instant;
		files_syncing(op->file, op->first);
		return;
	case DISK_UNLINK:
		files_unlinking(op->dir, op->name);
		names_changing(op);
		return;
	case DISK_RENAME:
		names_changing(op);
		return;
	case DISK_CLOSE:
		files_closing(op->file);
		return;
	default:
		return;
	}
}

static void opened(const struct disk_op *op)
{
	if (!(op->flags & DISK_CREATE))
		return;
	names_added(op->dir, op->name, ++instant);
	files_created((int)op->result);
}

void power_end(const struct disk_op *op)
{
	bool done = op->result >= 0;
	if (!atomic_load_explicit(&remembers, memory_order_relaxed))
		return;
	LOCK_SCOPE(&lock);
	if (op->kind == DISK_UNLINK || op->kind == DISK_RENAME)
		names_changed(op, done, ++instant);
	if (!done)
		return;
	switch (op->kind) {
	case DISK_OPEN:
		opened(op);
		return;
	case DISK_MKDIR:
		names_added(op->dir, op->name, ++instant);
		return;
	case DISK_LINK:
		names_added(op->dir2, op->name2, ++instant);
		return;
	case DISK_WRITE:
		files_written(op->file, op->offset, op->len, ++instant);
		return;
	case DISK_TRUNCATE:
		files_truncated(op->file, op->offset);
		return;
	case DISK_FSYNC:
		files_synced(op->file, op->first);
		names_synced(op->file, op->first);
		return;
	default:
		return;
	}
}

static void forget(void)
{
	files_forget();
	names_forget();
}

void power_remember(bool on)
{
	LOCK_SCOPE(&lock);
	if (!on)
		forget();
	atomic_store(&remembers, on);
}

void power_cut(struct disk *d, uint64_t seed, struct power_losses *losses)
{
	*losses = (struct power_losses){0};
	disk_settle(d, clock_deadline(SETTLE_NS));
	pthread_mutex_lock(&lock);
	atomic_store(&remembers, true); /* whoever begins something waits for the lock */
	bool all = random_next(&seed) % 2;
	files_lose(all, &seed, losses);
	names_lose(all, &seed, losses);
	forget();
}

void power_restore(void)
{
	pthread_mutex_unlock(&lock);
}
