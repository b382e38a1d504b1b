#include "format/document/json_out.h"
#include "format/files/manifest.h"
#include "format/sample.h"

#include <criterion/criterion.h>

static bool same_tensor(const struct manifest_tensor *a, const struct manifest_tensor *b)
{
	return !strcmp(a->name, b->name) && a->kind == b->kind && a->dtype == b->dtype &&
	       shape_equal(&a->shape, &b->shape);
}

static bool same_piece(const struct manifest_tensor *t, const struct manifest_piece *a, const struct manifest_piece *b)
{
	return a->tensor == b->tensor && a->region.kind == b->region.kind && a->at == b->at && a->bytes == b->bytes &&
	       region_equal(&t[a->tensor].shape, &a->region, &b->region);
}

static bool same_file(const struct manifest_tensor *t, const struct manifest_file *a, const struct manifest_file *b)
{
	bool same = !strcmp(a->name, b->name) && a->rank == b->rank && a->part == b->part &&
		    !strcmp(a->group, b->group) && a->size == b->size && a->data_at == b->data_at &&
		    !strcmp(a->sidecar_name, b->sidecar_name) && a->sidecar_size == b->sidecar_size &&
		    digest_equal(a->sidecar, b->sidecar) && a->npieces == b->npieces;
	for (uint32_t i = 0; same && i < a->npieces; i++)
		same = same_piece(t, &a->pieces[i], &b->pieces[i]);
	return same;
}

static void assert_same(const struct node_manifest *a, const struct node_manifest *b)
{
	cr_assert_str_eq(a->job, b->job);
	cr_assert_str_eq(a->node, b->node);
	cr_assert_eq(step_compare(a->id, b->id), 0);
	cr_assert_eq(a->world, b->world);
	cr_assert_eq(a->began, b->began);
	cr_assert_eq(a->ntensors, b->ntensors);
	cr_assert_eq(a->nfiles, b->nfiles);
	for (uint32_t i = 0; i < a->ntensors; i++)
		cr_assert(same_tensor(&a->tensors[i], &b->tensors[i]), "tensor %u", i);
	for (uint32_t i = 0; i < a->nfiles; i++)
		cr_assert(same_file(a->tensors, &a->files[i], &b->files[i]), "file %u", i);
}

Test(manifest, a_node_manifest_comes_back_as_it_was)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t s = seed;
		struct node_manifest m, back;
		struct wbuf text, again;
		struct err err = {""};
		sample_node(&s, 1, 4, &m);
		sample_text(&m, &text);
		cr_assert_eq(node_manifest_decode(text.data, text.len, &back, &err), 0, "seed %lu: %s", seed, err.text);
		assert_same(&m, &back);
		sample_text(&back, &again);
		cr_assert_eq(text.len, again.len);
		cr_assert_eq(memcmp(text.data, again.data, text.len), 0, "seed %lu", seed);
		wbuf_free(&text);
		wbuf_free(&again);
		node_manifest_free(&m);
		node_manifest_free(&back);
	}
}

/* A small document, one member per line, that the tests below damage. sidecar.size of 1 piece and 1 leaf: 64+40+8+16. */
static const char good[] =
	"{\"format\":\"ckpt.node\",\"version\":1,\"job\":\"gpt\",\"step\":1000,\"epoch\":3,\"world\":8,\"node\":\"a\","
	"\"tensors\":[{\"name\":\"w\",\"kind\":\"tensor\",\"dtype\":\"F32\",\"shape\":[4,6]},"
	"{\"name\":\"b\",\"kind\":\"job-blob\",\"dtype\":\"U8\",\"shape\":[10]}],"
	"\"files\":[{\"name\":\"x.safetensors\",\"rank\":2,\"group\":\"params\",\"part\":0,\"size\":4144,\"data_at\":"
	"4096,"
	"\"sidecar\":{\"name\":\"x.xxh\",\"size\":128,\"digest\":\"00112233445566778899aabbccddeeff\"},"
	"\"pieces\":[{\"t\":0,\"o\":[0,0],\"e\":[2,6]}]},"
	"{\"name\":\"y.safetensors\",\"rank\":3,\"group\":\"params\",\"part\":0,\"size\":4106,\"data_at\":4096,"
	"\"sidecar\":{\"name\":\"y.xxh\",\"size\":128,\"digest\":\"00112233445566778899aabbccddeeff\"},"
	"\"pieces\":[{\"t\":1,\"s\":0,\"n\":10}]}]";

