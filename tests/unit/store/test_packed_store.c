/* Checkpoints of packed files: read, found damaged, repaired, restored in parts. */
#include "format/files/packed.h"
#include "store/check/repair.h"
#include "store/read/restore.h"

#include "verify_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARAMS "rank-00000-of-00002.params.ckptz"

static void setup(void)
{
	packed = true;
	verify_setup();
}

TestSuite(packed_store, .init = setup, .fini = verify_teardown);

static void flip(const char *name, off_t at)
{
	uint8_t byte;
	int fd = open(path_of(name), O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

Test(packed_store, an_intact_one_is_intact_and_smaller)
{
	struct checkpoint ck;
	make(3, 2, 900, 300);
	cr_assert_eq(verify(VERIFY_DATA, 1), 0, "%s: %s", first.file, first.text);
	cr_assert_eq(result.bytes, last_total);
	cr_assert_eq(verify(VERIFY_DATA, 0.1), 0, "a share");
	memory_limit = 1;
	cr_assert_eq(verify(VERIFY_DATA, 1), 0, "with the smallest buffers: %s: %s", first.file, first.text);
	cr_assert_eq(verify(VERIFY_QUICK, 1), 0);
	cr_assert_eq(checkpoint_open(&repo, "main", spec.id, &ck, &why), 0, "%s", why.text);
	cr_assert_lt(ck.manifest.stored, ck.manifest.bytes * 9 / 10);
	checkpoint_close(&ck);
}

Test(packed_store, damage_is_found_wherever_it_is)
{
	make(2, 1, 700, 400);
	AUTO_FREE struct names *names = all_names();
	for (size_t i = 0; i < names->n; i++) {
		struct stat st;
		if (!strstr(names->name[i], ".ckptz"))
			continue;
		stat(path_of(names->name[i]), &st);
		for (off_t at = i; at < st.st_size; at += 49999) {
			flip(names->name[i], at);
			expect_found(VERIFY_DATA, names->name[i]);
			flip(names->name[i], at);
		}
	}
	cr_assert_eq(verify(VERIFY_DATA, 1), 0, "%s: %s", first.file, first.text);
}

Test(packed_store, a_damaged_chunk_is_named_with_what_it_holds)
{
	make(2, 1, 700, 400);
	flip(PARAMS, 4096 + 8192 + 100);
	expect_found(VERIFY_DATA, PARAMS);
	cr_expect_str_neq(first.tensor, "");
	cr_expect_leq(last.to - first.from, (uint64_t)PACKED_CHUNK);
}

/* ---- restores ----------------------------------------------------------------------------------------------------- */

static int restore_rows(const char *tensor, enum dtype dtype, uint64_t from, uint64_t to)
{
	struct shape shape = {2, {spec.rows, spec.cols}};
	struct region rows = region_whole(&shape);
	rows.offset[0] = from;
	rows.extent[0] = to - from;
	size_t bytes = (to - from) * spec.cols * dtype_size(dtype);
	AUTO_FREE uint8_t *data = malloc(bytes), *due = malloc(bytes);
	AUTO_FREE uint64_t *leaves = calloc(leaf_count(bytes), sizeof(*leaves));
	struct want want = {
		.tensor = tensor, .dtype = dtype, .shape = shape, .region = rows, .data = data, .leaves = leaves};
	struct restore_options opts = {.threads = 2};
	struct restore_plan *plan = NULL;
	struct checkpoint ck;
	uint64_t useful, read;
	memset(data, 0xa5, bytes);
	cr_assert_eq(checkpoint_open(&repo, "main", spec.id, &ck, &why), 0, "%s", why.text);
	int rc = restore_plan_make(&ck, &want, 1, &plan, &why);
	if (!rc) {
		restore_plan_cost(plan, &useful, &read);
		cr_expect_leq(read, useful + 4 * (uint64_t)PACKED_CHUNK, "%lu bytes for %lu", read, useful);
		rc = restore_execute(plan, &opts, &why);
	}
	store_fill(spec.seed, tensor, dtype, &shape, &rows, due);
	cr_assert(rc || !memcmp(data, due, bytes), "%s: rows %lu to %lu are others", tensor, from, to);
	restore_plan_free(plan);
	checkpoint_close(&ck);
	return rc;
}

Test(packed_store, any_part_is_restored_from_the_chunks_that_hold_it)
{
	make(2, 1, 3000, 400);
	for (uint64_t from = 0; from < 3000; from += 713)
		for (uint64_t rows = 1; from + rows <= 3000; rows = rows * 7 + 1) {
			cr_expect_eq(restore_rows("embed", DTYPE_BF16, from, from + rows), 0, "%s", why.text);
			cr_expect_eq(restore_rows("colwise", DTYPE_F32, from, from + rows), 0, "%s", why.text);
			cr_expect_eq(restore_rows("moment", DTYPE_F32, from, from + rows), 0, "%s", why.text);
		}
}

Test(packed_store, a_restore_refuses_damage_and_names_it)
{
	struct stat st;
	make(2, 1, 700, 400);
	stat(path_of("rank-00000-of-00002.optimizer.ckptz"), &st);
	for (off_t at = 8192 + 1000; at < st.st_size; at += 30011) {
		flip("rank-00000-of-00002.optimizer.ckptz", at);
		cr_expect_eq(restore_rows("moment", DTYPE_F32, 0, 700), -EBADMSG, "byte %ld", (long)at);
		cr_expect(strstr(why.text, "tensor moment: chunk at bytes"), "%s", why.text);
		flip("rank-00000-of-00002.optimizer.ckptz", at);
	}
	flip("rank-00000-of-00002.optimizer.ckptz", 70);
	cr_expect_eq(restore_rows("moment", DTYPE_F32, 0, 700), -EBADMSG);
	cr_expect(strstr(why.text, "index of rank-00000-of-00002.optimizer.ckptz is damaged"), "%s", why.text);
}

/* ---- repairs ------------------------------------------------------------------------------------------------------ */

static struct repair_result mended;

static void note(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	(void)tensor, (void)from, (void)to, (void)text;
	repair_note(arg, file);
}

static int repair(void)
{
	struct repair *r;
	struct err found = {{0}};
	cr_assert_eq(repair_new(&repo, "main", spec.id, &r), 0);
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1, .finding = note, .arg = r};
	verify_checkpoint(&repo, "main", spec.id, &options, &result, &found);
	int rc = repair_run(r, false, NULL, &mended, &why);
	repair_free(r);
	return rc;
}

/* Another checkpoint of the same state, whose files are packed or not. */
static void make_donor(bool as_packed)
{
	struct store_spec donor = spec;
	donor.id.step += 50;
	donor.packed = as_packed;
	cr_assert_eq(store_make(&donor, &why), 0, "%s", why.text);
}

static void damage_and_repair(const char *what)
{
	static const off_t places[] = {70, 8000, 9000, 300000};
	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++) {
		size_t len, after;
		AUTO_FREE uint8_t *before = scratch_read(dir, PARAMS, &len);
		flip(PARAMS, places[i]);
		expect_found(VERIFY_DATA, PARAMS);
		cr_assert_eq(repair(), 0, "%s, byte %ld: %s", what, (long)places[i], why.text);
		cr_assert_eq(mended.mended, 1u);
		cr_assert_eq(verify(VERIFY_DATA, 1), 0, "%s: %s", first.file, first.text);
		AUTO_FREE uint8_t *now = scratch_read(dir, PARAMS, &after);
		cr_assert(len == after && !memcmp(before, now, len), "%s: the mended file is another one", what);
	}
	cr_assert_eq(unlink(path_of(PARAMS)), 0);
	cr_assert_eq(repair(), 0, "%s, lost: %s", what, why.text);
	cr_assert_eq(verify(VERIFY_DATA, 1), 0, "%s: %s", first.file, first.text);
}

