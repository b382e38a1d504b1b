#include "network/net.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "network/cable.h"
#include "process/launch_proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "02:00:00:00:00:fe" /* no card has this address: what is sent to it is lost, silently */
#define IP_NS (10 * CLOCK_NS_PER_S)

enum { SCRIPT_BYTES = 16384, PATH_BYTES = 64, ADDRESS_BYTES = 24 };

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
	*net = (struct campaign_net){.nodes = nodes,
				     .home = -1,
				     .bridge = -1,
				     .broken = {.nodes = nodes},
				     .pulled = UINT32_MAX,
				     .slowed = UINT32_MAX,
				     .worn = UINT32_MAX};
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
	campaign_cable_close(net->cable);
	net->cable = NULL;
	for (uint32_t k = 0; k < net->nodes; k++)
		close_one(&net->node[k]);
	if (net->nodes) {
		close_one(&net->bridge);
		close_one(&net->home);
	}
	net->nodes = 0;
}

/* ---- it is broken -------------------------------------------------------------------------------------------------- */

/* The other end of its cable: the node sees no carrier, and knows nothing else. */
static int plug(const struct campaign_net *net, uint32_t node, bool in, struct err *err)
{
	struct script s = {.len = 0};
	add(&s, "link set port%u %s\n", node, in ? "up" : "down");
	return run_in(net, net->bridge, &s, err);
}

/* On each way that is broken what is sent goes to no card. */
static int misdirect(const struct campaign_net *net, bool on, struct err *err)
{
	int rc = 0;
	for (uint32_t from = 0; !rc && from < net->nodes; from++) {
		struct script s = {.len = 0};
		char address[ADDRESS_BYTES];
		for (uint32_t to = 0; to < net->nodes; to++) {
			if (!campaign_ways_is_lost(&net->broken, from, to))
				continue;
			campaign_net_address(to, address, sizeof(address));
			if (on)
				add(&s, "neigh replace %s lladdr " NOWHERE " dev eth0 nud permanent\n", address);
			else
				add(&s, "neigh del %s dev eth0\n", address);
		}
		rc = run_in(net, net->node[from], &s, err);
	}
	return rc;
}

/* Both ends: what the node sends, and what is sent to it. */
static int slow(const struct campaign_net *net, bool on, struct err *err)
{
	char how[64] = "";
	struct script node = {.len = 0}, bridge = {.len = 0};
	const char *verb = on ? "add" : "del";
	if (on)
		snprintf(how, sizeof(how), " tbf rate %umbit burst 64kb latency 400ms", net->mbit);
	add(&node, "qdisc %s dev eth0 root%s\n", verb, how);
	add(&bridge, "qdisc %s dev port%u root%s\n", verb, net->slowed, how);
	int rc = run_tool(net, net->node[net->slowed], "tc", &node, NULL, err);
	int other = run_tool(net, net->bridge, "tc", &bridge, NULL, rc ? NULL : err);
	return rc ? rc : other;
}

/* Between the node's port and the bridge stands a cable that this process carries. It goes with its device. */
static int unwear(struct campaign_net *net, struct err *err)
{
	struct script s = {.len = 0};
	campaign_cable_close(net->cable);
	net->cable = NULL;
	add(&s, "link del worn0\nlink set port%u master bridge\n", net->worn);
	return run_in(net, net->bridge, &s, err);
}

static int wear(struct campaign_net *net, const struct campaign_fault *f, struct err *err)
{
	struct script s = {.len = 0};
	char port[24];
	snprintf(port, sizeof(port), "port%u", f->node);
	add(&s,
	    "link add worn0 type veth peer name worn1\nlink set worn0 up\nlink set worn1 master bridge up\n"
	    "link set %s nomaster\n",
	    port);
	int rc = run_in(net, net->bridge, &s, err);
	if (rc)
		return rc;
	if (setns(net->bridge, CLONE_NEWNET))
		return err_set(err, -errno, "setns: %s", err_name(errno));
	rc = campaign_cable_open(port, "worn0", f->percent, f->delay_ms * CLOCK_NS_PER_MS, &net->cable, err);
	campaign_net_leave(net);
	if (rc)
		(void)unwear(net, NULL);
	return rc;
}

