#include "format/document/doc.h"

#include "format/document/seal.h"

#include <string.h>

enum { FORMAT_TEXT_MAX = 32 };

static const char *const keys[] = {"format", "version", NULL};

static void read_version(struct jin *in, const char *format, uint32_t *version)
{
	char text[FORMAT_TEXT_MAX] = "";
	uint32_t seen = 0;
	jin_object(in);
	for (int k; seen != 3 && (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == DOC_FORMAT)
			jin_string(in, text, sizeof(text));
		else
			*version = (uint32_t)jin_u64(in, UINT32_MAX);
	jin_require(in, keys, seen, 3);
	if (!in->rc && strcmp(text, format) != 0)
		jin_fail(in, "the format is \"%s\", not \"%s\"", text, format);
}

int doc_open(struct jin *in, const void *text, size_t len, size_t max, const char *format, uint32_t version,
	     struct err *err)
{
	uint32_t found = 0;
	if (len > max)
		return err_set(err, -EBADMSG, "%s: %zu bytes, above the bound of %zu", format, len, max);
	int rc = seal_check(text, len, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s", format);
	jin_open(in, text, len, format, err);
	read_version(in, format, &found);
	if (in->rc)
		return in->rc;
	if (found != version)
		return err_set(err, -EPROTONOSUPPORT, "%s: version %u, this ckpt reads version %u: use a newer ckpt",
			       format, found, version);
	jin_open(in, text, len, format, err);
	return 0;
}

void doc_read(struct jin *in, int k, const struct doc_head *head)
{
	switch (k) {
	case DOC_JOB:
		jin_string(in, head->job, NAME_JOB_MAX);
		if (!in->rc)
			jin_check(in, name_check("job", head->job, NAME_JOB_MAX, in->err));
		break;
	case DOC_STEP:
		head->id->step = jin_u64(in, STEP_MAX);
		break;
	case DOC_EPOCH:
		head->id->epoch = (uint32_t)jin_u64(in, EPOCH_MAX);
		break;
	default: /* read by doc_open and seal_check */
		jin_skip(in);
	}
}

void doc_put(struct wbuf *out, const char *format, uint32_t version, const char *job, struct step_id id)
{
	jout_raw(out, "{\"format\":");
	jout_string(out, format);
	jout_raw(out, ",\"version\":");
	jout_u64(out, version);
	jout_raw(out, ",\"job\":");
	jout_string(out, job);
	jout_raw(out, ",\"step\":");
	jout_u64(out, id.step);
	jout_raw(out, ",\"epoch\":");
	jout_u64(out, id.epoch);
}
