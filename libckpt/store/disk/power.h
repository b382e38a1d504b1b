/* Power that is cut on purpose: what this process has written, and no fsync has made durable, is lost in whole or in part. A process dies
 * without that loss, since the kernel keeps what was written; so it is remembered here, and undone.
 *
 *   bytes   of a file: pieces of what was written since its last fsync become zeros, and it may have the size again that it had then.
 *           Kept is what overwrites bytes that an fsync has confirmed, and a file that has been made shorter.
 *   names   of a directory: of the changes since its last fsync the last ones are undone, none before a later one. Kept is what cannot be
 *           brought back (a file over POWER_SAVED_MAX that was removed), with all changes before it; a new directory that
 *           is not empty; and a rename into another directory.
 *   others  share the store: a name that another process has replaced since stays.
 *
 * Only what goes through disk.h is known; of what is more than the bounds the oldest counts as durable. Thread-safe: what
 * it knows is of the process, whichever context has written it. */
#ifndef CKPT_STORE_POWER_H
#define CKPT_STORE_POWER_H

#include <stdbool.h>
#include <stdint.h>

enum { POWER_SAVED_MAX = 1 << 20 };

struct disk;

struct power_losses {
	uint64_t files, bytes, lost_bytes; /* that no fsync had confirmed; lost: of them */
	uint64_t names, lost_names;
};

/* From now on, or no longer: then what was remembered is forgotten. */
void power_remember(bool on);
/* What the context has begun is done, as far as it can be within seconds, without telling anybody; nothing is begun any
 * more, by any thread: each waits for ever. The process is to end. The same seed loses the same. */
void power_cut(struct disk *d, uint64_t seed, struct power_losses *losses);
/* It goes on as if it had been started anew: for tests. */
void power_restore(void);

#endif
