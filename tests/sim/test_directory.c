/* Coordinators that follow each other and make the same checkpoint (checkpoint/directory.h): what a former one has asked of the disk is done at any time
 * later, or never, and is answered wrongly at times. What bears the name of a checkpoint is whole at every instant, and what was told durable
 * stays. A node deletes only by order of the one who had the directory made. At the end the power fails. */
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/directory.h"
#include "disk_image.h"
#include "format/files/manifest.h"
#include "rng.h"
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COORDINATORS = 3, NODES = 2, FILES = 2 * NODES, TURNS = 400, ENDS = 100000 };

static const struct step_id id = {.step = 7, .epoch = 2};
#define JOB "main"
#define STEP "step-000000000007.e0002"

/* A coordinator, and what the nodes do by its orders, through the disks of their daemons. */
struct coordinator {
	struct disk *disk, *nodes;
	struct directory *directory; /* NULL: it is over */
	uint64_t maker;
	int dir; /* as the nodes have opened it */
	bool made, ready, cleared;
	/* It collects what others have left. */
	struct disk_op collect;
	bool collects;
	char from[NAME_WORK_MAX], trash[NAME_WORK_MAX];
	int root, job;
};

static struct coordinator all[COORDINATORS];
static unsigned now; /* who coordinates */
static bool durable; /* was told */
static uint64_t tries, durables, late;

static bool chance(unsigned percent)
{
	return rng_chance(world_rng(), percent);
}

/* ---- what the nodes write ------------------------------------------------------------------------------------------ */

static const char *file_name(unsigned i, char dst[NAME_FILE_MAX])
{
	if (i % 2)
		snprintf(dst, NAME_FILE_MAX, "node-n%u.json", i / 2);
	else
		snprintf(dst, NAME_FILE_MAX, "rank-%05u-of-%05u.w.safetensors", i / 2, NODES);
	return dst;
}

static const char *file_text(unsigned i)
{
	static const char *const texts[FILES] = {"bytes of n0", "manifest of n0", "bytes of n1", "manifest of n1"};
	return texts[i];
}

static int do_on(struct disk *d, struct disk_op op)
{
	int rc;
	do
		rc = disk_do(d, &op);
	while (rc == -EIO);
	return rc;
}

static bool write_file(struct coordinator *c, unsigned i)
{
	char name[NAME_FILE_MAX];
	const char *text = file_text(i);
	int file = do_on(
		c->nodes,
		(struct disk_op){.kind = DISK_OPEN, .dir = c->dir, .name = file_name(i, name), .flags = DISK_CREATE});
	if (file < 0)
		return false;
	bool ok = do_on(c->nodes,
			(struct disk_op){.kind = DISK_WRITE, .file = file, .buf = (void *)text, .len = strlen(text)}) >=
		  0;
	ok = ok && !disk_fsync(c->nodes, file);
	disk_close_file(c->nodes, file);
	return ok;
}

/* All of it, or less where the disk fails. True: they are prepared. */
static bool nodes_write(struct coordinator *c)
{
	char name[NAME_WORK_MAX];
	name_work(id, c->maker, name);
	c->dir = do_on(c->nodes, (struct disk_op){.kind = DISK_OPEN, .dir = c->job, .name = name, .flags = DISK_DIR});
	bool ok = c->dir >= 0;
	for (unsigned i = 0; ok && i < FILES; i++)
		ok = write_file(c, i);
	return ok && !disk_fsync(c->nodes, c->dir);
}

static void nodes_delete(struct coordinator *c)
{
	char name[NAME_FILE_MAX];
	for (unsigned i = 0; c->dir >= 0 && i < FILES; i++)
		do_on(c->nodes, (struct disk_op){.kind = DISK_UNLINK, .dir = c->dir, .name = file_name(i, name)});
}

