/* Epoch record: which one a job can be given, and the record of what was given. An epoch that is used twice would make a new checkpoint pass for
 * an old one of the same name, and a writer of the past for one of today. */
#ifndef CKPTD_CONTROL_EPOCH_RECORD_H
#define CKPTD_CONTROL_EPOCH_RECORD_H

#include "base/err.h"

#include <stdint.h>

struct daemon;

#define EPOCHS_FILE "EPOCH" /* in the directory of the job: struct begun of format/files/marks.h */

/* One that was never given to this job, as far as store and catalog know; what cannot be read is an error. */
int epochs_first(struct daemon *daemon, const char *job, uint32_t *epoch, struct err *err);

struct epochs_record;

/* Writes on a worker that the epoch is given: it is on storage, with all names, when done is called with rc 0, from pool_poll. Without a
 * store there is nothing to write to: done is called all the same. -ENOMEM. */
int epochs_record(struct daemon *daemon, const char *job, uint32_t epoch, const char *reason,
		  void (*done)(void *arg, uint32_t epoch, int rc, const char *text), void *arg,
		  struct epochs_record **out);
/* done will not be called any more. */
void epochs_forget(struct epochs_record *record);

#endif
