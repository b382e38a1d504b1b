#include "store/verify_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(verify, .init = verify_setup, .fini = verify_teardown);

Test(verify, an_intact_checkpoint_is_intact)
{
	make(3, 1, 40, 30);
	cr_expect_eq(verify(VERIFY_DATA, 1), 0, "%s", why.text);
	cr_expect_eq(result.findings, 0);
	cr_expect_eq(result.damaged_leaves, 0);
	cr_expect_eq(result.files, 9);
	cr_expect_eq(last_done, last_total);
	cr_expect_eq(result.bytes, last_total);
	uint64_t all = result.bytes;
	cr_expect_eq(verify(VERIFY_QUICK, 1), 0, "%s", why.text);
	cr_expect_eq(result.leaves, 0);
	cr_expect_lt(result.bytes, all);
	cr_expect_eq(last_done, last_total);
	make(5, 3, 40, 30);
	cr_expect_eq(verify(VERIFY_DATA, 1), 0, "several nodes: %s", why.text);
}

/* ---- each file */

Test(verify, a_missing_cut_or_grown_file_is_named)
{
	make(2, 1, 8, 8);
	AUTO_FREE struct names *names = all_names();
	for (size_t i = 0; i < names->n; i++) {
		size_t size;
		AUTO_FREE char *data = scratch_read(dir, names->name[i], &size);
		scratch_write(dir, names->name[i], data, size - 1);
		expect_found(VERIFY_QUICK, names->name[i]);
		scratch_write(dir, names->name[i], "", 0);
		expect_found(VERIFY_QUICK, names->name[i]);
		scratch_write(dir, names->name[i], data, size + 1);
		expect_found(VERIFY_QUICK, names->name[i]);
		cr_assert_eq(unlink(path_of(names->name[i])), 0);
		if (strcmp(names->name[i], NAME_MANIFEST))
			expect_found(VERIFY_QUICK, names->name[i]);
		else
			cr_expect_eq(verify(VERIFY_QUICK, 1), -ENOENT, "without a manifest it is no checkpoint");
		scratch_write(dir, names->name[i], data, size);
	}
	cr_expect_eq(verify(VERIFY_DATA, 1), 0, "%s", why.text);
}

Test(verify, a_file_that_is_something_else_is_named)
{
	make(1, 1, 8, 8);
	AUTO_FREE struct names *names = all_names();
	for (size_t i = 0; i < names->n; i++) {
		char *path = path_of(names->name[i]);
		size_t size;
		AUTO_FREE char *data = scratch_read(dir, names->name[i], &size);
		unlink(path);
		cr_assert_eq(mkfifo(path, 0644), 0);
		expect_found(VERIFY_DATA, names->name[i]);
		unlink(path);
		cr_assert_eq(symlink("/etc/passwd", path), 0);
		expect_found(VERIFY_DATA, names->name[i]);
		unlink(path);
		cr_assert_eq(mkdir(path, 0755), 0);
		expect_found(VERIFY_DATA, names->name[i]);
		rmdir(path);
		scratch_write(dir, names->name[i], data, size);
	}
}

/* One bit of every byte, each bit in turn; of the small documents every bit. */
static void flip_all(const char *name, size_t end, enum verify_depth depth, unsigned bits)
{
	for (size_t at = 0; at < end; at++) {
		for (unsigned b = 0; b < bits; b++) {
			unsigned bit = bits == 8 ? b : (unsigned)(at % 8);
			scratch_flip(dir, name, at, bit);
			cr_assert_eq(verify(depth, 1), -EBADMSG, "%s: bit %u of byte %zu", name, bit, at);
			cr_assert_str_eq(first.file, name, "%s: bit %u of byte %zu: %s named", name, bit, at,
					 first.file);
			scratch_flip(dir, name, at, bit);
		}
	}
}

static void flip_documents(unsigned part)
{
	make(1, 1, 4, 4);
	AUTO_FREE struct names *names = all_names();
	for (size_t i = 0; i < names->n; i++) {
		bool data = strstr(names->name[i], ".safetensors");
		if (!data && i % 2 == part)
			flip_all(names->name[i], scratch_size(dir, names->name[i]), VERIFY_QUICK, 8);
	}
}

Test(verify, every_flipped_bit_of_documents_and_sidecars_is_found)
{
	flip_documents(0);
}

Test(verify, every_flipped_bit_of_the_other_documents_is_found)
{
	flip_documents(1);
}