static void seal(struct coordinator *c)
{
	struct wbuf text = {0};
	struct manifest_node nodes[NODES] = {0};
	struct manifest m = {.job = JOB,
			     .id = id,
			     .world = NODES,
			     .bytes = 1,
			     .stored = 1,
			     .files = NODES,
			     .nnodes = NODES,
			     .nodes = nodes};
	for (unsigned n = 0; n < NODES; n++) {
		const char *said = file_text(2 * n + 1);
		snprintf(nodes[n].name, sizeof(nodes[n].name), "n%u", n);
		file_name(2 * n + 1, nodes[n].file);
		nodes[n].size = strlen(said);
		nodes[n].digest = digest_bytes(said, strlen(said));
	}
	SIM_CHECK(!manifest_encode(&m, &text), "the manifest");
	directory_seal(c->directory, &text);
	wbuf_free(&text);
}

/* ---- the coordinators ---------------------------------------------------------------------------------------------- */

static bool stands(const struct directory *s)
{
	return s->arg == &all[now];
}

static void made(struct directory *s)
{
	struct coordinator *c = s->arg;
	c->made = true;
	c->ready = s->found;
}

static void sealed(struct directory *s)
{
	durable = durable ||
		  stands(s); /* nobody hears who does not coordinate any more (control/host/coordinator_host.h) */
}

static void failed(struct directory *s)
{
	(void)s;
}

static void left(struct directory *s)
{
	struct coordinator *c = s->arg;
	c->cleared = true;
	if (!s->kept)
		nodes_delete(c);
}

static void done(struct directory *s)
{
	struct coordinator *c = s->arg;
	c->directory = NULL;
	directory_free(s);
}

static void begin(struct coordinator *c)
{
	struct directory *s = calloc(1, sizeof(*s));
	SIM_CHECK(s, "memory");
	*s = (struct directory){.disk = c->disk,
				.root = c->root,
				.job = JOB,
				.id = id,
				.maker = c->maker,
				.stands = stands,
				.made = made,
				.sealed = sealed,
				.failed = failed,
				.left = left,
				.done = done,
				.arg = c};
	c->made = c->ready = c->cleared = false;
	c->directory = s;
	tries++;
	directory_start(s);
}

static void collected(struct disk_op *op)
{
	struct coordinator *c = op->arg;
	struct disk *d = c->nodes;
	char name[NAME_FILE_MAX];
	c->collects = false;
	if (op->result < 0)
		return;
	int dir = do_on(d, (struct disk_op){.kind = DISK_OPEN, .dir = c->job, .name = c->trash, .flags = DISK_DIR});
	if (dir < 0)
		return;
	do_on(d, (struct disk_op){.kind = DISK_UNLINK, .dir = dir, .name = NAME_MANIFEST});
	for (unsigned i = 0; i < FILES; i++)
		do_on(d, (struct disk_op){.kind = DISK_UNLINK, .dir = dir, .name = file_name(i, name)});
	disk_close_file(d, dir);
	do_on(d, (struct disk_op){.kind = DISK_RMDIR, .dir = c->job, .name = c->trash});
}

/* What a former coordinator has left, as upkeep/gc.h does it. */
static void collect(struct coordinator *c)
{
	if (c->collects || !now)
		return;
	name_work(id, all[rng_below(world_rng(), now)].maker, c->from);
	snprintf(c->trash, sizeof(c->trash), ".trash-%" PRIx64, clock_wall());
	c->collect = (struct disk_op){.kind = DISK_RENAME,
				      .dir = c->job,
				      .name = c->from,
				      .dir2 = c->job,
				      .name2 = c->trash,
				      .done = collected,
				      .arg = c};
	c->collects = true;
	disk_submit(c->disk, &c->collect);
}

static void act(struct coordinator *c)
{
	struct directory *s = c->directory;
	if (s && c->made && !c->ready && !s->rc) {
		c->ready = nodes_write(c);
		if (!c->ready)
			directory_drop(s, -EIO, "a node has failed");
	} else if (s && c->ready && !s->rc && !s->text.len) {
		seal(c);
	} else if (s && c->cleared) {
		directory_remove(s);
	} else if (s && chance(3)) {
		directory_drop(s, -ECANCELED, "enough");
	} else if (chance(10)) {
		collect(c);
	}
}

static void one_operation(struct coordinator *c)
{
	if (disk_pending(c->disk))
		disk_poll(c->disk, clock_deadline(1));
}

/* ---- what must hold -------------------------------------------------------------------------------------------------- */

