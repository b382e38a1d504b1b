#include "client/capture/arenas.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mapping.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- one arena --------------------------------------------------------------------------------------------------- */

static void arena_unmap(struct arena *a)
{
	if (a->base)
		munmap(a->base, a->size);
	layout_free(&a->layout);
	registration_free(&a->reg);
	*a = (struct arena){0};
}

static int map_memory(int fd, bool own, struct arena *a, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_set(err, -errno, "arena of rank %u: %s", a->rank, err_name(errno));
	if (st.st_size < 0 || (uint64_t)st.st_size != a->size)
		return err_set(err, -EBADMSG, "arena of rank %u has %jd bytes instead of %" PRIu64, a->rank,
			       (intmax_t)st.st_size, a->size);
	void *base = mapping_shared(fd, a->size, own ? PROT_READ | PROT_WRITE : PROT_READ);
	if (base == MAP_FAILED)
		return err_set(err, -errno, "cannot map the %" PRIu64 " bytes of the arena of rank %u: %s", a->size,
			       a->rank, err_name(errno));
	a->base = base;
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	/* A child would keep the pages alive and must not write into them. */
	if (madvise(base, a->size, MADV_DONTFORK))
		return err_set(err, -errno, "arena of rank %u: madvise: %s", a->rank, err_name(errno));
	return 0;
}

static int check_head(struct arena *a, struct err *err)
{
	struct arena_head head;
	memcpy(&head, a->base, sizeof(head));
	int rc = arena_check(&head, a->size, err);
	if (rc)
		return rc;
	if (head.rank != a->rank)
		return err_set(err, -EBADMSG, "it is that of rank %u", head.rank);
	a->nslots = head.nslots;
	a->leaves_at = head.leaves_at;
	a->slots_at = head.slots_at;
	a->slot_size = head.slot_size;
	a->nleaves = head.nleaves;
	a->nwitnesses = head.nwitnesses;
	return 0;
}

static int decode_table(struct arena *a, const uint8_t *table, size_t len, const struct wbuf *expected, struct err *err)
{
	struct rbuf in = rbuf_of(table, len);
	uint32_t reg_len = rbuf_u32(&in);
	const void *reg = rbuf_take(&in, reg_len);
	if (!reg)
		return err_set(err, -EBADMSG, "its table is cut off");
	if (expected && (expected->len != reg_len || memcmp(expected->data, reg, reg_len) != 0))
		return err_set(err, -EBADMSG, "it carries another registration than this rank's");
	int rc = registration_decode(reg, reg_len, &a->reg, err);
	if (rc)
		return rc;
	rc = layout_decode(&in, &a->reg, &a->layout, err);
	if (rc)
		return rc;
	if (rbuf_finish(&in) || a->reg.rank != a->rank || a->layout.slot_size != a->slot_size ||
	    a->layout.nleaves != a->nleaves || a->layout.nwitnesses != a->nwitnesses)
		return err_set(err, -EBADMSG, "its table and its head contradict each other");
	return 0;
}

static int read_table(struct arena *a, const struct wbuf *expected, struct err *err)
{
	const struct arena_head *head = arena_head(a);
	/* Bounded by arena_check, and read again here: a neighbour may be changing it. */
	uint64_t len = head->table_len;
	if (len > a->leaves_at - ARENA_HEAD)
		return err_set(err, -EBADMSG, "its table is out of bounds");
	AUTO_FREE uint8_t *table = malloc(len + 1);
	if (!table)
		return err_set(err, -ENOMEM, "no memory for its table of %" PRIu64 " bytes", len);
	memcpy(table, a->base + ARENA_HEAD, len);
	struct digest want = {.low = head->table_low, .high = head->table_high};
	if (!digest_equal(digest_bytes(table, len), want))
		return err_set(err, -EBADMSG, "its table does not match its digest");
	return decode_table(a, table, len, expected, err);
}

