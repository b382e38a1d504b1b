#include "restore_maker.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { DATA_AT = 4096, UNTOUCHED = 0xa5 };

void maker_open(struct maker *m)
{
	const char *tmp = getenv("TMPDIR");
	struct err err;
	*m = (struct maker){0};
	snprintf(m->path, sizeof(m->path), "%s/ckpt-restore-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	cr_assert(mkdtemp(m->path));
	cr_assert_eq(disk_new(m->path, &m->repo.disk, &m->repo.root, &err), 0, "%s", err.text);
	m->repo.path = m->path;
	m->ck = (struct checkpoint){.ref = {.job = "job", .id = {1000, 3}, .state = CHECKPOINT_COMMITTED},
				    .dir = m->repo.root,
				    .nnodes = 1,
				    .nodes = &m->node,
				    .repo = &m->repo};
	m->node = (struct node_manifest){.job = "job", .node = "here", .id = {1000, 3}};
}

void maker_close(struct maker *m)
{
	disk_free(m->repo.disk);
	node_manifest_free(&m->node);
	AUTO_CLOSEDIR DIR *dir = opendir(m->path);
	cr_assert(dir);
	for (struct dirent *e; (e = readdir(dir));)
		unlinkat(dirfd(dir), e->d_name, 0);
	rmdir(m->path);
}

/* Room for one more, zeroed. The capacity is the next power of two. */
static void *grow(void *array, uint32_t n, size_t size)
{
	if ((n & (n - 1)) == 0)
		array = realloc(array, (n ? 2ull * n : 1) * size);
	cr_assert(array);
	memset((char *)array + n * size, 0, size);
	return array;
}

uint32_t maker_tensor(struct maker *m, const char *name, enum dtype dtype, struct shape shape)
{
	struct node_manifest *n = &m->node;
	n->tensors = grow(n->tensors, n->ntensors, sizeof(*n->tensors));
	n->tensors[n->ntensors] =
		(struct manifest_tensor){.name = strdup(name), .kind = ENTRY_TENSOR, .dtype = dtype, .shape = shape};
	return n->ntensors++;
}

static struct manifest_file *file_of(struct maker *m, uint32_t rank)
{
	struct node_manifest *n = &m->node;
	if (n->nfiles && n->files[n->nfiles - 1].rank == rank)
		return &n->files[n->nfiles - 1];
	n->files = grow(n->files, n->nfiles, sizeof(*n->files));
	struct manifest_file *f = &n->files[n->nfiles++];
	*f = (struct manifest_file){.rank = rank, .group = "params", .data_at = DATA_AT, .size = DATA_AT};
	name_data(rank, 100000, f->group, 0, f->name);
	name_sidecar(rank, 100000, f->group, 0, f->sidecar_name);
	return f;
}

void maker_piece(struct maker *m, uint32_t rank, uint32_t tensor, struct region region)
{
	struct manifest_file *f = file_of(m, rank);
	const struct manifest_tensor *t = &m->node.tensors[tensor];
	f->pieces = grow(f->pieces, f->npieces, sizeof(*f->pieces));
	struct manifest_piece *p = &f->pieces[f->npieces++];
	*p = (struct manifest_piece){.tensor = tensor, .region = region, .at = f->size - f->data_at};
	p->bytes = region_volume(&t->shape, &region) * dtype_size(t->dtype);
	f->size += p->bytes;
}

static uint64_t value(uint32_t tensor, uint64_t index)
{
	uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull + tensor * 0xbf58476d1ce4e5b9ull;
	return (x ^ x >> 29) * 0x94d049bb133111ebull >> 8;
}

/* The packed bytes of a region. */
static void fill(const struct manifest_tensor *t, uint32_t tensor, const struct region *region, uint8_t *out)
{
	struct region whole = region_whole(&t->shape);
	struct overlap o;
	struct region_run run;
	unsigned size = dtype_size(t->dtype);
	overlap_init(&o, &t->shape, region, &whole);
	while (overlap_next(&o, &run))
		for (uint64_t i = 0; i < run.count; i++) {
			uint64_t v = value(tensor, run.dst + i);
			memcpy(out + (run.src + i) * size, &v, size);
		}
}

static void write_sidecar(struct maker *m, struct manifest_file *f, const uint8_t *image)
{
	struct layout_piece *pieces = calloc(f->npieces, sizeof(*pieces));
	uint64_t nleaves = 0;
	for (uint32_t i = 0; i < f->npieces; i++) {
		pieces[i] = (struct layout_piece){
			.at = f->pieces[i].at, .bytes = f->pieces[i].bytes, .first_leaf = nleaves};
		nleaves += leaf_count(f->pieces[i].bytes);
	}
	uint64_t *leaves = calloc(nleaves + 1, sizeof(*leaves));
	cr_assert(pieces && leaves);
	for (uint32_t i = 0; i < f->npieces; i++)
		digest_leaves(image + f->data_at + pieces[i].at, pieces[i].bytes, leaves + pieces[i].first_leaf);
	struct layout_file lf = {.data_size = f->size - f->data_at, .npieces = f->npieces};
	struct layout layout = {.nfiles = 1, .files = &lf, .npieces = f->npieces, .pieces = pieces, .nleaves = nleaves};
	AUTO_WBUF struct wbuf out = {0};
	struct err err;
	cr_assert_eq(sidecar_encode(&layout, 0, f->data_at, digest_bytes(image, f->data_at), leaves, &out), 0);
	f->sidecar = digest_bytes(out.data, out.len);
	f->sidecar_size = out.len;
	cr_assert_eq(disk_put_file(m->repo.disk, m->repo.root, f->sidecar_name, out.data, out.len, false, &err), 0,
		     "%s", err.text);
	free(leaves);
	free(pieces);
}

void maker_write(struct maker *m)
{
	for (uint32_t i = 0; i < m->node.nfiles; i++) {
		struct manifest_file *f = &m->node.files[i];
		AUTO_FREE uint8_t *image = calloc(1, f->size);
		struct err err;
		cr_assert(image);
		for (uint32_t p = 0; p < f->npieces; p++)
			fill(&m->node.tensors[f->pieces[p].tensor], f->pieces[p].tensor, &f->pieces[p].region,
			     image + f->data_at + f->pieces[p].at);
		write_sidecar(m, f, image);
		cr_assert_eq(disk_put_file(m->repo.disk, m->repo.root, f->name, image, f->size, false, &err), 0, "%s",
			     err.text);
	}
}

int maker_file(const struct maker *m, uint32_t rank, int flags)
{
	char path[NAME_FILE_MAX + 300], name[NAME_FILE_MAX];
	name_data(rank, 100000, "params", 0, name);
	snprintf(path, sizeof(path), "%s/%s", m->path, name);
	int fd = open(path, flags);
	cr_assert_geq(fd, 0);
	return fd;
}

struct want maker_want(const struct maker *m, uint32_t tensor, struct region region)
{
	const struct manifest_tensor *t = &m->node.tensors[tensor];
	size_t size = region_volume(&t->shape, &region) * dtype_size(t->dtype);
	struct want w = {.tensor = t->name, .dtype = t->dtype, .shape = t->shape, .region = region};
	w.data = malloc(size ? size : 1);
	w.leaves = calloc(leaf_count(size) + 1, sizeof(*w.leaves));
	cr_assert(w.data && w.leaves);
	memset(w.data, UNTOUCHED, size);
	return w;
}

void maker_want_free(struct want *want)
{
	free(want->data);
	free(want->leaves);
}

bool maker_digested(const struct want *want, const void *due, size_t size)
{
	AUTO_FREE uint64_t *leaves = calloc(leaf_count(size) + 1, sizeof(*leaves));
	cr_assert(leaves);
	digest_leaves(due, size, leaves);
	/* One more is there, and is nobody's. */
	return !memcmp(leaves, want->leaves, (leaf_count(size) + 1) * sizeof(*leaves));
}

bool maker_holds(const struct maker *m, uint32_t tensor, const struct want *want)
{
	size_t size = region_volume(&want->shape, &want->region) * dtype_size(want->dtype);
	AUTO_FREE uint8_t *due = malloc(size ? size : 1);
	cr_assert(due);
	fill(&m->node.tensors[tensor], tensor, &want->region, due);
	return !memcmp(due, want->data, size) && maker_digested(want, due, size);
}

bool maker_untouched(const struct want *want)
{
	size_t size = region_volume(&want->shape, &want->region) * dtype_size(want->dtype);
	for (size_t i = 0; i < size; i++)
		if (((const uint8_t *)want->data)[i] != UNTOUCHED)
			return false;
	return true;
}
