/* The fuzzers' entry points, run on mutations of good documents: they build, they are callable, and the first thousands of
 * inputs that a fuzzer would try pass. */
#include "one_file.h"
#include "sample.h"

#define LLVMFuzzerTestOneInput fuzz_sidecar
#include "../../fuzz/fuzz_sidecar.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "../../fuzz/fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_node_manifest
#include "../../fuzz/fuzz_node_manifest.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_manifest
#include "../../fuzz/fuzz_manifest.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_marks
#include "../../fuzz/fuzz_marks.c"

#include <criterion/criterion.h>

enum { ROUNDS = 3000, CUT = 4 };

/* Flips bits, copies stretches over others, cuts. The copy has exactly the input's length. */
static void mutate_and_run(int (*run)(const uint8_t *, size_t), const uint8_t *good, size_t len, uint64_t seed)
{
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *data = malloc(len);
		size_t size = sample_below(&seed, CUT) ? len : sample_below(&seed, len + 1);
		memcpy(data, good, len);
		for (uint64_t n = sample_below(&seed, 4); n-- > 0;) {
			size_t from = sample_below(&seed, len), to = sample_below(&seed, len);
			size_t most = len - (from > to ? from : to);
			if (sample_below(&seed, 2))
				data[from] ^= (uint8_t)(1u << sample_below(&seed, 8));
			else
				memmove(data + to, data + from, sample_below(&seed, most < 32 ? most : 32));
		}
		data = realloc(data, size ? size : 1);
		cr_assert_eq(run(data, size), 0);
		free(data);
	}
}

static struct wbuf body_of(struct wbuf text)
{
	const uint8_t *seal = memmem(text.data, text.len, ",\"root\"", 7);
	text.len = (size_t)(seal - text.data);
	return text;
}

Test(fuzz, node_manifests)
{
	struct node_manifest m;
	struct wbuf text;
	uint64_t seed = 4;
	sample_node(&seed, 0, 1, &m);
	sample_text(&m, &text);
	mutate_and_run(fuzz_node_manifest, text.data, text.len, 1);
	struct wbuf body = body_of(text);
	mutate_and_run(fuzz_node_manifest, body.data, body.len, 2);
	wbuf_free(&text);
	node_manifest_free(&m);
}

Test(fuzz, manifests_and_marks)
{
	struct node_manifest m;
	struct wbuf node, root = {0}, mark = {0};
	struct health health = {.job = "gpt", .id = {7, 1}, .damaged = true, .detail = "wte"};
	uint64_t seed = 4;
	sample_node(&seed, 0, 1, &m);
	sample_text(&m, &node);
	cr_assert_eq(manifest_build(&(struct node_text){&m, node.data, node.len}, 1, &root, NULL), 0);
	cr_assert_eq(health_encode(&health, &mark), 0);
	struct wbuf body = body_of(root);
	mutate_and_run(fuzz_manifest, body.data, body.len, 3);
	body = body_of(mark);
	mutate_and_run(fuzz_marks, body.data, body.len, 4);
	wbuf_free(&node);
	wbuf_free(&root);
	wbuf_free(&mark);
	node_manifest_free(&m);
}

Test(fuzz, safetensors_and_sidecars)
{
	const struct shape shape = {2, {40, 700}};
	struct region pieces[] = {region_flat(0, 1400), region_flat(1401, 26599)};
	struct entry e = {.name = (char *)"w",
			  .kind = ENTRY_TENSOR,
			  .dtype = DTYPE_U16,
			  .shape = shape,
			  .npieces = 2,
			  .pieces = pieces};
	struct one_file f;
	struct wbuf head = {0}, sidecar = {0};
	uint64_t leaves[] = {1, 2};
	one_file_make(&f, &e, 1);
	cr_assert_eq(safetensors_header(&f.reg, &f.layout, 0, &head), 0);
	cr_assert_eq(sidecar_encode(&f.layout, 0, head.len, digest_bytes(head.data, head.len), leaves, &sidecar), 0);
	mutate_and_run(fuzz_sidecar, sidecar.data, sidecar.len, 5);
	while (head.data[head.len - 1] == ' ') /* without the padding, so that mutations meet the JSON */
		head.len--;
	head.data[0] = (uint8_t)(head.len - 8);
	head.data[1] = (uint8_t)((head.len - 8) >> 8);
	wbuf_u16(&head, (uint16_t)f.file.data_size);
	mutate_and_run(fuzz_safetensors, head.data, head.len, 6);
	wbuf_free(&head);
	wbuf_free(&sidecar);
	one_file_free(&f);
}
