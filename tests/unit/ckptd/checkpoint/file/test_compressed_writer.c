/* Packed files, from arenas to a store that can be read. */
#include "checkpoint/node_part.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "ckptd/job_maker.h"
#include "scratch.h"
#include "store/check/verify.h"
#include "store/read/restore.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WAIT_S = 60, ELEMENTS = 2500000, TAIL = 4321 };

static const struct step_id id = {.step = 7, .epoch = 2};

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct pool *pool;
static struct packing packing;
static struct memory *mem;
static uint64_t *leaves;
static struct node_part_rank rank;
static int finished;

/* One rank: 10 MB of values with few exponents, and some that nothing can be done about. */
static struct table *describe(struct layout *layout, uint64_t elements)
{
	struct registration reg = {.rank = 0, .world = 1};
	struct region whole = region_flat(0, elements), tail = region_flat(0, TAIL);
	struct err err = {{0}};
	reg.entries = calloc(2, sizeof(*reg.entries));
	reg.nentries = 2;
	reg.entries[0] = (struct entry){.name = strdup("w"),
					.kind = ENTRY_TENSOR,
					.dtype = DTYPE_F32,
					.shape = {1, {elements}},
					.group = "params",
					.npieces = 1,
					.pieces = malloc(sizeof(whole))};
	reg.entries[1] = (struct entry){.name = strdup("x"),
					.kind = ENTRY_TENSOR,
					.dtype = DTYPE_U8,
					.shape = {1, {TAIL}},
					.group = "noise",
					.npieces = 1,
					.pieces = malloc(sizeof(tail))};
	*reg.entries[0].pieces = whole;
	*reg.entries[1].pieces = tail;
	struct table *table = maker_table(&reg);
	const struct registration *list = &table->reg;
	cr_assert_eq(layout_make(&list, 1, true, LAYOUT_FILE_MAX, layout, &err), 0, "%s", err.text);
	return table;
}

static void fill(uint64_t seed)
{
	const struct layout *l = &mem->layout;
	for (uint32_t f = 0; f < l->nfiles; f++) {
		uint32_t *data = (uint32_t *)(memory_slot(mem, 0) + l->files[f].slot_at);
		bool noise = !strcmp(l->files[f].group, "noise");
		for (uint64_t i = 0; i < l->files[f].data_size / 4; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			data[i] = (uint32_t)(seed >> 32);
			if (!noise)
				data[i] = (data[i] & 0x83ffffff) | 0x38000000;
		}
	}
	memory_digest(mem, 0, 0, l->nleaves, leaves);
}

static void make_memory(uint64_t elements)
{
	struct layout layout;
	struct err err = {{0}};
	struct table *table = describe(&layout, elements);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &mem, &err), 0, "%s",
		     err.text);
	table_put(table);
	leaves = calloc(mem->layout.nleaves, sizeof(*leaves));
	cr_assert_eq(memory_claim(mem, id), 0);
	fill(1);
	rank = (struct node_part_rank){.mem = mem, .leaves = leaves};
}

static void setup(void)
{
	struct err err = {{0}};
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(3, &pool, &err), 0, "%s", err.text);
	packing_init(&packing, pool);
	make_memory(ELEMENTS);
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	pool_free(pool);
	cr_expect_eq(packing.made, 0, "buffers that nobody uses are kept");
	packing_free(&packing);
	memory_put(mem);
	free(leaves);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(packer, .init = setup, .fini = teardown);

static void on_done(struct node_part *c)
{
	(void)c;
	finished++;
}

static struct node_part *start(struct step_id step)
{
	struct node_part *c = calloc(1, sizeof(*c));
	*c = (struct node_part){.disk = disk,
				.root = root,
				.job = "main",
				.node = "n0",
				.id = step,
				.world = 1,
				.nranks = 1,
				.ranks = &rank,
				.digests_ready = true,
				.packing = &packing,
				.done = on_done};
	return c;
}

/* `throttle`: NULL, or pumped meanwhile. */
static void run(struct throttle *throttle)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while ((!finished || disk_pending(disk)) && clock_now() < deadline) {
		struct pollfd fds[2] = {{.fd = disk_event_fd(disk), .events = POLLIN},
					{.fd = pool_event_fd(pool), .events = POLLIN}};
		poll(fds, 2, 2);
		disk_poll(disk, 0);
		pool_poll(pool);
		cr_assert_leq(packing.made, PACKING_BUFFERS);
		if (throttle)
			throttle_pump(throttle);
	}
	cr_assert_eq(finished, 1, "done was called %d times", finished);
	finished = 0;
}

static void commit(struct node_part *c)
{
	maker_commit(c);
	run(NULL);
	cr_assert_eq(c->rc, 0, "%s", c->err.text);
}

