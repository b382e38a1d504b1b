/* Levels of an arena that came back. The daemon that died may have given a checkpoint its name, and not have said so.
 * If it had given back the slot before, only the store can tell. */
#ifndef CKPTD_SAVE_LEVEL_RECOVERY_H
#define CKPTD_SAVE_LEVEL_RECOVERY_H

struct memory;

/* Closes them (memory_close_levels): what stands in the store of this job is shown as durable. Reads the store: once per
 * arena, on the loop's thread, as the choice of an epoch does. A store that cannot be read confirms nothing. */
void levels_close(const char *store, const char *job, struct memory *mem);

#endif
