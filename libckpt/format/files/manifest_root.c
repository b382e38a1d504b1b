/* MANIFEST.json: built from the node manifests, read and checked. */
#include "format/document/doc.h"
#include "format/files/manifest.h"
#include "format/files/manifest_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_node(const void *a, const void *b)
{
	return strcmp((*(const struct node_text *const *)a)->m->node, (*(const struct node_text *const *)b)->m->node);
}

static int check_same(const struct node_manifest *a, const struct node_manifest *b, struct err *err)
{
	if (strcmp(a->job, b->job) != 0)
		return err_set(err, -EINVAL, "node %s is of job %s, node %s of job %s", a->node, a->job, b->node,
			       b->job);
	if (step_compare(a->id, b->id) != 0)
		return err_set(err, -EINVAL,
			       "node %s is at step %" PRIu64 " of epoch %u, node %s at step %" PRIu64 " of epoch %u",
			       a->node, a->id.step, a->id.epoch, b->node, b->id.step, b->id.epoch);
	if (a->world != b->world)
		return err_set(err, -EINVAL, "node %s has a world of %u ranks, node %s of %u", a->node, a->world,
			       b->node, b->world);
	if (!strcmp(a->node, b->node))
		return err_set(err, -EINVAL, "node %s stands twice", a->node);
	return 0;
}

/* Every rank belongs to one node. owner has room for `world` numbers: index of the rank's node plus one, 0 when unseen. */
static int check_ranks(const struct node_text *const *nodes, uint32_t i, uint32_t *owner, struct err *err)
{
	const struct node_manifest *m = nodes[i]->m;
	for (uint32_t f = 0; f < m->nfiles; f++) {
		uint32_t rank = m->files[f].rank;
		if (rank >= m->world)
			return err_set(err, -EINVAL, "node %s: rank %u of %u", m->node, rank, m->world);
		if (owner[rank] && owner[rank] != i + 1)
			return err_set(err, -EINVAL, "rank %u is on node %s and on node %s", rank,
				       nodes[owner[rank] - 1]->m->node, m->node);
		owner[rank] = i + 1;
	}
	return 0;
}

static int check_nodes(const struct node_text *const *nodes, uint32_t n, struct err *err)
{
	uint32_t *owner = calloc(nodes[0]->m->world + 1, sizeof(*owner));
	int rc = owner ? 0 : err_set(err, -ENOMEM, "no memory for %u ranks", nodes[0]->m->world);
	for (uint32_t i = 0; i < n && !rc; i++) {
		if (i)
			rc = check_same(nodes[i - 1]->m, nodes[i]->m, err);
		if (!rc)
			rc = check_ranks(nodes, i, owner, err);
	}
	free(owner);
	return rc;
}

static void put_node(struct wbuf *out, const struct manifest_node *node)
{
	char hex[DIGEST_TEXT];
	digest_text(node->digest, hex);
	jout_raw(out, "{\"name\":");
	jout_string(out, node->name);
	jout_raw(out, ",\"file\":");
	jout_string(out, node->file);
	jout_raw(out, ",\"size\":");
	jout_u64(out, node->size);
	jout_raw(out, ",\"digest\":");
	jout_string(out, hex);
	jout_raw(out, "}");
}

int manifest_encode(const struct manifest *m, struct wbuf *out)
{
	doc_put(out, ROOT_FORMAT, MANIFEST_VERSION, m->job, m->id);
	jout_raw(out, ",\"world\":");
	jout_u64(out, m->world);
	if (m->began) {
		jout_raw(out, ",\"began\":");
		jout_u64(out, m->began);
	}
	jout_raw(out, ",\"bytes\":");
	jout_u64(out, m->bytes);
	if (m->stored != m->bytes) {
		jout_raw(out, ",\"stored\":");
		jout_u64(out, m->stored);
	}
	jout_raw(out, ",\"files\":");
	jout_u64(out, m->files);
	jout_raw(out, ",\"nodes\":[");
	for (uint32_t i = 0; i < m->nnodes; i++) {
		if (i)
			jout_raw(out, ",");
		put_node(out, &m->nodes[i]);
	}
	jout_raw(out, "]");
	seal_append(out);
	return wbuf_finish(out);
}

static void describe(const struct node_text *node, struct manifest_node *out)
{
	*out = (struct manifest_node){.size = node->len, .digest = digest_bytes(node->text, node->len)};
	memcpy(out->name, node->m->node, sizeof(out->name));
	name_node(out->name, out->file);
}

static int encode_nodes(const struct node_text *const *nodes, uint32_t n, struct wbuf *out)
{
	struct manifest m = {.id = nodes[0]->m->id, .world = nodes[0]->m->world, .nnodes = n};
	m.nodes = calloc(n, sizeof(*m.nodes));
	if (!m.nodes)
		return -ENOMEM;
	memcpy(m.job, nodes[0]->m->job, sizeof(m.job));
	for (uint32_t i = 0; i < n; i++) {
		describe(nodes[i], &m.nodes[i]);
		m.files += nodes[i]->m->nfiles;
		m.began = nodes[i]->m->began > m.began ? nodes[i]->m->began : m.began;
		for (uint32_t f = 0; f < nodes[i]->m->nfiles; f++) {
			m.bytes += nodes[i]->m->files[f].size;
			m.stored += manifest_stored(&nodes[i]->m->files[f]);
		}
	}
	int rc = manifest_encode(&m, out);
	free(m.nodes);
	return rc;
}

