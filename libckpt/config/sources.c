#include "config/sources.h"

#include "base/quoted.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sources {
	struct given *list;
	size_t n, cap;
};

static int place_error(const struct setting *setting, const struct place *place, struct err *err)
{
	if (place->origin != ORIGIN_FILE)
		return err_prefix(err, -EINVAL, "%s", place->name);
	return err_prefix(err, -EINVAL, "%s:%u: [%s%s%s] %s", shown_path(place->name).text, place->line,
			  scope_name(setting->scope), place->pattern && *place->pattern ? " " : "",
			  place->pattern ? place->pattern : "", setting->key);
}

static const struct given *said_before(const struct sources *s, const struct setting *setting,
				       const struct place *place)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct given *g = &s->list[i];
		if (g->setting == setting && g->origin == ORIGIN_FILE && !strcmp(g->name, place->name) &&
		    !strcmp(g->pattern, place->pattern ? place->pattern : ""))
			return g;
	}
	return NULL;
}

static int grow(struct sources *s, struct err *err)
{
	if (s->n < s->cap)
		return 0;
	if (s->n >= SOURCES_MAX)
		return err_set(err, -EINVAL, "more than %d settings are given", SOURCES_MAX);
	size_t cap = s->cap ? 2 * s->cap : 64;
	struct given *list = realloc(s->list, cap * sizeof(*list));
	if (!list)
		return err_set(err, -ENOMEM, "no memory for settings");
	s->list = list;
	s->cap = cap;
	return 0;
}

static void given_free(struct given *g)
{
	free(g->name);
	free(g->pattern);
	free(g->text);
}

static int append(struct sources *s, const struct setting *setting, const struct place *place, const char *text,
		  struct err *err)
{
	int rc = grow(s, err);
	if (rc)
		return rc;
	struct given g = {.setting = setting,
			  .origin = place->origin,
			  .line = place->line,
			  .name = strdup(place->name ? place->name : ""),
			  .pattern = strdup(place->pattern ? place->pattern : ""),
			  .text = strdup(text)};
	if (!g.name || !g.pattern || !g.text)
		rc = err_set(err, -ENOMEM, "no memory for settings");
	/* Only a default may be absent: "" is no store. */
	else if (*text || place->origin != ORIGIN_DEFAULT)
		rc = value_parse(setting, g.text, &g.value, err);
	if (rc) {
		given_free(&g);
		return rc;
	}
	s->list[s->n++] = g;
	return 0;
}

int sources_add(struct sources *s, const struct setting *setting, const struct place *place, const char *text,
		struct err *err)
{
	const struct given *before = place->origin == ORIGIN_FILE ? said_before(s, setting, place) : NULL;
	int rc = before ? err_set(err, -EINVAL, "is set twice, first in line %u", before->line)
			: append(s, setting, place, text, err);
	return rc == -EINVAL ? place_error(setting, place, err) : rc;
}

int sources_new(struct sources **out, struct err *err)
{
	struct sources *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "no memory for settings");
	int rc = 0;
	for (const struct setting *setting = settings; !rc && setting->key; setting++) {
		char text[SETTING_TEXT_MAX];
		setting_fallback(setting, text, sizeof(text));
		rc = append(s, setting, &(struct place){.origin = ORIGIN_DEFAULT}, text, err);
		if (rc == -EINVAL) /* a default of this machine, such as a socket's path that is too long */
			rc = err_prefix(err, rc, "the default of [%s] %s", scope_name(setting->scope), setting->key);
	}
	if (rc) {
		sources_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void sources_free(struct sources *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		given_free(&s->list[i]);
	free(s->list);
	free(s);
}

int sources_environment(struct sources *s, struct err *err)
{
	int rc = 0;
	for (const struct setting *setting = settings; !rc && setting->key; setting++) {
		const char *text = getenv(setting->env);
		if (text && *text)
			rc = sources_add(s, setting,
					 &(struct place){.origin = ORIGIN_ENVIRONMENT, .name = setting->env}, text,
					 err);
	}
	return rc;
}

/* ---- which one counts -------------------------------------------------------------------------------------------- */

/* 0: it does not apply; else the more the closer. */
typedef int closeness_fn(const struct given *g, const void *to);

static int close_to_job(const struct given *g, const void *to)
{
	const char *job = to;
	if (!*g->pattern)
		return 1;
	if (!job)
		return 0;
	if (!strcmp(g->pattern, job))
		return 3;
	return fnmatch(g->pattern, job, FNM_NOESCAPE) ? 0 : 2;
}

static bool in_group(const struct who *who, const char *pattern)
{
	for (size_t i = 0; i < who->ngroups; i++)
		if (!fnmatch(pattern, who->groups[i], FNM_NOESCAPE))
			return true;
	return false;
}

static int close_to_user(const struct given *g, const void *to)
{
	const struct who *who = to;
	if (!*g->pattern)
		return 1;
	if (*g->pattern == '@')
		return in_group(who, g->pattern + 1) ? 3 : 0;
	if (!strcmp(g->pattern, who->name))
		return 4;
	return fnmatch(g->pattern, who->name, FNM_NOESCAPE) ? 0 : 2;
}

static const struct given *closest(const struct sources *s, const struct setting *setting, closeness_fn *closeness,
				   const void *to)
{
	const struct given *best = NULL;
	int best_close = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct given *g = &s->list[i];
		int close = g->setting == setting ? closeness(g, to) : 0;
		if (!close || (best && (g->origin < best->origin || (g->origin == best->origin && close < best_close))))
			continue;
		best = g;
		best_close = close;
	}
	return best;
}

const struct given *sources_find(const struct sources *s, const struct setting *setting, const char *job)
{
	return closest(s, setting, close_to_job, job);
}

const struct given *sources_find_user(const struct sources *s, const struct setting *setting, const struct who *who)
{
	return closest(s, setting, close_to_user, who);
}

bool given_names(const struct given *g, const struct who *who)
{
	return close_to_user(g, who) > 2;
}

void sources_fill_user(const struct sources *s, const struct who *who, struct share *share)
{
	for (const struct setting *setting = settings; setting->key; setting++)
		if (setting->scope == SCOPE_USER)
			value_store(setting, &sources_find_user(s, setting, who)->value, share);
}

void sources_fill(const struct sources *s, enum setting_scope scope, const char *job, void *base)
{
	for (const struct setting *setting = settings; setting->key; setting++)
		if (setting->scope == scope)
			value_store(setting, &sources_find(s, setting, job)->value, base);
}

char *given_from(const struct given *g, char *dst, size_t size)
{
	if (g->origin == ORIGIN_DEFAULT)
		snprintf(dst, size, "default");
	else if (g->origin == ORIGIN_FILE)
		snprintf(dst, size, "%s:%u", g->name, g->line);
	else
		snprintf(dst, size, "%s", g->name);
	return dst;
}