static int decode_body(const char *body, struct err *err)
{
	struct wbuf text;
	struct node_manifest m;
	*err = (struct err){""};
	sample_sealed(body, &text);
	int rc = node_manifest_decode(text.data, text.len, &m, err);
	if (rc)
		cr_assert(!m.tensors && !m.files && !m.ntensors && !m.nfiles, "not empty after an error");
	node_manifest_free(&m);
	wbuf_free(&text);
	return rc;
}

Test(manifest, the_document_that_the_tests_damage_is_good)
{
	struct err err;
	cr_assert_eq(decode_body(good, &err), 0, "%s", err.text);
}

static const struct {
	const char *from, *to, *message;
} refusals[] = {
	{"\"ckpt.node\"", "\"ckpt.nodes\"", "the format is \"ckpt.nodes\", not \"ckpt.node\""},
	{"\"ckpt.node\"", "7", "format: is not a string"},
	{"\"version\":1", "\"version\":1.5", "version: is not a whole number"},
	{"\"version\":1,", "", "\"version\" is missing"},
	{"\"job\":\"gpt\"", "\"job\":\"../gpt\"", "job: "},
	{"\"job\":\"gpt\",", "", "\"job\" is missing"},
	{"\"step\":1000", "\"step\":1000000000000", "step: is above 999999999999"},
	{"\"step\":1000", "\"step\":-1", "step: is not a whole number"},
	{"\"step\":1000", "\"step\":1e3", "step: is not a whole number"},
	{"\"step\":1000", "\"step\":01000", "step: has a leading zero"},
	{"\"step\":1000", "\"step\":18446744073709551617", "step: is above"},
	{"\"epoch\":3", "\"epoch\":10000", "epoch: is above 9999"},
	{"\"epoch\":3", "\"epoch\":3,\"epoch\":4", "epoch: stands twice"},
	{"\"world\":8", "\"world\":0", "world is 0"},
	{"\"world\":8", "\"world\":262145", "world: is above 262144"},
	{"\"node\":\"a\"", "\"node\":\"-a\"", "node"},
	{"\"node\":\"a\"", "\"node\":[]", "node: is not a string"},
	{"\"name\":\"w\"", "\"name\":\"\"", "tensors[0].name: "},
	{"\"name\":\"w\"", "\"name\":\"\\u0000\"", "tensors[0].name: "},
	{"\"name\":\"w\"", "\"name\":\"\xff\"", "tensors[0].name: "},
	{"\"name\":\"w\"", "\"name\":\"b\"", "\"b\" stands twice"},
	{"\"name\":\"w\",", "", "tensors[0]: \"name\" is missing"},
	{"\"kind\":\"job-blob\"", "\"kind\":\"blob\"", "tensors[1].kind: unknown kind \"blob\""},
	{"\"kind\":\"job-blob\"", "\"kind\":\"job-blob\",\"sized\":2", "tensors[1].sized: is above 1"},
	{"\"F32\"", "\"F32\",\"sized\":1", "tensors[0]: it has no room for a changing size"},
	{"\"F32\"", "\"F33\"", "tensors[0].dtype: unknown type \"F33\""},
	{"[4,6]", "[4,6,1,1,1,1,1,1,1]", "tensors[0].shape[8]: more than 8 elements"},
	{"[4,6]", "[4294967296,4294967296]", "tensors[0]: the shape's volume overflows"},
	{"[4,6]", "[4,-6]", "tensors[0].shape[1]: is not a whole number"},
	{"\"U8\"", "\"I8\"", "tensors[1]: a blob is not a vector of U8"},
	{"\"tensors\":[", "\"tensors\":[7,", "tensors[0]: is not an object"},
	{"\"x.safetensors\"", "\"../x.safetensors\"", "files[0].name: "},
	{"\"x.safetensors\"", "\"/x.safetensors\"", "files[0].name: "},
	{"\"x.safetensors\"", "\".x.safetensors\"", "files[0].name: "},
	{"\"x.safetensors\"", "\"MANIFEST.json\"", "files[0]: \"MANIFEST.json\" does not end with"},
	{"\"x.safetensors\"", "\"y.safetensors\"", "\"y.safetensors\" stands twice"},
	{"\"x.xxh\"", "\"y.xxh\"", "\"y.xxh\" stands twice"},
	{"\"x.xxh\"", "\"a/x.xxh\"", "files[0].sidecar.name: "},
	{"\"rank\":2", "\"rank\":8", "files[0].rank: is above 7"},
	{"\"rank\":2", "\"rank\":3", "rank 3, group \"params\", part 0 stands twice"},
	{"\"params\"", "\"pa/rams\"", "files[0].group: "},
	{"\"params\"", "\"params.part-0001\"", "files[0].group: "},
	{"\"part\":0", "\"part\":10000", "files[0].part: is above 9999"},
	{"\"part\":0", "\"part\":null", "files[0].part: is not a whole number"},
	{"\"size\":4144", "\"size\":4145", "files[0]: size 4145 is not data_at 4096 + 48"},
	{"\"size\":4144", "\"size\":9223372036854775808", "files[0].size: is above"},
	{"\"size\":4144,\"data_at\":4096", "\"size\":548,\"data_at\":500", "files[0]: data_at 500 is not a multiple"},
	{"\"size\":4144,\"data_at\":4096", "\"size\":48,\"data_at\":0", "files[0]: data_at 0 is not a multiple"},
	{"\"size\":128", "\"size\":136", "files[0]: sidecar.size 136 is not that of 1 pieces and 1 leaves"},
	{"\"0011", "\"001", "files[0].sidecar.digest: "},
	{"aabb", "AABB", "files[0].sidecar.digest: "},
	{"\"digest\":", "\"dig\":", "files[0].sidecar: \"digest\" is missing"},
	{"\"sidecar\":{", "\"s\":{", "files[0]: \"sidecar\" is missing"},
	{"\"t\":0", "\"t\":2", "files[0].pieces[0]: t is 2 of 2 tensors"},
	{"\"t\":0,", "", "files[0].pieces[0]: \"t\" is missing"},
	{"\"o\":[0,0],", "", "files[0].pieces[0]: \"o\" is missing"},
	{"\"e\":[2,6]", "\"e\":7", "files[0].pieces[0].e: is not an array"},
	{"\"e\":[2,6]", "\"e\":[5,6]", "files[0].pieces[0]: "},
	{"\"e\":[2,6]", "\"e\":[2,6],\"s\":0,\"n\":1", "files[0].pieces[0]: both a box"},
	{"\"e\":[2,6]", "\"e\":[12]", "files[0].pieces[0]: o and e have 2 and 1 numbers, \"w\" has 2"},
	{"\"e\":[2,6]", "\"e\":[2,6,]", "files[0].pieces[0].e[2]: is not a whole number"},
	{"\"s\":0", "\"s\":1", "files[1].pieces[0]: "},
	{"\"s\":0,", "", "files[1].pieces[0]: \"s\" is missing"},
	{"\"n\":10", "\"n\":9223372036854775807", "files[1].pieces[0]: "},
	{"\"files\":[", "\"files\":[],\"files\":[", "files: stands twice"},
	{"\"files\":[{", "\"files\":{\"a\":{", "files: is not an array"},
	{"\"files\":", "\"file\":", "\"files\" is missing"},
};

