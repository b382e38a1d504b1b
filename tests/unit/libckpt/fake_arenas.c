#include "fake_private.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- arenas ---- */

void memory_drop(struct memory *m)
{
	if (m->base) {
		munmap(m->base, m->size);
		close(m->fd);
		close(m->fd_read);
	}
	registration_free(&m->reg);
	layout_free(&m->layout);
	*m = (struct memory){0};
}

static void memory_map(struct memory *m, int fd)
{
	char path[64];
	struct stat st;
	m->fd = fd;
	fstat(fd, &st);
	m->size = (uint64_t)st.st_size;
	m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	madvise(m->base, m->size, MADV_DONTFORK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m->fd_read = open(path, O_RDONLY | O_CLOEXEC);
}

static void put_table(struct wbuf *table, const struct registration *reg, const struct layout *layout)
{
	AUTO_WBUF struct wbuf bytes = {0};
	registration_encode(reg, &bytes);
	wbuf_u32(table, (uint32_t)bytes.len);
	wbuf_put(table, bytes.data, bytes.len);
	layout_encode(layout, table);
}

void memory_make(struct fake *f, uint32_t rank, struct layout *layout)
{
	struct memory *m = &f->memory[rank];
	struct arena_plan plan;
	AUTO_WBUF struct wbuf table = {0};
	put_table(&table, &f->regs[rank], layout);
	arena_plan(table.len, layout->nleaves + layout->nwitnesses, layout->slot_size, f->hellos[rank].slots, &plan);
	int fd = memfd_create("fake-arena", MFD_CLOEXEC);
	if (ftruncate(fd, (off_t)plan.size))
		abort();
	memory_map(m, fd);
	struct arena_head *h = memory_head(m);
	struct digest digest = digest_bytes(table.data, table.len);
	memcpy(m->base + plan.table_at, table.data, table.len);
	h->magic = ARENA_MAGIC, h->version = ARENA_VERSION, h->nslots = f->hellos[rank].slots;
	h->size = plan.size, h->table_at = plan.table_at, h->table_len = table.len, h->leaves_at = plan.leaves_at;
	h->slots_at = plan.slots_at, h->slot_size = layout->slot_size, h->nleaves = layout->nleaves;
	h->nwitnesses = layout->nwitnesses;
	h->table_low = digest.low, h->table_high = digest.high, h->rank = rank, h->world = f->world;
	snprintf(h->job, sizeof(h->job), "%s", f->hellos[rank].job);
	h->epoch = f->epoch;
	h->settled = f->manners.settles_first ? plan.slots_at + layout->slot_size : plan.size;
	m->layout = *layout;
	*layout = (struct layout){0};
}

void memory_adopt(struct fake *f, uint32_t rank, int fd)
{
	struct memory *m = &f->memory[rank];
	memory_drop(m);
	memory_map(m, fd);
	struct arena_head *h = memory_head(m);
	struct rbuf in = rbuf_of(m->base + h->table_at, h->table_len);
	uint32_t len = rbuf_u32(&in);
	struct err err;
	if (registration_decode(rbuf_take(&in, len), len, &m->reg, &err) ||
	    layout_decode(&in, &m->reg, &m->layout, &err))
		abort();
	/* A daemon knows the epoch again from what comes back. */
	f->epoch = max_u64(f->epoch, h->epoch);
}

void memory_wake(struct memory *m)
{
	atomic_fetch_add(&memory_head(m)->wake, 1);
	syscall(SYS_futex, &memory_head(m)->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void fake_wake(struct fake *f)
{
	for (uint32_t r = 0; r < f->world; r++)
		memory_wake(&f->memory[r]);
}

bool fake_rang(struct fake *f)
{
	uint64_t count;
	struct pollfd p = {.fd = f->doorbell, .events = POLLIN};
	return poll(&p, 1, 5000) == 1 && read(f->doorbell, &count, sizeof(count)) == sizeof(count);
}

void fake_epoch_quietly(struct fake *f, uint32_t epoch)
{
	LOCK_SCOPE(&f->lock);
	f->epoch = epoch;
	for (uint32_t r = 0; r < f->world; r++)
		if (f->memory[r].base)
			atomic_store(&memory_head(&f->memory[r])->epoch, epoch);
}

void fake_shrink(struct fake *f, uint32_t lost)
{
	LOCK_SCOPE(&f->lock);
	for (uint32_t r = 0; r < f->world; r++) {
		memory_drop(&f->memory[r]);
		registration_free(&f->regs[r]);
		f->registered[r] = false;
	}
	f->world -= lost;
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = &f->conns[i];
		if (c->sock < 0 || c->rank < lost)
			continue;
		c->rank -= lost;
		c->moved = true;
	}
}

static void write_status(struct arena_head *head, struct arena_status *e, const struct fake_level *level)
{
	uint32_t seq = arena_status_newest(head);
	atomic_store(&e->seq, seq + 1);
	atomic_store(&e->epoch, level->id.epoch);
	atomic_store(&e->step, level->id.step);
	atomic_store(&e->level, level->level);
	atomic_store(&e->error, level->error);
	atomic_store(&e->late_rank, level->late_rank);
	atomic_store(&e->late_phase, level->late_phase);
	atomic_store(&e->seq, seq + 2);
}

/* Its own entry, else that which was changed the longest ago and is not on its way to storage. */
static struct arena_status *status_of(struct memory *m, struct step_id id)
{
	struct arena_status *ring = memory_head(m)->status, *oldest = NULL;
	for (int i = 0; i < ARENA_STATUS; i++)
		if (ring[i].epoch == id.epoch && ring[i].step == id.step)
			return &ring[i];
	for (int i = 0; i < ARENA_STATUS; i++)
		if (!arena_status_stays(ring[i].late_phase) &&
		    (!oldest || arena_status_older(ring[i].seq, oldest->seq)))
			oldest = &ring[i];
	return oldest;
}

void fake_publish(struct fake *f, const struct fake_level *level)
{
	for (uint32_t r = 0; r < f->world; r++) {
		write_status(memory_head(&f->memory[r]), status_of(&f->memory[r], level->id), level);
		memory_wake(&f->memory[r]);
	}
}

void fake_free(struct fake *f, uint32_t rank, uint32_t slot)
{
	atomic_store(&fake_head(f, rank)->slots[slot].state, SLOT_FREE);
	memory_wake(&f->memory[rank]);
}

struct arena_head *fake_head(struct fake *f, uint32_t rank)
{
	return memory_head(&f->memory[rank]);
}

uint8_t *fake_slot(struct fake *f, uint32_t rank, uint32_t slot)
{
	struct arena_head *h = fake_head(f, rank);
	return f->memory[rank].base + h->slots_at + slot * h->slot_size;
}

uint64_t *fake_leaves(struct fake *f, uint32_t rank, uint32_t slot)
{
	struct arena_head *h = fake_head(f, rank);
	return (uint64_t *)(f->memory[rank].base + h->leaves_at) + slot * (h->nleaves + h->nwitnesses);
}

const struct layout *fake_layout(struct fake *f, uint32_t rank)
{
	return &f->memory[rank].layout;
}

const struct registration *fake_registration(struct fake *f, uint32_t rank)
{
	return &f->regs[rank];
}

/* ---- what was heard ---- */

struct wire_hello fake_hello(struct fake *f, uint32_t rank)
{
	LOCK_SCOPE(&f->lock);
	return f->hellos[rank];
}

struct wire_join fake_join(struct fake *f, uint32_t rank)
{
	LOCK_SCOPE(&f->lock);
	return f->joins[rank];
}
