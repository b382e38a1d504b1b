/* Contents: the tensors and blobs of a checkpoint over all its nodes, by name, and where their pieces stand. */
#ifndef CKPT_STORE_CONTENTS_H
#define CKPT_STORE_CONTENTS_H

#include "store/read/repo.h"

struct content_piece {
	const struct manifest_file *file;
	const struct manifest_piece *piece;
};

struct content {
	const struct manifest_tensor *meta; /* of the first node that has it */
	const char *group;                  /* of the file of its first piece; NULL: it has no piece */
	const struct content_piece *pieces; /* by rank of the file and place in it */
	size_t npieces;
};

struct contents {
	struct content *list; /* by name */
	size_t n;
	struct content_piece *pieces; /* of all */
};

/* -EBADMSG: nodes disagree about a tensor; -ENOMEM. The checkpoint must outlive it. */
int contents_make(const struct checkpoint *ck, struct contents *contents, struct err *err);
void contents_free(struct contents *contents);
/* NULL: there is none of this name. */
const struct content *contents_find(const struct contents *contents, const char *name);
/* Of the whole tensor. */
uint64_t content_bytes(const struct content *content);

#endif
