#include "network/net.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "network/cable.h"
#include "process/launch_proc.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "02:00:00:00:00:fe" /* no card has this address: what is sent to it is lost, silently */
#define IP_NS (10 * CLOCK_NS_PER_S)

enum { SCRIPT_BYTES = 16384, ADDRESS_BYTES = 24 };

extern char **environ;

struct script {
	char text[SCRIPT_BYTES];
	size_t len;
};

static void add(struct script *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct script *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(s->text + s->len, sizeof(s->text) - s->len, fmt, ap);
	va_end(ap);
	s->len = n < 0 || s->len + (size_t)n >= sizeof(s->text) ? sizeof(s->text) : s->len + (size_t)n;
}

char *campaign_net_address(uint32_t node, char *dst, size_t size)
{
	snprintf(dst, size, "10.77.0.%u", node + 1);
	return dst;
}

/* ---- ip ------------------------------------------------------------------------------------------------------------ */

/* Its wait status; it is killed when it takes too long. */
static int await(struct proc *proc)
{
	struct pollfd p = {.fd = proc->pidfd, .events = POLLIN};
	pid_t pid = proc->pid;
	if (poll(&p, 1, clock_ms_until(clock_deadline(IP_NS))) < 1)
		proc_signal(proc, SIGKILL);
	siginfo_t info;
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	return proc_reap(proc, pid);
}

