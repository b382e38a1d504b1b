/* Epoch record: which epoch a job can be given, and the record of what was decided. That is the epoch, where the job went
 * back to, which node has which ranks, what was asked of the job, and that it has ended. If an epoch were used twice, a
 * new checkpoint could pass for an old one of the same name, and a writer of the past for one of today. If two plans had
 * one number, two processes could pass for the same rank. */
#ifndef CKPTD_CONTROL_EPOCH_RECORD_H
#define CKPTD_CONTROL_EPOCH_RECORD_H

#include "base/err.h"
#include "format/files/marks.h"

struct control;

/* There is a place for records: a registry, or a store. Else what was decided is known by who was told. */
bool epochs_are_kept(const struct control *control);

/* What is on record last, in the registry or else in the store; epoch 0: nothing. To be freed. What cannot be read is an
 * error. */
int epochs_last(struct control *control, const char *job, struct begun *last, struct err *err);

struct epochs_start {
	uint32_t next;           /* one that was never given to this job, as far as store and catalog know */
	uint32_t elected;        /* the last that the registry has; 0: none */
	struct rollbacks back;   /* where it went back to last */
	struct plan_record plan; /* to be freed, as the next */
	struct asked_record asked;
	uint32_t ended; /* the last plan whose run has ended; 0: none */
};
/* What cannot be read is an error, and leaves nothing to be freed. */
int epochs_first(struct control *control, const char *job, struct epochs_start *start, struct err *err);

struct epochs_record;

/* Writes that the epoch is given, and what else is in `begun`: into the registry, if there is one, and then on a worker
 * into the store. It stands there, with all names, when done is called with rc 0, from pool_poll. -ESTALE: another node
 * coordinates the job. Without a store and a registry there is nothing to write to: done is called all the same. One of a
 * job after the other, also when the one before was forgotten: what was decided last stands at the end. Takes the plan
 * and what was asked, in any case. -ENOMEM, and what registry_commit() says. */
int epochs_record(struct control *control, struct begun *begun,
		  void (*done)(void *arg, uint32_t epoch, int rc, const char *text), void *arg,
		  struct epochs_record **out);
/* done will not be called any more. NULL is allowed. */
void epochs_forget(struct epochs_record *record);

#endif
