/* Cover: that what the nodes of a checkpoint say of their tensors fits together, and that their pieces make whole tensors. */
#ifndef CKPT_STORE_COVER_H
#define CKPT_STORE_COVER_H

#include "store/read/repo.h"

struct cover_tell {
	void (*fn)(void *arg, const char *tensor, const char *text); /* for each tensor that a reader would refuse */
	void *arg;
};

/* All node manifests are loaded. 0, also when something was told; -ENOMEM, or -E2BIG: what cannot be checked. */
int cover_check(const struct checkpoint *ck, const struct cover_tell *tell, struct err *err);

#endif
