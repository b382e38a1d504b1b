/* The scrub over stores made by hand: what is due, and what becomes of damage. */
#include "upkeep/scrub.h"

#include "base/clock.h"
#include "daemon.h"
#include "scratch.h"
#include "store/read/repo.h"
#include "store_maker.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MINUTE = 60000 /* ms */ };

static char path[SCRATCH_MAX];
static struct daemon node;

/* Committed an hour ago. */
static void make(uint64_t step, uint64_t seed)
{
	struct err err = {{0}};
	struct store_spec spec = {.root = path, .id = {step, 1}, .seed = seed};
	char dir[SCRATCH_MAX + 64], file[2 * SCRATCH_MAX + 64];
	struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = time(NULL) - 3600}};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	store_dir(&spec, dir, sizeof(dir));
	snprintf(file, sizeof(file), "%s/" NAME_MANIFEST, dir);
	cr_assert_eq(utimensat(AT_FDCWD, file, times, 0), 0);
}

static void start(uint64_t interval_ms)
{
	struct err err = {{0}};
	node.runtime.config.scrub_interval_ms = interval_ms;
	cr_assert_eq(scrub_new(&node.jobs, true, &node.storage.scrub, &err), 0, "%s", err.text);
}

static void setup(void)
{
	scratch_new(path);
	daemon_init(&node);
	node.runtime.config = (struct config){.store = path};
	node.storage.root = 0;
	list_init(&node.jobs.list);
	meter_init(&node.storage.reads, 0);
}

static void teardown(void)
{
	scrub_free(node.storage.scrub);
	scratch_remove(path);
}

TestSuite(scrub, .init = setup, .fini = teardown);

/* Until nothing more is done: twice idle after a tick. */
static void settle(void)
{
	for (int idle = 0; idle < 2;) {
		scrub_tick(node.storage.scrub);
		if (scrub_idle(node.storage.scrub)) {
			idle++;
			continue;
		}
		idle = 0;
		struct pollfd fd = {.fd = scrub_event_fd(node.storage.scrub), .events = POLLIN};
		cr_assert_gt(poll(&fd, 1, 20000), 0);
		scrub_poll(node.storage.scrub);
	}
}

/* -ENOENT: there is no mark. */
static int health_of(uint64_t step, struct health *health)
{
	struct repo repo;
	struct checkpoint ck;
	struct err err = {{0}};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(checkpoint_open_root(&repo, "main", (struct step_id){step, 1}, &ck, &err), 0, "%s", err.text);
	int rc = checkpoint_health(&ck, health, &err);
	checkpoint_close(&ck);
	repo_close(&repo);
	return rc;
}

static void flip(uint64_t step)
{
	char dir[SCRATCH_MAX + 64], file[2 * SCRATCH_MAX + 64];
	struct store_spec spec = {.root = path, .id = {step, 1}};
	uint8_t byte;
	store_dir(&spec, dir, sizeof(dir));
	snprintf(file, sizeof(file), "%s/rank-00000-of-00002.params.safetensors", dir);
	int fd = open(file, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", file);
	cr_assert_eq(pread(fd, &byte, 1, 4096), 1);
	byte ^= 1;
	cr_assert_eq(pwrite(fd, &byte, 1, 4096), 1);
	close(fd);
}

Test(scrub, what_nobody_has_read_for_long_is_read_and_marked)
{
	struct health health;
	for (uint64_t step = 1; step <= 70; step++) /* more than one plan takes */
		make(step, step);
	flip(3);
	start(MINUTE);
	settle();
	unsigned read = 0;
	for (uint64_t step = 1; step <= 70; step++)
		read += !health_of(step, &health);
	cr_assert_eq(read, 64u, "a batch: %u", read);
	cr_assert_eq(health_of(1, &health), 0);
	cr_assert(!health.damaged);
	cr_assert_eq(health_of(3, &health), 0);
	cr_assert(health.damaged, "nobody has its bytes");
}

Test(scrub, what_was_read_lately_or_never_has_to_be_is_left_alone)
{
	struct health health;
	make(1, 1);
	start(120 * MINUTE);
	settle();
	cr_assert_eq(health_of(1, &health), -ENOENT, "it is young");
	scrub_free(node.storage.scrub);
	start(0);
	settle();
	cr_assert_eq(health_of(1, &health), -ENOENT, "it is off");
}

Test(scrub, damage_is_repaired_where_a_copy_exists)
{
	struct health health;
	make(1, 7);
	make(2, 7);
	flip(1);
	start(MINUTE);
	settle();
	for (uint64_t step = 1; step <= 2; step++) {
		cr_assert_eq(health_of(step, &health), 0);
		cr_assert(!health.damaged);
	}
}

Test(scrub, a_daemon_that_stops_begins_nothing)
{
	struct health health;
	make(1, 1);
	start(MINUTE);
	node.runtime.stopping = true;
	settle();
	cr_assert_eq(health_of(1, &health), -ENOENT);
}

/* On another node than the one that looks for what is due; and its interval is off. */
Test(scrub, what_is_wanted_is_read_at_once)
{
	struct err err = {{0}};
	struct health health;
	for (uint64_t step = 1; step <= 3; step++)
		make(step, step);
	flip(2);
	node.runtime.config.scrub_interval_ms = 0;
	cr_assert_eq(scrub_new(&node.jobs, false, &node.storage.scrub, &err), 0, "%s", err.text);
	for (int times = 0; times < 20; times++)
		scrub_want(node.storage.scrub, "main", (struct step_id){2, 1});
	scrub_want(node.storage.scrub, "main", (struct step_id){9, 1}); /* it is gone */
	scrub_want(node.storage.scrub, "main", (struct step_id){3, 1});
	settle();
	cr_assert_eq(health_of(2, &health), 0);
	cr_assert(health.damaged);
	cr_assert_eq(health_of(3, &health), 0);
	cr_assert(!health.damaged);
	cr_assert_eq(health_of(1, &health), -ENOENT, "nobody wanted it");
}
