#include "scratch.h"
#include "store/read/repo.h"
#include "store_maker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "format/files/sidecar.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX], dir[SCRATCH_MAX + 64];
static struct store_spec spec;
static struct repo repo;
static struct checkpoint ck;
static struct err err;

static void setup(void)
{
	scratch_new(root);
	spec = (struct store_spec){.root = root, .id = {7, 2}, .world = 3, .nodes = 2, .rows = 6, .cols = 6};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	store_dir(&spec, dir, sizeof(dir));
}

static void teardown(void)
{
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(checkpoint, .init = setup, .fini = teardown);

static int open_it(void)
{
	err = (struct err){0};
	int rc = checkpoint_open(&repo, "main", spec.id, &ck, &err);
	if (rc)
		cr_expect_eq(ck.nnodes, 0, "empty after an error");
	return rc;
}

static void expect_damage(const char *document)
{
	int rc = open_it();
	cr_expect_eq(rc, -EBADMSG, "%s: %s: %s", document, err_name(rc), err.text);
	cr_expect(strstr(err.text, document), "%s is not named in: %s", document, err.text);
	cr_expect(strstr(err.text, "main/step-000000000007.e0002"), "%s", err.text);
	checkpoint_close(&ck);
}

Test(checkpoint, the_chain_is_loaded)
{
	cr_assert_eq(open_it(), 0, "%s", err.text);
	cr_expect_eq(ck.nnodes, 2);
	cr_expect_eq(ck.manifest.world, 3);
	cr_expect_eq(ck.nodes[0].world, 3);
	cr_expect_gt(ck.ref.committed_ns, 0);
	uint64_t files = 0;
	for (uint32_t i = 0; i < ck.nnodes; i++) {
		files += ck.nodes[i].nfiles;
		for (uint32_t f = 0; f < ck.nodes[i].nfiles; f++) {
			struct sidecar sc;
			const struct manifest_file *file = &ck.nodes[i].files[f];
			cr_expect_eq(checkpoint_sidecar(&ck, file, &sc, &err), 0, "%s", err.text);
			cr_expect_eq(sc.npieces, file->npieces);
			sidecar_free(&sc);
		}
	}
	cr_expect_eq(files, ck.manifest.files);
	checkpoint_close(&ck);
	checkpoint_close(&ck);
}

Test(checkpoint, damage_is_not_taken_for_removal)
{
	cr_expect(!checkpoint_gone(&repo, "main", spec.id));
	cr_expect(checkpoint_gone(&repo, "main", (struct step_id){8, 2}));
	cr_expect(checkpoint_gone(&repo, "none", spec.id));
	scratch_flip(dir, NAME_MANIFEST, 20, 1);
	cr_expect(!checkpoint_gone(&repo, "main", spec.id));
}

Test(checkpoint, what_was_never_committed_is_not_there)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, NAME_MANIFEST);
	unlink(path);
	cr_expect_eq(open_it(), -ENOENT);
	cr_expect(strstr(err.text, "never committed"), "%s", err.text);
	cr_expect_eq(checkpoint_open(&repo, "main", (struct step_id){8, 2}, &ck, &err), -ENOENT);
	cr_expect_eq(checkpoint_open(&repo, "none", spec.id, &ck, &err), -ENOENT);
	cr_expect_eq(checkpoint_open(&repo, "../main", spec.id, &ck, &err), -EINVAL);
}

Test(checkpoint, every_flipped_bit_of_the_documents_is_found)
{
	static const char *const names[] = {NAME_MANIFEST, "node-node0.json", "node-node1.json"};
	for (int i = 0; i < 3; i++) {
		size_t size = scratch_size(dir, names[i]);
		for (size_t at = 0; at < size; at++) {
			unsigned bit = (unsigned)(at % 8);
			scratch_flip(dir, names[i], at, bit);
			cr_assert_lt(open_it(), 0, "%s: bit %u of byte %zu", names[i], bit, at);
			scratch_flip(dir, names[i], at, bit);
		}
	}
	cr_expect_eq(open_it(), 0, "%s", err.text);
	checkpoint_close(&ck);
}

