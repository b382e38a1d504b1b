/* Faults at an interface of the daemon's node: in the network namespace that the daemon is in. */
#include "faults/drop.h"
#include "faults/fault_request.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>

/* It stays there: the daemon's socket is reached from everywhere. */
static int enter_network(const struct fault_request *q, struct err *err)
{
	AUTO_CLOSE int pidfd = fault_open_daemon(q, NULL, err);
	if (pidfd < 0)
		return pidfd;
	if (!setns(pidfd, CLONE_NEWNET))
		return 0;
	int rc = -errno;
	return err_set(err, rc, "cannot enter the network of the daemon: %s: it needs CAP_SYS_ADMIN, as root has it",
		       err_name(rc));
}

static void await(uint64_t deadline)
{
	for (int left; (left = clock_ms_until(deadline));)
		poll(NULL, 0, left);
}

int fault_break_link(const struct fault_request *q, char text[WIRE_REASON_MAX], struct err *err)
{
	uint64_t for_ns = q->for_ms * CLOCK_NS_PER_MS, from = clock_now();
	uint32_t percent = q->entry->kind == FAULT_LINK_LOSS ? q->percent : 100;
	struct drop drop;
	int rc = enter_network(q, err);
	if (!rc)
		rc = drop_begin(&drop, q->interface, q->entry->kind != FAULT_ONE_WAY, percent, for_ns, err);
	if (rc)
		return rc;
	await(from + for_ns);
	uint64_t n = drop_count(&drop);
	drop_end(&drop);
	if (!n)
		return err_set(err, -EAGAIN, "no packet came to %s in %lu ms", q->interface, (unsigned long)q->for_ms);
	snprintf(text, WIRE_REASON_MAX, "%lu packets were dropped at %.32s in %lu ms", (unsigned long)n, q->interface,
		 (unsigned long)q->for_ms);
	return 0;
}
