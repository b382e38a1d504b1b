/* What the writer and the readers of the manifests share. Private to the room. */
#ifndef CKPT_FORMAT_MANIFEST_PRIVATE_H
#define CKPT_FORMAT_MANIFEST_PRIVATE_H

#include "format/files/manifest.h"

#define NODE_FORMAT "ckpt.node"
#define ROOT_FORMAT "ckpt.manifest"

static const char *const manifest_kinds[] = {
	[ENTRY_TENSOR] = "tensor",
	[ENTRY_JOB_BLOB] = "job-blob",
	[ENTRY_RANK_BLOB] = "rank-blob",
};

enum { MANIFEST_KINDS_END = sizeof(manifest_kinds) / sizeof(manifest_kinds[0]) };

/* Names of tensors, names of files and (rank, group, part) are unique. 0, or -EBADMSG naming the first that is not. */
int manifest_node_check(const struct node_manifest *m, struct err *err);

#endif
