/* Prepare: the document that vouches for the files of a commit on this node, the node manifest. */
#ifndef CKPTD_PREPARE_H
#define CKPTD_PREPARE_H

#include "commit.h"

/* Fills c->node_text and c->part. The sidecars must have been encoded. */
int prepare_node(struct commit *c, struct err *err);

#endif
