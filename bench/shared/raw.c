#include "raw.h"

#include "base/clock.h"
#include "cluster/roster.h"
#include "raw_seal.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_MAX = 64, BATCH = 32 };

/* How the bare loop copies. */
struct shape {
	uint64_t chunk;
	unsigned depth;
	bool waits, reads;
};

uint8_t *raw_from, *raw_to;
uint64_t raw_size = 1024ull << 20;
static const char *program;
static char folder[] = "/tmp/ckpt_bench.XXXXXX", roster_path[64], key_path[64];

_Noreturn void raw_die(const char *what, int rc)
{
	fprintf(stderr, "%s: %s: %s\n", program, what, err_name(rc));
	exit(1);
}

static void *shared(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)raw_size) < 0)
		raw_die("memfd", errno);
	void *base = mmap(NULL, raw_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (base == MAP_FAILED)
		raw_die("mmap", errno);
	return base;
}

static void new_contents(uint64_t seed)
{
	for (uint64_t i = 0; i < raw_size / 8; i++)
		((uint64_t *)raw_from)[i] = seed * 0x9e3779b97f4a7c15ull + i;
}

void raw_compare(const char *who, const void *copy, uint64_t len)
{
	if (!memcmp(raw_from, copy, len))
		return;
	fprintf(stderr, "%s: what %s copied differs\n", program, who);
	exit(1);
}

/* Each side has processors of its own, as a node has, if there are several. Else the kernel may have both wait for one. */
static void keep_apart(bool other)
{
	static cpu_set_t all; /* before either had its own */
	cpu_set_t own;
	int seen = 0;
	CPU_ZERO(&own);
	if (!CPU_COUNT(&all) && sched_getaffinity(0, sizeof(all), &all))
		return;
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && (seen++ >= CPU_COUNT(&all) / 2) == other)
			CPU_SET(cpu, &own);
	if (CPU_COUNT(&own))
		(void)sched_setaffinity(0, sizeof(own), &own);
}

