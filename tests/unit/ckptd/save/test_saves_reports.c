/* A part that is written in the directory of one coordinator, when another one wants it, over the real disk. */
#include "ckptd/save/saved_job.h"
#include "participant/participant.h"
#include "save/saves_private.h"
#include "scratch.h"

#include "base/clock.h"
#include "store/check/verify.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WAIT_S = 60 };

static const struct step_id id = {.step = 5, .epoch = 2};

static char path[SCRATCH_MAX];
static struct daemon d;
static struct job job;
static struct rank ranks[MAKER_WORLD];
static struct maker maker;
static struct snapshot *s;

static void setup(void)
{
	static const uint32_t slots[MAKER_WORLD] = {0};
	struct err err = {{0}};
	saved_job_begin(&d, &job, ranks, &maker, id, true);
	d.runtime.config.node = "n0";
	throttle_init(&d.storage.writes, &d.runtime.config.write_bandwidth);
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &d.storage.disk, &d.storage.root, &err), 0, "%s", err.text);
	cr_assert_eq(saves_adopt(&job.saves, id, slots), 0);
	s = saves_find(&job.saves, id);
	cr_assert(s);
}

static void teardown(void)
{
	if (s->commit && s->commit->state == NODE_PART_PREPARED)
		node_part_end(s->commit);
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (saves_at_work(&job.saves) && clock_now() < deadline)
		disk_poll(d.storage.disk, deadline);
	saves_free(&job.saves);
	maker_free(&maker);
	disk_free(d.storage.disk);
	scratch_remove(path);
}

TestSuite(saves_reports, .init = setup, .fini = teardown);

static void path_of(uint64_t number, const char *file, char dst[PATH_MAX])
{
	char work[NAME_WORK_MAX];
	name_work(id, number, work);
	snprintf(dst, PATH_MAX, "%s/main/%s%s%s", path, work, *file ? "/" : "", file);
}

static bool is_there(uint64_t number)
{
	char file[NAME_FILE_MAX], at[PATH_MAX];
	struct stat st;
	name_node("n0", file);
	path_of(number, file, at);
	return !stat(at, &st) && st.st_size > 0;
}

/* The coordinator of this number has its directory made, and orders it to be written. */
static void order(uint64_t number)
{
	char at[PATH_MAX];
	snprintf(at, sizeof(at), "%s/main", path);
	mkdir(at, 0755);
	path_of(number, "", at);
	mkdir(at, 0755);
	saves_write(&job.saves, &(struct peer_save){.id = id, .maker = number});
}

static bool is_prepared_in(uint64_t number)
{
	return s->commit && !s->commit->rc && s->commit->state == NODE_PART_PREPARED && s->commit->maker == number;
}

static void until_prepared_in(uint64_t number)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (!is_prepared_in(number) && clock_now() < deadline)
		disk_poll(d.storage.disk, deadline);
	cr_assert(is_prepared_in(number), "in state %s of %lu: %s",
		  s->commit ? node_part_state_name(s->commit->state) : "none",
		  s->commit ? (unsigned long)s->commit->maker : 0, s->err.text);
	cr_expect(is_there(number));
	cr_expect(!s->anew && !s->storage_rc && s->state == SNAPSHOT_CAPTURED);
}

Test(saves_reports, what_is_prepared_is_written_anew_for_another_coordinator_and_what_is_there_stays)
{
	order(1);
	until_prepared_in(1);
	order(2);
	until_prepared_in(2);
	cr_expect(is_there(1), "it may become a checkpoint yet");
}

Test(saves_reports, what_is_just_being_written_is_written_for_the_last_coordinator_that_wants_it)
{
	order(1);
	cr_assert(s->commit && s->commit->state < NODE_PART_PREPARED);
	order(2);
	order(3);
	until_prepared_in(3);
	cr_expect_not(is_there(2), "it was begun for one whose order came too late");
}

Test(saves_reports, for_the_same_coordinator_nothing_is_written_twice)
{
	order(1);
	until_prepared_in(1);
	const struct node_part *was = s->commit;
	order(1);
	cr_expect_eq(s->commit, was);
	until_prepared_in(1);
}

Test(saves_reports, what_another_coordinator_finds_to_be_a_checkpoint_is_prepared_for_that_one)
{
	order(1);
	until_prepared_in(1);
	const struct node_part *was = s->commit;
	saves_write(&job.saves, &(struct peer_save){.id = id, .maker = 2, .flag = true});
	cr_expect_eq(s->commit, was);
	cr_expect(is_prepared_in(2));
	cr_expect_not(is_there(2));
}

Test(saves_reports, without_its_slots_it_stays_what_it_is_and_does_not_come_to_storage)
{
	order(1);
	until_prepared_in(1);
	s->parts[1].state = PART_RELEASED;
	order(2);
	cr_expect_eq(s->storage_rc, -ENODATA);
	cr_expect(strstr(s->err.text, "its slots are given back"), "%s", s->err.text);
	cr_expect_eq(s->state, SNAPSHOT_CAPTURED);
	s->parts[1].state = PART_DIGESTED;
	node_part_clear(s->commit, 2);
}