Test(manifest, whatever_is_missing_mistyped_twice_or_out_of_bounds_is_named)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct err err;
		char *body = sample_replace(good, refusals[i].from, refusals[i].to);
		cr_expect_eq(decode_body(body, &err), -EBADMSG, "accepted: %s", refusals[i].to);
		cr_expect_not_null(strstr(err.text, refusals[i].message), "%s: \"%s\" without \"%s\"", refusals[i].to,
				   err.text, refusals[i].message);
		free(body);
	}
}

Test(manifest, another_version_is_refused_with_both_named)
{
	struct err err;
	char *body = sample_replace(good, "\"version\":1", "\"version\":2");
	cr_assert_eq(decode_body(body, &err), -EPROTONOSUPPORT);
	cr_assert_not_null(strstr(err.text, "version 2"), "%s", err.text);
	cr_assert_not_null(strstr(err.text, "version 1"), "%s", err.text);
	free(body);
	/* a later version may have changed everything else */
	cr_assert_eq(decode_body("{\"version\":2,\"other\":[],\"format\":\"ckpt.node\"", &err), -EPROTONOSUPPORT);
}

Test(manifest, unknown_keys_are_ignored_wherever_they_stand)
{
	static const char *const places[] = {"{\"format\"", "{\"name\":\"w\"", "{\"name\":\"x.s", "{\"name\":\"x.x",
					     "{\"t\":0"};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct err err;
		char with[200];
		snprintf(with, sizeof(with), "{\"later\":[{\"files\":[1.5e3,null,true,\"\\u00e9\"]},-0],%s",
			 places[i] + 1);
		char *body = sample_replace(good, places[i], with);
		cr_assert_eq(decode_body(body, &err), 0, "%s: %s", places[i], err.text);
		free(body);
	}
}

