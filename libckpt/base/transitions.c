#include "base/transitions.h"

#include "base/log.h"

#include <stdlib.h>

const char *transitions_name(const struct transitions *t, uint32_t state)
{
	return state < t->n && t->names[state] ? t->names[state] : "?";
}

void transitions_check(const struct transitions *t, uint32_t from, uint32_t to)
{
	if (from < t->n && to < t->n && t->next[from] & 1u << to)
		return;
	log_error("%s: illegal transition from %s to %s", t->machine, transitions_name(t, from),
		  transitions_name(t, to));
	abort();
}
