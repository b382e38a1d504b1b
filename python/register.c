#include "register.h"

int ckpt_register_fields(ckpt *s, const char *name, int dtype, int ndim, const uint64_t *shape, const char *group,
			 const char *replica, int device, uintptr_t whole, const ckpt_piece *pieces, int npieces)
{
	const ckpt_piece all = {.data = (void *)whole};
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	t.name = name;
	t.dtype = (ckpt_dtype)dtype;
	t.ndim = ndim;
	t.shape = shape;
	t.pieces = pieces ? pieces : &all;
	t.npieces = pieces ? npieces : 1;
	t.group = group;
	t.replica = replica;
	t.device = device;
	return ckpt_register_tensor(s, &t);
}
