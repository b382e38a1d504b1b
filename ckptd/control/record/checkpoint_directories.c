#include "control/record/checkpoint_directories.h"

#include "base/clock.h"
#include "coordinator/room.h"
#include "participant/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct held {
	struct list link;
	struct directories *directories;
	struct directory *directory;
};

static struct held *held_of(struct list *node)
{
	return list_entry(node, struct held, link);
}

void directories_init(struct directories *directories, struct disk *disk, int root, const char *job,
		      struct coord *coord)
{
	*directories = (struct directories){.disk = disk, .root = root, .job = job, .coord = coord};
	list_init(&directories->list);
}

static void let_go(struct held *h)
{
	list_remove(&h->link);
	h->directories->n--;
	directory_free(h->directory);
	free(h);
}

void directories_free(struct directories *directories)
{
	if (!directories->coord)
		return;
	list_for_safe(node, &directories->list)
		let_go(held_of(node));
}

/* One that is being closed may have given its name away already. */
static struct directory *find(const struct directories *directories, struct step_id id)
{
	list_for(node, &directories->list) {
		struct directory *s = held_of(node)->directory;
		if (!step_compare(s->id, id) && s->state <= DIRECTORY_LEFT)
			return s;
	}
	return NULL;
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

static struct coord *coord_of(const struct directory *s)
{
	const struct held *h = s->arg;
	return h->directories->coord;
}

/* Work that was begun in time may go on after the lease has ended, as a process that was stopped goes on: each step asks. */
static bool stands(const struct directory *s)
{
	const struct held *h = s->arg;
	return host_here(h->directories->elected, s->job);
}

static void made(struct directory *s)
{
	coord_made(coord_of(s), s->id, s->found);
}

static void sealed(struct directory *s)
{
	const struct held *h = s->arg;
	if (s->compared)
		h->directories->compared = s->id.epoch;
	coord_sealed(coord_of(s), s->id);
}

static void failed(struct directory *s)
{
	coord_spoiled(coord_of(s), s->id, s->rc, s->err.text);
}

static void left(struct directory *s)
{
	coord_left(coord_of(s), s->id, s->kept);
}

static void done(struct directory *s)
{
	let_go(s->arg);
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

void directories_make(struct directories *directories, struct step_id id)
{
	struct held *h = calloc(1, sizeof(*h));
	struct directory *s = h ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		free(h);
		coord_spoiled(directories->coord, id, -ENOMEM, "no memory to make its directory");
		coord_left(directories->coord, id, true);
		return;
	}
	*h = (struct held){.directories = directories, .directory = s};
	s->disk = directories->disk;
	s->root = directories->root;
	s->id = id;
	s->maker = directories->maker;
	s->pool = directories->pool;
	s->compares = directories->compared != id.epoch;
	s->store = directories->store;
	s->place = directories->place;
	s->stands = directories->elected ? stands : NULL;
	s->made = made;
	s->sealed = sealed;
	s->failed = failed;
	s->left = left;
	s->done = done;
	s->arg = h;
	snprintf(s->job, sizeof(s->job), "%s", directories->job);
	list_push(&directories->list, &h->link);
	directories->n++;
	directory_start(s);
}

void directories_seal(struct directories *directories, struct step_id id, const struct wbuf *manifest)
{
	struct directory *s = find(directories, id);
	if (s)
		directory_seal(s, manifest);
}

void directories_drop(struct directories *directories, struct step_id id, int rc, const char *why)
{
	struct directory *s = find(directories, id);
	if (s)
		directory_drop(s, rc, why);
}

void directories_remove(struct directories *directories, struct step_id id)
{
	struct directory *s = find(directories, id);
	if (s)
		directory_remove(s);
}

void directories_abandon(struct directories *directories)
{
	if (!directories->coord)
		return;
	list_for_safe(node, &directories->list)
		directory_abandon(held_of(node)->directory);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static bool waits_for_others(const struct directory *s)
{
	return s->state == DIRECTORY_READY || s->state == DIRECTORY_LEFT || s->comparing;
}

void directories_expire(struct directories *directories, uint64_t stall_ms)
{
	uint64_t now = clock_now();
	char text[WIRE_TEXT_MAX];
	list_for_safe(node, &directories->list) {
		struct directory *s = held_of(node)->directory;
		if (s->rc || waits_for_others(s) || now - s->progress_ns <= stall_ms * CLOCK_NS_PER_MS)
			continue;
		snprintf(text, sizeof(text), "storage made no progress for %lu ms (commit state %s)",
			 (unsigned long)stall_ms, directory_state_name(s->state));
		coord_spoiled(directories->coord, s->id, -ETIMEDOUT, text);
	}
}

bool directories_have(const struct directories *directories, struct step_id id)
{
	return find(directories, id) != NULL;
}

bool directories_write(const struct directories *directories, const char *name)
{
	list_for(node, &directories->list)
		if (!strcmp(held_of(node)->directory->work, name))
			return true;
	return false;
}

bool directories_at_work(const struct directories *directories)
{
	list_for(node, &directories->list)
		if (held_of(node)->directory->comparing || held_of(node)->directory->placing)
			return true;
	return false;
}
