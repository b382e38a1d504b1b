/* Reading back over the real disk, and what becomes of damage. */
#include "checkpoint/readback.h"

#include "base/clock.h"
#include "checkpoint/node_part.h"
#include "ckptd/job_maker.h"
#include "runtime/workers.h"
#include "save/snapshot.h"
#include "scratch.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static const struct step_id id = {.step = 7, .epoch = 1};

static char path[SCRATCH_MAX], data_file[SCRATCH_MAX + 256];
static struct meter reads;
static struct pool *reader;
static struct disk *disk;
static struct maker m;
static struct part parts[MAKER_WORLD];
static struct snapshot snapshot = {.nparts = MAKER_WORLD, .parts = parts};
static bool finished;
static int finished_rc;
static struct err finished_err;
static uint32_t large; /* index of the file that gets damaged: it has several leaves */

static void committed(struct node_part *c)
{
	cr_assert_eq(c->rc, 0, "%s", c->err.text);
	finished = true;
}

static void commit(int root)
{
	struct node_part_rank ranks[MAKER_WORLD];
	struct node_part *c = calloc(1, sizeof(*c));
	cr_assert(c);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		ranks[r] = (struct node_part_rank){.mem = m.mem[r], .slot = 0, .leaves = m.leaves[r]};
	*c = (struct node_part){.disk = disk,
				.root = root,
				.job = "main",
				.node = "n0",
				.id = id,
				.world = MAKER_WORLD,
				.nranks = MAKER_WORLD,
				.ranks = ranks,
				.digests_ready = true,
				.done = committed};
	finished = false;
	maker_commit(c);
	while (!finished || disk_pending(disk))
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
	node_part_free(c);
}

static void setup(void)
{
	struct err err = {{0}};
	int root;
	char dir[NAME_DIR_MAX], file[NAME_FILE_MAX];
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	maker_new(&m, id);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		parts[r] = (struct part){.state = PART_DIGESTED, .mem = m.mem[r], .slot = 0};
	meter_init(&reads, 0);
	cr_assert_eq(pool_new(1, &reader, &err), 0, "%s", err.text);
	commit(root);
	name_dir(id, dir);
	while (m.mem[0]->layout.files[large].data_size <= 2 * LEAF_SIZE)
		large++;
	name_data(0, MAKER_WORLD, m.mem[0]->layout.files[large].group, 0, file);
	snprintf(data_file, sizeof(data_file), "%s/main/%s/%s", path, dir, file);
}

static void teardown(void)
{
	pool_free(reader);
	maker_free(&m);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(readback, .init = setup, .fini = teardown);

static void done(void *arg, struct step_id which, int rc, const struct err *err)
{
	(void)arg;
	cr_assert_eq(step_compare(which, id), 0);
	finished = true;
	finished_rc = rc;
	finished_err = *err;
}

static int read_back(const struct snapshot *s)
{
	struct verify_item *item;
	struct readback what = {.job = "main", .id = id, .store = path, .meter = &reads, .pool = reader, .done = done};
	finished = false;
	cr_assert_eq(snapshot_donor(s, &what.donor), 0);
	cr_assert_eq(readback_start(&what, &item), 0);
	struct pollfd fd = {.fd = pool_event_fd(reader), .events = POLLIN};
	while (!finished) {
		cr_assert_gt(poll(&fd, 1, 20000), 0);
		pool_poll(reader);
	}
	return finished_rc;
}

static bool is_marked_damaged(void)
{
	struct repo repo;
	struct checkpoint ck;
	struct health health;
	struct err err = {{0}};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(checkpoint_open(&repo, "main", id, &ck, &err), 0, "%s", err.text);
	cr_assert_eq(checkpoint_health(&ck, &health, &err), 0, "%s", err.text);
	checkpoint_close(&ck);
	repo_close(&repo);
	return health.damaged;
}

static void flip(off_t at)
{
	uint8_t byte;
	int fd = open(data_file, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", data_file);
	cr_assert_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

Test(readback, what_is_whole_is_marked_so)
{
	cr_assert_eq(read_back(&snapshot), 0, "%s", finished_err.text);
	cr_assert_str_empty(finished_err.text);
	cr_assert(!is_marked_damaged());
}

Test(readback, damage_is_repaired_from_memory)
{
	flip(20);
	flip((off_t)m.mem[0]->heads[large].len + 70000);
	cr_assert_eq(read_back(&snapshot), 0, "%s", finished_err.text);
	cr_assert(strstr(finished_err.text, "repaired 1 damaged files"), "%s", finished_err.text);
	cr_assert(!is_marked_damaged());
	cr_assert_eq(read_back(NULL), 0, "%s", finished_err.text);
	cr_assert_str_empty(finished_err.text);
}

Test(readback, without_a_copy_it_is_marked_damaged)
{
	flip((off_t)m.mem[0]->heads[large].len);
	cr_assert_eq(read_back(NULL), -EBADMSG);
	cr_assert(is_marked_damaged());
	parts[0].state = PART_RELEASED;
	cr_assert_eq(read_back(&snapshot), -EBADMSG, "the slot was given back");
	parts[0].state = PART_DIGESTED;
	cr_assert_eq(read_back(&snapshot), 0, "%s", finished_err.text);
	cr_assert(!is_marked_damaged());
}

/* A slot that has become another's: its bytes do not match. */
Test(readback, memory_that_has_changed_is_not_believed)
{
	flip((off_t)m.mem[0]->heads[large].len);
	memory_slot(m.mem[0], 0)[m.mem[0]->layout.files[large].slot_at] ^= 2;
	cr_assert_eq(read_back(&snapshot), -EBADMSG);
	cr_assert(is_marked_damaged());
}
