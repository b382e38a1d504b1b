#include "identity.h"

#include "base/cleanup.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

enum { ENTRY_MAX = 1 << 20 }; /* bytes of a group with its members */

static int find_user(struct identity *id, struct err *err)
{
	struct passwd entry, *found = NULL;
	AUTO_FREE char *space = malloc(ENTRY_MAX);
	int rc = space ? -getpwuid_r(id->uid, &entry, space, ENTRY_MAX, &found) : -ENOMEM;
	if (!found)
		return err_set(err, rc ? rc : -ENOENT, "user %u is not known here: %s", id->uid,
			       rc ? err_name(rc) : "there is no such account");
	if (strlen(entry.pw_name) >= sizeof(id->name) || strlen(entry.pw_dir) >= sizeof(id->home))
		return err_set(err, -ENAMETOOLONG, "the name or the home of user %u is too long", id->uid);
	memcpy(id->name, entry.pw_name, strlen(entry.pw_name) + 1);
	memcpy(id->home, entry.pw_dir, strlen(entry.pw_dir) + 1);
	id->gid = entry.pw_gid;
	return 0;
}

static void name_groups(struct identity *id)
{
	AUTO_FREE char *space = malloc(ENTRY_MAX);
	for (int i = 0; i < id->ngroups; i++) {
		struct group entry, *found = NULL;
		if (space)
			getgrgid_r(id->groups[i], &entry, space, ENTRY_MAX, &found);
		id->group_names[i] = found ? strdup(entry.gr_name) : NULL;
		if (!id->group_names[i])
			id->group_names[i] = "";
	}
}

int identity_find(uid_t uid, struct identity *id, struct err *err)
{
	*id = (struct identity){.uid = uid, .ngroups = IDENTITY_GROUPS_MAX};
	int rc = find_user(id, err);
	if (rc)
		return rc;
	if (getgrouplist(id->name, id->gid, id->groups, &id->ngroups) < 0)
		return err_set(err, -E2BIG, "user %s is in more than %d groups", id->name, IDENTITY_GROUPS_MAX);
	name_groups(id);
	return 0;
}

int identity_share(const struct identity *id, const struct sources *sources, struct share *share, struct err *err)
{
	char from[SETTING_TEXT_MAX];
	struct who who = {id->name, id->group_names, (size_t)id->ngroups};
	const struct given *allow = sources_find_user(sources, setting_find(SCOPE_USER, "allow"), &who);
	sources_fill_user(sources, &who, share);
	if (!share->allow)
		return err_set(err, -EPERM, "user %s may not use this service (%s: allow = no)", id->name,
			       given_from(allow, from, sizeof(from)));
	if (id->uid < IDENTITY_FIRST_UID && !given_names(allow, &who))
		return err_set(
			err, -EPERM,
			"user %s may not use this service: accounts below %d need a section [user %s] with allow = yes",
			id->name, IDENTITY_FIRST_UID, id->name);
	return 0;
}
