/* Reload: the configuration is read again (SIGHUP). What does not need a restart takes effect at once, for running jobs too; a
 * mistake anywhere keeps everything as it was. */
#ifndef CKPTD_RELOAD_H
#define CKPTD_RELOAD_H

#include "config/sources.h"

struct daemon;

/* Puts into effect what `fresh` says and takes it over; the sources before it are freed unless daemon->runtime.config
 * still has its texts in them. Says in the log what changes, and what would need a restart. */
void reload_apply(struct daemon *daemon, struct sources *fresh);

#endif
