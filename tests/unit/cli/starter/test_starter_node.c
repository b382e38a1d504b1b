#include "frame/command.h"
#include "starter/starter.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <unistd.h>

/* What becomes of the first of two nodes when its remote shell, started just now, ends with the code; the job goes on on the other. */
static enum node_stand after(struct starter *s, bool came_back, int code)
{
	static struct starter_node nodes[2];
	uint64_t now = clock_now();
	nodes[0] = (struct starter_node){.host = "a", .stand = NODE_RUNNING, .control = -1, .out.fd = -1, .err.fd = -1};
	nodes[1] = (struct starter_node){.host = "b", .stand = NODE_RUNNING};
	*s = (struct starter){.nodes = nodes, .nnodes = 2, .processes = 1, .least = 1, .elastic = true};
	s->err.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	nodes[0].begun = came_back;
	nodes[0].broken_ns = came_back ? now - 60 * CLOCK_NS_PER_S : 0;
	nodes[0].proc = (struct proc){.pidfd = -1, .started_ns = now, .pid = fork()};
	if (!nodes[0].proc.pid)
		_exit(code);
	node_ended(s, &nodes[0], now + CLOCK_NS_PER_S);
	close(s->err.fd);
	sink_free(&s->err);
	return nodes[0].stand;
}

Test(starter_node, one_that_came_back_and_is_not_ready_yet_is_tried_again)
{
	struct starter s;
	static const int codes[] = {255, EXIT_NO_DAEMON, EXIT_LOCKED, SHELL_NOT_THERE, SHELL_CANNOT};
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		cr_expect_eq(after(&s, true, codes[i]), NODE_WAITING, "%d", codes[i]);
		cr_expect_eq(s.code, 0, "%d", codes[i]);
	}
}

Test(starter_node, one_that_came_back_and_gave_up_at_the_job_is_not)
{
	struct starter s;
	static const int codes[] = {EXIT_FAILED, EXIT_USAGE, EXIT_PARTIAL, EXIT_CANCELLED};
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		cr_expect_eq(after(&s, true, codes[i]), NODE_ENDED, "%d", codes[i]);
		cr_expect_eq(s.code, codes[i]);
		cr_expect_not(s.finished);
	}
}

Test(starter_node, one_that_is_started_for_the_first_time_has_all_that_it_needs)
{
	struct starter s;
	cr_expect_eq(after(&s, false, EXIT_NO_DAEMON), NODE_ENDED);
	cr_expect_eq(after(&s, false, 255), NODE_WAITING);
}