static uint64_t size_of(struct step_id step, const char *name)
{
	char file[2 * SCRATCH_MAX], dir[NAME_DIR_MAX];
	struct stat st;
	name_dir(step, dir);
	snprintf(file, sizeof(file), "%s/main/%s/%s", path, dir, name);
	return stat(file, &st) ? 0 : (uint64_t)st.st_size;
}

static uint64_t inode_of(struct step_id step, const char *name)
{
	char file[2 * SCRATCH_MAX], dir[NAME_DIR_MAX];
	struct stat st;
	name_dir(step, dir);
	snprintf(file, sizeof(file), "%s/main/%s/%s", path, dir, name);
	return stat(file, &st) ? 0 : st.st_ino;
}

static void expect_verified(struct step_id step)
{
	struct repo repo;
	struct err err = {{0}};
	struct verify_result result;
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(verify_checkpoint(&repo, "main", step, &options, &result, &err), 0, "%s", err.text);
	repo_close(&repo);
}

#define PACKED "rank-00000-of-00001.params.ckptz"
#define PLAIN "rank-00000-of-00001.params.safetensors"
#define NOISE "rank-00000-of-00001.noise.safetensors"
#define NOTICE "node-n0.packed.safetensors"

static void expect_packed(struct step_id step)
{
	cr_expect_gt(size_of(step, NOTICE), 0, "PyTorch's reader would pass over what is packed");
	cr_expect_eq(size_of(step, PLAIN), 0);
	cr_expect_lt(size_of(step, PACKED), 4ul * ELEMENTS * 9 / 10);
	cr_expect_gt(size_of(step, PACKED), 3ul * ELEMENTS);
	cr_expect_gt(size_of(step, NOISE), TAIL, "what gains nothing is written as it is");
	expect_verified(step);
}

Test(packer, what_pays_is_packed_and_what_does_not_is_not)
{
	struct node_part *c = start(id);
	commit(c);
	expect_packed(id);
	cr_expect_eq(c->stored, size_of(id, PACKED) + size_of(id, NOISE));
	cr_expect_gt(c->bytes, c->stored);
	node_part_free(c);
}

Test(packer, the_bytes_come_back)
{
	struct node_part *c = start(id);
	commit(c);
	node_part_free(c);
	struct repo repo;
	struct checkpoint ck;
	struct err err = {{0}};
	struct restore_plan *plan;
	struct restore_options options = {.threads = 2};
	struct shape shape = {1, {ELEMENTS}};
	AUTO_FREE uint8_t *back = calloc(ELEMENTS, 4);
	struct want want = {
		.tensor = "w", .dtype = DTYPE_F32, .shape = shape, .region = region_whole(&shape), .data = back};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(checkpoint_open(&repo, "main", id, &ck, &err), 0, "%s", err.text);
	cr_assert_eq(restore_plan_make(&ck, &want, 1, &plan, &err), 0, "%s", err.text);
	cr_assert_eq(restore_execute(plan, &options, &err), 0, "%s", err.text);
	for (uint32_t f = 0; f < mem->layout.nfiles; f++)
		if (!strcmp(mem->layout.files[f].group, "params"))
			cr_expect_arr_eq(back, memory_slot(mem, 0) + mem->layout.files[f].slot_at, 4ul * ELEMENTS);
	restore_plan_free(plan);
	checkpoint_close(&ck);
	repo_close(&repo);
}

Test(packer, without_the_option_nothing_is_packed)
{
	struct node_part *c = start(id);
	c->packing = NULL;
	commit(c);
	cr_expect_gt(size_of(id, PLAIN), 4ul * ELEMENTS);
	cr_expect_eq(size_of(id, NOTICE), 0, "PyTorch's reader would refuse what it can read");
	cr_expect_eq(c->stored, c->bytes);
	node_part_free(c);
}

/* The next one links what has not changed, packed as it is, whether packing is still wanted or not. */
Test(packer, a_packed_file_that_has_not_changed_is_linked)
{
	struct previous previous = {0};
	struct step_id later = {8, 2};
	struct node_part *c = start(id);
	c->previous = &previous;
	c->full_every = 5;
	commit(c);
	previous_take(&previous, c);
	node_part_free(c);
	c = start(later);
	c->previous = &previous;
	c->full_every = 5;
	c->packing = NULL;
	commit(c);
	cr_expect_eq(c->linked_files, 2);
	cr_expect_eq(inode_of(id, PACKED), inode_of(later, PACKED));
	expect_packed(later);
	node_part_free(c);
	previous_free(&previous);
}