static bool has(const struct names *names, bool safe, const char *name, const char *text)
{
	const struct inode *inode = names_find(names, name);
	const struct image *image = inode ? (safe ? &inode->safe : &inode->now) : NULL;
	return image && image->len == strlen(text) && !memcmp(image->data, text, image->len);
}

/* safe: what a power cut would leave for certain. */
static void check(bool safe)
{
	const struct inode *job = inode_walk("/sim/" JOB);
	const struct names *names = job ? (safe ? &job->safe_names : &job->now_names) : NULL;
	const struct inode *dir = names ? names_find(names, STEP) : NULL;
	char name[NAME_FILE_MAX];
	SIM_CHECK(!durable || dir, "what was told durable is not under its name");
	if (!dir)
		return;
	const struct names *in = safe ? &dir->safe_names : &dir->now_names;
	SIM_CHECK(names_find(in, NAME_MANIFEST), "a checkpoint has no manifest");
	for (unsigned i = 0; i < FILES; i++)
		SIM_CHECK(has(in, safe, file_name(i, name), file_text(i)), "a checkpoint lacks %s", name);
}

/* ---- a run ------------------------------------------------------------------------------------------------------------ */

static void open_one(struct coordinator *c, unsigned n)
{
	struct err err;
	*c = (struct coordinator){.maker = 17 + n, .dir = -1};
	SIM_CHECK(!disk_new("/sim", &c->disk, &c->root, &err) && !disk_new("/sim", &c->nodes, NULL, &err), "a disk");
	do_on(c->nodes, (struct disk_op){.kind = DISK_MKDIR, .dir = c->root, .name = JOB});
	c->job = do_on(c->nodes, (struct disk_op){.kind = DISK_OPEN, .dir = c->root, .name = JOB, .flags = DISK_DIR});
	SIM_CHECK(c->job >= 0, "the directory of the job");
}

static void turn(void)
{
	struct coordinator *c = &all[now];
	if (now + 1 < COORDINATORS && chance(2)) {
		now++;
		return;
	}
	if (!c->directory && !c->made)
		begin(c);
	act(c);
	if (chance(70))
		one_operation(c);
	for (unsigned n = 0; n < now; n++) {
		if (!chance(2) || !disk_pending(all[n].disk))
			continue;
		late++;
		one_operation(&all[n]);
	}
	clock_advance(1000000);
	check(false);
	check(true);
}

/* Whatever is still asked happens now. */
static void end(void)
{
	const struct disk_faults none = {0};
	now = COORDINATORS; /* nobody */
	disk_sim_faults(&none);
	for (unsigned n = 0; n < COORDINATORS; n++) {
		struct coordinator *c = &all[n];
		if (c->directory)
			directory_abandon(c->directory);
		for (unsigned i = 0; (c->directory || disk_pending(c->disk)) && i < ENDS; i++) {
			one_operation(c);
			check(false);
			check(true);
		}
		SIM_CHECK(!c->directory, "it never comes to its end");
	}
	disk_sim_power_cut();
	check(false);
	for (unsigned n = 0; n < COORDINATORS; n++) {
		disk_free(all[n].disk);
		disk_free(all[n].nodes);
	}
	durables += durable;
}

static void run(uint64_t seed)
{
	world_reset(seed);
	sim_context(seed, 0);
	now = 0;
	durable = false;
	for (unsigned n = 0; n < COORDINATORS; n++)
		open_one(&all[n], n);
	const struct disk_faults faults = {
		.error = chance(50) ? 10 : 0, .fsync = chance(30) ? 10 : 0, .answer = chance(50) ? 50 : 0};
	disk_sim_faults(&faults);
	for (unsigned i = 0; i < TURNS; i++) {
		sim_context(seed, i);
		turn();
	}
	end();
	world_end();
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	if (!count)
		count = getenv("CKPT_NIGHTLY") ? 50000 : 1000;
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	for (uint64_t seed = first; seed < first + count; seed++)
		run(seed);
	printf("%" PRIu64 " runs: %" PRIu64 " commits begun, %" PRIu64 " runs with a durable one, %" PRIu64
	       " requests that came late\n",
	       count, tries, durables, late);
	if (count >= 100)
		SIM_CHECK(durables > count / 3 && late > count, "hardly anything happens");
	return 0;
}
