/* Identity: who a user is, and whether they may use the service. It asks the name service, which may be slow: only in a child. */
#ifndef CKPTD_SYSTEM_IDENTITY_H
#define CKPTD_SYSTEM_IDENTITY_H

#include "config/sources.h"

#include <sys/types.h>

enum { IDENTITY_NAME_MAX = 128, IDENTITY_GROUPS_MAX = 256, IDENTITY_FIRST_UID = 1000 };

struct identity {
	uid_t uid;
	gid_t gid;
	char name[IDENTITY_NAME_MAX];
	char home[SETTING_TEXT_MAX];
	gid_t groups[IDENTITY_GROUPS_MAX];
	const char *group_names[IDENTITY_GROUPS_MAX]; /* never freed: the child is about to be another program */
	int ngroups;
};

/* -ENOENT: nobody has this number. */
int identity_find(uid_t uid, struct identity *id, struct err *err);
/* What the sections [user …] say about the user. -EPERM: they may not use the service; the sentence says which section
 * says so, or what to write. */
int identity_share(const struct identity *id, const struct sources *sources, struct share *share, struct err *err);

#endif
