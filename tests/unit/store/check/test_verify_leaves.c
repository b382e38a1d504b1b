/* The data itself: larger files, so that a file takes several reads. */
#include "store/verify_fixture.h"

#include "base/bytes.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TestSuite(verify_leaves, .init = verify_setup, .fini = verify_teardown);

/* Where a byte of a data file belongs: its tensor and its leaf. */
struct place {
	const char *tensor;
	uint64_t from, to;
};

static struct place place_of(const struct checkpoint *ck, const struct manifest_file *file, uint64_t byte)
{
	const struct node_manifest *node = &ck->nodes[0];
	for (uint32_t i = 0; i < file->npieces; i++) {
		const struct manifest_piece *p = &file->pieces[i];
		uint64_t begin = file->data_at + p->at;
		if (byte < begin || byte >= begin + p->bytes)
			continue;
		uint64_t leaf = (byte - begin) / LEAF_SIZE * LEAF_SIZE;
		return (struct place){node->tensors[p->tensor].name, begin + leaf,
				      begin + min_u64(leaf + LEAF_SIZE, p->bytes)};
	}
	cr_assert(false, "byte %lu of %s belongs to nothing", (unsigned long)byte, file->name);
	return (struct place){0};
}

static void damage_and_expect(const struct checkpoint *ck, const struct manifest_file *file, uint64_t byte,
			      unsigned bit)
{
	struct place place = place_of(ck, file, byte);
	scratch_flip(dir, file->name, byte, bit);
	cr_expect_eq(verify(VERIFY_QUICK, 1), 0, "quick does not read data");
	cr_expect_eq(verify(VERIFY_DATA, 1), -EBADMSG, "bit %u of byte %lu of %s", bit, (unsigned long)byte,
		     file->name);
	cr_expect_eq(result.findings, 1);
	cr_expect_eq(result.damaged_leaves, 1);
	cr_expect_str_eq(first.file, file->name);
	cr_expect_str_eq(first.tensor, place.tensor);
	cr_expect_eq(first.from, place.from);
	cr_expect_eq(first.to, place.to);
	scratch_flip(dir, file->name, byte, bit);
}

static struct checkpoint opened(void)
{
	struct checkpoint ck;
	cr_assert_eq(checkpoint_open(&repo, "main", spec.id, &ck, &why), 0, "%s", why.text);
	return ck;
}

static void flip_random_bits(void)
{
	uint64_t state = 88172645463325252ull;
	make(2, 1, 300, 250);
	struct checkpoint ck = opened();
	for (int i = 0; i < 60; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		const struct manifest_file *file = &ck.nodes[0].files[state % ck.nodes[0].nfiles];
		damage_and_expect(&ck, file, file->data_at + (state >> 8) % (file->size - file->data_at),
				  (unsigned)(state >> 60) % 8);
	}
	checkpoint_close(&ck);
}

Test(verify_leaves, flipped_payload_bits_are_found_and_placed)
{
	flip_random_bits();
}

/* Reads of a few leaves, at whatever byte they begin. */
Test(verify_leaves, with_the_smallest_buffers_they_are_found_as_well)
{
	memory_limit = 1;
	flip_random_bits();
}

Test(verify_leaves, first_and_last_bytes_of_every_piece_are_covered)
{
	make(2, 1, 300, 250);
	struct checkpoint ck = opened();
	for (uint32_t f = 0; f < ck.nodes[0].nfiles; f++) {
		const struct manifest_file *file = &ck.nodes[0].files[f];
		for (uint32_t i = 0; i < file->npieces; i++) {
			uint64_t at = file->data_at + file->pieces[i].at;
			if (!file->pieces[i].bytes)
				continue;
			damage_and_expect(&ck, file, at, 0);
			damage_and_expect(&ck, file, at + file->pieces[i].bytes - 1, 7);
		}
	}
	checkpoint_close(&ck);
}

/* About 40 MB in two files: each takes several reads of 8 MiB. */
static struct checkpoint large(void)
{
	make(1, 1, 2048, 1500);
	return opened();
}

static const struct manifest_file *file_of(const struct checkpoint *ck, const char *group)
{
	for (uint32_t f = 0; f < ck->nodes[0].nfiles; f++) {
		if (!strcmp(ck->nodes[0].files[f].group, group))
			return &ck->nodes[0].files[f];
	}
	cr_assert(false, "no group %s", group);
	return NULL;
}

static void overwrite(const char *name, uint64_t at, uint64_t len)
{
	AUTO_FREE char *junk = malloc(len);
	memset(junk, 0xa5, len);
	int fd = open(path_of(name), O_WRONLY | O_CLOEXEC);
	cr_assert_eq(pwrite(fd, junk, len, (off_t)at), (ssize_t)len);
	close(fd);
}

