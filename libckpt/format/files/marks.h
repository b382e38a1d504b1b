/* Marks: small sealed documents in the store, beside MANIFEST.json or (tags) in the directory of the job, which must
 * survive the loss of the catalog. Unlike the files of a checkpoint they may be replaced (temporary, fsync, rename) and
 * removed.
 *   HEALTH.json  {"format":"ckpt.health","version":1,"job","step","epoch","verified_at","result":"ok"|"damaged","detail"}
 *                what the last full read of the checkpoint found
 *   VERDICT.json {"format":"ckpt.verdict","version":1,"job","step","epoch","given_at","result":"healthy"|"unhealthy","reason"}
 *                what the training says of the state in it (ckpt_mark), whatever its bytes are
 *   PINNED       {"format":"ckpt.pin","version":1,"job","step","epoch","pinned_at","note"}
 *                while it is there, the checkpoint is not removed by retention
 *   tag-NAME.json {"format":"ckpt.tag","version":1,"job","step","epoch","tagged_at","name"}
 *                a name of the checkpoint, unique in the job; while it is there, the checkpoint is not removed by retention
 *   EPOCH        {"format":"ckpt.epoch","version":1,"job","step":0,"epoch","begun_at","reason"}, in the directory of the job
 *                the last epoch that was given to a job whose ranks are on several nodes: written before anybody is told.
 *                If the job has gone back (format/tensor/rollback.h), "back":[[AT,STEP,EPOCH],…] says when and where to.
 *                If its world may change, "plan":{…} (files/plan_record.h) says which node has which ranks, and
 *                "ended":PLAN which plan was the last of a run that has ended, "finished":PLAN that its ranks have
 *                finished, and are not lost. "halt" and "drained" (files/asked_record.h) are what was asked of the job.
 *                It may be longer than the others
 * Times are nanoseconds since the Unix epoch. */
#ifndef CKPT_FORMAT_MARKS_H
#define CKPT_FORMAT_MARKS_H

#include "base/bytes.h"
#include "format/files/asked_record.h"
#include "format/files/plan_record.h"
#include "format/tensor/names.h"
#include "format/tensor/rollback.h"

enum {
	MARK_VERSION = 1,
	MARK_BYTES_MAX = 16 << 10,
	BEGUN_BYTES_MAX =
		512 << 10,    /* of EPOCH: 16,384 ranks in pieces of two, each on a node with a name of 30 bytes */
	MARK_TEXT_MAX = 1024, /* of detail and note, with the NUL */
};

struct health {
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint64_t verified_at;
	bool damaged;
	char detail[MARK_TEXT_MAX]; /* "" when ok; else the first damage: file, tensor and byte range */
};

struct health_mark {
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint64_t given_at;
	bool unhealthy;
	char reason[MARK_TEXT_MAX]; /* may be "" */
};

struct pin {
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint64_t pinned_at;
	char note[MARK_TEXT_MAX]; /* why, in a person's words; may be "" */
};

struct tag {
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint64_t tagged_at;
	char name[NAME_TAG_MAX];
};

struct begun {
	char job[NAME_JOB_MAX];
	struct step_id id; /* of step 0 */
	uint64_t begun_at;
	struct rollbacks back; /* in this epoch or before */
	char reason[MARK_TEXT_MAX];
	struct plan_record plan; /* owned; number 0: none */
	uint32_t ended;          /* the last plan whose run has ended; 0: none. One with a number no higher is over */
	/* the same plan, where its ranks have finished in this epoch and nothing that is only in memory is of use any
	 * more; 0 */
	uint32_t finished;
	struct asked_record asked; /* owned */
};

/* `out` is empty. Bytes of texts that are not UTF-8 are written as '?'. 0 or -ENOMEM. */
int health_encode(const struct health *health, struct wbuf *out);
/* -EBADMSG with the path, -EPROTONOSUPPORT for another version; then *health is zeroed. */
int health_decode(const void *text, size_t len, struct health *health, struct err *err);
int health_mark_encode(const struct health_mark *mark, struct wbuf *out);
int health_mark_decode(const void *text, size_t len, struct health_mark *mark, struct err *err);
int pin_encode(const struct pin *pin, struct wbuf *out);
int pin_decode(const void *text, size_t len, struct pin *pin, struct err *err);
int tag_encode(const struct tag *tag, struct wbuf *out);
int tag_decode(const void *text, size_t len, struct tag *tag, struct err *err);
/* Also -EMSGSIZE: its plan is in too many pieces. */
int begun_encode(const struct begun *begun, struct wbuf *out);
/* To be freed where it succeeds. */
int begun_decode(const void *text, size_t len, struct begun *begun, struct err *err);
void begun_free(struct begun *begun);

#endif