Test(packed_store, it_is_mended_from_a_donor_that_is_packed_alike)
{
	make(2, 1, 700, 400);
	make_donor(true);
	damage_and_repair("packed");
}

Test(packed_store, it_is_packed_anew_from_a_donor_that_is_not_packed)
{
	make(2, 1, 700, 400);
	make_donor(false);
	damage_and_repair("plain");
}

Test(packed_store, a_plain_file_is_mended_from_a_packed_donor)
{
	static const char name[] = "rank-00000-of-00002.params.safetensors";
	packed = false;
	make(2, 1, 700, 400);
	spec.seed = STORE_WEIGHTS;
	cr_assert_eq(store_make(&spec, &why), 0, "%s", why.text);
	make_donor(true);
	flip(name, 200000);
	cr_assert_eq(repair(), 0, "%s", why.text);
	cr_assert_eq(mended.leaves, 1u);
	cr_assert_eq(verify(VERIFY_DATA, 1), 0, "%s: %s", first.file, first.text);
}

Test(packed_store, without_a_donor_it_stays_damaged)
{
	make(2, 1, 700, 400);
	flip(PARAMS, 300000);
	cr_assert_eq(repair(), -EBADMSG);
	cr_expect(strstr(why.text, "nobody has bytes"), "%s", why.text);
	cr_assert_eq(mended.mended, 0u);
}
