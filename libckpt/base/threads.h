/* Work that is shared out for a moment among several threads. */
#ifndef CKPT_BASE_THREADS_H
#define CKPT_BASE_THREADS_H

/* One per processor that the caller may run on, at most `most`, at least 1. */
unsigned threads_default(unsigned most);

/* Calls fn(arg) on n threads at once, of which the caller is one, and returns when all calls have returned. Where no more threads
 * can be started there are fewer calls, at least one: fn takes its share from arg until nothing is left. The threads take no signals
 * but those that they raise themselves. n is cut to 64. */
void threads_run(unsigned n, void (*fn)(void *arg), void *arg);

#endif
