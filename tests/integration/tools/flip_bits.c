/* flip_bits DIR STRIDE PAYLOAD SEED [packed]: makes a checkpoint in DIR and flips bits of its files, one at a time: of all metadata (documents,
 * sidecars, headers with their padding, marks) every STRIDE-th bit, of the data PAYLOAD bits at random. Each flip must be found by verify;
 * a restore must refuse it, or, where it does not read what was flipped, give the right bytes. The file is put right again before the
 * next. Prints what was flipped and found; exit 1 after the first that was not. */
#include "base/cleanup.h"
#include "format/files/packed.h"
#include "scratch.h"
#include "store/check/verify.h"
#include "store/read/restore.h"
#include "store_maker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { FILES_MAX = 64, WANTS_MAX = 64, BITS = 8 };

struct mapped {
	char name[NAME_FILE_MAX];
	uint8_t *data;
	size_t size, data_at; /* data_at: where the payload begins; the size where all is metadata */
	size_t head_at;       /* from there to data_at: the header of a data file, which takes no part in a restore */
};

struct flips {
	struct store_spec spec;
	char dir[512];
	struct repo repo;
	struct mapped files[FILES_MAX];
	size_t nfiles;
	struct want wants[WANTS_MAX];
	uint8_t *due[WANTS_MAX];
	size_t bytes[WANTS_MAX];
	size_t nwants;
	uint64_t random;
};

struct count {
	uint64_t flipped, verified, refused, right;
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "flip_bits: %s: %s\n", what, err->text);
	exit(2);
}

static uint64_t random_below(struct flips *f, uint64_t n)
{
	uint64_t z = (f->random += 0x9e3779b97f4a7c15ull);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) % n;
}

/* ---- the checkpoint */

static uint64_t word_at(const struct mapped *m, size_t at)
{
	uint64_t word;
	memcpy(&word, m->data + at, sizeof(word));
	return word;
}

static void map_file(struct flips *f, const char *name)
{
	struct mapped *m = &f->files[f->nfiles++];
	char path[800];
	struct stat st;
	snprintf(m->name, sizeof(m->name), "%.*s", NAME_FILE_MAX - 1, name);
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die(path, &(struct err){"cannot be opened"});
	m->data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->data == MAP_FAILED)
		die(path, &(struct err){"cannot be mapped"});
	m->size = m->data_at = m->head_at = (size_t)st.st_size;
	if (strstr(name, ".safetensors"))
		m->head_at = 0;
	if (strstr(name, ".ckptz"))
		m->head_at = packed_index_size(word_at(m, 16));
	if (m->head_at < m->size)
		m->data_at = m->head_at + 8 + word_at(m, m->head_at);
}

/* Of PyTorch's reader alone: nothing of ckpt reads it. */
static bool is_notice(const char *name)
{
	return strstr(name, ".packed.safetensors") != NULL;
}

static void map_files(struct flips *f)
{
	AUTO_CLOSEDIR DIR *stream = opendir(f->dir);
	for (struct dirent *e; stream && (e = readdir(stream)) && f->nfiles < FILES_MAX;)
		if (e->d_name[0] != '.' && !is_notice(e->d_name))
			map_file(f, e->d_name);
}

/* All tensors, each as a whole. */
static void make_wants(struct flips *f)
{
	struct checkpoint ck;
	struct err err;
	if (checkpoint_open(&f->repo, "main", f->spec.id, &ck, &err))
		die("the checkpoint", &err);
	for (uint32_t i = 0; i < ck.nodes[0].ntensors && f->nwants < WANTS_MAX; i++) {
		const struct manifest_tensor *t = &ck.nodes[0].tensors[i];
		struct region whole = region_whole(&t->shape);
		size_t w = f->nwants++;
		f->bytes[w] = region_volume(&t->shape, &whole) * dtype_size(t->dtype);
		f->due[w] = calloc(1, f->bytes[w] + 1);
		f->wants[w] =
			(struct want){.tensor = strdup(t->name), .dtype = t->dtype, .shape = t->shape, .region = whole};
		f->wants[w].data = calloc(1, f->bytes[w] + 1);
		store_fill(f->spec.seed, t->name, t->dtype, &t->shape, &whole, f->due[w]);
	}
	checkpoint_close(&ck);
}

static void make(struct flips *f, const char *root, uint64_t seed, bool packed)
{
	struct err err = {0};
	f->spec = (struct store_spec){.root = root, .id = {7, 1}, .world = 2, .rows = 300, .cols = 97, .seed = seed};
	f->spec.packed = packed;
	f->spec.seed |= packed ? STORE_WEIGHTS : 0;
	if (store_make(&f->spec, &err) || store_mark_health(&f->spec, true, "rowwise: \xc3\xa4", &err) ||
	    store_mark_pin(&f->spec, "before the learning rate drop", &err) || repo_open(root, &f->repo, &err))
		die("the store", &err);
	store_dir(&f->spec, f->dir, sizeof(f->dir));
	f->random = seed;
	make_wants(f);
	map_files(f);
}

/* ---- what is found */

