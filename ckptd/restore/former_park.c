/* What no job has at the moment: the one that had it has ended, and the next one of its name has not come. */
#include "restore/former.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

void former_park(struct formers *formers, struct former *list)
{
	for (struct former *next, *former = list; former; former = next) {
		next = former->next;
		former->parked_ns = clock_now();
		former->next = formers->first;
		formers->first = former;
	}
}

static bool can_read(const struct former *former, uint32_t world, uint32_t nlocal, bool spread)
{
	return (!spread && !former->spread) ||
	       (spread == former->spread && world == former->world && nlocal == former->nlocal);
}

struct former *former_unpark(struct formers *formers, const char *job, uint32_t world, uint32_t nlocal, bool spread)
{
	struct former *list = NULL;
	for (struct former **at = &formers->first; *at;) {
		struct former *former = *at;
		if (strcmp(former->job, job) != 0 || !can_read(former, world, nlocal, spread)) {
			at = &former->next;
			continue;
		}
		*at = former->next;
		former_insert(&list, former);
	}
	return list;
}

int former_allows(const struct formers *formers, const struct wire_hello *hello, bool spread, struct err *err)
{
	char text[WIRE_TEXT_MAX / 2];
	for (const struct former *former = formers->first; former; former = former->next) {
		const struct former_step *step = former_newest(former);
		if (strcmp(former->job, hello->job) != 0 || !step || step->stored ||
		    can_read(former, hello->world, hello->local_world ? hello->local_world : hello->world, spread))
			continue;
		return err_set(
			err, -EBUSY,
			"job '%s': %s of this node alone, cannot be read by ranks on several nodes: it is kept for "
			"%lu s; start it there again, or take another name",
			hello->job, former_text(former, text, sizeof(text)),
			(unsigned long)(former->linger_ns / CLOCK_NS_PER_S));
	}
	return 0;
}

void formers_tick(struct formers *formers, uint64_t now)
{
	char text[WIRE_TEXT_MAX];
	for (struct former **at = &formers->first; *at;) {
		struct former *former = *at;
		if (now - former->parked_ns <= former->linger_ns) {
			at = &former->next;
			continue;
		}
		*at = former->next;
		log_warn("job %s: %s, is let go: nobody has come for it", former->job,
			 former_text(former, text, sizeof(text)));
		former_end(formers->runtime, former);
	}
}

void formers_free(struct formers *formers)
{
	for (struct former *next, *former = formers->first; former; former = next) {
		next = former->next;
		former_end(formers->runtime, former);
	}
	formers->first = NULL;
}
