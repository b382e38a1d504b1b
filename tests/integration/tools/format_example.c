/* Prints the worked example and the test vectors of docs/reference/format.md: each line stands there verbatim, after blanks. */
#include "format/files/manifest.h"
#include "format/files/marks.h"
#include "format/files/safetensors.h"
#include "format/files/sidecar.h"
#include "unit/format/one_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void line(const char *what, struct digest d)
{
	char text[DIGEST_TEXT];
	digest_text(d, text);
	printf("%s %s\n", what, text);
}

static void print_vectors(void)
{
	static uint8_t bytes[LEAF_SIZE + 1];
	uint64_t leaves[2];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	digest_leaves(bytes, sizeof(bytes), leaves);
	printf("leaf of \"abc\" %016" PRIx64 "\n", digest_leaf("abc", 3));
	printf("leaves %016" PRIx64 " %016" PRIx64 "\n", leaves[0], leaves[1]);
	line("piece", digest_piece(leaves, 2));
	line("empty piece", digest_piece(NULL, 0));
	line("metadata \"abc\"", digest_bytes("abc", 3));
}

static void print_hex(const struct wbuf *w)
{
	for (size_t i = 0; i < w->len; i++)
		printf("%02x%s", w->data[i], i % 16 == 15 || i + 1 == w->len ? "\n" : " ");
}

static void print_text(const struct wbuf *w)
{
	fwrite(w->data, 1, w->len, stdout);
}

/* The JSON of a header block, without the length word and the padding. */
static void print_header(const struct wbuf *head)
{
	size_t len = head->len;
	while (head->data[len - 1] == ' ')
		len--;
	printf("%.*s\n", (int)(len - 8), (const char *)head->data + 8);
	printf("length word %" PRIu64 "\n", (uint64_t)(head->len - 8));
}

static void describe(struct node_manifest *m, struct manifest_file *f, const struct wbuf *head,
		     const struct one_file *one, const struct wbuf *sidecar)
{
	name_data(0, 1, "params", 0, f->name);
	name_sidecar(0, 1, "params", 0, f->sidecar_name);
	f->data_at = head->len;
	f->size = head->len + one->file.data_size;
	f->sidecar_size = sidecar->len;
	f->sidecar = digest_bytes(sidecar->data, sidecar->len);
	m->files = f;
	m->nfiles = 1;
}

static int print_checkpoint(void)
{
	const struct shape shape = {2, {2, 3}};
	struct region whole = region_whole(&shape);
	struct entry e = {.name = (char *)"w",
			  .kind = ENTRY_TENSOR,
			  .dtype = DTYPE_F32,
			  .shape = shape,
			  .group = "params",
			  .npieces = 1,
			  .pieces = &whole};
	struct manifest_tensor tensor = {.name = (char *)"w", .kind = ENTRY_TENSOR, .dtype = DTYPE_F32, .shape = shape};
	struct manifest_piece piece = {.region = whole};
	struct manifest_file file = {.group = "params", .npieces = 1, .pieces = &piece};
	struct node_manifest m = {
		.job = "gpt", .node = "a", .id = {1000, 3}, .world = 1, .ntensors = 1, .tensors = &tensor};
	struct one_file one;
	uint8_t data[24];
	uint64_t leaf;
	AUTO_WBUF struct wbuf head = {0}, sidecar = {0}, node = {0}, root = {0};

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	digest_leaves(data, sizeof(data), &leaf);
	one_file_make(&one, &e, 1);
	int rc = safetensors_header(&one.reg, &one.layout, 0, &head);
	rc = rc ? rc : sidecar_encode(&one.layout, 0, head.len, digest_bytes(head.data, head.len), &leaf, &sidecar);
	if (!rc)
		describe(&m, &file, &head, &one, &sidecar);
	one_file_free(&one);
	rc = rc ? rc : node_manifest_encode(&m, &node);
	rc = rc ? rc : manifest_build(&(struct node_text){&m, node.data, node.len}, 1, &root, NULL);
	if (rc)
		return rc;
	print_header(&head);
	line("header", digest_bytes(head.data, head.len));
	printf("leaf %016" PRIx64 "\n", leaf);
	print_hex(&sidecar);
	print_text(&node);
	print_text(&root);
	return 0;
}

static int print_marks(void)
{
	struct health health = {.job = "gpt", .id = {1000, 3}, .verified_at = 1700000000000000000};
	struct pin pin = {.job = "gpt",
			  .id = {1000, 3},
			  .pinned_at = 1700000000000000000,
			  .note = "before the learning rate drop"};
	struct health_mark mark = {
		.job = "gpt", .id = {1000, 3}, .given_at = 1700000000000000000, .reason = "8 good steps since"};
	AUTO_WBUF struct wbuf health_text = {0}, pin_text = {0}, mark_text = {0};
	int rc = health_encode(&health, &health_text);
	rc = rc ? rc : pin_encode(&pin, &pin_text);
	rc = rc ? rc : health_mark_encode(&mark, &mark_text);
	print_text(&health_text);
	print_text(&pin_text);
	print_text(&mark_text);
	return rc;
}

int main(void)
{
	print_vectors();
	return print_checkpoint() || print_marks() ? 1 : 0;
}
