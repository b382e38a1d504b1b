/* Failures of nodes in the registry: lemons/NAME, one record for each. */
#include "control/lemon/set_aside_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quoted.h"
#include "control/control.h"
#include "format/document/json_in.h"
#include "registry/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEMONS "lemons/"
#define RETRY_NS (CLOCK_NS_PER_S / 2)

static void key_of(const struct set_aside *s, char key[REGISTRY_KEY_MAX])
{
	snprintf(key, REGISTRY_KEY_MAX, LEMONS "%s", s->lemon.name);
}

static int decode(const struct registry_record *record, struct lemon *out, struct err *err)
{
	struct jin in;
	jin_open(&in, record->value, record->len, "the record", err);
	if (!lemon_read(&in, out) && strcmp(out->name, record->key + strlen(LEMONS)) != 0)
		jin_fail(&in, "it is of node %s", out->name);
	return jin_close(&in);
}

/* What is on its way to there holds besides. */
static void take(struct control *control, const struct registry_record *record)
{
	struct lemon is;
	struct err err = {{0}};
	struct set_aside *s;
	if (decode(record, &is, &err)) {
		log_warn("the registry's record %s is not believed: %s", quoted(record->key).text, err.text);
		return;
	}
	if (!(s = set_aside_get(control, is.name)))
		return;
	if (s->dirty || s->asked)
		lemon_merge(&s->lemon, &is);
	else
		s->lemon = is;
	set_aside_changed(control, s);
}

bool set_aside_record(struct control *control, const struct registry_record *record, bool gone)
{
	if (strncmp(record->key, LEMONS, strlen(LEMONS)) != 0)
		return false;
	struct set_aside *s = gone ? set_aside_find(control, record->key + strlen(LEMONS)) : NULL;
	if (s)
		set_aside_forget(control, s);
	else if (!gone)
		take(control, record);
	return true;
}

/* Where another one was faster its record is merged as it is told, and the merged is put in its place. */
static void committed(void *arg, const struct registry_result *result)
{
	struct set_aside *s = arg;
	s->asked = false;
	s->retry_ns = clock_deadline(RETRY_NS);
	if ((result->rc || !result->applied) && !s->cleared)
		s->dirty = true;
	s->cleared = false;
}

static void commit(struct control *control, struct set_aside *s)
{
	AUTO_WBUF struct wbuf text = {0};
	struct registry_record record;
	char key[REGISTRY_KEY_MAX];
	key_of(s, key);
	bool stands = registry_get(control->registry, key, &record);
	struct registry_compare was = {.key = key, .revision = stands ? record.changed : 0};
	lemon_put(&s->lemon, &text);
	struct registry_change put = {.key = key, .value = text.data, .len = text.len};
	int rc = wbuf_finish(&text);
	if (!rc)
		rc = registry_commit(control->registry, &was, 1, &put, 1, committed, s);
	s->asked = !rc;
	s->dirty = rc;
	if (rc)
		s->retry_ns = clock_deadline(RETRY_NS);
}

void set_aside_tick_records(struct control *control, uint64_t now)
{
	for (struct set_aside *s = control->set_aside; s; s = s->next)
		if (s->dirty && !s->asked && now >= s->retry_ns && registry_is_synced(control->registry))
			commit(control, s);
}

struct clearing {
	struct control *control;
	char name[NAME_NODE_MAX];
	void (*done)(void *arg, int rc, const char *why);
	void *arg;
};

static void deleted(void *arg, const struct registry_result *result)
{
	struct clearing *c = arg;
	char text[512] = "";
	struct set_aside *s = set_aside_find(c->control, c->name);
	if (result->rc)
		snprintf(text, sizeof(text), "node %s: %s", c->name, result->why);
	else if (s) /* that it is gone may have been told; what was never there is not told */
		set_aside_forget(c->control, s);
	c->done(c->arg, result->rc, text);
	free(c);
}

int set_aside_clear_record(struct control *control, struct set_aside *s,
			   void (*done)(void *arg, int rc, const char *why), void *arg, struct err *err)
{
	char key[REGISTRY_KEY_MAX];
	if (!registry_is_synced(control->registry))
		return err_set(err, -ENOTCONN, "the registry is away: ask again when it is back");
	struct clearing *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "no memory");
	*c = (struct clearing){.control = control, .done = done, .arg = arg};
	memcpy(c->name, s->lemon.name, sizeof(c->name));
	key_of(s, key);
	const struct registry_change gone = {.key = key};
	int rc = registry_commit(control->registry, NULL, 0, &gone, 1, deleted, c);
	if (!rc)
		return 0;
	free(c);
	return err_set(err, rc, "the registry takes no more now: %s", err_name(rc));
}
