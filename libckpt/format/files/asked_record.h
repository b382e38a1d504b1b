/* Asked record: what was asked of a job, and holds until it is taken back or the job has ended. It is a part of the
 * record of the job's epoch (files/marks.h):
 *
 *   "halt":{"number","when","before"}   "when" is "now", "after-next" or "before"; without it what was asked before is taken back
 *   "drained":[NODE,…]                  the nodes that are to have no ranks of the job
 */
#ifndef CKPT_FORMAT_ASKED_RECORD_H
#define CKPT_FORMAT_ASKED_RECORD_H

#include "base/bytes.h"
#include "format/document/json_in.h"
#include "format/tensor/names.h"

enum { ASKED_DRAINED_MAX = 256 };

enum asked_halt { ASKED_NO_HALT = 0, ASKED_HALT_NOW, ASKED_HALT_AFTER_NEXT, ASKED_HALT_BEFORE, ASKED_HALT_END };

struct asked_record {
	uint32_t halt_number; /* how often a halt was asked for, or taken back; 0: never */
	enum asked_halt halt;
	uint64_t halt_before; /* since the Unix epoch */
	uint32_t ndrained;
	char (*drained)[NAME_NODE_MAX]; /* owned; no two alike */
};

/* 0, -ENOMEM, or -ENOSPC: there are ASKED_DRAINED_MAX already. */
int asked_record_drain(struct asked_record *asked, const char *node);
bool asked_record_is_drained(const struct asked_record *asked, const char *node);
/* 0 or -ENOMEM, then *copy is empty. */
int asked_record_copy(const struct asked_record *asked, struct asked_record *copy);
void asked_record_free(struct asked_record *asked);

/* Members of an object, each with a comma before it; nothing where nothing is asked. */
void asked_record_put(struct wbuf *out, const struct asked_record *asked);
/* The values that stand here; what nobody can have asked is a failure of `in`. To be freed in any case. */
void asked_record_read_halt(struct jin *in, struct asked_record *asked);
void asked_record_read_drained(struct jin *in, struct asked_record *asked);

#endif
