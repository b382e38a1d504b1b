/* What may hang, done in a thread of its own: who waits for it waits no longer than it may. */
#ifndef CKPT_TRAINER_ERRAND_H
#define CKPT_TRAINER_ERRAND_H

#include <stdint.h>

/*
 * Calls run(argument). 0: it has come back. -ETIMEDOUT: it had not by the deadline, and still has the argument, which
 * must stay for the rest of the process's life. Or -errno: no thread could be had, and it was not called.
 */
int errand_run(void (*run)(void *argument), void *argument, int64_t deadline);

/*
 * The same; whoever waits calls waiting(self) now and then (w NULL: nothing). If run comes back after the deadline, its
 * thread calls late(argument), which may free it; NULL: nothing.
 */
struct errand_waiting {
	void (*waiting)(void *self);
	void *self;
};
int errand_run_while(void (*run)(void *argument), void *argument, int64_t deadline, const struct errand_waiting *w,
		     void (*late)(void *argument));

#endif
