/* Trash: how a directory of a job leaves the store. Under the lock of all who remove (REPO_GC_LOCK) it is renamed to
 *	.trash-<name>.<nonce>
 * and that is fsynced: from then on there is no checkpoint of that name. Then, without the lock, MANIFEST.json goes and after it
 * the other files, one by one; the emptied directory last. A crash leaves a directory that is found by its name and swept later,
 * by anybody: sweeping the same one twice does no harm. Files are unlinked, never cut short: another checkpoint may have a link
 * to the same bytes. */
#ifndef CKPT_STORE_TRASH_H
#define CKPT_STORE_TRASH_H

#include "store/read/repo.h"

enum { TRASH_NAME_MAX = 256, TRASH_LISTED = 1024 };

/* A file of a directory that is swept. */
struct trash_file {
	char name[TRASH_NAME_MAX];
	uint64_t bytes; /* on storage, that go with this name: 0 while the file has another */
};

/* Locks: -EWOULDBLOCK when another one has it until the deadline (0: does not wait). The handle holds it until it is closed. */
int trash_lock(struct repo *repo, uint64_t deadline, struct err *err);

/* The name under which `name` is deleted. nonce: clock_wall(). */
void trash_name(const char *name, uint64_t nonce, char dst[TRASH_NAME_MAX]);

/* The first TRASH_LISTED files of an open directory; *n 0: it is empty. *files malloc'ed. What is a directory itself is no file of
 * a checkpoint and left alone. */
int trash_files(struct disk *disk, int dir, struct trash_file **files, size_t *n);

/* Synchronous, for tools. Moves one directory of the job out of the way, durably. -ENOENT: it was not there. */
int trash_move(struct repo *repo, const char *job, const char *name, char trash[TRASH_NAME_MAX], struct err *err);
/* Deletes it with its files; *freed grows by their bytes on storage. 0 also when it is not there. The name is fsynced
 * first: the process that gave it may have died before that. -ENOTEMPTY: what is no file was left, and the directory with
 * it. */
int trash_sweep(struct repo *repo, const char *job, const char *trash, uint64_t *freed, struct err *err);

#endif
