#include "launcher/launch_ended.h"

#include <sys/wait.h>

/* The lower, the likelier it is the loss itself. */
enum cause { BY_SIGNAL, BY_ITSELF, WHILE_WAITING };

static enum cause cause_of(const struct ended *ended)
{
	if (WIFSIGNALED(ended->status))
		return BY_SIGNAL;
	return ended->waited ? WHILE_WAITING : BY_ITSELF;
}

/* They are few, and those that are alike keep their order. */
void ended_sort(struct ended *ended, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		struct ended next = ended[i];
		uint32_t at = i;
		for (; at && cause_of(&ended[at - 1]) > cause_of(&next); at--)
			ended[at] = ended[at - 1];
		ended[at] = next;
	}
}
