#include "launcher/launch_held.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* What is mapped of an arena: a whole page also where pages are huge, since only whole ones can be unmapped. */
enum { WINDOW = ARENA_ALIGN };
_Static_assert((int)WINDOW >= (int)ARENA_HEAD, "the head is within");

void held_init(struct held_all *all)
{
	*all = (struct held_all){0};
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		all->list[i].fd = -1;
}

static void drop(struct held_all *all, struct held *held)
{
	if (held->fd < 0)
		return;
	munmap((void *)held->head, WINDOW);
	close(held->fd);
	*held = (struct held){.fd = -1};
	all->count--;
}

void held_free(struct held_all *all)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		drop(all, &all->list[i]);
}

/* The one of the rank, else a free one; NULL: there is none. */
static struct held *place_of(struct held_all *all, uint32_t rank)
{
	struct held *free = NULL;
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++) {
		if (all->list[i].fd >= 0 && all->list[i].rank == rank)
			return &all->list[i];
		if (all->list[i].fd < 0 && !free)
			free = &all->list[i];
	}
	return free;
}

const struct held *held_find(const struct held_all *all, uint32_t rank)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		if (all->list[i].fd >= 0 && all->list[i].rank == rank)
			return &all->list[i];
	return NULL;
}

static const struct arena_head *head_of(const struct held_all *all, uint32_t rank)
{
	const struct held *held = held_find(all, rank);
	return held ? held->head : NULL;
}

/* Without the seal a truncation would turn a look into SIGBUS. */
static int check(int fd, const struct wire_arena_of *m, struct err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return err_set(err, -EBADMSG, "what came as the arena of rank %u is not sealed", m->rank);
	if (fstat(fd, &st) || st.st_size < ARENA_HEAD || (uint64_t)st.st_size != m->size)
		return err_set(err, -EBADMSG, "the arena of rank %u has another size than was said", m->rank);
	return 0;
}

static bool is_same(const struct held *held, int fd)
{
	struct stat was, is;
	return held->fd >= 0 && !fstat(held->fd, &was) && !fstat(fd, &is) && was.st_dev == is.st_dev &&
	       was.st_ino == is.st_ino;
}

int held_take(struct held_all *all, const struct wire_arena_of *m, int fd, struct err *err)
{
	AUTO_CLOSE int arena = fd;
	struct held *held = place_of(all, m->rank);
	if (!held)
		return err_set(err, -EBADMSG, "the arena of rank %u is one more than %d", m->rank, WIRE_LOCAL_MAX);
	int rc = check(arena, m, err);
	if (rc)
		return rc;
	void *head = mmap(NULL, WINDOW, PROT_READ, MAP_SHARED, arena, 0);
	if (head == MAP_FAILED)
		return err_set(err, -errno, "mapping the arena of rank %u: %s", m->rank, err_name(errno));
	uint32_t before = is_same(held, arena) ? held->before : atomic_load(&((struct arena_head *)head)->entry.joined);
	drop(all, held);
	*held = (struct held){.fd = steal_fd(&arena), .rank = m->rank, .size = m->size, .head = head, .before = before};
	all->count++;
	return 0;
}

uint64_t held_apart(const struct held_all *all, uint32_t rank)
{
	const struct arena_head *head = head_of(all, rank);
	return head ? atomic_load(&head->apart_ns) : 0;
}

static bool is_judged(const struct held_all *all, uint32_t *rank)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++) {
		const struct held *held = &all->list[i];
		uint64_t named = held->fd < 0 ? 0 : atomic_load(&held->head->named);
		*rank = (uint32_t)named - 1;
		if (named && named == arena_named(atomic_load(&held->head->entry.joined), *rank))
			return true;
	}
	return false;
}

bool held_judged(const struct held_all *all)
{
	uint32_t rank;
	return is_judged(all, &rank);
}

bool held_named(const struct held_all *all, uint32_t *rank)
{
	return is_judged(all, rank) && *rank != ARENA_NOBODY;
}

bool held_look(const struct held_all *all, uint32_t rank, struct flight_view *view)
{
	const struct arena_head *head = head_of(all, rank);
	if (!head)
		return false;
	flight_look(head, view);
	return view->beat_ns != 0;
}

bool held_saves(const struct held_all *all, uint32_t rank, uint64_t since_ns)
{
	const struct arena_head *head = head_of(all, rank);
	for (int i = 0; head && i < ARENA_SLOTS_MAX; i++) {
		if (head->slots[i].begin_ns > since_ns)
			return true;
	}
	return false;
}

bool held_at_work(const struct held_all *all, uint32_t rank, uint64_t started_ns)
{
	struct flight_view view;
	return (held_look(all, rank, &view) && view.beat_ns > started_ns) || held_saves(all, rank, started_ns);
}

uint32_t held_entered(const struct held_all *all, uint32_t rank)
{
	const struct arena_head *head = head_of(all, rank);
	return head ? atomic_load(&head->entry.joined) : 0;
}

uint32_t held_newest_entered(const struct held_all *all)
{
	uint32_t newest = 0;
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++) {
		uint32_t entered = all->list[i].fd < 0 ? 0 : atomic_load(&all->list[i].head->entry.joined);
		newest = entered > newest ? entered : newest;
	}
	return newest;
}

/* Without an arena nobody has joined yet. With one a rank may be in an epoch of which its daemon was lost before it told this launcher. */
uint32_t held_epoch_known(const struct held_all *all, uint32_t told)
{
	uint32_t known = all->count ? told : 0;
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++) {
		uint32_t entered = all->list[i].fd < 0 ? 0 : atomic_load(&all->list[i].head->entry.joined);
		if (entered > known && entered != all->list[i].before)
			known = entered;
	}
	return known;
}

bool held_any_joined(const struct held_all *all)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++) {
		uint32_t rank = all->list[i].rank;
		if (all->list[i].fd >= 0 && (held_entered(all, rank) || held_at_work(all, rank, 0)))
			return true;
	}
	return false;
}

bool held_newest_step(const struct held_all *all, uint64_t *step)
{
	bool any = false;
	*step = 0;
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++) {
		struct flight_view view;
		if (all->list[i].fd < 0 || !held_look(all, all->list[i].rank, &view))
			continue;
		any = true;
		*step = view.step > *step ? view.step : *step;
	}
	return any;
}
