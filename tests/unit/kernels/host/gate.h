/* A gate: a page that holds up the thread that touches it until the test opens it, so that "in the middle of the copy"
 * is an event and not a matter of luck. One gate at a time. */
#ifndef CKPT_TESTS_GATE_H
#define CKPT_TESTS_GATE_H

#include <stddef.h>

/* Anonymous memory of at least n bytes, page-aligned, zero. Unmapped with the process. */
char *gate_memory(size_t n);
/* Closes the page that holds p (of gate_memory). */
void gate_close(void *p);
/* Waits until a thread stands at the gate. */
void gate_await(void);
/* Lets it go on. */
void gate_open(void);

#endif