static int verify(struct flips *f, bool data, struct err *err)
{
	struct verify_options opts = {.depth = data ? VERIFY_DATA : VERIFY_QUICK, .share = 1, .threads = 1};
	struct verify_result result;
	return verify_checkpoint(&f->repo, "main", f->spec.id, &opts, &result, err);
}

static int restore(struct flips *f, struct err *err)
{
	struct checkpoint ck;
	struct restore_plan *plan = NULL;
	struct restore_options opts = {.threads = 1};
	for (size_t w = 0; w < f->nwants; w++)
		memset(f->wants[w].data, 0xa5, f->bytes[w]);
	int rc = checkpoint_open(&f->repo, "main", f->spec.id, &ck, err);
	if (!rc)
		rc = restore_plan_make(&ck, f->wants, f->nwants, &plan, err);
	if (!rc)
		rc = restore_execute(plan, &opts, err);
	restore_plan_free(plan);
	checkpoint_close(&ck);
	return rc;
}

static bool restored_right(const struct flips *f)
{
	for (size_t w = 0; w < f->nwants; w++)
		if (memcmp(f->wants[w].data, f->due[w], f->bytes[w]))
			return false;
	return true;
}

static bool says_damage(int rc)
{
	return rc == -EBADMSG || rc == -EPROTONOSUPPORT;
}

static bool mark_refused(struct flips *f, const char *name)
{
	struct checkpoint ck;
	struct err err;
	struct health health;
	struct pin pin;
	if (checkpoint_open(&f->repo, "main", f->spec.id, &ck, &err))
		die(name, &err);
	int rc = strcmp(name, NAME_PINNED) ? checkpoint_health(&ck, &health, &err) : checkpoint_pin(&ck, &pin, &err);
	checkpoint_close(&ck);
	return says_damage(rc);
}

static bool is_mark(const char *name)
{
	return !strcmp(name, NAME_PINNED) || !strcmp(name, NAME_HEALTH);
}

static void flip(struct flips *f, struct mapped *m, size_t byte, unsigned bit, struct count *count)
{
	struct err err = {0};
	bool good = true;
	m->data[byte] ^= (uint8_t)(1u << bit);
	if (is_mark(m->name)) {
		good = mark_refused(f, m->name);
		count->verified += good;
	} else {
		good = says_damage(verify(f, byte >= m->data_at, &err));
		count->verified += good;
		int rc = restore(f, &err);
		bool right = !rc && restored_right(f);
		count->refused += says_damage(rc);
		count->right += right;
		good = good && (says_damage(rc) || (right && byte >= m->head_at && byte < m->data_at));
	}
	m->data[byte] ^= (uint8_t)(1u << bit);
	count->flipped++;
	if (good)
		return;
	fprintf(stderr, "flip_bits: %s: bit %u of byte %zu of %zu is not found: %s\n", m->name, bit, byte, m->size,
		err.text);
	exit(1);
}

/* ---- which bits */

static void metadata(struct flips *f, uint64_t stride)
{
	struct count count = {0};
	uint64_t at = random_below(f, stride), bits = 0;
	for (size_t i = 0; i < f->nfiles; i++) {
		uint64_t end = bits + f->files[i].data_at * BITS;
		for (; at < end; at += stride)
			flip(f, &f->files[i], (at - bits) / BITS, (at - bits) % BITS, &count);
		bits = end;
	}
	printf("metadata: %lu bits in %zu files, %lu flipped, %lu found by verify, %lu refused by restore, %lu "
	       "restored "
	       "right\n",
	       bits, f->nfiles, count.flipped, count.verified, count.refused, count.right);
}

static void payload(struct flips *f, uint64_t n)
{
	struct count count = {0};
	uint64_t total = 0;
	for (size_t i = 0; i < f->nfiles; i++)
		total += f->files[i].size - f->files[i].data_at;
	while (count.flipped < n) {
		uint64_t at = random_below(f, total * BITS);
		struct mapped *m = f->files;
		for (; at / BITS >= m->size - m->data_at; m++)
			at -= (m->size - m->data_at) * BITS;
		flip(f, m, m->data_at + at / BITS, at % BITS, &count);
	}
	printf("payload: %lu bits, %lu flipped, %lu found by verify, %lu refused by restore\n", total * BITS,
	       count.flipped, count.verified, count.refused);
}

static void expect_whole(struct flips *f)
{
	struct err err;
	if (verify(f, true, &err) || restore(f, &err) || !restored_right(f))
		die("not whole without a flip", &err);
}

int main(int argc, char **argv)
{
	static struct flips f;
	if (argc != 5 && argc != 6) {
		fputs("usage: flip_bits DIR STRIDE PAYLOAD SEED [packed]\n", stderr);
		return 2;
	}
	make(&f, argv[1], strtoull(argv[4], NULL, 10), argc == 6);
	expect_whole(&f);
	metadata(&f, strtoull(argv[2], NULL, 10));
	payload(&f, strtoull(argv[3], NULL, 10));
	expect_whole(&f);
	repo_close(&f.repo);
	return 0;
}