int manifest_build(const struct node_text *nodes, uint32_t n, struct wbuf *out, struct err *err)
{
	if (!n)
		return err_set(err, -EINVAL, "%s: no nodes", ROOT_FORMAT);
	if (n > MANIFEST_NODES_MAX)
		return err_set(err, -E2BIG, "%s: %u nodes, at most %d", ROOT_FORMAT, n, MANIFEST_NODES_MAX);
	const struct node_text **sorted = calloc(n, sizeof(struct node_text *));
	if (!sorted)
		return err_set(err, -ENOMEM, "%s: no memory for %u nodes", ROOT_FORMAT, n);
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = &nodes[i];
	qsort(sorted, n, sizeof(struct node_text *), by_node);
	int rc = check_nodes(sorted, n, err);
	if (rc < 0) {
		err_prefix(err, rc, "%s", ROOT_FORMAT);
	} else {
		rc = encode_nodes(sorted, n, out) ? err_set(err, -ENOMEM, "%s: no memory", ROOT_FORMAT) : 0;
	}
	free(sorted);
	return rc;
}

enum { NODE_NAME, NODE_FILE, NODE_SIZE, NODE_DIGEST };
static const char *const node_keys[] = {"name", "file", "size", "digest", NULL};

static void read_digest(struct jin *in, struct digest *d)
{
	char hex[DIGEST_TEXT];
	jin_string(in, hex, sizeof(hex));
	if (digest_parse(hex, d) < 0)
		jin_fail(in, "\"%s\" is not a digest of 32 lower-case hexadecimal digits", hex);
}

static void read_node(struct jin *in, struct manifest_node *node)
{
	char file[NAME_FILE_MAX];
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, node_keys, &seen)) >= 0;)
		if (k == NODE_NAME)
			jin_string(in, node->name, sizeof(node->name));
		else if (k == NODE_FILE)
			jin_string(in, node->file, sizeof(node->file));
		else if (k == NODE_SIZE)
			node->size = jin_u64(in, NODE_MANIFEST_BYTES_MAX);
		else
			read_digest(in, &node->digest);
	jin_require(in, node_keys, seen, 1u << NODE_NAME | 1u << NODE_FILE | 1u << NODE_SIZE | 1u << NODE_DIGEST);
	if (in->rc)
		return;
	jin_check(in, name_check("node", node->name, NAME_NODE_MAX, in->err));
	name_node(node->name, file);
	if (!in->rc && strcmp(file, node->file) != 0)
		jin_fail(in, "file is \"%s\", not \"%s\"", node->file, file);
}

static void read_nodes(struct jin *in, struct manifest *m)
{
	jin_array(in);
	while (jin_element(in)) {
		if (m->nnodes == MANIFEST_NODES_MAX)
			jin_fail(in, "more than %d nodes", MANIFEST_NODES_MAX);
		m->nodes = jin_grow(in, m->nodes, m->nnodes, sizeof(*m->nodes));
		if (in->rc)
			return;
		struct manifest_node *node = &m->nodes[m->nnodes++];
		*node = (struct manifest_node){0};
		read_node(in, node);
		if (!in->rc && m->nnodes > 1 && strcmp(node[-1].name, node->name) >= 0)
			jin_fail(in, "node %s stands after %s: twice or not sorted", node->name, node[-1].name);
	}
	if (!in->rc && !m->nnodes)
		jin_fail(in, "no nodes");
}

enum { WORLD = DOC_KEYS_END, BYTES, FILES, NODES, STORED, BEGAN };
static const char *const top_keys[] = {DOC_KEYS, "world", "bytes", "files", "nodes", "stored", "began", NULL};

static int read_manifest(struct jin *in, struct manifest *m)
{
	const struct doc_head head = {m->job, &m->id};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, top_keys, &seen)) >= 0;)
		switch (k) {
		case WORLD:
			m->world = (uint32_t)jin_u64(in, RANK_MAX);
			break;
		case BYTES:
			m->bytes = jin_u64(in, INT64_MAX);
			break;
		case STORED:
			m->stored = jin_u64(in, INT64_MAX);
			break;
		case FILES:
			m->files = jin_u64(in, (uint64_t)MANIFEST_FILES_MAX * MANIFEST_NODES_MAX);
			break;
		case NODES:
			read_nodes(in, m);
			break;
		case BEGAN:
			m->began = (uint32_t)jin_u64(in, UINT32_MAX - 1);
			break;
		default:
			doc_read(in, k, &head);
		}
	jin_require(in, top_keys, seen, (1u << STORED) - 1);
	if (!(seen & 1u << STORED))
		m->stored = m->bytes;
	if (!in->rc && !m->world)
		jin_fail(in, "world is 0");
	return jin_close(in);
}

int manifest_decode(const void *text, size_t len, struct manifest *m, struct err *err)
{
	struct jin in;
	*m = (struct manifest){0};
	int rc = doc_open(&in, text, len, MANIFEST_BYTES_MAX, ROOT_FORMAT, MANIFEST_VERSION, err);
	if (!rc)
		rc = read_manifest(&in, m);
	if (rc < 0)
		manifest_free(m);
	return rc;
}

void manifest_free(struct manifest *m)
{
	free(m->nodes);
	*m = (struct manifest){0};
}
