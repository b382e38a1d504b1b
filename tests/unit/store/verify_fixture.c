#include "verify_fixture.h"

#include "format/files/sidecar.h"

#include <dirent.h>
#include <string.h>

static char root[SCRATCH_MAX];
char dir[SCRATCH_MAX + 64];
struct store_spec spec;
struct repo repo;
struct verify_result result;
struct err why;
struct told first, last;
bool packed;
uint64_t last_done, last_total, cancel_after = UINT64_MAX, seed = 1, memory_limit;

void verify_setup(void)
{
	scratch_new(root);
	cr_assert_eq(repo_create(root, &why), 0, "%s", why.text);
	cr_assert_eq(repo_open(root, &repo, &why), 0, "%s", why.text);
}

void verify_teardown(void)
{
	repo_close(&repo);
	scratch_remove(root);
}

void make(uint32_t world, uint32_t nodes, uint64_t rows, uint64_t cols)
{
	struct err err = {0};
	uint64_t step = spec.id.step + 1;
	spec = (struct store_spec){
		.root = root, .id = {step, 1}, .world = world, .nodes = nodes, .rows = rows, .cols = cols};
	spec.packed = packed;
	spec.seed = packed ? STORE_WEIGHTS : 0;
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	store_dir(&spec, dir, sizeof(dir));
}

/* ---- run */

static void on_finding(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	(void)arg;
	last = (struct told){.from = from, .to = to};
	snprintf(last.file, sizeof(last.file), "%s", file);
	snprintf(last.tensor, sizeof(last.tensor), "%s", tensor);
	snprintf(last.text, sizeof(last.text), "%s", text);
	if (!first.text[0])
		first = last;
}

static int on_progress(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	cr_assert_leq(done, total);
	cr_assert_geq(done, last_done);
	last_done = done;
	last_total = total;
	return done > cancel_after;
}

int verify(enum verify_depth depth, double share)
{
	struct verify_options opts = {
		.depth = depth,
		.share = share,
		.seed = seed,
		.finding = on_finding,
		.progress = on_progress,
		.threads = 2,
		.memory = memory_limit,
	};
	first = last = (struct told){0};
	why = (struct err){0};
	last_done = last_total = 0;
	return verify_checkpoint(&repo, "main", spec.id, &opts, &result, &why);
}

void expect_found(enum verify_depth depth, const char *name)
{
	int rc = verify(depth, 1);
	cr_expect_eq(rc, -EBADMSG, "%s: %s: %s", name, err_name(rc), why.text);
	cr_expect_str_eq(first.file, name, "%s named: %s", first.file, first.text);
	cr_expect_neq(first.text[0], 0);
}

/* ---- files */

char *path_of(const char *name)
{
	static char path[1024];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct names *all_names(void)
{
	struct names *names = calloc(1, sizeof(*names));
	DIR *stream = opendir(dir);
	cr_assert(names && stream);
	for (struct dirent *e; (e = readdir(stream));) {
		if (e->d_name[0] == '.')
			continue;
		cr_assert_lt(names->n, NAMES_MAX);
		snprintf(names->name[names->n++], NAME_FILE_MAX, "%.*s", NAME_FILE_MAX - 1, e->d_name);
	}
	closedir(stream);
	qsort(names->name, names->n, NAME_FILE_MAX, by_text);
	return names;
}

/* ---- forgeries: everything fits but the story */

static void write_manifest(struct node_manifest *node, const struct wbuf *text)
{
	struct err err = {0};
	AUTO_WBUF struct wbuf manifest = {0};
	struct node_text ref = {node, text->data, text->len};
	char name[NAME_FILE_MAX];
	name_node(node->node, name);
	scratch_write(dir, name, text->data, text->len);
	cr_assert_eq(manifest_build(&ref, 1, &manifest, &err), 0, "%s", err.text);
	scratch_write(dir, NAME_MANIFEST, manifest.data, manifest.len);
}

static void load_node(const char *name, struct node_manifest *node)
{
	struct err err = {0};
	size_t len;
	AUTO_FREE char *text = scratch_read(dir, name, &len);
	cr_assert_eq(node_manifest_decode(text, len, node, &err), 0, "%s", err.text);
}

static void put_u64(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

/* The digests of a sidecar stand at fixed places: that of the header at 48, its own in the last 16 bytes. */
static void forge_sidecar(uint8_t *sidecar, size_t len, struct digest header)
{
	put_u64(sidecar + 48, header.low);
	put_u64(sidecar + 56, header.high);
	struct digest self = digest_bytes(sidecar, len - 16);
	put_u64(sidecar + len - 16, self.low);
	put_u64(sidecar + len - 8, self.high);
}

void rewrite_header(const char *stem, const char *from, const char *to)
{
	char data_name[NAME_FILE_MAX], sidecar_name[NAME_FILE_MAX];
	snprintf(data_name, sizeof(data_name), "%s.safetensors", stem);
	snprintf(sidecar_name, sizeof(sidecar_name), "%s.xxh", stem);
	struct node_manifest node;
	load_node("node-node0.json", &node);
	struct manifest_file *file = node.files;
	while (strcmp(file->name, data_name))
		file++;
	size_t len, sidecar_len;
	AUTO_FREE char *data = scratch_read(dir, data_name, &len);
	AUTO_FREE uint8_t *sidecar = scratch_read(dir, sidecar_name, &sidecar_len);
	char *at = memmem(data, file->data_at, from, strlen(from));
	cr_assert(at, "%s is not in the header: %.*s", from, (int)file->data_at - 8, data + 8);
	memcpy(at, to, strlen(to));
	scratch_write(dir, data_name, data, len);
	forge_sidecar(sidecar, sidecar_len, digest_bytes(data, file->data_at));
	scratch_write(dir, sidecar_name, sidecar, sidecar_len);
	file->sidecar = digest_bytes(sidecar, sidecar_len);
	AUTO_WBUF struct wbuf text = {0};
	cr_assert_eq(node_manifest_encode(&node, &text), 0);
	write_manifest(&node, &text);
	node_manifest_free(&node);
}

void drop_node(const char *name)
{
	char kept[NAME_FILE_MAX];
	struct node_manifest node;
	AUTO_WBUF struct wbuf text = {0};
	name_node(strcmp(name, "node0") ? "node0" : "node1", kept);
	load_node(kept, &node);
	cr_assert_eq(node_manifest_encode(&node, &text), 0);
	write_manifest(&node, &text);
	node_manifest_free(&node);
}
