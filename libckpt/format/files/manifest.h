/* The two JSON documents of a checkpoint. The chain of digests: MANIFEST.json → node-<name>.json → sidecars → bytes.
 *
 * Each document is "sealed": it is JSON on one line that ends with `,"root":"<32 hex>"}\n`. The root is the XXH3-128 of
 * all bytes before that suffix, so that any flipped bit is found before the text is parsed.
 *
 * node-<name>.json  {"format":"ckpt.node","version":1,"job","step","epoch","world","node","began",
 *   "tensors":[{"name","kind":"tensor"|"job-blob"|"rank-blob","sized","dtype","shape":[...]}],
 *   "files":[{"name","rank","group","part","size","data_at","packed":{"size","index","digest"},
 *             "sidecar":{"name","size","digest"},
 *             "pieces":[{"t":index into tensors,"o":[...],"e":[...]} or {"t":…,"s":start,"n":count}]}]}
 *   The pieces of a file stand in the order of their bytes, without gaps, from data_at on. Only files that are packed
 *   (packed.h) have "packed": size, data_at and the places of pieces are then those of the safetensors file that it
 *   stands for.
 * MANIFEST.json  {"format":"ckpt.manifest","version":1,"job","step","epoch","world","began","bytes","stored","files",
 *   "nodes":[{"name","file","size","digest"}]} , nodes sorted by name (bytes of the names): a pure function of the node
 *   manifests. "began" is the epoch in which the state began without a restore, over all nodes the largest. Where it was
 *   restored from storage, or nobody told, the key is not there.
 *   "stored", what the files take, stands there only where it is not "bytes", what they hold.
 *
 * Decoders are bounded: what they allocate is about 20 times the text at most, whose length they check first. They refuse
 * with -EBADMSG and the path ("files[3].pieces[7].e") whatever is missing, of another type, out of bounds or twice there,
 * and with -EPROTONOSUPPORT another version. Keys that they do not know they ignore. On error the result is empty. */
#ifndef CKPT_FORMAT_MANIFEST_H
#define CKPT_FORMAT_MANIFEST_H

#include "format/arena/layout.h"
#include "format/document/seal.h"

enum {
	MANIFEST_VERSION = 1,
	MANIFEST_NODES_MAX = 65536,
	MANIFEST_BYTES_MAX = 64 << 20,       /* of MANIFEST.json: 1,000 bytes per node */
	NODE_MANIFEST_BYTES_MAX = 128 << 20, /* about 2,000,000 pieces */
	MANIFEST_FILES_MAX = 1 << 20,        /* of one node */
	MANIFEST_TENSORS_MAX = 1 << 20,      /* of one node */
};

struct manifest_tensor {
	char *name;
	enum entry_kind kind;
	bool sized; /* a blob of changing size: "sized" is 1, and stands there only then */
	enum dtype dtype;
	struct shape shape;
};

struct manifest_piece {
	uint32_t tensor;
	struct region region;
	uint64_t at;    /* byte offset in the data section: the sum of the pieces before it (derived, not stored) */
	uint64_t bytes; /* derived from region and dtype */
};

/* What a packed file is on storage. index_size 0: it is not packed. */
struct manifest_packed {
	uint64_t size;
	uint64_t index_size;
	struct digest index;
};

struct manifest_file {
	char name[NAME_FILE_MAX];
	uint32_t rank, part;
	char group[NAME_GROUP_MAX];
	uint64_t size, data_at; /* of the data file, plain; size == data_at + sum of pieces */
	struct manifest_packed packed;
	char sidecar_name[NAME_FILE_MAX];
	uint64_t sidecar_size;
	struct digest sidecar;
	uint32_t npieces;
	struct manifest_piece *pieces;
};

/* Its bytes on storage. */
static inline uint64_t manifest_stored(const struct manifest_file *file)
{
	return file->packed.index_size ? file->packed.size : file->size;
}

struct node_manifest {
	char job[NAME_JOB_MAX], node[NAME_NODE_MAX];
	struct step_id id;
	/* the epoch in which the state began without a restore; 0: it came from storage, or nobody told */
	uint32_t began;
	uint32_t world;
	uint32_t ntensors, nfiles;
	struct manifest_tensor *tensors;
	struct manifest_file *files;
};

struct manifest_node {
	char name[NAME_NODE_MAX];
	char file[NAME_FILE_MAX];
	uint64_t size;
	struct digest digest;
};

struct manifest {
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint32_t began; /* the largest of its nodes */
	uint32_t world;
	uint64_t bytes, stored, files; /* over all nodes: of data files; what they hold, and take */
	uint32_t nnodes;
	struct manifest_node *nodes;
};

/* `out` is empty. at and bytes of the pieces are not read. -E2BIG above NODE_MANIFEST_BYTES_MAX, -ENOMEM. */
int node_manifest_encode(const struct node_manifest *m, struct wbuf *out);
int node_manifest_decode(const void *text, size_t len, struct node_manifest *m, struct err *err);
void node_manifest_free(struct node_manifest *m);

/* Builds MANIFEST.json from the texts of all node manifests (already decoded for their totals) into `out`, which is
 * empty. The result depends only on the set: nodes are sorted by name. -EINVAL when job, step, epoch or world differ, or
 * a node or rank stands twice; -E2BIG for more than MANIFEST_NODES_MAX nodes. */
struct node_text {
	const struct node_manifest *m;
	const void *text;
	size_t len;
};
int manifest_build(const struct node_text *nodes, uint32_t n, struct wbuf *out, struct err *err);
/* MANIFEST.json of what it would say, into `out`, which is empty: nodes must stand in order of their names, none twice. 0
 * or -ENOMEM. */
int manifest_encode(const struct manifest *m, struct wbuf *out);
int manifest_decode(const void *text, size_t len, struct manifest *m, struct err *err);
void manifest_free(struct manifest *m);

#endif
