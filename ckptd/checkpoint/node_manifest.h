/* Node manifest: the document that vouches for the files of a part; each node makes one. */
#ifndef CKPTD_CHECKPOINT_NODE_MANIFEST_H
#define CKPTD_CHECKPOINT_NODE_MANIFEST_H

#include "checkpoint/node_part.h"

/* Fills c->node_text and c->part. The sidecars must have been encoded. */
int node_manifest_make(struct node_part *c, struct err *err);

#endif
