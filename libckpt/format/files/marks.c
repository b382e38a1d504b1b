#include "format/files/marks.h"

#include "format/document/doc.h"
#include "format/files/manifest.h"

#include <string.h>

static const char health_format[] = "ckpt.health", pin_format[] = "ckpt.pin", tag_format[] = "ckpt.tag",
		  begun_format[] = "ckpt.epoch", mark_format[] = "ckpt.verdict";

static void put_tail(struct wbuf *out, const char *time_key, uint64_t at, const char *text_key, const char *text)
{
	jout_raw(out, time_key);
	jout_u64(out, at);
	jout_raw(out, text_key);
	jout_text(out, text);
	seal_append(out);
}

int health_encode(const struct health *health, struct wbuf *out)
{
	doc_put(out, health_format, MARK_VERSION, health->job, health->id);
	put_tail(out, ",\"verified_at\":", health->verified_at,
		 health->damaged ? ",\"result\":\"damaged\",\"detail\":" : ",\"result\":\"ok\",\"detail\":",
		 health->detail);
	return wbuf_finish(out);
}

int health_mark_encode(const struct health_mark *v, struct wbuf *out)
{
	doc_put(out, mark_format, MARK_VERSION, v->job, v->id);
	put_tail(out, ",\"given_at\":", v->given_at,
		 v->unhealthy ? ",\"result\":\"unhealthy\",\"reason\":" : ",\"result\":\"healthy\",\"reason\":",
		 v->reason);
	return wbuf_finish(out);
}

int pin_encode(const struct pin *pin, struct wbuf *out)
{
	doc_put(out, pin_format, MARK_VERSION, pin->job, pin->id);
	put_tail(out, ",\"pinned_at\":", pin->pinned_at, ",\"note\":", pin->note);
	return wbuf_finish(out);
}

int tag_encode(const struct tag *tag, struct wbuf *out)
{
	doc_put(out, tag_format, MARK_VERSION, tag->job, tag->id);
	put_tail(out, ",\"tagged_at\":", tag->tagged_at, ",\"name\":", tag->name);
	return wbuf_finish(out);
}

static void put_rollbacks(struct wbuf *out, const struct rollbacks *all)
{
	for (uint32_t i = 0; i < all->n; i++) {
		jout_raw(out, i ? ",[" : ",\"back\":[[");
		jout_u64(out, all->of[i].at);
		jout_raw(out, ",");
		jout_u64(out, all->of[i].to.step);
		jout_raw(out, ",");
		jout_u64(out, all->of[i].to.epoch);
		jout_raw(out, "]");
	}
	if (all->n)
		jout_raw(out, "]");
}

int begun_encode(const struct begun *begun, struct wbuf *out)
{
	doc_put(out, begun_format, MARK_VERSION, begun->job, begun->id);
	put_rollbacks(out, &begun->back);
	if (begun->plan.number) {
		jout_raw(out, ",\"plan\":");
		plan_record_put(out, &begun->plan);
	}
	if (begun->ended) {
		jout_raw(out, ",\"ended\":");
		jout_u64(out, begun->ended);
	}
	if (begun->finished) {
		jout_raw(out, ",\"finished\":");
		jout_u64(out, begun->finished);
	}
	asked_record_put(out, &begun->asked);
	put_tail(out, ",\"begun_at\":", begun->begun_at, ",\"reason\":", begun->reason);
	int rc = wbuf_finish(out);
	return !rc && out->len > BEGUN_BYTES_MAX ? -EMSGSIZE : rc;
}

void begun_free(struct begun *begun)
{
	plan_record_free(&begun->plan);
	asked_record_free(&begun->asked);
}

static bool read_result(struct jin *in, const char *good, const char *bad)
{
	char text[16];
	jin_string(in, text, sizeof(text));
	bool is_bad = !strcmp(text, bad);
	if (!is_bad && strcmp(text, good) != 0)
		jin_fail(in, "\"%s\" is neither \"%s\" nor \"%s\"", text, good, bad);
	return is_bad;
}

/* What somebody has judged: a time, which of two results, and a text. */
struct judged {
	const char *good, *bad; /* the words for the results */
	uint64_t *at;
	bool *is_bad;
	char *text; /* MARK_TEXT_MAX */
};

static int read_judged(struct jin *in, const char *const *keys, const struct doc_head *head, const struct judged *j)
{
	enum { AT = DOC_KEYS_END, RESULT, TEXT };
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == AT)
			*j->at = jin_u64(in, INT64_MAX);
		else if (k == RESULT)
			*j->is_bad = read_result(in, j->good, j->bad);
		else if (k == TEXT)
			jin_string(in, j->text, MARK_TEXT_MAX);
		else
			doc_read(in, k, head);
	jin_require(in, keys, seen, DOC_REQUIRED | 1u << AT | 1u << RESULT | 1u << TEXT);
	return jin_close(in);
}

static int read_health(struct jin *in, struct health *h)
{
	static const char *const keys[] = {DOC_KEYS, "verified_at", "result", "detail", NULL};
	const struct doc_head head = {h->job, &h->id};
	return read_judged(in, keys, &head, &(struct judged){"ok", "damaged", &h->verified_at, &h->damaged, h->detail});
}

static int read_health_mark(struct jin *in, struct health_mark *v)
{
	static const char *const keys[] = {DOC_KEYS, "given_at", "result", "reason", NULL};
	const struct doc_head head = {v->job, &v->id};
	return read_judged(in, keys, &head,
			   &(struct judged){"healthy", "unhealthy", &v->given_at, &v->unhealthy, v->reason});
}

