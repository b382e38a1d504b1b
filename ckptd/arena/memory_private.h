/* The pages of an arena (arena/memory_pages.c): where its bytes come from. For arena/memory.c and arena/memory_held.c only. */
#ifndef CKPTD_ARENA_MEMORY_PRIVATE_H
#define CKPTD_ARENA_MEMORY_PRIVATE_H

#include "arena/memory.h"

/* Makes the sealed memory of mem->size bytes and maps it: fd, fd_read, base, head, reserved, ready. Its
 * first `top` bytes can be written at once. Released by pages_free, also after an error. */
int pages_make(struct memory *mem, const char *job, uint64_t top, enum huge_pages policy, struct err *err);
/* Checks mem->fd, which comes from anybody, and maps it: size, and the same. */
int pages_adopt(struct memory *mem, struct err *err);
void pages_free(struct memory *mem);

/* arena/memory.c, for arena/memory_held.c */
struct memory *memory_alloc(void);
int memory_decode_table(struct memory *mem, const uint8_t *table, size_t len, struct err *err);

#endif
