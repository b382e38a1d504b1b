/* What ranks are told of a snapshot in words. */
#include "base/cleanup.h"
#include "job/job.h"

#include <stdio.h>

void job_event(struct job *job, struct step_id id, int rc, const char *text)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_event event = {.id = id, .rc = rc};
	snprintf(event.text, sizeof(event.text), "%s", text);
	if (wire_event_encode(&event, &body))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].client)
			client_send(job->ranks[r].client, WIRE_EVENT, 0, &body, NULL, 0);
}