Test(manifest, files_may_stand_before_tensors)
{
	struct err err;
	const char *tensors = strstr(good, "\"tensors\""), *files = strstr(good, "\"files\"");
	char *body;
	cr_assert_geq(
		asprintf(&body, "%.*s%s,%.*s", (int)(tensors - good), good, files, (int)(files - tensors) - 1, tensors),
		0);
	cr_assert_eq(decode_body(body, &err), 0, "%s", err.text);
	free(body);
}

Test(manifest, a_sum_of_pieces_that_overflows_is_refused)
{
	struct err err;
	char *shape =
		sample_replace(good, "[4,6]", "[144115188075855872,1]"); /* 2^57 × 4 bytes; three of them pass 2^60 */
	char *body =
		sample_replace(shape, "{\"t\":0,\"o\":[0,0],\"e\":[2,6]}",
			       "{\"t\":0,\"s\":0,\"n\":144115188075855872},{\"t\":0,\"s\":0,\"n\":144115188075855872}");
	cr_assert_eq(decode_body(body, &err), -EBADMSG);
	cr_assert_not_null(strstr(err.text, "files[0]: size 4144 is not"), "%s", err.text);
	free(shape);
	free(body);
}

Test(manifest, deep_nesting_is_refused_without_recursing)
{
	static char body[100000];
	struct err err;
	size_t n = (size_t)snprintf(body, sizeof(body), "%.*s,\"x\":", (int)strlen(good), good);
	memset(body + n, '[', sizeof(body) - n - 1);
	cr_assert_eq(decode_body(body, &err), -EBADMSG);
	cr_assert_not_null(strstr(err.text, "nested deeper than"), "%s", err.text);
}

Test(manifest, a_text_above_the_bound_is_refused_unread)
{
	struct node_manifest m;
	struct manifest root;
	struct err err;
	cr_assert_eq(node_manifest_decode("", NODE_MANIFEST_BYTES_MAX + 1ull, &m, &err), -EBADMSG);
	cr_assert_eq(manifest_decode("", MANIFEST_BYTES_MAX + 1ull, &root, &err), -EBADMSG);
}

