/* bench_pages: what the kinds of pages of an arena cost. For each kind, in turn, --rounds times: an arena of MIB is made as ckptd makes
 * it and touched as its worker does; a process that maps and has touched all of it, as a rank does, is killed with SIGKILL, and the
 * time until its pidfd tells of the death is taken.
 *
 *   bench_pages [--mib N] [--rounds N]
 *
 * One line per kind: "KIND touch GB/s median (min .. max)  death ms median (min .. max)  huge N of M MiB". "pool" needs free pages there:
 * sysctl vm.nr_overcommit_hugepages=N lets the kernel make them when they are asked for. */
#include "arena/memory.h"
#include "base/clock.h"
#include "base/mapping.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KINDS = 3, ROUNDS_MAX = 64, DEATH_MS = 60000 };
static const char *const kinds[KINDS] = {"pool", "transparent", "never"};

struct samples {
	double touch[ROUNDS_MAX], death[ROUNDS_MAX];
	uint64_t huge;
	int n;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_pages: %s: %s\n", what, why);
	exit(1);
}

/* One flat tensor: three slots of it and little else make the arena. */
static struct memory *make(uint64_t bytes, enum huge_pages policy)
{
	struct shape shape = {.ndim = 1, .dim = {bytes / ARENA_SLOTS_MIN}};
	struct registration reg = {.world = 1, .entries = calloc(1, sizeof(*reg.entries)), .nentries = 1};
	struct entry *e = reg.entries;
	*e = (struct entry){.name = strdup("state"), .kind = ENTRY_TENSOR, .dtype = DTYPE_U8, .shape = shape};
	e->pieces = calloc(1, sizeof(*e->pieces));
	e->pieces[e->npieces++] = region_whole(&shape);
	snprintf(e->group, sizeof(e->group), "params");
	AUTO_WBUF struct wbuf out = {0};
	struct table *table;
	struct layout layout;
	struct memory *mem;
	struct err err = {{0}};
	if (registration_encode(&reg, &out) || table_decode(out.data, out.len, &table, &err))
		die("a table", err.text);
	const struct registration *regs[] = {&table->reg};
	if (layout_make(regs, 1, true, LAYOUT_FILE_MAX, &layout, &err) ||
	    memory_create("bench", table, &layout, ARENA_SLOTS_MIN, policy, &mem, &err))
		die("an arena", err.text);
	registration_free(&reg);
	table_put(table);
	return mem;
}

static double touch(struct memory *mem, bool huge)
{
	uint64_t at = 0, begin = clock_now();
	struct prefaulted p = {0};
	int rc = !mem->ready;
	while (rc > 0)
		rc = memory_fill(mem, &at);
	if (rc)
		die("filling", err_name(rc));
	while (memory_prefault(mem, huge, &p))
		;
	if (p.bytes != mem->size)
		die("touching", "memory is short");
	mem->huge_bytes = mem->reserved ? mem->size : p.huge;
	return (double)mem->size / (double)(clock_now() - begin);
}

/* The rank: as libckpt maps and touches. Says so on the pipe, and waits for its end. */
static void live(const struct memory *mem, int ready)
{
	void *base = mapping_shared(mem->fd, mem->size, PROT_READ | PROT_WRITE);
	if (base == MAP_FAILED || madvise(base, mem->size, MADV_POPULATE_WRITE) < 0)
		_exit(1);
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static double death(const struct memory *mem)
{
	int ready[2];
	char byte;
	if (pipe(ready) < 0)
		die("pipe", strerror(errno));
	pid_t pid = fork();
	if (!pid)
		live(mem, ready[1]);
	close(ready[1]);
	if (pid < 0 || read(ready[0], &byte, 1) != 1)
		die("the rank", "it could not map the arena");
	close(ready[0]);
	struct pollfd fd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	uint64_t begin = clock_now();
	kill(pid, SIGKILL);
	if (fd.fd < 0 || poll(&fd, 1, DEATH_MS) != 1)
		die("the rank", "its death was not told of");
	double ms = (double)(clock_now() - begin) / 1e6;
	close(fd.fd);
	waitpid(pid, NULL, 0);
	return ms;
}

/* False: there are no pages of this kind. */
static bool measure(int kind, uint64_t bytes, struct samples *s)
{
	static const enum huge_pages policies[KINDS] = {HUGE_PAGES_AUTO, HUGE_PAGES_TRANSPARENT, HUGE_PAGES_NEVER};
	struct memory *mem = make(bytes, policies[kind]);
	bool right = mem->reserved == (policies[kind] == HUGE_PAGES_AUTO);
	if (right) {
		s->touch[s->n] = touch(mem, policies[kind] != HUGE_PAGES_NEVER);
		s->death[s->n++] = death(mem);
		s->huge += mem->huge_bytes;
	}
	memory_put(mem);
	return right;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print(const char *what, double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	printf("  %s %.2f (%.2f .. %.2f)", what, v[n / 2], v[0], v[n - 1]);
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{"mib", required_argument, NULL, 'm'}, {"rounds", required_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
	static struct samples all[KINDS];
	uint64_t mib = 2048;
	long rounds = 5;
	for (int c; (c = getopt_long(argc, argv, "", table, NULL)) >= 0;) {
		if (c == 'm')
			mib = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			rounds = strtol(optarg, NULL, 10);
		else
			return 2;
	}
	if (!mib || rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	for (long round = 0; round < rounds; round++)
		for (int kind = 0; kind < KINDS; kind++)
			measure(kind, mib << 20, &all[kind]);
	for (int kind = 0; kind < KINDS; kind++) {
		struct samples *s = &all[kind];
		printf("%-12s", kinds[kind]);
		if (s->n) {
			print("touch GB/s", s->touch, s->n);
			print(" death ms", s->death, s->n);
			printf("  huge %" PRIu64 " of %" PRIu64 " MiB\n", s->huge / (uint64_t)s->n >> 20, mib);
		} else {
			printf("  the machine has none\n");
		}
	}
	return 0;
}