static int arena_map(int fd, const struct wbuf *expected, struct arena *a, struct err *err)
{
	int rc = map_memory(fd, expected != NULL, a, err);
	if (rc)
		return rc;
	rc = check_head(a, err);
	if (!rc)
		rc = read_table(a, expected, err);
	return rc ? err_prefix(err, rc, "arena of rank %u", a->rank) : 0;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int map_all(struct frame *f, const struct wire_arena *msg, uint32_t rank, const struct wbuf *table,
		   struct arenas *out, struct err *err)
{
	for (uint32_t i = 0; i < msg->nlocal; i++) {
		struct arena *a = &out->all[i];
		AUTO_CLOSE int fd = frame_take_fd(f, (int)i + 1);
		if (fd < 0)
			return err_set(err, -EBADMSG, "the daemon sent %d descriptors for %u arenas", f->nfds,
				       msg->nlocal);
		bool own = msg->ranks[i] == rank;
		*a = (struct arena){.rank = msg->ranks[i], .size = msg->size[i]};
		out->n = i + 1;
		int rc = arena_map(fd, own ? table : NULL, a, err);
		if (rc)
			return rc;
		if (own) {
			out->own = a;
			out->own_fd = steal_fd(&fd);
		}
	}
	return out->own ? 0 : err_set(err, -EBADMSG, "the daemon sent no arena for rank %u", rank);
}

int arenas_map(struct frame *f, const struct wire_arena *msg, uint32_t rank, const struct wbuf *table,
	       struct arenas *out, struct err *err)
{
	*out = (struct arenas){.own_fd = -1};
	out->all = calloc(msg->nlocal, sizeof(*out->all));
	if (!out->all)
		return err_set(err, -ENOMEM, "no memory for %u arenas", msg->nlocal);
	int rc = map_all(f, msg, rank, table, out, err);
	if (rc)
		arenas_unmap(out);
	return rc;
}

void arenas_unmap(struct arenas *arenas)
{
	for (uint32_t i = 0; i < arenas->n; i++)
		arena_unmap(&arenas->all[i]);
	free(arenas->all);
	cleanup_close(&arenas->own_fd);
	*arenas = (struct arenas){.own_fd = -1};
}

bool arenas_same(const struct arenas *arenas, const struct frame *f, const struct wire_arena *msg)
{
	if (msg->nlocal != arenas->n || f->nfds != (int)msg->nlocal + 1)
		return false;
	for (uint32_t i = 0; i < msg->nlocal; i++) {
		const struct arena *a = arenas_find(arenas, msg->ranks[i]);
		struct stat st;
		if (!a || fstat(f->fds[i + 1], &st) || st.st_dev != a->dev || st.st_ino != a->ino)
			return false;
	}
	return true;
}

const struct arena *arenas_find(const struct arenas *arenas, uint32_t rank)
{
	for (uint32_t i = 0; i < arenas->n; i++)
		if (arenas->all[i].rank == rank)
			return &arenas->all[i];
	return NULL;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

void arena_sleep(const struct arena *arena, uint32_t seen, uint64_t deadline)
{
	uint64_t now = clock_now();
	if (deadline <= now)
		return;
	/* Bounded: a daemon that dies wakes nobody. */
	uint64_t ns = min_u64(deadline - now, CLOCK_NS_PER_S);
	struct timespec ts = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
	syscall(SYS_futex, &arena_head(arena)->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
}

void arena_wake(const struct arena *arena)
{
	atomic_fetch_add(&arena_head(arena)->wake, 1);
	syscall(SYS_futex, &arena_head(arena)->wake, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

const struct layout_piece *arena_piece_of_leaf(const struct arena *arena, uint64_t leaf)
{
	for (uint32_t i = 0; i < arena->layout.npieces; i++) {
		const struct layout_piece *p = &arena->layout.pieces[i];
		if (leaf >= p->first_leaf && leaf - p->first_leaf < leaf_count(p->bytes))
			return p;
	}
	return NULL;
}

char *arena_leaf_text(const struct arena *arena, uint64_t leaf, char *dst, size_t size)
{
	const struct layout_piece *p = arena_piece_of_leaf(arena, leaf);
	if (!p) {
		snprintf(dst, size, "leaf %" PRIu64, leaf);
		return dst;
	}
	const struct entry *e = &arena->reg.entries[p->entry];
	char where[128];
	uint64_t from = (leaf - p->first_leaf) * LEAF_SIZE;
	snprintf(dst, size, "tensor %s, elements %s, bytes %" PRIu64 " to %" PRIu64 " of them", e->name,
		 region_text(&e->shape, &p->region, where, sizeof(where)), from, min_u64(from + LEAF_SIZE, p->bytes));
	return dst;
}