enum { NODES = 5 };

struct job {
	struct node_manifest nodes[NODES];
	struct wbuf texts[NODES];
	struct node_text list[NODES];
};

static void job_make(struct job *job, uint64_t seed)
{
	for (uint32_t i = 0; i < NODES; i++) {
		sample_node(&seed, i, NODES, &job->nodes[i]);
		sample_text(&job->nodes[i], &job->texts[i]);
		job->list[i] = (struct node_text){&job->nodes[i], job->texts[i].data, job->texts[i].len};
	}
}

static void job_free(struct job *job)
{
	for (uint32_t i = 0; i < NODES; i++) {
		node_manifest_free(&job->nodes[i]);
		wbuf_free(&job->texts[i]);
	}
}

Test(manifest, the_root_depends_on_the_set_of_nodes_only)
{
	struct job job;
	struct wbuf first = {0};
	uint64_t seed = 7;
	job_make(&job, 1);
	cr_assert_eq(manifest_build(job.list, NODES, &first, NULL), 0);
	for (int round = 0; round < 20; round++) {
		struct wbuf text = {0};
		for (uint32_t i = NODES; i-- > 1;) {
			uint32_t k = (uint32_t)sample_below(&seed, i + 1);
			struct node_text t = job.list[i];
			job.list[i] = job.list[k];
			job.list[k] = t;
		}
		cr_assert_eq(manifest_build(job.list, NODES, &text, NULL), 0);
		cr_assert_eq(text.len, first.len);
		cr_assert_eq(memcmp(text.data, first.data, first.len), 0);
		wbuf_free(&text);
	}
	wbuf_free(&first);
	job_free(&job);
}

Test(manifest, the_root_names_every_node_with_size_and_digest)
{
	struct job job;
	struct wbuf text = {0};
	struct manifest m;
	struct err err = {""};
	uint64_t bytes = 0;
	job_make(&job, 2);
	cr_assert_eq(manifest_build(job.list, NODES, &text, &err), 0, "%s", err.text);
	cr_assert_eq(manifest_decode(text.data, text.len, &m, &err), 0, "%s", err.text);
	cr_assert_str_eq(m.job, "gpt");
	cr_assert_eq(m.world, 2 * NODES);
	cr_assert_eq(m.nnodes, NODES);
	for (uint32_t i = 0; i < NODES; i++) {
		cr_assert_str_eq(m.nodes[i].name, job.nodes[i].node);
		cr_assert_eq(m.nodes[i].size, job.texts[i].len);
		cr_assert(digest_equal(m.nodes[i].digest, digest_bytes(job.texts[i].data, job.texts[i].len)));
		for (uint32_t f = 0; f < job.nodes[i].nfiles; f++)
			bytes += job.nodes[i].files[f].size;
	}
	cr_assert_eq(m.bytes, bytes);
	cr_assert_eq(m.files, 6 * NODES);
	manifest_free(&m);
	wbuf_free(&text);
	job_free(&job);
}

static void assert_not_built(const struct job *job, const char *message)
{
	struct wbuf text = {0};
	struct err err = {""};
	cr_expect_eq(manifest_build(job->list, NODES, &text, &err), -EINVAL);
	cr_expect_not_null(strstr(err.text, message), "\"%s\" without \"%s\"", err.text, message);
	cr_expect_eq(text.len, 0);
	wbuf_free(&text);
}