static int has_worn(const struct campaign_net *net, struct err *err)
{
	uint64_t lost, delayed;
	campaign_cable_count(net->cable, &lost, &delayed);
	return lost || delayed ? 0
			       : err_set(err, -EAGAIN, "the cable of node-%u has lost or delayed nothing", net->worn);
}

int campaign_net_held_back(const struct campaign_net *net, struct err *err)
{
	struct script ask = {.len = 0}, said = {.len = 0};
	unsigned long packets = 0;
	if (net->cable)
		return has_worn(net, err);
	if (net->slowed >= net->nodes)
		return 0;
	add(&ask, "qdisc show dev eth0\n");
	int rc = run_tool(net, net->node[net->slowed], "tc", &ask, &said, err);
	const char *at = rc ? NULL : strstr(said.text, "overlimits ");
	if (rc || (at && sscanf(at, "overlimits %lu", &packets) == 1 && packets))
		return rc;
	return err_set(err, -EAGAIN, "the slow cable of node-%u has held nothing back", net->slowed);
}

int campaign_net_try_slow(struct campaign_net *net, struct err *err)
{
	net->slowed = 0;
	net->mbit = 1;
	int rc = slow(net, true, err);
	slow(net, false, NULL);
	net->slowed = UINT32_MAX;
	return rc;
}

static int set_broken(const struct campaign_net *net, bool on, struct err *err)
{
	if (net->slowed < net->nodes)
		return slow(net, on, err);
	return net->pulled < net->nodes ? plug(net, net->pulled, !on, err) : misdirect(net, on, err);
}

int campaign_net_break(struct campaign_net *net, const struct campaign_fault *fault, struct err *err)
{
	campaign_ways_of(fault, net->nodes, &net->broken);
	net->pulled =
		fault->entry->kind == FAULT_LINK_DOWN || fault->entry->kind == FAULT_REBOOT ? fault->node : UINT32_MAX;
	net->slowed = fault->entry->kind == FAULT_LINK_SLOW ? fault->node : UINT32_MAX;
	net->mbit = fault->mbit;
	if (fault->entry->kind == FAULT_LINK_LOSS || fault->entry->kind == FAULT_LINK_DELAY) {
		net->worn = fault->node;
		return wear(net, fault, err);
	}
	return set_broken(net, true, err);
}

int campaign_net_mend(struct campaign_net *net, struct err *err)
{
	int rc = net->cable ? unwear(net, err) : net->worn < net->nodes ? 0 : set_broken(net, false, err);
	net->pulled = net->slowed = net->worn = UINT32_MAX;
	net->broken = (struct campaign_ways){.nodes = net->nodes};
	return rc;
}

/* ---- who is in it -------------------------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, int fd)
{
	struct stat b;
	return !fstat(fd, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_of(const struct campaign_net *net, const struct stat *space)
{
	for (uint32_t k = 0; k < net->nodes; k++)
		if (is_same(space, net->node[k]))
			return true;
	return is_same(space, net->bridge);
}

static bool find_process(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX])
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc");
	bool found = false;
	for (struct dirent *e; !found && dir && (e = readdir(dir));) {
		char path[PATH_BYTES];
		struct stat space;
		uint64_t pid;
		if (!number_parse(e->d_name, INT_MAX, &pid))
			continue;
		snprintf(path, sizeof(path), "/proc/%u/ns/net", (unsigned)pid);
		found = !stat(path, &space) && is_of(net, &space);
		if (found)
			snprintf(text, CAMPAIGN_NET_TEXT_MAX, "process %u is in a network namespace of the campaign",
				 (unsigned)pid);
	}
	return found;
}

static bool find_mount(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX])
{
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	while (!found && f && getline(&line, &room, f) > 0) {
		char point[CAMPAIGN_NET_TEXT_MAX - PATH_BYTES] = "";
		struct stat space;
		found = strstr(line, " nsfs ") && sscanf(line, "%*s %*s %*s %*s %191s", point) == 1 &&
			!stat(point, &space) && is_of(net, &space);
		if (found)
			snprintf(text, CAMPAIGN_NET_TEXT_MAX, "%s is a mount of a network namespace of the campaign",
				 point);
	}
	if (f)
		fclose(f);
	return found;
}

bool campaign_net_in_use(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX])
{
	return net->nodes && (find_process(net, text) || find_mount(net, text));
}
