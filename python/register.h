/* What the module adds to ckpt.h. To fill a structure of C takes longer in Python than what the library does with it. */
#ifndef CKPT_PYTHON_REGISTER_H
#define CKPT_PYTHON_REGISTER_H

#include "ckpt.h"

/* ckpt_register_tensor. Without pieces, one that stands packed at `whole` is all of the tensor. */
int ckpt_register_fields(ckpt *s, const char *name, int dtype, int ndim, const uint64_t *shape, const char *group,
			 const char *replica, int device, uintptr_t whole, const ckpt_piece *pieces, int npieces);

#endif