static int complain(const char *tool, int said, int status, struct err *err)
{
	char text[CAMPAIGN_NET_TEXT_MAX] = "", how[64];
	ssize_t n = pread(said, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return err_set(err, -EIO, "%s %s: %s", tool, proc_status_text(how, sizeof(how), status), text);
}

/* In the namespace in which this process is. out: what it says, or NULL. */
static int run(const char *tool, const struct script *s, struct script *out, struct err *err)
{
	char *const argv[] = {(char *)tool, (char *)"-statistics", (char *)"-batch", (char *)"-", NULL};
	AUTO_CLOSE int in = memfd_create("script", MFD_CLOEXEC);
	AUTO_CLOSE int said = memfd_create("said", MFD_CLOEXEC);
	struct proc proc;
	struct proc_spec spec = {
		.argv = argv, .env = environ, .in = in, .out = said, .err = said, .death_signal = SIGKILL};
	if (s->len >= sizeof(s->text))
		return err_set(err, -E2BIG, "too much for %s at once", tool);
	if (in < 0 || said < 0 || pwrite(in, s->text, s->len, 0) != (ssize_t)s->len)
		return err_set(err, -EIO, "no memory for what %s is to do", tool);
	int rc = proc_start(&proc, &spec, err);
	if (rc)
		return rc;
	int status = await(&proc);
	ssize_t n = out ? pread(said, out->text, sizeof(out->text) - 1, 0) : 0;
	if (out)
		out->text[n < 0 ? 0 : n] = '\0';
	return status ? complain(tool, said, status, err) : 0;
}

static int run_tool(const struct campaign_net *net, int space, const char *tool, const struct script *s,
		    struct script *out, struct err *err)
{
	if (setns(space, CLONE_NEWNET))
		return err_set(err, -errno, "setns: %s", err_name(errno));
	int rc = run(tool, s, out, err);
	campaign_net_leave(net);
	return rc;
}

static int run_in(const struct campaign_net *net, int space, const struct script *s, struct err *err)
{
	return s->len ? run_tool(net, space, "ip", s, NULL, err) : 0;
}

int campaign_net_enter(const struct campaign_net *net, uint32_t node, struct err *err)
{
	return setns(net->node[node], CLONE_NEWNET) ? err_set(err, -errno, "setns: %s", err_name(errno)) : 0;
}

/* It came from there. Whoever cannot go back would do all that follows in the wrong place. */
void campaign_net_leave(const struct campaign_net *net)
{
	if (setns(net->home, CLONE_NEWNET))
		abort();
}

/* ---- it is made ---------------------------------------------------------------------------------------------------- */

static int make_space(const struct campaign_net *net, int *fd, struct err *err)
{
	if (unshare(CLONE_NEWNET))
		return err_set(err, -errno, "network namespaces need root: %s", err_name(errno));
	*fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int rc = *fd < 0 ? -errno : 0;
	campaign_net_leave(net);
	return rc ? err_set(err, rc, "/proc/self/ns/net: %s", err_name(rc)) : 0;
}

static int make_spaces(struct campaign_net *net, struct err *err)
{
	net->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (net->home < 0)
		return err_set(err, -errno, "/proc/self/ns/net: %s", err_name(errno));
	int rc = make_space(net, &net->bridge, err);
	for (uint32_t k = 0; !rc && k < net->nodes; k++)
		rc = make_space(net, &net->node[k], err);
	return rc;
}

static int join(const struct campaign_net *net, struct err *err)
{
	struct script bridge = {.len = 0};
	add(&bridge, "link add bridge type bridge\nlink set bridge up\n");
	for (uint32_t k = 0; k < net->nodes; k++) {
		add(&bridge, "link add port%u type veth peer name eth0 netns /proc/%d/fd/%d\n", k, (int)getpid(),
		    net->node[k]);
		add(&bridge, "link set port%u master bridge up\n", k);
	}
	int rc = run_in(net, net->bridge, &bridge, err);
	for (uint32_t k = 0; !rc && k < net->nodes; k++) {
		struct script node = {.len = 0};
		char address[ADDRESS_BYTES];
		add(&node, "link set lo up\naddress add %s/24 dev eth0\nlink set eth0 up\n",
		    campaign_net_address(k, address, sizeof(address)));
		rc = run_in(net, net->node[k], &node, err);
	}
	return rc;
}

int campaign_net_make(struct campaign_net *net, uint32_t nodes, struct err *err)
{
	*net = (struct campaign_net){.nodes = nodes, .home = -1, .bridge = -1, .broken = {.nodes = nodes}};
	for (uint32_t k = 0; k < CAMPAIGN_NODES_MAX; k++)
		net->node[k] = -1;
	int rc = make_spaces(net, err);
	if (!rc)
		rc = join(net, err);
	if (!rc)
		rc = campaign_net_probe(net, err);
	if (rc)
		campaign_net_close(net);
	return rc;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void campaign_net_close(struct campaign_net *net)
{
	for (uint32_t k = 0; k < net->nodes; k++) {
		campaign_cable_close(net->cable[k]);
		net->cable[k] = NULL;
		close_one(&net->node[k]);
	}
	if (net->nodes) {
		close_one(&net->bridge);
		close_one(&net->home);
	}
	net->nodes = 0;
}

/* ---- it is broken -------------------------------------------------------------------------------------------------- */

/* How the kind breaks it. */
enum means { BY_WAYS, BY_PLUG, BY_RATE, BY_CABLE };

static enum means means_of(const struct campaign_fault *f)
{
	switch (f->entry->kind) {
	case FAULT_LINK_DOWN:
	case FAULT_REBOOT:
		return BY_PLUG;
	case FAULT_LINK_SLOW:
		return BY_RATE;
	case FAULT_LINK_LOSS:
	case FAULT_LINK_DELAY:
		return BY_CABLE;
	default:
		return BY_WAYS;
	}
}

/* The other end of its cable: the node sees no carrier, and knows nothing else. */
static int plug(const struct campaign_net *net, uint32_t node, bool in, struct err *err)
{
	struct script s = {.len = 0};
	add(&s, "link set port%u %s\n", node, in ? "up" : "down");
	return run_in(net, net->bridge, &s, err);
}

/* What is sent on each way that is lost now goes to no card; on one that was lost before and is not lost now it arrives again. */
static int misdirect(const struct campaign_net *net, const struct campaign_ways *before,
		     const struct campaign_ways *now, struct err *err)
{
	int rc = 0;
	for (uint32_t from = 0; !rc && from < net->nodes; from++) {
		struct script s = {.len = 0};
		char address[ADDRESS_BYTES];
		for (uint32_t to = 0; to < net->nodes; to++) {
			bool lost = campaign_ways_is_lost(now, from, to);
			if (lost == campaign_ways_is_lost(before, from, to))
				continue;
			campaign_net_address(to, address, sizeof(address));
			if (lost)
				add(&s, "neigh replace %s lladdr " NOWHERE " dev eth0 nud permanent\n", address);
			else
				add(&s, "neigh del %s dev eth0\n", address);
		}
		rc = run_in(net, net->node[from], &s, err);
	}
	return rc;
}

/* Both ends: what the node sends, and what is sent to it. */
static int slow(const struct campaign_net *net, const struct campaign_fault *f, bool on, struct err *err)
{
	char how[64] = "";
	struct script node = {.len = 0}, bridge = {.len = 0};
	const char *verb = on ? "add" : "del";
	if (on)
		snprintf(how, sizeof(how), " tbf rate %umbit burst 64kb latency 400ms", f->mbit);
	add(&node, "qdisc %s dev eth0 root%s\n", verb, how);
	add(&bridge, "qdisc %s dev port%u root%s\n", verb, f->node, how);
	int rc = run_tool(net, net->node[f->node], "tc", &node, NULL, err);
	int other = run_tool(net, net->bridge, "tc", &bridge, NULL, rc ? NULL : err);
	return rc ? rc : other;
}

/* Between the node's port and the bridge stands a cable that this process carries. It goes with its device. */
static int unwear(struct campaign_net *net, uint32_t node, struct err *err)
{
	struct script s = {.len = 0};
	campaign_cable_close(net->cable[node]);
	net->cable[node] = NULL;
	add(&s, "link del worn%u\nlink set port%u master bridge\n", node, node);
	return run_in(net, net->bridge, &s, err);
}

static int wear(struct campaign_net *net, const struct campaign_fault *f, struct err *err)
{
	struct script s = {.len = 0};
	char port[24], worn[24];
	snprintf(port, sizeof(port), "port%u", f->node);
	snprintf(worn, sizeof(worn), "worn%u", f->node);
	add(&s,
	    "link add %s type veth peer name bare%u\nlink set %s up\nlink set bare%u master bridge up\n"
	    "link set %s nomaster\n",
	    worn, f->node, worn, f->node, port);
	int rc = run_in(net, net->bridge, &s, err);
	if (rc)
		return rc;
	if (setns(net->bridge, CLONE_NEWNET))
		return err_set(err, -errno, "setns: %s", err_name(errno));
	rc = campaign_cable_open(port, worn, f->percent, f->delay_ms * CLOCK_NS_PER_MS, &net->cable[f->node], err);
	campaign_net_leave(net);
	if (rc)
		(void)unwear(net, f->node, NULL);
	return rc;
}

static int has_worn(const struct campaign_net *net, uint32_t node, struct err *err)
{
	uint64_t lost, delayed;
	campaign_cable_count(net->cable[node], &lost, &delayed);
	return lost || delayed ? 0 : err_set(err, -EAGAIN, "the cable of node-%u has lost or delayed nothing", node);
}

static int has_slowed(const struct campaign_net *net, uint32_t node, struct err *err)
{
	struct script ask = {.len = 0}, said = {.len = 0};
	unsigned long packets = 0;
	add(&ask, "qdisc show dev eth0\n");
	int rc = run_tool(net, net->node[node], "tc", &ask, &said, err);
	const char *at = rc ? NULL : strstr(said.text, "overlimits ");
	if (rc || (at && sscanf(at, "overlimits %lu", &packets) == 1 && packets))
		return rc;
	return err_set(err, -EAGAIN, "the slow cable of node-%u has held nothing back", node);
}

int campaign_net_held_back(const struct campaign_net *net, const struct campaign_fault *f, struct err *err)
{
	enum means means = means_of(f);
	return means == BY_CABLE ? has_worn(net, f->node, err) : means == BY_RATE ? has_slowed(net, f->node, err) : 0;
}

int campaign_net_try_slow(const struct campaign_net *net, struct err *err)
{
	const struct campaign_fault f = {.mbit = 1};
	int rc = slow(net, &f, true, err);
	slow(net, &f, false, NULL);
	return rc;
}

/* The ways that are lost by all faults that break it now; or only by those that turn ways, not cables. */
static struct campaign_ways lost_ways(const struct campaign_net *net, bool turned)
{
	struct campaign_ways all = {.nodes = net->nodes}, one;
	for (size_t i = 0; i < net->nfaults; i++) {
		if (turned && means_of(net->faults[i]) != BY_WAYS)
			continue;
		campaign_ways_of(net->faults[i], net->nodes, &one);
		for (uint32_t k = 0; k < net->nodes; k++)
			all.lost[k] |= one.lost[k];
	}
	return all;
}

/* before: the ways that were turned. */
static int set_broken(struct campaign_net *net, const struct campaign_fault *f, bool on,
		      const struct campaign_ways *before, struct err *err)
{
	struct campaign_ways now = lost_ways(net, true);
	switch (means_of(f)) {
	case BY_PLUG:
		return plug(net, f->node, !on, err);
	case BY_RATE:
		return slow(net, f, on, err);
	case BY_CABLE:
		return on ? wear(net, f, err) : unwear(net, f->node, err);
	default:
		return misdirect(net, before, &now, err);
	}
}

static bool takes_same_cable(const struct campaign_net *net, const struct campaign_fault *f)
{
	bool same = false;
	for (size_t i = 0; i < net->nfaults; i++)
		same |= means_of(f) != BY_WAYS && means_of(net->faults[i]) != BY_WAYS &&
			net->faults[i]->node == f->node;
	return same;
}

int campaign_net_break(struct campaign_net *net, const struct campaign_fault *f, struct err *err)
{
	struct campaign_ways before = lost_ways(net, true);
	if (net->nfaults == CAMPAIGN_TOGETHER_MAX || takes_same_cable(net, f))
		return err_set(err, -EBUSY, "another fault has the cable of node-%u", f->node);
	net->faults[net->nfaults++] = f;
	net->broken = lost_ways(net, false);
	int rc = set_broken(net, f, true, &before, err);
	if (rc) {
		net->nfaults--;
		net->broken = lost_ways(net, false);
	}
	return rc;
}

int campaign_net_mend(struct campaign_net *net, const struct campaign_fault *f, struct err *err)
{
	struct campaign_ways before = lost_ways(net, true);
	size_t at = 0;
	while (at < net->nfaults && net->faults[at] != f)
		at++;
	if (at == net->nfaults)
		return 0;
	memmove(net->faults + at, net->faults + at + 1, (--net->nfaults - at) * sizeof(net->faults[0]));
	net->broken = lost_ways(net, false);
	return set_broken(net, f, false, &before, err);
}

void campaign_net_mend_all(struct campaign_net *net)
{
	while (net->nfaults)
		(void)campaign_net_mend(net, net->faults[0], NULL);
}
