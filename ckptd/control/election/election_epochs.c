/* Epochs of a job in the registry. */
#include "control/control.h"
#include "control/election/election_private.h"
#include "format/files/marks.h"
#include "participant/room.h"

#include <stdio.h>
#include <stdlib.h>

int election_last_begun(const struct control *control, const char *job, struct begun *begun, struct err *err)
{
	char key[REGISTRY_KEY_MAX];
	struct registry_record record;
	*begun = (struct begun){.id = {0}};
	election_key(job, EPOCH, key);
	if (!control->registry || !registry_get(control->registry, key, &record))
		return 0;
	int rc = begun_decode(record.value, record.len, begun, err);
	return rc ? err_prefix(err, rc, "%s in the registry", key) : 0;
}

struct epoch_call {
	struct control *control;
	char job[NAME_JOB_MAX];
	void (*done)(void *arg, int rc, const char *why);
	void *arg;
};

static void epoch_recorded(void *arg, const struct registry_result *result)
{
	struct epoch_call *call = arg;
	struct job_record *r = election_find(call->control, call->job);
	if (r && !result->rc) /* where it was not: the mirror will show why */
		r->recorded = result->applied ? result->revision : 0;
	if (result->rc)
		call->done(call->arg, result->rc, result->why);
	else if (!result->applied)
		call->done(call->arg, -ESTALE,
			   "another node coordinates the job, or what was asked before has come late");
	else
		call->done(call->arg, 0, "");
	free(call);
}

/* What nobody has answered for may be applied at any time later: then it is not to take the place of what was decided since. */
static uint64_t epoch_changed(const struct control *control, const char *job, const char *key)
{
	const struct job_record *r = election_find(control, job);
	struct registry_record record;
	uint64_t seen = registry_get(control->registry, key, &record) ? record.changed : 0;
	return r && r->recorded > seen ? r->recorded : seen;
}

int election_record_epoch(struct control *control, const char *job, const void *text, size_t len,
			  void (*done)(void *arg, int rc, const char *why), void *arg)
{
	char epoch[REGISTRY_KEY_MAX], coordinator[REGISTRY_KEY_MAX];
	struct epoch_call *call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = (struct epoch_call){.control = control, .done = done, .arg = arg};
	snprintf(call->job, sizeof(call->job), "%s", job);
	election_key(job, EPOCH, epoch);
	election_key(job, COORDINATOR, coordinator);
	const struct registry_compare was[] = {
		{.key = coordinator, .created = true, .revision = coordinator_term(control, job)},
		{.key = epoch, .revision = epoch_changed(control, job, epoch)}};
	struct registry_change put = {.key = epoch, .value = text, .len = len};
	int rc = registry_commit(control->registry, was, 2, &put, 1, epoch_recorded, call);
	if (rc)
		free(call);
	return rc;
}
