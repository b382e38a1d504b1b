/* A spike of the loss on purpose: a daemon can name it only if it knows the steps before. */
#include "campaign/campaign_run.h"

#include "base/clock.h"
#include "frame/progress.h"

#include <poll.h>
#include <string.h>

#define KNOWN_NS (60 * CLOCK_NS_PER_S)

int campaign_spike_await(struct campaign *c, uint32_t node, struct err *err)
{
	uint64_t deadline = clock_deadline(KNOWN_NS);
	struct campaign_view view;
	int rc = campaign_watch(c, &view, err);
	while (!rc && !c->nodes[node].knows_loss && clock_now() < deadline && !cli_interrupted()) {
		poll(NULL, 0, CAMPAIGN_LOOK_MS);
		rc = campaign_watch(c, &view, err);
	}
	if (rc || c->nodes[node].knows_loss)
		return rc;
	return err_set(err, -EAGAIN, "the daemon of node-%u knows no steady loss of the job", node);
}

/* Those that are newer than the last one that was noted; a daemon that was started anew has no older ones. */
static int note_new(struct campaign *c, uint32_t node, const json_t *episodes, struct err *err)
{
	struct campaign_node *n = &c->nodes[node];
	size_t i = json_array_size(episodes);
	uint64_t last = n->loss_since;
	int rc = 0;
	while (i > 0 && journal_number(json_array_get(episodes, i - 1), "since_ns") != last)
		i--;
	for (; !rc && i < json_array_size(episodes); i++) {
		const json_t *e = json_array_get(episodes, i), *kind = json_object_get(e, "kind");
		n->loss_since = journal_number(e, "since_ns");
		n->spikes += json_is_string(kind) && !strcmp(json_string_value(kind), "spike");
		rc = journal_put(&c->journal,
				 json_pack("{s:s, s:i, s:O?, s:O?, s:O?, s:I}", "event", "loss", "node", (int)node,
					   "kind", kind, "step", json_object_get(e, "step"), "text",
					   json_object_get(e, "text"), "wall_ns", (json_int_t)clock_wall()),
				 err);
	}
	return rc;
}

int campaign_note_losses(struct campaign *c, uint32_t node, const json_t *loss, struct err *err)
{
	c->nodes[node].knows_loss =
		json_is_number(json_object_get(loss, "median")) && json_is_null(json_object_get(loss, "trouble"));
	return note_new(c, node, json_object_get(loss, "episodes"), err);
}
