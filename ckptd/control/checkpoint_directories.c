#include "control/checkpoint_directories.h"

#include "base/clock.h"
#include "coordinator/coordinator.h"

#include <stdio.h>
#include <stdlib.h>

struct held {
	struct list link;
	struct sites *sites;
	struct site *site;
};

static struct held *held_of(struct list *node)
{
	return list_entry(node, struct held, link);
}

void sites_init(struct sites *sites, struct disk *disk, int root, const char *job, struct coord *coord)
{
	*sites = (struct sites){.disk = disk, .root = root, .job = job, .coord = coord};
	list_init(&sites->list);
}

static void let_go(struct held *h)
{
	list_remove(&h->link);
	h->sites->n--;
	site_free(h->site);
	free(h);
}

void sites_free(struct sites *sites)
{
	if (!sites->coord)
		return;
	list_for_safe(node, &sites->list)
		let_go(held_of(node));
}

/* One that is being closed may have given its name away already. */
static struct site *find(const struct sites *sites, struct step_id id)
{
	list_for(node, &sites->list) {
		struct site *s = held_of(node)->site;
		if (!step_compare(s->id, id) && s->state <= SITE_LEFT)
			return s;
	}
	return NULL;
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

static struct coord *coord_of(const struct site *s)
{
	const struct held *h = s->arg;
	return h->sites->coord;
}

static void made(struct site *s)
{
	coord_made(coord_of(s), s->id, s->found);
}

static void sealed(struct site *s)
{
	coord_sealed(coord_of(s), s->id);
}

static void failed(struct site *s)
{
	coord_spoiled(coord_of(s), s->id, s->rc, s->err.text);
}

static void left(struct site *s)
{
	coord_left(coord_of(s), s->id, s->kept);
}

static void done(struct site *s)
{
	let_go(s->arg);
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

void sites_make(struct sites *sites, struct step_id id)
{
	struct held *h = calloc(1, sizeof(*h));
	struct site *s = h ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		free(h);
		coord_spoiled(sites->coord, id, -ENOMEM, "no memory to make its directory");
		coord_left(sites->coord, id, true);
		return;
	}
	*h = (struct held){.sites = sites, .site = s};
	s->disk = sites->disk;
	s->root = sites->root;
	s->id = id;
	s->made = made;
	s->sealed = sealed;
	s->failed = failed;
	s->left = left;
	s->done = done;
	s->arg = h;
	snprintf(s->job, sizeof(s->job), "%s", sites->job);
	list_push(&sites->list, &h->link);
	sites->n++;
	site_start(s);
}

void sites_seal(struct sites *sites, struct step_id id, const struct wbuf *manifest)
{
	struct site *s = find(sites, id);
	if (s)
		site_seal(s, manifest);
}

void sites_drop(struct sites *sites, struct step_id id, int rc, const char *why)
{
	struct site *s = find(sites, id);
	if (s)
		site_drop(s, rc, why);
}

void sites_remove(struct sites *sites, struct step_id id)
{
	struct site *s = find(sites, id);
	if (s)
		site_remove(s);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static bool waits_for_nodes(const struct site *s)
{
	return s->state == SITE_READY || s->state == SITE_LEFT;
}

void sites_expire(struct sites *sites, uint64_t stall_ms)
{
	uint64_t now = clock_now();
	char text[WIRE_TEXT_MAX];
	list_for_safe(node, &sites->list) {
		struct site *s = held_of(node)->site;
		if (s->rc || waits_for_nodes(s) || now - s->progress_ns <= stall_ms * CLOCK_NS_PER_MS)
			continue;
		snprintf(text, sizeof(text), "storage made no progress for %lu ms (commit state %s)",
			 (unsigned long)stall_ms, site_state_name(s->state));
		coord_spoiled(sites->coord, s->id, -ETIMEDOUT, text);
	}
}

bool sites_have(const struct sites *sites, struct step_id id)
{
	return find(sites, id) != NULL;
}
