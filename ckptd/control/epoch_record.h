/* Epoch record: which one a job can be given, and the record of what was given. An epoch that is used twice would make a new checkpoint pass for
 * an old one of the same name, and a writer of the past for one of today. */
#ifndef CKPTD_CONTROL_EPOCH_RECORD_H
#define CKPTD_CONTROL_EPOCH_RECORD_H

#include "base/err.h"
#include "format/tensor/rollback.h"

#include <stdint.h>

struct control;

#define EPOCHS_FILE "EPOCH" /* in the directory of the job: struct begun of format/files/marks.h */

/* One that was never given to this job, as far as store and catalog know, and where it went back to last; what cannot be read is an error. */
int epochs_first(struct control *control, const char *job, uint32_t *epoch, struct rollbacks *back, struct err *err);

struct epochs_record;

/* Writes that the epoch is given, and where the job went back to last, into the registry, if there is one, and then on a worker into the store: it stands there, with all names, when done is called
 * with rc 0, from pool_poll. -ESTALE: another node coordinates the job. Without a store and a registry there is nothing to write to: done is called all the same.
 * -ENOMEM, and what registry_commit() says. */
int epochs_record(struct control *control, const char *job, uint32_t epoch, const struct rollbacks *back,
		  const char *reason, void (*done)(void *arg, uint32_t epoch, int rc, const char *text), void *arg,
		  struct epochs_record **out);
/* done will not be called any more. */
void epochs_forget(struct epochs_record *record);

#endif
