#include "job/recovery_notes.h"

#include "base/cleanup.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "job/job.h"
#include "participant/room.h"
#include "replication/room.h"
#include "store/catalog/recovered.h"

#include <string.h>

_Static_assert((int)PEER_RECOVERED_MAX < (int)RECOVERED_JSON_MAX, "what is told fits a row");

static bool tell(const struct job *job, uint32_t first, uint64_t at_ns, const char *text)
{
	struct peer_report r = {.type = PEER_RECOVERED,
				.epoch = job->epoch,
				.recovered = {.at_ns = at_ns, .len = (uint32_t)strlen(text), .text = text}};
	memcpy(r.job, job->name, sizeof(r.job));
	return !participant_send(job->peers, job->control, first, &r);
}

/* False: the first node is away. */
static bool write_down(const struct job *job, const struct recovery_record *r)
{
	struct catalog *catalog = job->storage->catalog;
	const struct roster *roster = job->peers->roster;
	uint32_t first = roster ? roster_first(roster) : job->peers->self;
	if (!job->runtime->config.store || (!catalog && first == job->peers->self))
		return true;
	if (!catalog && !(job->peers->net && net_is_up(job->peers->net, first)))
		return false;
	AUTO_FREE char *text = recovery_text(roster, r);
	if (!text || strlen(text) > PEER_RECOVERED_MAX)
		return true;
	if (!catalog)
		return tell(job, first, r->wall_ns, text);
	catalog_recovery(catalog, job->name, job->runtime->config.node, r->wall_ns, text);
	return true;
}

static bool note(void *arg, const struct recovery_record *r, bool again)
{
	const struct job *job = arg;
	if (!again)
		spanlog_recovery(job->runtime->spanlog, job->name, r);
	return write_down(job, r);
}

static struct arena_entry *entry(void *arg, uint32_t id)
{
	const struct rank *rank = job_rank(arg, id);
	return rank && rank->mem && rank->mem->head ? &rank->mem->head->entry : NULL;
}

void job_init_recoveries(struct job *job)
{
	recoveries_init(&job->recovery_log, &(struct logged_job){.entry = entry, .note = note, .arg = job});
}

void recovery_notes_hear(const struct storage *storage, const struct roster *roster, uint32_t node, const char *job,
			 const struct peer_recovered *m)
{
	AUTO_FREE char *text = strndup(m->text, m->len);
	if (text)
		catalog_recovery(storage->catalog, job, roster->nodes[node].name, m->at_ns, text);
}
