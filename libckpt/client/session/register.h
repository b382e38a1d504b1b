/* Register: what tensors and blobs have in common when they are registered. Private to register.c and blob.c. */
#ifndef CKPT_REGISTER_H
#define CKPT_REGISTER_H

#include "client/session/session.h"

/* -EBUSY: ckpt_join has ended registration; -ECHILD, -EINVAL as session_check. */
int register_check_open(const ckpt *s, struct err *err);
/* -EINVAL, -ENODEV. */
int register_check_device(const ckpt *s, int device, struct err *err);
/* Of an entry whose dtype and shape are set. On failure it is to be dropped. */
int entry_add_pieces(struct entry *e, struct held *held, const ckpt_piece *pieces, uint32_t n, struct err *err);
/* Adds it to the table, beside what other threads look up there. */
int register_entry(ckpt *s, struct entry *e, struct held *held, struct err *err);
void entry_drop(struct entry *e, struct held *held);

#endif
