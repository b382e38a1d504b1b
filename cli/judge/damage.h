/* Damage on purpose: the bits that faults have flipped in checkpoints, on their way there, or in memory from where they may be written. */
#ifndef CKPT_CLI_JUDGE_DAMAGE_H
#define CKPT_CLI_JUDGE_DAMAGE_H

#include "format/message/fault.h"
#include "format/tensor/names.h"
#include "journal/journal.h"
#include "store/read/repo.h"

#include <sys/stat.h>

struct damage {
	enum fault_kind kind;
	struct step_id id;
	char file[NAME_FILE_MAX]; /* "": in memory, of `rank` */
	uint32_t rank;
	unsigned bit;
	unsigned long byte;
};

struct damages {
	struct damage *at;
	size_t n, room;
};

/* A fault of the journal that has fired, of whatever kind. 0 or -ENOMEM. */
int damages_take(struct damages *all, const json_t *line);
void damages_free(struct damages *all);

/* It was done to what was committed. */
bool damage_is_stored(const struct damage *damage);
/* Two flips of one bit are none. */
bool damage_is_undone(const struct damages *all, size_t i);
/* A file that no digest vouches for: a mark, or one that was put in place under another name. */
bool damage_is_of_mark(const struct damage *damage);
/* A document: what it says of the files cannot be read any more. */
bool damage_is_of_document(const struct damage *damage);
/* Whether it can be what is wrong with the file ("": with all of it) of the checkpoint. */
bool damage_explains(const struct damage *damage, const struct repo *repo, const struct checkpoint_ref *ref,
		     const char *file);
/* The damaged file gave way to another one: that is younger than MANIFEST.json. */
bool damage_is_mended(const struct damage *damage, const struct repo *repo, const char *job);

#endif
