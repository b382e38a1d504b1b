/* Prepare: the documents that a commit writes, from its files: the node manifest, and the MANIFEST.json that follows from it. */
#ifndef CKPTD_PREPARE_H
#define CKPTD_PREPARE_H

#include "commit.h"

/* Fills c->node_text and c->manifest_text. The sidecars must have been encoded. */
int prepare_documents(struct commit *c, struct err *err);

#endif
