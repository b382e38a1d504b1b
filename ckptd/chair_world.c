/* What a change of the world (muster.h) has the coordinator do. */
#include "chair_private.h"

void chair_hold(struct daemon *daemon, const char *job, const char *why)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_hold(chair->coord, why);
}

void chair_release(struct daemon *daemon, const char *job)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_release(chair->coord);
}

void chair_rescue(struct daemon *daemon, const char *job, bool give_up)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		(give_up ? coord_rescue_give_up : coord_rescue_begin)(chair->coord);
}

void chair_preface(struct daemon *daemon, const char *job, const char *text)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_preface(chair->coord, text);
}