static int read_pin(struct jin *in, struct pin *p)
{
	enum { AT = DOC_KEYS_END, NOTE };
	static const char *const keys[] = {DOC_KEYS, "pinned_at", "note", NULL};
	const struct doc_head head = {p->job, &p->id};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == AT)
			p->pinned_at = jin_u64(in, INT64_MAX);
		else if (k == NOTE)
			jin_string(in, p->note, MARK_TEXT_MAX);
		else
			doc_read(in, k, &head);
	jin_require(in, keys, seen, DOC_REQUIRED | 1u << AT | 1u << NOTE);
	return jin_close(in);
}

/* Numbers that are too large are cut off to ones that no job can have. */
static void read_rollbacks(struct jin *in, struct rollbacks *all)
{
	uint64_t v[3];
	jin_array(in);
	while (jin_element(in)) {
		if (all->n == ROLLBACKS_MAX || jin_u64_array(in, v, 3) != 3) {
			jin_fail(in, "is not at most %d lists of three numbers", ROLLBACKS_MAX);
			return;
		}
		all->of[all->n++] = (struct rollback){
			.at = (uint32_t)min_u64(v[0], UINT32_MAX),
			.to = {.step = v[1], .epoch = (uint32_t)min_u64(v[2], UINT32_MAX)},
		};
	}
}

static uint32_t read_plan_number(struct jin *in)
{
	uint32_t number = (uint32_t)jin_u64(in, PLAN_NUMBER_MAX);
	if (!in->rc && !number)
		jin_fail(in, "is a plan without a number");
	return number;
}

static int read_begun(struct jin *in, struct begun *b)
{
	enum { AT = DOC_KEYS_END, REASON, BACK, PLAN, ENDED, HALT, DRAINED, FINISHED };
	static const char *const keys[] = {DOC_KEYS, "begun_at", "reason",  "back",     "plan",
					   "ended",  "halt",     "drained", "finished", NULL};
	const struct doc_head head = {b->job, &b->id};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == AT)
			b->begun_at = jin_u64(in, INT64_MAX);
		else if (k == REASON)
			jin_string(in, b->reason, MARK_TEXT_MAX);
		else if (k == BACK)
			read_rollbacks(in, &b->back);
		else if (k == PLAN)
			plan_record_read(in, &b->plan);
		else if (k == ENDED)
			b->ended = read_plan_number(in);
		else if (k == FINISHED)
			b->finished = read_plan_number(in);
		else if (k == HALT)
			asked_record_read_halt(in, &b->asked);
		else if (k == DRAINED)
			asked_record_read_drained(in, &b->asked);
		else
			doc_read(in, k, &head);
	jin_require(in, keys, seen, DOC_REQUIRED | 1u << AT | 1u << REASON);
	if (!in->rc && (!rollbacks_are_sound(&b->back) || rollbacks_last(&b->back) > b->id.epoch))
		jin_fail(in, "\"back\" is nothing that a job in epoch %u can have gone back to", b->id.epoch);
	return jin_close(in);
}

static int read_tag(struct jin *in, struct tag *t)
{
	enum { AT = DOC_KEYS_END, NAME };
	static const char *const keys[] = {DOC_KEYS, "tagged_at", "name", NULL};
	const struct doc_head head = {t->job, &t->id};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;) {
		if (k == AT) {
			t->tagged_at = jin_u64(in, INT64_MAX);
		} else if (k == NAME) {
			jin_string(in, t->name, sizeof(t->name));
			if (!in->rc)
				jin_check(in, name_check_tag(t->name, in->err));
		} else {
			doc_read(in, k, &head);
		}
	}
	jin_require(in, keys, seen, DOC_REQUIRED | 1u << AT | 1u << NAME);
	return jin_close(in);
}

int health_decode(const void *text, size_t len, struct health *health, struct err *err)
{
	struct jin in;
	*health = (struct health){0};
	int rc = doc_open(&in, text, len, MARK_BYTES_MAX, health_format, MARK_VERSION, err);
	if (!rc)
		rc = read_health(&in, health);
	if (rc < 0)
		*health = (struct health){0};
	return rc;
}

int health_mark_decode(const void *text, size_t len, struct health_mark *mark, struct err *err)
{
	struct jin in;
	*mark = (struct health_mark){0};
	int rc = doc_open(&in, text, len, MARK_BYTES_MAX, mark_format, MARK_VERSION, err);
	if (!rc)
		rc = read_health_mark(&in, mark);
	if (rc < 0)
		*mark = (struct health_mark){0};
	return rc;
}

int pin_decode(const void *text, size_t len, struct pin *pin, struct err *err)
{
	struct jin in;
	*pin = (struct pin){0};
	int rc = doc_open(&in, text, len, MARK_BYTES_MAX, pin_format, MARK_VERSION, err);
	if (!rc)
		rc = read_pin(&in, pin);
	if (rc < 0)
		*pin = (struct pin){0};
	return rc;
}

int tag_decode(const void *text, size_t len, struct tag *tag, struct err *err)
{
	struct jin in;
	*tag = (struct tag){0};
	int rc = doc_open(&in, text, len, MARK_BYTES_MAX, tag_format, MARK_VERSION, err);
	if (!rc)
		rc = read_tag(&in, tag);
	if (rc < 0)
		*tag = (struct tag){0};
	return rc;
}

int begun_decode(const void *text, size_t len, struct begun *begun, struct err *err)
{
	struct jin in;
	*begun = (struct begun){0};
	int rc = doc_open(&in, text, len, BEGUN_BYTES_MAX, begun_format, MARK_VERSION, err);
	if (!rc)
		rc = read_begun(&in, begun);
	if (rc < 0) {
		begun_free(begun);
		*begun = (struct begun){0};
	}
	return rc;
}
