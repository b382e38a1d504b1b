#include "store/disk_fixture.h"

#include <stdlib.h>
#include <string.h>

TestSuite(disk_model, .init = disk_setup, .fini = disk_teardown);

enum { FILES = 6, SIZE_MAX_MODEL = 200000, STEPS = 400 };

struct model {
	bool there;
	int inode; /* links share it */
	size_t size;
	uint8_t data[SIZE_MAX_MODEL];
};

static uint64_t rng(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static const char *const model_names[FILES] = {"a", "b", "c", "d", "e", "f"};

static void model_create(struct model *m, int i, int inode, uint64_t *seed)
{
	size_t len = rng(seed) % SIZE_MAX_MODEL;
	AUTO_FREE uint8_t *p = pattern(SIZE_MAX_MODEL, *seed);
	int file = disk_open_at(d, root, model_names[i], DISK_CREATE);
	cr_assert_eq(file == -EEXIST, m[i].there);
	if (m[i].there)
		return;
	uint64_t at = rng(seed) % SIZE_MAX_MODEL;
	at = at + len > SIZE_MAX_MODEL ? SIZE_MAX_MODEL - len : at;
	cr_assert_eq(transfer(DISK_WRITE, file, p, at, len), (int64_t)len);
	m[i].there = true;
	m[i].inode = inode;
	m[i].size = len ? at + len : 0;
	memset(m[i].data, 0, SIZE_MAX_MODEL);
	memcpy(m[i].data + at, p, len);
	if (rng(seed) % 2) {
		m[i].size = rng(seed) % SIZE_MAX_MODEL;
		cr_assert_eq(do_file(DISK_TRUNCATE, file, m[i].size), 0);
		memset(m[i].data + m[i].size, 0, SIZE_MAX_MODEL - m[i].size);
	}
	disk_close_file(d, file);
}

static void model_read(const struct model *m, int i, uint64_t *seed)
{
	int file = disk_open_at(d, root, model_names[i], DISK_RDONLY);
	cr_assert_eq(file == -ENOENT, !m[i].there);
	if (!m[i].there)
		return;
	uint64_t at = rng(seed) % SIZE_MAX_MODEL, len = rng(seed) % SIZE_MAX_MODEL;
	AUTO_FREE uint8_t *p = pattern(SIZE_MAX_MODEL, 0);
	size_t want = at >= m[i].size ? 0 : min_u64(len, m[i].size - at);
	cr_assert_eq(transfer(DISK_READ, file, p, at, len), (int64_t)want);
	cr_assert_eq(memcmp(p, m[i].data + at, want), 0);
	disk_close_file(d, file);
}

static void model_move(struct model *m, int i, int j, enum disk_kind kind)
{
	int rc = do_names(kind, model_names[i], model_names[j]);
	bool blocked = kind == DISK_LINK && m[j].there;
	cr_assert_eq(rc, !m[i].there ? -ENOENT : blocked ? -EEXIST : 0);
	bool same = m[j].there && m[i].inode == m[j].inode; /* rename between links of one file does nothing */
	if (rc || same)
		return;
	m[j] = m[i];
	if (kind == DISK_RENAME)
		m[i].there = false;
}

static void model_unlink(struct model *m, int i)
{
	cr_assert_eq(do_name(DISK_UNLINK, model_names[i]), m[i].there ? 0 : -ENOENT);
	m[i].there = false;
}

Test(disk_model, random_operations_agree_with_a_model)
{
	const char *given = getenv("CKPT_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 20240607;
	struct model *m = calloc(FILES, sizeof(*m));
	for (int step = 0; step < STEPS; step++) {
		int i = (int)(rng(&seed) % FILES), j = (int)(rng(&seed) % FILES);
		switch (rng(&seed) % 8) {
		case 0:
		case 1:
			model_create(m, i, step, &seed);
			break;
		case 2:
			model_move(m, i, j, DISK_LINK);
			break;
		case 3:
			model_move(m, i, j, DISK_RENAME);
			break;
		case 4:
			model_unlink(m, i);
			break;
		default:
			model_read(m, i, &seed);
		}
	}
	for (int i = 0; i < FILES; i++) {
		if (m[i].there)
			expect_contents(model_names[i], m[i].data, m[i].size);
	}
	free(m);
}