Test(checkpoint, cut_and_grown_documents_are_found)
{
	static const char *const names[] = {NAME_MANIFEST, "node-node0.json", "node-node1.json"};
	for (int i = 0; i < 3; i++) {
		size_t size;
		AUTO_FREE char *text = scratch_read(dir, names[i], &size);
		for (size_t keep = 0; keep < size; keep += 1 + size / 50) {
			scratch_write(dir, names[i], text, keep);
			expect_damage(names[i]);
		}
		scratch_write(dir, names[i], text, size + 1); /* with a NUL behind */
		expect_damage(names[i]);
		scratch_write(dir, names[i], text, size);
	}
	cr_expect_eq(open_it(), 0);
	checkpoint_close(&ck);
}

static void replace(const char *name, void (*with)(const char *path))
{
	char path[512], aside[600];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(aside, sizeof(aside), "%s.aside", path);
	cr_assert_eq(rename(path, aside), 0);
	with(path);
	expect_damage(name);
	remove(path);
	cr_assert_eq(rename(aside, path), 0);
}

static void nothing(const char *path)
{
	(void)path;
}

static void directory(const char *path)
{
	cr_assert_eq(mkdir(path, 0755), 0);
}

static void pipe_there(const char *path)
{
	cr_assert_eq(mkfifo(path, 0644), 0);
}

static void link_there(const char *path)
{
	cr_assert_eq(symlink("/etc/passwd", path), 0);
}

Test(checkpoint, a_document_that_is_something_else_is_damage)
{
	replace("node-node1.json", nothing);
	replace("node-node1.json", directory);
	replace("node-node1.json", pipe_there);
	replace("node-node1.json", link_there);
	replace(NAME_MANIFEST, directory);
	replace(NAME_MANIFEST, pipe_there);
	replace(NAME_MANIFEST, link_there);
}

Test(checkpoint, documents_of_another_checkpoint_are_refused)
{
	struct store_spec other = spec;
	char from[sizeof(dir)];
	other.id.step = 8;
	cr_assert_eq(store_make(&other, &err), 0, "%s", err.text);
	store_dir(&other, from, sizeof(from));
	size_t size;
	AUTO_FREE char *manifest = scratch_read(from, NAME_MANIFEST, &size);
	scratch_write(dir, NAME_MANIFEST, manifest, size);
	expect_damage("step-000000000008.e0002");
}

/* Its own seal is right, and it names the checkpoint and the node that it should: only the digest in MANIFEST.json tells. */
Test(checkpoint, a_node_manifest_of_other_contents_is_refused)
{
	struct store_spec other = spec;
	char elsewhere[SCRATCH_MAX], from[sizeof(dir)];
	scratch_new(elsewhere);
	other.root = elsewhere;
	other.seed = spec.seed + 1;
	cr_assert_eq(store_make(&other, &err), 0, "%s", err.text);
	store_dir(&other, from, sizeof(from));
	size_t size;
	AUTO_FREE char *node = scratch_read(from, "node-node1.json", &size);
	cr_assert_eq(size, scratch_size(dir, "node-node1.json"));
	scratch_write(dir, "node-node1.json", node, size);
	expect_damage("node-node1.json");
	scratch_remove(elsewhere);
}

Test(checkpoint, node_manifests_that_changed_places_are_refused)
{
	size_t a, b;
	AUTO_FREE char *node0 = scratch_read(dir, "node-node0.json", &a);
	AUTO_FREE char *node1 = scratch_read(dir, "node-node1.json", &b);
	scratch_write(dir, "node-node0.json", node1, b);
	scratch_write(dir, "node-node1.json", node0, a);
	expect_damage("node-node0.json");
}

/* ---- marks */

