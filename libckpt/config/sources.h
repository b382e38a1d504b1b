/* Sources: every place that says something about a setting, and which of them counts:
 *
 *	default < configuration file < environment < flag
 *
 * and within the files [job NAME] over [job PATTERN] over [job] (and so for users); among equals what was read last. Read
 * once, then only looked at. */
#ifndef CKPT_CONFIG_SOURCES_H
#define CKPT_CONFIG_SOURCES_H

#include "config/value.h"

enum origin { ORIGIN_DEFAULT = 0, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };

enum { SOURCES_MAX = 4096 }; /* sayings that are kept */

struct given {
	const struct setting *setting;
	enum origin origin;
	char *name;    /* path of the file, name of the variable, --flag; "" for a default */
	unsigned line; /* in the file */
	char *pattern; /* "": every job (and the node) */
	char *text;    /* as it was said; value.text points here */
	struct value value;
};

struct sources;

/* Begins with the defaults. */
int sources_new(struct sources **out, struct err *err);
void sources_free(struct sources *sources); /* NULL is allowed; texts of filled structs go with it */

/* One saying; all but setting, origin and err are copied. -EINVAL: the value is not allowed, or it stands in the same section of the
 * same file twice; the text begins with the place: "/etc/ckpt/ckpt.conf:12: [job] linger", "CKPT_LINGER", "--linger". */
struct place {
	enum origin origin;
	const char *name;
	unsigned line;
	const char *pattern; /* NULL: "" */
};
int sources_add(struct sources *sources, const struct setting *setting, const struct place *place, const char *text,
		struct err *err);

/* The variables of all settings; an empty one counts as not set. */
int sources_environment(struct sources *sources, struct err *err);

/* The saying that counts; job NULL: for jobs without a section of their own. Never NULL. */
const struct given *sources_find(const struct sources *sources, const struct setting *setting, const char *job);
/* Whom the sections [user …] are matched against. */
struct who {
	const char *name;
	const char *const *groups;
	size_t ngroups;
};
/* The saying about a user that counts: [user NAME] over [user @GROUP] over [user PATTERN] over [user]. Never NULL. */
const struct given *sources_find_user(const struct sources *sources, const struct setting *setting,
				      const struct who *who);
/* Whether it names the user, or a group that they are in, and is not for all users. */
bool given_names(const struct given *given, const struct who *who);
void sources_fill_user(const struct sources *sources, const struct who *who, struct share *share);
/* Fills the struct of a scope (struct config: job NULL). */
void sources_fill(const struct sources *sources, enum setting_scope scope, const char *job, void *base);
/* "default", "/etc/ckpt/ckpt.conf:12", "CKPT_STORE", "--store". Returns dst. */
char *given_from(const struct given *given, char *dst, size_t size);

#endif