Test(verify, every_damaged_byte_of_a_header_is_found)
{
	make(1, 1, 4, 4);
	flip_all("rank-00000-of-00001.params.safetensors", 4096, VERIFY_QUICK, 1);
	cr_expect_eq(first.from, 0);
	cr_expect_geq(first.to, 4096);
}

/* ---- headers that match their digest but not the node manifest */

Test(verify, a_header_that_tells_another_story_is_found)
{
	static const char *const lies[][2] = {
		{"\"rowwise\":{\"dtype\":\"F32\"", "\"rowwise\":{\"dtype\":\"I32\""},
		{"\"rowwise\":{\"dtype\":\"F32\",\"shape\":[8,4]", "\"rowwise\":{\"dtype\":\"F32\",\"shape\":[4,8]"},
		{"\"rowwise\":{\"dtype\"", "\"rowwisf\":{\"dtype\""},
	};
	static const char *const words[] = {"type", "shape", "name"};
	for (size_t i = 0; i < 3; i++) {
		make(1, 1, 8, 4);
		rewrite_header("rank-00000-of-00001.params", lies[i][0], lies[i][1]);
		cr_expect_eq(verify(VERIFY_QUICK, 1), -EBADMSG, "%s", lies[i][1]);
		cr_expect_str_eq(first.file, "rank-00000-of-00001.params.safetensors");
		cr_expect_str_eq(first.tensor, "rowwise");
		cr_expect(strstr(first.text, words[i]), "%s: %s", words[i], first.text);
	}
}

/* ---- whole tensors */

Test(verify, a_hole_in_a_tensor_is_found)
{
	make(4, 2, 16, 16);
	drop_node("node1");
	cr_expect_eq(verify(VERIFY_QUICK, 1), -EBADMSG);
	cr_expect_str_eq(first.file, NAME_MANIFEST);
	cr_expect_str_eq(first.tensor, "colwise");
	cr_expect_eq(result.findings, 3, "colwise, moment, rowwise");
}

Test(verify, damage_of_several_nodes_is_all_told)
{
	make(4, 2, 16, 16);
	scratch_flip(dir, "node-node0.json", 40, 1);
	scratch_flip(dir, "rank-00003-of-00004.params.xxh", 100, 1);
	cr_expect_eq(verify(VERIFY_QUICK, 1), -EBADMSG);
	cr_expect_eq(result.findings, 2);
	cr_expect_str_eq(first.file, "node-node0.json");
	cr_expect_str_eq(last.file, "rank-00003-of-00004.params.xxh");
}

/* ---- trouble */

Test(verify, no_such_checkpoint_and_bad_options)
{
	make(1, 1, 4, 4);
	struct verify_options opts = {.depth = VERIFY_DATA, .share = 0};
	cr_expect_eq(verify_checkpoint(&repo, "main", spec.id, &opts, &result, &why), -EINVAL);
	opts.share = 1.5;
	cr_expect_eq(verify_checkpoint(&repo, "main", spec.id, &opts, &result, &why), -EINVAL);
	opts.share = 1;
	cr_expect_eq(verify_checkpoint(&repo, "main", (struct step_id){99, 9}, &opts, &result, &why), -ENOENT);
	cr_expect_eq(verify_checkpoint(&repo, "main", spec.id, &opts, &result, &why), 0, "no callbacks: %s", why.text);
}

Test(verify, an_unreadable_file_is_told_and_the_others_are_checked)
{
	make(2, 1, 8, 8);
	/* Reads by rank 0: two documents and its sidecars and headers; the first data is read after the first header. */
	for (int hit = 3; hit < 14; hit++) {
		char text[64];
		snprintf(text, sizeof(text), "disk.read=error:EIO@%d", hit);
		cr_assert_eq(failpoint_arm(text, NULL), 0);
		cr_expect_eq(verify(VERIFY_DATA, 1), -EIO, "%s: %s", text, why.text);
		cr_expect_geq(result.findings, 1, "%s", text);
		cr_expect_neq(first.file[0], 0);
		cr_expect_str_eq(first.file, last.file, "one file's tensors");
		failpoint_arm("", NULL);
		cr_expect_eq(verify(VERIFY_DATA, 1), 0);
	}
}

Test(verify, a_refused_file_ends_the_run)
{
	make(2, 1, 8, 8);
	cr_assert_eq(failpoint_arm("disk.open=error:EACCES@7", NULL), 0);
	cr_expect_eq(verify(VERIFY_DATA, 1), -EACCES);
	cr_expect_neq(why.text[0], 0);
	failpoint_arm("", NULL);
}