Test(checkpoint, marks_are_read_and_written)
{
	struct health health = {0};
	struct pin pin = {0};
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(checkpoint_health(&ck, &health, &err), -ENOENT);
	cr_expect_eq(checkpoint_pin(&ck, &pin, &err), -ENOENT);
	health =
		(struct health){.id = spec.id, .verified_at = 17, .damaged = true, .detail = "it hurts", .job = "main"};
	cr_expect_eq(checkpoint_put_health(&repo, &health, &err), 0, "%s", err.text);
	health.damaged = false;
	health.detail[0] = 0;
	cr_expect_eq(checkpoint_put_health(&repo, &health, &err), 0, "replaced: %s", err.text);
	health = (struct health){0};
	cr_expect_eq(checkpoint_health(&ck, &health, &err), 0, "%s", err.text);
	cr_expect_not(health.damaged);
	cr_expect_eq(health.verified_at, 17);
	cr_expect_eq(store_mark_pin(&spec, "paper", &err), 0);
	cr_expect_eq(checkpoint_pin(&ck, &pin, &err), 0, "%s", err.text);
	cr_expect_str_eq(pin.note, "paper");
	checkpoint_close(&ck);
}

Test(checkpoint, a_health_mark_is_written_once_and_replaced_by_another)
{
	struct health_mark mark = {.id = spec.id, .given_at = 17, .reason = "good steps since", .job = "main"}, back;
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(checkpoint_health_mark(&ck, &back, &err), -ENOENT);
	cr_expect_eq(checkpoint_put_health_mark(&repo, &mark, false, &err), 0, "%s", err.text);
	mark.given_at = 18;
	cr_expect_eq(checkpoint_put_health_mark(&repo, &mark, false, &err), 0, "%s", err.text);
	cr_expect_eq(checkpoint_health_mark(&ck, &back, &err), 0, "%s", err.text);
	cr_expect(back.given_at == 17 && !back.unhealthy, "what says the same stays");
	mark.unhealthy = true;
	cr_expect_eq(checkpoint_put_health_mark(&repo, &mark, false, &err), 0, "%s", err.text);
	cr_expect_eq(checkpoint_health_mark(&ck, &back, &err), 0, "%s", err.text);
	cr_expect(back.given_at == 18 && back.unhealthy);
	mark.unhealthy = false;
	mark.given_at = 16;
	cr_expect_eq(checkpoint_put_health_mark(&repo, &mark, true, &err), -EEXIST, "what was said later stays");
	cr_expect_eq(checkpoint_health_mark(&ck, &back, &err), 0, "%s", err.text);
	cr_expect(back.given_at == 18 && back.unhealthy);
	mark.given_at = 19;
	cr_expect_eq(checkpoint_put_health_mark(&repo, &mark, true, &err), 0, "%s", err.text);
	cr_expect_eq(checkpoint_health_mark(&ck, &back, &err), 0, "%s", err.text);
	cr_expect(back.given_at == 19 && !back.unhealthy);
	checkpoint_close(&ck);
	mark.id.step++;
	cr_expect_eq(checkpoint_put_health_mark(&repo, &mark, false, &err), -ENOENT, "there is no such checkpoint");
}

Test(checkpoint, a_damaged_or_foreign_mark_is_found)
{
	struct health health = {.id = {9, 2}, .verified_at = 17, .job = "main"};
	struct store_spec other = spec;
	char from[sizeof(dir)];
	size_t size;
	other.id.step = 9;
	cr_assert_eq(store_make(&other, &err), 0);
	cr_assert_eq(checkpoint_put_health(&repo, &health, &err), 0);
	store_dir(&other, from, sizeof(from));
	AUTO_FREE char *text = scratch_read(from, NAME_HEALTH, &size);
	scratch_write(dir, NAME_HEALTH, text, size);
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(checkpoint_health(&ck, &health, &err), -EBADMSG, "of another checkpoint");
	scratch_write(dir, NAME_HEALTH, text, size / 2);
	cr_expect_eq(checkpoint_health(&ck, &health, &err), -EBADMSG, "cut");
	AUTO_FREE char *big = calloc(1, MARK_BYTES_MAX + 1);
	scratch_write(dir, NAME_HEALTH, big, MARK_BYTES_MAX + 1);
	cr_expect_eq(checkpoint_health(&ck, &health, &err), -EBADMSG, "too large");
	checkpoint_close(&ck);
}
