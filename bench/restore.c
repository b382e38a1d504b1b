/* bench_restore REPO LAYOUT: restores the newest checkpoint of the repository into memory and prints the useful bytes per second,
 * from opening the checkpoint to the last byte in place. bench/restore.sh makes the checkpoint and compares with fio.
 *
 *	same     what was saved, as it was saved
 *	cross    what was saved in rows or flat ranges is wanted in columns, what was saved in columns in rows
 *	N        rows over N ranks
 *	read     nothing is restored: the same files through the same disk layer, not checked and not copied
 *
 * Destinations are touched before the clock starts, as arenas are, and lie in huge pages where there are any. */
#include "store/read/restore.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct wants {
	struct want *list;
	size_t n, cap;
	uint64_t bytes;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_restore: %s: %s\n", what, why);
	exit(1);
}

/* The offset stands in for the address until there is memory. The name is a copy: the checkpoint is opened again. */
static void add(struct wants *w, const struct manifest_tensor *t, uint32_t owner, struct region region)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 256;
		w->list = realloc(w->list, w->cap * sizeof(*w->list));
		if (!w->list)
			die("wants", "no memory");
	}
	struct want want = {
		.tensor = strdup(t->name), .dtype = t->dtype, .shape = t->shape, .region = region, .owner = owner};
	want.data = (void *)(uintptr_t)w->bytes;
	w->list[w->n++] = want;
	w->bytes += region_volume(&t->shape, &region) * dtype_size(t->dtype);
}

/* The part of rank r of n along a dimension; what has no such dimension goes to rank 0. */
static void add_split(struct wants *w, const struct manifest_tensor *t, uint32_t dim, uint32_t n)
{
	struct region region = region_whole(&t->shape);
	if (dim >= t->shape.ndim) {
		add(w, t, 0, region);
		return;
	}
	for (uint32_t r = 0; r < n; r++) {
		region.offset[dim] = t->shape.dim[dim] * r / n;
		region.extent[dim] = t->shape.dim[dim] * (r + 1) / n - region.offset[dim];
		add(w, t, r, region);
	}
}

static void wants_same(const struct checkpoint *ck, struct wants *w)
{
	for (uint32_t n = 0; n < ck->nnodes; n++)
		for (uint32_t f = 0; f < ck->nodes[n].nfiles; f++) {
			const struct manifest_file *file = &ck->nodes[n].files[f];
			w->bytes = align_up(w->bytes, LAYOUT_ALIGN); /* as in an arena */
			for (uint32_t p = 0; p < file->npieces; p++)
				add(w, &ck->nodes[n].tensors[file->pieces[p].tensor], file->rank,
				    file->pieces[p].region);
		}
}

/* Whether some piece of the tensor was saved as columns. */
static bool in_columns(const struct node_manifest *node, uint32_t tensor)
{
	for (uint32_t f = 0; f < node->nfiles; f++)
		for (uint32_t p = 0; p < node->files[f].npieces; p++) {
			const struct manifest_piece *piece = &node->files[f].pieces[p];
			if (piece->tensor == tensor &&
			    !region_contiguous(&node->tensors[tensor].shape, &piece->region, NULL, NULL))
				return true;
		}
	return false;
}

static void wants_of(const struct checkpoint *ck, const char *layout, struct wants *w)
{
	if (!strcmp(layout, "same")) {
		wants_same(ck, w);
		return;
	}
	bool cross = !strcmp(layout, "cross");
	uint32_t ranks = cross ? ck->manifest.world : (uint32_t)strtoul(layout, NULL, 10);
	if (!ranks)
		die(layout, "not a layout: same, cross, read, or a number of ranks");
	if (ck->nnodes != 1)
		die("repository", "the checkpoint is of several nodes");
	for (uint32_t t = 0; t < ck->nodes[0].ntensors; t++)
		add_split(w, &ck->nodes[0].tensors[t], cross && !in_columns(&ck->nodes[0], t), ranks);
}

