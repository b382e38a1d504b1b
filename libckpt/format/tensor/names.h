/* Names in the store. All are checked before they reach the file system; none can leave the root.
 *   <root>/<job>/step-000000001000.e0003/               (.writing-step-000000001000.e0003-1f until it is committed)
 *     rank-00000-of-00008.params.safetensors          rank-00000-of-00008.params.xxh
 *     rank-00000-of-00008.params.ckptz                (in place of the first where it is packed)
 *     rank-00000-of-00008.params.part-0001.safetensors  (second and later parts when a group exceeds the size bound)
 *     node-<name>.packed.safetensors                  (the notice of a node some of whose files are packed)
 *     node-<name>.json   MANIFEST.json   HEALTH.json   VERDICT.json   PINNED
 *   <root>/<job>/tag-<name>.json */
#ifndef CKPT_FORMAT_NAMES_H
#define CKPT_FORMAT_NAMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NAME_JOB_MAX = 64, /* with the NUL, as the others */
	NAME_GROUP_MAX = 48,
	NAME_NODE_MAX = 64,
	NAME_TAG_MAX = 64,
	NAME_TENSOR_MAX = 512,
	NAME_RANK_SUFFIX = 7, /* "@00000", or a digit more, behind the name of a blob of one rank */
	NAME_FILE_MAX = 160,
	NAME_DIR_MAX = 40,
	NAME_WORK_MAX = NAME_DIR_MAX + 32,
	RANK_MAX = 1 << 18, /* exclusive */
	PART_MAX = 10000,   /* exclusive */
};

#define STEP_MAX 999999999999ull
/* In place of a step, where one is asked for: the newest; the newest that the training called healthy. */
#define STEP_NEWEST UINT64_MAX
#define STEP_NEWEST_HEALTHY (UINT64_MAX - 1)
#define EPOCH_MAX 9999u /* the name grows a digit beyond; 9999 is where a job should be looked at */

#define NAME_MANIFEST "MANIFEST.json"
#define NAME_HEALTH "HEALTH.json"
#define NAME_HEALTH_MARK "VERDICT.json"
#define NAME_PINNED "PINNED"
#define NAME_EPOCH "EPOCH" /* in the directory of a job */

/* Job, group and node names: 1 to MAX-1 of [A-Za-z0-9_.-], not starting with '.' or '-'. -EINVAL names what and why. */
int name_check(const char *what, const char *name, size_t max, struct err *err);
/* A group name also must not end in ".part-" and four digits: its file would be that of another group's part. */
int name_check_group(const char *name, struct err *err);
/* Tensor names: 1 to 511 bytes of valid UTF-8 without control characters; "__metadata__" is refused. */
int name_check_tensor(const char *name, struct err *err);
/* The same for what a blob is called by who registers it. */
int name_check_blob(const char *name, bool of_rank, struct err *err);
/* Tags: as name_check, and beginning with a letter or '_', not with "step-", and not "latest": what names a checkpoint
 * otherwise is no tag. */
int name_check_tag(const char *name, struct err *err);
/* Nor is "healthy" given to any more. One that has the name since before it meant something protects its checkpoint as ever. */
int name_check_new_tag(const char *name, struct err *err);
/* Any file name inside a checkpoint that metadata mentions: the letters of name_check, so no '/' and no leading '.'. */
int name_check_file(const char *name, struct err *err);

struct step_id {
	uint64_t step;
	uint32_t epoch;
};

/* A step, or one of the above. */
static inline bool step_may_be_asked(uint64_t step)
{
	return step <= STEP_MAX || step == STEP_NEWEST || step == STEP_NEWEST_HEALTHY;
}

/* Order of checkpoints: by epoch, then step. <0, 0, >0. */
int step_compare(struct step_id a, struct step_id b);
void name_dir(struct step_id id, char dst[NAME_DIR_MAX]);
/* What the directory is called until it is a checkpoint. maker: a number that no other coordinator of the job has. */
#define NAME_WORK_PREFIX ".writing-"
void name_work(struct step_id id, uint64_t maker, char dst[NAME_WORK_MAX]);
/* 0 and *id, or -EINVAL (and *id untouched) unless it is exactly what name_dir writes for some id. */
int name_parse_dir(const char *name, struct step_id *id);
void name_data(uint32_t rank, uint32_t world, const char *group, uint32_t part, char dst[NAME_FILE_MAX]);
void name_packed(uint32_t rank, uint32_t world, const char *group, uint32_t part, char dst[NAME_FILE_MAX]);
void name_sidecar(uint32_t rank, uint32_t world, const char *group, uint32_t part, char dst[NAME_FILE_MAX]);
void name_node(const char *node, char dst[NAME_FILE_MAX]);
void name_notice(const char *node, char dst[NAME_FILE_MAX]);
void name_tag(const char *tag, char dst[NAME_FILE_MAX]);
/* 0 and the tag, or -EINVAL unless it is exactly what name_tag writes for some tag. */
int name_parse_tag(const char *file, char tag[NAME_TAG_MAX]);

#endif
