/* The arenas of a user's worker that are held in case it dies. */
#include "base/clock.h"
#include "service/room.h"
#include "users.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW };

static void full_name(const struct user *user, const char *name, char dst[HELD_NAME_BYTES + 16])
{
	snprintf(dst, HELD_NAME_BYTES + 16, "%u/%s", user->uid, name);
}

void held_drop(struct user *user, const char *name)
{
	char full[HELD_NAME_BYTES + 16];
	list_for_safe(node, &user->held) {
		struct held *held = list_entry(node, struct held, link);
		if (strcmp(held->name, name) != 0)
			continue;
		full_name(user, held->name, full);
		manager_drop_named(user->users->manager, full);
		list_remove(&held->link);
		undertaker_bury(&user->users->undertaker, held->fd);
		free(held);
		user->nheld--;
	}
}

void held_drop_all(struct user *user)
{
	while (!list_empty(&user->held))
		held_drop(user, list_entry(user->held.next, struct held, link)->name);
}

/* Only memory, and sealed: anything else could make whoever touches it wait. Asking for seals does not touch it. */
static bool is_arena(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & SEALS) == SEALS;
}

/* The service manager is told of each: it must not be kept busy, nor be told anything else in a name. */
static bool may_keep(struct user *user, const char *name, int fd)
{
	return fd >= 0 && manager_names_arena(name) && strlen(name) < HELD_NAME_BYTES && user->nheld < HELD_MAX &&
	       ledger_pace(&user->keeps_paid_ns, clock_now(), KEEPS_PER_S, HELD_MAX) && is_arena(fd);
}

void held_keep(struct user *user, const char *name, int fd)
{
	char full[HELD_NAME_BYTES + 16];
	held_drop(user, name);
	struct held *held = may_keep(user, name, fd) ? calloc(1, sizeof(*held)) : NULL;
	if (!held) {
		users_note(user, "what its process gives to be held is no arena, or too much");
		undertaker_bury(&user->users->undertaker, fd);
		return;
	}
	memcpy(held->name, name, strlen(name) + 1);
	held->fd = fd;
	list_push(&user->held, &held->link);
	user->nheld++;
	full_name(user, held->name, full);
	manager_keep_named(user->users->manager, full, fd);
}
