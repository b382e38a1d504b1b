#include "scratch.h"
#include "store/read/contents.h"
#include "store_maker.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char root[SCRATCH_MAX];
static struct repo repo;
static struct checkpoint ck;
static struct contents contents;
static struct err err;

static void open_store(uint32_t world, uint32_t nodes)
{
	struct store_spec spec = {.root = root, .id = {7, 1}, .world = world, .nodes = nodes};
	scratch_new(root);
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(checkpoint_open(&repo, "main", spec.id, &ck, &err), 0, "%s", err.text);
	cr_assert_eq(contents_make(&ck, &contents, &err), 0, "%s", err.text);
}

static void close_store(void)
{
	contents_free(&contents);
	checkpoint_close(&ck);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(contents, .fini = close_store);

static const struct content *find(const char *name)
{
	const struct content *c = contents_find(&contents, name);
	cr_assert_not_null(c, "%s", name);
	return c;
}

Test(contents, are_the_tensors_of_all_nodes_by_name_each_once)
{
	open_store(4, 2);
	for (size_t i = 1; i < contents.n; i++)
		cr_assert_lt(strcmp(contents.list[i - 1].meta->name, contents.list[i].meta->name), 0);
	cr_assert_eq(contents.n, 7 + 1 + 4, "seven tensors, loader, and a blob of each rank");
	cr_expect_eq(find("rowwise")->npieces, 4);
	cr_expect_str_eq(find("moment")->group, "optimizer");
	cr_expect_eq(find("rng@00003")->meta->kind, ENTRY_RANK_BLOB);
	cr_expect_eq(content_bytes(find("rowwise")), 64 * 48 * 4);
	cr_expect_eq(content_bytes(find("scale")), 4);
	cr_expect_eq(content_bytes(find("empty")), 0);
	cr_expect_null(contents_find(&contents, "rng"));
	cr_expect_null(contents_find(&contents, ""));
	cr_expect_null(contents_find(&contents, "zzz"));
}

Test(contents, pieces_are_in_order_of_their_ranks_and_cover_the_tensor)
{
	open_store(4, 2);
	const struct content *c = find("colwise");
	uint64_t bytes = 0;
	for (size_t i = 0; i < c->npieces; i++) {
		cr_assert_eq(c->pieces[i].file->rank, i);
		bytes += c->pieces[i].piece->bytes;
	}
	cr_assert_eq(bytes, content_bytes(c));
}

Test(contents, nodes_that_disagree_are_named)
{
	open_store(2, 2);
	struct contents other;
	for (uint32_t t = 0; t < ck.nodes[1].ntensors; t++)
		if (!strcmp(ck.nodes[1].tensors[t].name, "rowwise"))
			ck.nodes[1].tensors[t].shape.dim[1]++;
	cr_assert_eq(contents_make(&ck, &other, &err), -EBADMSG);
	cr_assert(strstr(err.text, "one node saved \"rowwise\" as F32 [64, 48], another as F32 [64, 49]"), "%s",
		  err.text);
}
