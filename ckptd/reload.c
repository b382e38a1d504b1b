#include "reload.h"

#include "base/log.h"
#include "daemon.h"
#include "job/room.h"
#include "store/disk/power.h"
#include "upkeep/room.h"

#include <stdio.h>

/* Texts are long only where paths are; the log shows the beginning. */
enum { SHOWN_MAX = 128 };

static void say_restart(const struct setting *setting, const struct value *now, const struct given *given)
{
	char is[SHOWN_MAX], said[SHOWN_MAX], from[SHOWN_MAX];
	log_warn("[%s] %s stays %s: %s (%s) takes effect when ckptd is started again", scope_name(setting->scope),
		 setting->key, value_print(setting, now, is, sizeof(is)),
		 value_print(setting, &given->value, said, sizeof(said)), given_from(given, from, sizeof(from)));
}

static void apply(const struct sources *fresh, enum setting_scope scope, const char *job, void *base)
{
	for (const struct setting *s = settings; s->key; s++) {
		if (s->scope != scope)
			continue;
		const struct given *given = sources_find(fresh, s, job);
		struct value now = value_load(s, base);
		if (value_equal(s, &now, &given->value)) {
			if (!s->restart)
				value_store(s, &given->value, base); /* a text is of the sources that go */
			continue;
		}
		if (s->restart) {
			say_restart(s, &now, given);
			continue;
		}
		char was[SHOWN_MAX], is[SHOWN_MAX], from[SHOWN_MAX];
		log_info("[%s%s%s] %s is now %s, was %s (%s)", scope_name(scope), job ? " " : "", job ? job : "",
			 s->key, value_print(s, &given->value, is, sizeof(is)), value_print(s, &now, was, sizeof(was)),
			 given_from(given, from, sizeof(from)));
		value_store(s, &given->value, base);
	}
}

void reload_apply(struct daemon *d, struct sources *fresh)
{
	apply(fresh, SCOPE_NODE, NULL, &d->runtime.config);
	power_remember(d->runtime.config.faults);
	meter_set(&d->storage.reads, d->runtime.config.read_bandwidth);
	list_for(node, &d->jobs.list) {
		struct job *job = list_entry(node, struct job, link);
		apply(fresh, SCOPE_JOB, job->name, &job->policy);
		saves_pump(&job->saves);
		gc_want(d->storage.gc, job->name, &job->policy);
	}
	if (d->runtime.sources != d->runtime.first_sources)
		sources_free(d->runtime.sources);
	d->runtime.sources = fresh;
}