/* The other way round: what was written without packing stays readable for PyTorch's reader while it is linked. */
Test(packer, plain_files_that_are_linked_while_packing_is_wanted_need_no_notice)
{
	struct previous previous = {0};
	struct step_id later = {8, 2};
	for (int packs = 0; packs < 2; packs++) {
		struct node_part *c = start(packs ? later : id);
		c->packing = packs ? &packing : NULL;
		c->previous = &previous;
		c->full_every = 5;
		commit(c);
		cr_expect_eq(c->linked_files, packs ? 2 : 0);
		previous_take(&previous, c);
		node_part_free(c);
	}
	cr_expect_eq(inode_of(id, PLAIN), inode_of(later, PLAIN));
	cr_expect_eq(size_of(later, NOTICE), 0);
	previous_free(&previous);
}

/* An earlier life of the daemon has committed it. */
Test(packer, a_checkpoint_that_is_there_already_is_recognised)
{
	struct node_part *c = start(id);
	commit(c);
	node_part_free(c);
	for (int packs = 0; packs < 2; packs++) {
		c = start(id);
		c->packing = packs ? &packing : NULL;
		commit(c);
		cr_expect(c->already);
		cr_expect_lt(c->stored, c->bytes);
		node_part_free(c);
	}
	fill(99);
	c = start(id);
	maker_commit(c);
	run(NULL);
	cr_expect_eq(c->rc, -EEXIST, "another state of the same name: %s", c->err.text);
	node_part_free(c);
	cr_expect_gt(size_of(id, PACKED), 0);
}

Test(packer, a_limit_counts_what_is_stored)
{
	uint64_t rate = 0, job_rate = 32 << 20;
	struct throttle throttle;
	struct bucket bucket = {.rate = &job_rate};
	throttle_init(&throttle, &rate);
	struct node_part *c = start(id);
	c->throttle = &throttle;
	c->bucket = &bucket;
	uint64_t begin = clock_now();
	maker_commit(c);
	run(&throttle);
	uint64_t due = size_of(id, PACKED) * CLOCK_NS_PER_S / job_rate;
	cr_assert_eq(c->rc, 0, "%s", c->err.text);
	cr_expect_geq(clock_now() - begin, due - 2 * THROTTLE_BURST - 31 * CLOCK_NS_PER_MS);
	expect_packed(id);
	node_part_free(c);
}

static void expect_given_up(struct node_part *c, int rc)
{
	char dir[NAME_DIR_MAX], full[2 * SCRATCH_MAX];
	struct stat st;
	cr_expect_eq(c->rc, rc, "%s", c->err.text);
	name_dir(id, dir);
	snprintf(full, sizeof(full), "%s/main/%s", path, dir);
	cr_expect_neq(stat(full, &st), 0, "%s is still there", full);
	node_part_free(c);
}

Test(packer, a_commit_that_is_given_up_leaves_nothing)
{
	for (unsigned turns = 0; turns < 40; turns++) {
		struct node_part *c = start(id);
		maker_commit(c);
		for (unsigned i = 0; i < turns; i++) {
			disk_poll(disk, 0);
			pool_poll(pool);
		}
		if (finished) {
			finished = 0;
			node_part_free(c);
			break;
		}
		node_part_abort(c, -ESTALE, "enough");
		run(NULL);
		expect_given_up(c, -ESTALE);
	}
}

Test(packer, a_notice_goes_with_the_commit_that_is_given_up)
{
	struct err err = {{0}};
	cr_assert_eq(failpoint_arm("commit.node=error:ENOSPC@1", &err), 0, "%s", err.text);
	struct node_part *c = start(id);
	maker_commit(c);
	run(NULL);
	expect_given_up(c, -ENOSPC);
}

Test(packer, under_a_limit_it_is_given_up_soon)
{
	uint64_t rate = 0, job_rate = 1 << 16;
	struct throttle throttle;
	struct bucket bucket = {.rate = &job_rate};
	throttle_init(&throttle, &rate);
	struct node_part *c = start(id);
	c->throttle = &throttle;
	c->bucket = &bucket;
	maker_commit(c);
	uint64_t until = clock_deadline(200 * CLOCK_NS_PER_MS);
	while (clock_now() < until) {
		disk_poll(disk, 0);
		pool_poll(pool);
		throttle_pump(&throttle);
	}
	node_part_abort(c, -ESTALE, "enough");
	run(&throttle);
	expect_given_up(c, -ESTALE);
}

Test(packer, a_write_that_fails_fails_the_checkpoint)
{
	for (unsigned n = 1; n <= 15; n += 2) {
		char spec[64];
		struct err err = {{0}};
		snprintf(spec, sizeof(spec), "disk.write=error:ENOSPC@%u", n);
		cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
		struct node_part *c = start(id);
		maker_commit(c);
		run(NULL);
		expect_given_up(c, -ENOSPC);
		failpoint_arm(NULL, NULL);
	}
}