pid_t raw_start(void (*target)(int out), int *in)
{
	int ends[2];
	if (pipe(ends) < 0)
		raw_die("pipe", errno);
	pid_t pid = fork();
	if (pid < 0)
		raw_die("fork", errno);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		keep_apart(true);
		close(ends[0]);
		target(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*in = ends[0];
	return pid;
}

void raw_end(pid_t pid, int in)
{
	close(in);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

struct raw_hello raw_hear(int in)
{
	struct raw_hello hello;
	struct pollfd fd = {.fd = in, .events = POLLIN};
	if (poll(&fd, 1, RAW_LIMIT_MS) <= 0 || read(in, &hello, sizeof(hello)) != sizeof(hello))
		raw_die("the other side", ETIMEDOUT);
	return hello;
}

void raw_tell(int out, const struct raw_hello *hello, void *memory)
{
	madvise(memory, raw_size, MADV_POPULATE_WRITE);
	if (write(out, hello, sizeof(*hello)) != sizeof(*hello))
		_exit(1);
}

/* ---- time ---------------------------------------------------------------------------------------------------- */

static struct {
	uint64_t begun, idle;
	double idle_s, busy_s; /* of all processors, between raw_begin() and raw_speed() */
} lap;

/* proc(5): user, nice, system, idle, iowait, in ticks. */
static uint64_t idle_ns(void)
{
	unsigned long long idle = 0, wait = 0;
	FILE *file = fopen("/proc/stat", "r");
	if (!file || fscanf(file, "cpu %*u %*u %*u %llu %llu", &idle, &wait) != 2)
		raw_die("/proc/stat", EIO);
	fclose(file);
	return (idle + wait) * (CLOCK_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

void raw_begin(void)
{
	lap.idle = idle_ns();
	lap.begun = clock_now();
}

double raw_speed(uint64_t len)
{
	uint64_t ns = clock_now() - lap.begun;
	lap.idle_s = (double)(idle_ns() - lap.idle) / (double)CLOCK_NS_PER_S;
	lap.busy_s = (double)ns / (double)CLOCK_NS_PER_S * (double)sysconf(_SC_NPROCESSORS_ONLN) - lap.idle_s;
	return (double)len / (double)ns;
}

/* ---- the bare loop ----------------------------------------------------------------------------------------------- */

static struct rail open_rail(const char *host)
{
	struct rail rail;
	struct err err = {{0}};
	struct sockaddr_in here = {.sin_family = AF_INET};
	inet_pton(AF_INET, host, &here.sin_addr);
	if (rail_open(&rail, "tcp", (struct sockaddr *)&here, &err)) {
		fprintf(stderr, "%s: %s\n", program, err.text);
		exit(1);
	}
	return rail;
}

static enum net_copies way = NET_COPIES_BARE;
static bool other_waits, other_is_read; /* how the next target drives its queue, and what is done to it */

static int read_queue(struct rail *rail, bool waits, struct rail_done *done)
{
	struct pollfd fd = {.fd = rail->fd, .events = POLLIN};
	int n = rail_read(rail, done, BATCH);
	if (!n && waits && rail_idle(rail))
		poll(&fd, 1, 100);
	return n;
}

/* Waits for news of that kind. */
static void await(struct rail *rail, enum rail_news news, struct rail_event *event)
{
	struct rail_done done[BATCH];
	uint64_t limit = clock_deadline(RAW_LIMIT_MS * CLOCK_NS_PER_MS);
	while (!rail_event(rail, event) || event->news != news) {
		if (clock_now() > limit)
			raw_die("a connection of the bare loop", ETIMEDOUT);
		rail_read(rail, done, BATCH);
	}
}

static void loop_target(int out)
{
	struct rail rail = open_rail("127.0.0.2");
	struct rail_event event;
	struct fid_ep *ep;
	struct raw_hello hello = {.ticket.size = raw_size};
	struct rail_done done[BATCH];
	struct fid_mr *mr;
	void *memory = other_is_read ? raw_from : raw_to;
	if (rail_expose(&rail, memory, raw_size, other_is_read ? FI_REMOTE_READ : FI_REMOTE_WRITE, &mr) ||
	    rail_address(&rail, &hello.address))
		_exit(1);
	hello.ticket.key = fi_mr_key(mr);
	hello.ticket.address = rail_remote_base(&rail, memory);
	raw_tell(out, &hello, memory);
	await(&rail, RAIL_CALLED, &event);
	if (rail_accept(&rail, &event, NULL, 0, &ep))
		_exit(1);
	await(&rail, RAIL_CONNECTED, &event);
	for (;;)
		read_queue(&rail, other_waits, done);
}

/* 0, or -EAGAIN: later. */
static int issue(struct fid_ep *ep, const struct raw_hello *hello, bool reads, uint64_t at, uint64_t len)
{
	struct iovec local = {(reads ? raw_to : raw_from) + at, len};
	struct fi_rma_iov remote = {hello->ticket.address + at, len, hello->ticket.key};
	struct fi_msg_rma message = {.msg_iov = &local, .iov_count = 1, .rma_iov = &remote, .rma_iov_count = 1};
	ssize_t rc = reads ? fi_readmsg(ep, &message, FI_COMPLETION)
			   : fi_writemsg(ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	if (rc && rc != -FI_EAGAIN)
		raw_die("a copy of the bare loop", (int)rc);
	return rc ? -EAGAIN : 0;
}

static void loop_copy(struct rail *rail, struct fid_ep *ep, const struct raw_hello *hello, const struct shape *shape,
		      uint64_t len)
{
	struct rail_done done[BATCH];
	uint64_t at = 0;
	unsigned flying = 0;
	while (at < len || flying) {
		while (at < len && flying < shape->depth) {
			uint64_t n = min_u64(shape->chunk, len - at);
			if (issue(ep, hello, shape->reads, at, n))
				break;
			at += n;
			flying++;
		}
		int n = read_queue(rail, shape->waits && flying, done);
		for (int i = 0; i < n; i++)
			if (done[i].rc)
				raw_die("a copy of the bare loop", done[i].rc);
		flying -= (unsigned)n;
	}
}

static double run_loop(const struct shape *shape, uint64_t len)
{
	int in;
	other_waits = shape->waits;
	other_is_read = shape->reads;
	pid_t pid = raw_start(loop_target, &in);
	struct raw_hello hello = raw_hear(in);
	struct rail rail = open_rail("127.0.0.1");
	struct rail_event event;
	struct fid_ep *ep;
	if (rail_call(&rail, &hello.address, NULL, 0, &ep))
		raw_die("the other side's address", EINVAL);
	await(&rail, RAIL_CONNECTED, &event);
	loop_copy(&rail, ep, &hello, shape, 4096);
	raw_begin();
	loop_copy(&rail, ep, &hello, shape, len);
	double speed = raw_speed(len);
	raw_end(pid, in);
	rail_hang_up(ep);
	rail_close(&rail);
	raw_compare("the bare loop", raw_to, len);
	return speed;
}

/* ---- the net of ckptd ---------------------------------------------------------------------------------------- */

struct roster *raw_roster(void)
{
	struct err err = {{0}};
	struct roster *roster;
	if (roster_read(roster_path, &roster, &err)) {
		fprintf(stderr, "%s: %s\n", program, err.text);
		_exit(1);
	}
	return roster;
}

struct net *raw_net(unsigned self, const struct roster *roster, const struct net_events *events)
{
	struct err err = {{0}};
	struct net *net;
	struct net_config config = {.roster = roster,
				    .self = self,
				    .provider = "tcp",
				    .copies = way,
				    .credentials = {.key = key_path},
				    .peer_timeout_ns = 5 * CLOCK_NS_PER_S};
	if (net_new(&config, events, &net, &err)) {
		fprintf(stderr, "%s: %s\n", program, err.text);
		_exit(1);
	}
	return net;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file))
		raw_die(path, errno);
	chmod(path, 0600);
}

static void prepare(void)
{
	if (!mkdtemp(folder))
		raw_die(folder, errno);
	snprintf(roster_path, sizeof(roster_path), "%s/roster", folder);
	snprintf(key_path, sizeof(key_path), "%s/key", folder);
	write_file(roster_path, "a 127.0.0.1:27471\nb 127.0.0.2:27472\n");
	write_file(key_path, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
	raw_from = shared("from");
	raw_to = shared("to");
	new_contents(1);
}

static void print_shape(const char *what, const struct shape *shape, double speed)
{
	printf("%sparts of %lu MiB, %u in flight, %s, %s: %.2f GB/s\n", what, (unsigned long)(shape->chunk >> 20),
	       shape->depth, shape->waits ? "waiting" : "polling", shape->reads ? "reading" : "writing", speed);
}

static void try(struct shape shape, struct shape *best, double *most)
{
	double one = run_loop(&shape, raw_size / 4), two = run_loop(&shape, raw_size / 4),
	       speed = one > two ? one : two;
	print_shape("raw: ", &shape, speed);
	if (speed <= *most)
		return;
	*most = speed;
	*best = shape;
}

static struct shape best_shape(bool reads)
{
	static const uint64_t chunks[] = {1 << 20, 4 << 20, 8 << 20, 64 << 20};
	static const unsigned depths[] = {1, 4, 16};
	struct shape best = {0};
	double most = 0;
	for (unsigned i = 0; i < (reads ? 48 : 24); i++)
		try((struct shape){chunks[i / 6 % 4], depths[i / 2 % 3], i % 2, i >= 24}, &best, &most);
	print_shape("raw: best with ", &best, most);
	return best;
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void clean_up(void)
{
	unlink(roster_path);
	unlink(key_path);
	rmdir(folder);
}

struct figure {
	double values[ROUNDS_MAX];
	unsigned n;
};

static void note(struct figure *f, double value)
{
	f->values[f->n++] = value;
}

static void print_figure(const char *text, struct figure *f)
{
	qsort(f->values, f->n, sizeof(*f->values), compare_numbers);
	printf("%s %.2f (%.2f .. %.2f)", text, f->values[f->n / 2], f->values[0], f->values[f->n - 1]);
}

static void measure(const struct raw_bench *bench, unsigned rounds)
{
	struct figure ratios = {.n = 0}, speeds = {.n = 0}, least = {.n = 0}, bound = {.n = 0};
	bool sealed = way == NET_COPIES_SEALED;
	struct shape shape = best_shape(bench->reads);
	struct seal_shape sealing = sealed ? raw_seal_best(bench->verified) : (struct seal_shape){0};
	double before = run_loop(&shape, raw_size),
	       alone = sealed ? raw_seal_run(&sealing, raw_size, bench->verified) : 0;
	for (unsigned i = 0; i < rounds; i++) {
		new_contents(i + 2);
		double speed = bench->run(), busy = lap.busy_s, idle = lap.idle_s;
		double after = run_loop(&shape, raw_size), raw = (before + after) / 2;
		note(&speeds, speed);
		note(&ratios, speed / raw);
		printf("%s %.2f GB/s, processors %.2f s busy and %.2f s idle; raw %.2f and %.2f GB/s, %.2f s and %.2f "
		       "s: ratio %.2f\n",
		       bench->what, speed, busy, idle, before, after, lap.busy_s, lap.idle_s,
		       ratios.values[ratios.n - 1]);
		before = after;
		if (!sealed)
			continue;
		after = raw_seal_run(&sealing, raw_size, bench->verified);
		note(&least, speed / ((alone + after) / 2));
		note(&bound, (alone + after) / 2 / raw);
		printf("    a bare loop that seals %.2f and %.2f GB/s: ratio %.2f\n", alone, after,
		       least.values[least.n - 1]);
		alone = after;
	}
	printf("%s:", bench->what);
	print_figure(" ratio", &ratios);
	print_figure(",", &speeds);
	printf(" GB/s\n");
	if (!sealed)
		return;
	printf("%s, against a bare loop that seals:", bench->what);
	print_figure(" ratio", &least);
	print_figure("; that one to the loop that does not:", &bound);
	printf("\n");
}

int raw_main(int argc, char **argv, const struct raw_bench *bench)
{
	unsigned rounds = 7;
	program = bench->program;
	if (argc > 1 && (!strcmp(argv[argc - 1], "--sealed") || !strcmp(argv[argc - 1], "--fabric"))) {
		way = strcmp(argv[--argc], "--fabric") ? NET_COPIES_SEALED : NET_COPIES_FABRIC;
	}
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--mib"))
			raw_size = strtoull(argv[i + 1], NULL, 10) << 20;
		else if (!strcmp(argv[i], "--rounds"))
			rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
	}
	if (argc % 2 == 0 || !raw_size || !rounds || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: %s [--mib N] [--rounds N] [--sealed|--fabric]\n", program);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0); /* else each child has what was not written yet */
	keep_apart(false);
	prepare();
	measure(bench, rounds);
	clean_up();
	return 0;
}
