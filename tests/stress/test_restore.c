/* The threads of a restore: many small restores in several partitions, some cancelled, some of a damaged checkpoint, with more
 * checkers than cores. For the thread sanitizer. */
#include "check.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"
#include "store/read/restore.h"
#include "store_maker.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1500, COLS = 700, ROUNDS = 16, WANTS_MAX = 64 };

static uint64_t volume(const struct want *w)
{
	return region_volume(&w->shape, &w->region) * dtype_size(w->dtype);
}

/* Every tensor, split over `ranks` along dimension `dim` where it has one. */
static size_t make_wants(const struct checkpoint *ck, uint32_t dim, uint32_t ranks, struct want *wants)
{
	size_t n = 0;
	for (uint32_t t = 0; t < ck->nodes[0].ntensors; t++) {
		const struct manifest_tensor *m = &ck->nodes[0].tensors[t];
		uint32_t parts = dim < m->shape.ndim ? ranks : 1;
		for (uint32_t r = 0; r < parts; r++) {
			struct want w = {m->name, m->dtype, m->shape, region_whole(&m->shape), NULL, r, false, NULL};
			if (parts > 1) {
				w.region.offset[dim] = m->shape.dim[dim] * r / parts;
				w.region.extent[dim] = m->shape.dim[dim] * (r + 1) / parts - w.region.offset[dim];
			}
			CHECK(n < WANTS_MAX);
			CHECK(w.data = malloc(volume(&w) + 1));
			CHECK(w.leaves = calloc(leaf_count(volume(&w)) + 1, sizeof(uint64_t)));
			wants[n++] = w;
		}
	}
	return n;
}

static void check_values(const struct store_spec *spec, const struct want *w)
{
	AUTO_FREE uint8_t *due = malloc(volume(w) + 1);
	AUTO_FREE uint64_t *leaves = calloc(leaf_count(volume(w)) + 1, sizeof(*leaves));
	CHECK(due && leaves);
	store_fill(spec->seed, w->tensor, w->dtype, &w->shape, &w->region, due);
	CHECK(!memcmp(due, w->data, volume(w)));
	digest_leaves(due, volume(w), leaves);
	CHECK(!memcmp(leaves, w->leaves, leaf_count(volume(w)) * sizeof(*leaves)));
}

static int cancel_later(void *arg, uint64_t done, uint64_t total)
{
	CHECK(done <= total);
	return --*(int *)arg == 0;
}

/* The result of one restore, whose values are checked when it succeeds. */
static int restore(struct repo *repo, const struct store_spec *spec, uint32_t dim, uint32_t ranks, int cancel_at)
{
	struct checkpoint ck;
	struct restore_plan *plan;
	struct want wants[WANTS_MAX];
	struct err err = {""};
	CHECK(checkpoint_open(repo, "main", spec->id, &ck, &err) == 0);
	size_t n = make_wants(&ck, dim, ranks, wants);
	CHECK(restore_plan_make(&ck, wants, n, &plan, &err) == 0);
	struct restore_options opts = {.threads = 1 + ranks, .progress = cancel_later, .arg = &cancel_at};
	int rc = restore_execute(plan, &opts, &err);
	CHECK((rc < 0) == (err.text[0] != 0));
	for (size_t i = 0; i < n; i++) {
		if (rc == 0)
			check_values(spec, &wants[i]);
		free(wants[i].data);
		free(wants[i].leaves);
	}
	restore_plan_free(plan);
	checkpoint_close(&ck);
	return rc;
}

/* Flips a bit in the middle of a rank's file. */
static void damage(const struct store_spec *spec)
{
	char path[512], dir[400], byte;
	store_dir(spec, dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/rank-00001-of-00003.params.safetensors", dir);
	AUTO_CLOSE int fd = open(path, O_RDWR);
	CHECK(fd >= 0);
	off_t middle = lseek(fd, 0, SEEK_END) / 2;
	CHECK(pread(fd, &byte, 1, middle) == 1);
	byte ^= 1;
	CHECK(pwrite(fd, &byte, 1, middle) == 1);
	CHECK(fsync(fd) == 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char root[300];
	snprintf(root, sizeof(root), "%s/ckpt-stress-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(root));
	struct store_spec good = {.root = root, .id = {1, 1}, .world = 3, .rows = ROWS, .cols = COLS, .seed = 7};
	struct store_spec bad = good;
	struct repo repo;
	struct err err = {""};
	bad.id.step = 2;
	CHECK(store_make(&good, &err) == 0);
	CHECK(store_make(&bad, &err) == 0);
	damage(&bad);
	CHECK(repo_open(root, &repo, &err) == 0);
	int cancelled = 0;
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t dim = (uint32_t)round % 2, ranks = 1 + (uint32_t)round % 4;
		CHECK(restore(&repo, &good, dim, ranks, 0) == 0);
		CHECK(restore(&repo, &bad, dim, ranks, 0) == -EBADMSG);
		int rc = restore(&repo, &good, dim, ranks, 1 + round % 5);
		CHECK(rc == 0 || rc == -ECANCELED);
		cancelled += rc == -ECANCELED;
	}
	CHECK(cancelled > 0);
	repo_close(&repo);
	CHECK(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
	return 0;
}