static uint8_t *memory(uint64_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("memory", "there is not enough");
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

static double restore(struct repo *repo, const struct checkpoint_ref *ref, const char *layout)
{
	struct err err = {""};
	struct checkpoint ck;
	struct wants wants = {0};
	struct restore_plan *plan;
	uint64_t useful, read;
	if (checkpoint_open(repo, ref->job, ref->id, &ck, &err) < 0)
		die("open", err.text);
	wants_of(&ck, layout, &wants);
	uint8_t *base = memory(wants.bytes);
	for (size_t i = 0; i < wants.n; i++)
		wants.list[i].data = base + (uintptr_t)wants.list[i].data;
	checkpoint_close(&ck);

	uint64_t start = clock_now();
	if (checkpoint_open(repo, ref->job, ref->id, &ck, &err) < 0)
		die("open", err.text);
	if (restore_plan_make(&ck, wants.list, wants.n, &plan, &err) < 0)
		die("plan", err.text);
	if (restore_execute(plan, &(struct restore_options){0}, &err) < 0)
		die("execute", err.text);
	double seconds = (double)(clock_now() - start) / CLOCK_NS_PER_S;
	restore_plan_cost(plan, &useful, &read);
	restore_plan_free(plan);
	checkpoint_close(&ck);
	munmap(base, wants.bytes);
	for (size_t i = 0; i < wants.n; i++)
		free((char *)wants.list[i].tensor);
	free(wants.list);
	return (double)useful / seconds;
}

/* All data files one after the other, each as one operation, which the disk keeps at full depth. */
static double read_files(struct repo *repo, const struct checkpoint_ref *ref)
{
	struct err err = {""};
	struct checkpoint ck;
	uint64_t largest = 0, bytes = 0;
	if (checkpoint_open(repo, ref->job, ref->id, &ck, &err) < 0)
		die("open", err.text);
	for (uint32_t f = 0; f < ck.nodes[0].nfiles; f++)
		largest = max_u64(largest, align_up(ck.nodes[0].files[f].size, DISK_ALIGN));
	uint8_t *buffer = memory(largest);
	uint64_t start = clock_now();
	for (uint32_t f = 0; f < ck.nodes[0].nfiles; f++) {
		const struct manifest_file *file = &ck.nodes[0].files[f];
		struct disk_op op = {.kind = DISK_READ, .buf = buffer, .len = align_up(file->size, DISK_ALIGN)};
		op.file = disk_open_at(repo->disk, ck.dir, file->name, DISK_RDONLY | DISK_DIRECT);
		if (op.file < 0 || disk_do(repo->disk, &op) < 0 || (uint64_t)op.result != file->size)
			die(file->name, "cannot be read");
		disk_close_file(repo->disk, op.file);
		bytes += file->size;
	}
	double seconds = (double)(clock_now() - start) / CLOCK_NS_PER_S;
	munmap(buffer, largest);
	checkpoint_close(&ck);
	return (double)bytes / seconds;
}

int main(int argc, char **argv)
{
	struct err err = {""};
	struct repo repo;
	struct checkpoint_ref *refs;
	size_t n;
	if (argc != 3) {
		fputs("usage: bench_restore REPO same|cross|read|RANKS\n", stderr);
		return 2;
	}
	if (repo_open(argv[1], &repo, &err) < 0)
		die("repository", err.text);
	if (repo_scan(&repo, NULL, &refs, &n, &err) < 0)
		die("repository", err.text);
	if (!n || refs[n - 1].state != CHECKPOINT_COMMITTED)
		die(argv[1], "there is no checkpoint");
	bool raw = !strcmp(argv[2], "read");
	printf("%.0f\n", raw ? read_files(&repo, &refs[n - 1]) : restore(&repo, &refs[n - 1], argv[2]));
	free(refs);
	repo_close(&repo);
	return 0;
}
