/* mend_bits DIR COUNT SEED [packed]: makes two checkpoints with the same bytes in DIR, and flips COUNT bits of the data files and sidecars of
 * the first, one at a time, anywhere in them. Each must be found by verify, and mended from the second: then the file has the bytes that it had,
 * and verify finds nothing. Prints what was flipped, found and mended; exit 1 after the first that was not. */
#include "base/cleanup.h"
#include "store/check/repair.h"
#include "store/check/verify.h"
#include "store_maker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 64, BITS = 8 };

struct file {
	char path[800];
	uint8_t *was;
	size_t size;
};

struct mends {
	struct store_spec spec;
	struct repo repo;
	struct file files[FILES_MAX];
	size_t nfiles;
	uint64_t total, random; /* total: bytes */
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "mend_bits: %s: %s\n", what, why);
	exit(2);
}

static uint64_t random_below(struct mends *m, uint64_t n)
{
	uint64_t z = (m->random += 0x9e3779b97f4a7c15ull);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) % n;
}

/* What the file has now, or NULL where its size is another one. Of the caller. */
static uint8_t *content(const char *path, size_t size)
{
	struct stat st;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die(path, "cannot be opened");
	uint8_t *bytes = (size_t)st.st_size == size ? malloc(size) : NULL;
	if (bytes && pread(fd, bytes, size, 0) != (ssize_t)size)
		die(path, "cannot be read");
	return bytes;
}

static void take_file(struct mends *m, const char *dir, const char *name)
{
	struct file *f = &m->files[m->nfiles++];
	struct stat st;
	snprintf(f->path, sizeof(f->path), "%s/%s", dir, name);
	if (stat(f->path, &st))
		die(f->path, "is not there");
	f->size = (size_t)st.st_size;
	f->was = content(f->path, f->size);
	m->total += f->size;
}

/* Documents and marks are not repaired; a notice for PyTorch's reader is read by nobody here. */
static void take_files(struct mends *m)
{
	char dir[512];
	store_dir(&m->spec, dir, sizeof(dir));
	AUTO_CLOSEDIR DIR *stream = opendir(dir);
	for (struct dirent *e; stream && (e = readdir(stream)) && m->nfiles < FILES_MAX;)
		if (!strncmp(e->d_name, "rank-", 5) && !strstr(e->d_name, ".packed.safetensors"))
			take_file(m, dir, e->d_name);
}

static void make(struct mends *m, const char *root, uint64_t seed, bool packed)
{
	struct err err = {0};
	m->spec = (struct store_spec){.root = root, .id = {8, 1}, .world = 2, .rows = 30, .cols = 97, .packed = packed};
	m->spec.seed = seed | (packed ? STORE_WEIGHTS : 0);
	m->random = seed;
	int rc = store_make(&m->spec, &err);
	m->spec.id.step = 7;
	if (rc || store_make(&m->spec, &err) || repo_open(root, &m->repo, &err))
		die("the store", err.text);
	take_files(m);
}

static void note(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	(void)tensor, (void)from, (void)to, (void)text;
	if (arg)
		repair_note(arg, file);
}

static int verify(struct mends *m, struct repair *repair, struct err *err)
{
	struct verify_options opts = {.depth = VERIFY_DATA, .share = 1, .threads = 1, .finding = note, .arg = repair};
	struct verify_result result;
	return verify_checkpoint(&m->repo, "main", m->spec.id, &opts, &result, err);
}

static void flip(const struct file *f, size_t byte, unsigned bit)
{
	uint8_t is = f->was[byte] ^ (uint8_t)(1u << bit);
	AUTO_CLOSE int fd = open(f->path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, &is, 1, (off_t)byte) != 1)
		die(f->path, "cannot be written");
}

static bool mend(struct mends *m, const struct file *f, bool *found, struct err *err)
{
	struct repair *repair;
	struct repair_result result;
	if (repair_new(&m->repo, "main", m->spec.id, &repair))
		die("a repair", "out of memory");
	*found = verify(m, repair, err) == -EBADMSG;
	int rc = repair_run(repair, false, NULL, &result, err);
	repair_free(repair);
	uint8_t *is = content(f->path, f->size);
	bool same = is && !memcmp(is, f->was, f->size);
	free(is);
	return !rc && result.mended == 1 && same && !verify(m, NULL, err);
}

static void mend_some(struct mends *m, uint64_t n)
{
	uint64_t found = 0, mended = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = random_below(m, m->total * BITS);
		const struct file *f = m->files;
		struct err err = {""};
		bool is_found = false;
		for (; at / BITS >= f->size; f++)
			at -= f->size * BITS;
		flip(f, at / BITS, at % BITS);
		mended += mend(m, f, &is_found, &err);
		found += is_found;
		if (mended == i + 1 && found == i + 1)
			continue;
		fprintf(stderr, "mend_bits: bit %u of byte %lu of %s is not %s: %s\n", (unsigned)(at % BITS), at / BITS,
			f->path, is_found ? "mended" : "found", err.text);
		exit(1);
	}
	printf("data and sidecars: %lu bits in %zu files, %lu flipped, %lu found by verify, %lu mended\n",
	       m->total * BITS, m->nfiles, n, found, mended);
}

int main(int argc, char **argv)
{
	static struct mends m;
	struct err err = {""};
	if (argc != 4 && argc != 5) {
		fputs("usage: mend_bits DIR COUNT SEED [packed]\n", stderr);
		return 2;
	}
	make(&m, argv[1], strtoull(argv[3], NULL, 10), argc == 5);
	if (verify(&m, NULL, &err))
		die("not whole without a flip", err.text);
	mend_some(&m, strtoull(argv[2], NULL, 10));
	repo_close(&m.repo);
	return 0;
}
