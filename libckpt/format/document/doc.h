/* What the sealed JSON documents (node manifest, MANIFEST.json, marks) have in common: size bound, seal, format and version
 * are checked before anything else is read, and all say of which job, step and epoch they are. */
#ifndef CKPT_FORMAT_DOC_H
#define CKPT_FORMAT_DOC_H

#include "format/document/json_in.h"
#include "format/document/json_out.h"
#include "format/tensor/names.h"

struct doc_head {
	char *job; /* NAME_JOB_MAX, the caller's */
	struct step_id *id;
};

/* The first keys of every document's key table, and the bits that are required of them. */
#define DOC_KEYS "format", "version", "root", "job", "step", "epoch"
enum { DOC_FORMAT, DOC_VERSION, DOC_ROOT, DOC_JOB, DOC_STEP, DOC_EPOCH, DOC_KEYS_END };
#define DOC_REQUIRED ((1u << DOC_KEYS_END) - 1)

/* Checks length, seal, "format" and "version" and leaves `in` at the start. -EBADMSG, or -EPROTONOSUPPORT for a version other
 * than `version`, naming both. `what` (static) names the document in messages, usually the format itself. */
int doc_open(struct jin *in, const void *text, size_t len, size_t max, const char *format, uint32_t version,
	     struct err *err);
/* Reads the value of common key k. */
void doc_read(struct jin *in, int k, const struct doc_head *head);
/* {"format":…,"version":…,"job":…,"step":…,"epoch":… without a closing brace: keys follow, then seal_append. */
void doc_put(struct wbuf *out, const char *format, uint32_t version, const char *job, struct step_id id);

#endif