Test(verify_leaves, neighbouring_damage_is_one_finding)
{
	struct checkpoint ck = large();
	const struct manifest_file *file = file_of(&ck, "optimizer");
	/* The first read of a file ends within 8 MiB, which is leaf 128. */
	uint64_t at = file->data_at + 20 * LEAF_SIZE;
	overwrite(file->name, at + 10, 150 * LEAF_SIZE - 20);
	cr_expect_eq(verify(VERIFY_DATA, 1), -EBADMSG);
	cr_expect_eq(result.findings, 1, "over the borders of reads, too");
	cr_expect_eq(result.damaged_leaves, 150);
	cr_expect_eq(first.from, at);
	cr_expect_eq(first.to, at + 150 * LEAF_SIZE);
	checkpoint_close(&ck);
}

Test(verify_leaves, damage_comes_in_the_order_of_the_file)
{
	struct checkpoint ck = large();
	const struct manifest_file *file = &ck.nodes[0].files[0];
	for (uint64_t at = file->data_at; at < file->size; at += 30 * LEAF_SIZE)
		scratch_flip(dir, file->name, at, 3);
	cr_expect_eq(verify(VERIFY_DATA, 1), -EBADMSG);
	cr_expect_eq(result.findings, (file->size - file->data_at - 1) / (30 * LEAF_SIZE) + 1);
	cr_expect_eq(first.from, file->data_at);
	cr_expect_gt(last.to, file->size - 31 * LEAF_SIZE);
	checkpoint_close(&ck);
}

Test(verify_leaves, a_share_reads_about_that_much)
{
	struct checkpoint ck = large();
	cr_expect_eq(verify(VERIFY_DATA, 1), 0, "%s", why.text);
	uint64_t all = result.leaves;
	cr_expect_eq(verify(VERIFY_DATA, 0.25), 0, "%s", why.text);
	cr_expect_eq(last_done, last_total);
	cr_expect_gt(result.leaves, all / 10);
	cr_expect_lt(result.leaves, all / 2);
	cr_expect_eq(verify(VERIFY_DATA, 1e-9), 0);
	cr_expect_geq(result.leaves, ck.nodes[0].nfiles, "at least one leaf of every file");
	cr_expect_leq(result.leaves, 16 * ck.nodes[0].nfiles);
	checkpoint_close(&ck);
}

Test(verify_leaves, shares_of_many_seeds_find_every_leaf)
{
	make(1, 1, 600, 500);
	struct checkpoint ck = opened();
	const struct manifest_file *file = &ck.nodes[0].files[0];
	scratch_flip(dir, file->name, file->size - 1, 0);
	bool found = false, missed = false;
	for (seed = 1; seed < 60; seed++) {
		int rc = verify(VERIFY_DATA, 0.2);
		found |= rc == -EBADMSG;
		missed |= rc == 0;
		cr_expect_eq(verify(VERIFY_DATA, 0.2), rc, "the same seed chooses the same leaves");
	}
	cr_expect(found);
	cr_expect(missed, "another share is not looked at");
	checkpoint_close(&ck);
}

Test(verify_leaves, it_can_be_cancelled_at_any_time)
{
	struct checkpoint ck = large();
	cr_assert_eq(verify(VERIFY_DATA, 1), 0);
	uint64_t total = last_total;
	for (cancel_after = 0; cancel_after < total; cancel_after += total / 7 + 1) {
		cr_expect_eq(verify(VERIFY_DATA, 1), -ECANCELED, "after %lu", (unsigned long)cancel_after);
		cr_expect_neq(why.text[0], 0);
	}
	cancel_after = UINT64_MAX;
	cr_expect_eq(verify(VERIFY_DATA, 1), 0);
	checkpoint_close(&ck);
}

Test(verify_leaves, an_unreadable_range_names_its_tensors)
{
	struct checkpoint ck = large();
	/* Reads: two documents, sidecar and header of the first file, then its data. */
	cr_assert_eq(failpoint_arm("disk.read=error:EIO@6", NULL), 0);
	cr_expect_eq(verify(VERIFY_DATA, 1), -EIO);
	failpoint_arm("", NULL);
	cr_expect(strstr(first.text, "cannot be read"), "%s", first.text);
	cr_expect_neq(first.tensor[0], 0);
	cr_expect_gt(first.to - first.from, 1 << 20);
	cr_expect_gt(result.damaged_leaves, 0);
	checkpoint_close(&ck);
}

Test(verify_leaves, short_reads_are_no_damage)
{
	struct checkpoint ck = large();
	cr_assert_eq(failpoint_arm("disk.read=short:5000", NULL), 0);
	cr_expect_eq(verify(VERIFY_DATA, 1), 0, "%s", why.text);
	failpoint_arm("", NULL);
	checkpoint_close(&ck);
}