Test(manifest, nodes_that_do_not_belong_together_are_refused)
{
	struct job job;
	job_make(&job, 3);
	snprintf(job.nodes[2].job, sizeof(job.nodes[2].job), "%s", "other");
	assert_not_built(&job, "node n1 is of job gpt, node n2 of job other");
	snprintf(job.nodes[2].job, sizeof(job.nodes[2].job), "%s", "gpt");
	job.nodes[2].id.step++;
	assert_not_built(&job, "node n2 at step 1001 of epoch 3");
	job.nodes[2].id.step--;
	job.nodes[2].id.epoch--;
	assert_not_built(&job, "node n2 at step 1000 of epoch 2");
	job.nodes[2].id.epoch++;
	job.nodes[2].world++;
	assert_not_built(&job, "world");
	job.nodes[2].world--;
	snprintf(job.nodes[2].node, sizeof(job.nodes[2].node), "%s", "n3");
	assert_not_built(&job, "node n3 stands twice");
	snprintf(job.nodes[2].node, sizeof(job.nodes[2].node), "%s", "n2");
	job.nodes[2].files[0].rank = 0;
	assert_not_built(&job, "rank 0 is on node n0 and on node n2");
	job.nodes[2].files[0].rank = 4;
	struct wbuf text = {0};
	cr_assert_eq(manifest_build(job.list, 0, &text, NULL), -EINVAL);
	cr_assert_eq(manifest_build(job.list, NODES, &text, NULL), 0);
	wbuf_free(&text);
	job_free(&job);
}

static const char good_root[] =
	"{\"format\":\"ckpt.manifest\",\"version\":1,\"job\":\"gpt\",\"step\":1000,\"epoch\":3,\"world\":8,\"bytes\":"
	"100,\"files\":4,"
	"\"nodes\":[{\"name\":\"a\",\"file\":\"node-a.json\",\"size\":10,\"digest\":"
	"\"00112233445566778899aabbccddeeff\"},"
	"{\"name\":\"b\",\"file\":\"node-b.json\",\"size\":10,\"digest\":\"00112233445566778899aabbccddeeff\"}]";

static int decode_root(const char *body, struct err *err)
{
	struct wbuf text;
	struct manifest m;
	*err = (struct err){""};
	sample_sealed(body, &text);
	int rc = manifest_decode(text.data, text.len, &m, err);
	cr_assert(!rc || !m.nodes);
	manifest_free(&m);
	wbuf_free(&text);
	return rc;
}

Test(manifest, a_damaged_root_is_refused_with_the_path)
{
	static const struct {
		const char *from, *to, *message;
	} cases[] = {
		{"\"ckpt.manifest\"", "\"ckpt.node\"", "not \"ckpt.manifest\""},
		{"\"node-b.json\"", "\"../node-b.json\"", "nodes[1]: file is \"../node-b.json\", not \"node-b.json\""},
		{"\"name\":\"b\",\"file\":\"node-b", "\"name\":\"a\",\"file\":\"node-a", "twice or not sorted"},
		{"\"name\":\"a\",\"file\":\"node-a", "\"name\":\"c\",\"file\":\"node-c", "twice or not sorted"},
		{"\"name\":\"b\"", "\"name\":\".b\"", "nodes[1]: "},
		{"\"size\":10", "\"size\":134217729", "nodes[0].size: is above 134217728"},
		{"\"size\":10,", "", "nodes[0]: \"size\" is missing"},
		{"\"00112233", "\"g0112233", "nodes[0].digest: "},
		{"\"bytes\":100", "\"bytes\":\"100\"", "bytes: is not a whole number"},
		{"\"world\":8", "\"world\":0", "world is 0"},
		{"\"files\":4,", "", "\"files\" is missing"},
		{"\"nodes\":[{", "\"nodes\":[],\"x\":[{", "nodes: no nodes"},
	};
	struct err err;
	cr_assert_eq(decode_root(good_root, &err), 0, "%s", err.text);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *body = sample_replace(good_root, cases[i].from, cases[i].to);
		cr_expect_eq(decode_root(body, &err), -EBADMSG, "accepted: %s", cases[i].to);
		cr_expect_not_null(strstr(err.text, cases[i].message), "%s: \"%s\"", cases[i].to, err.text);
		free(body);
	}
	char *body = sample_replace(good_root, "\"version\":1", "\"version\":9");
	cr_assert_eq(decode_root(body, &err), -EPROTONOSUPPORT);
	free(body);
}
