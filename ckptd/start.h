/* Start: what every ckptd, whatever it is to be, does to its process first. */
#ifndef CKPTD_START_H
#define CKPTD_START_H

/* Takes back what a library did before main: libinfinipath, which libfabric brings, sets handlers by which what should be a crash writes
 * a file into the working directory and ends like an error. */
void start_default_signals(void);
/* SIGINT, SIGTERM and SIGHUP come as a signalfd, which is returned; SIGPIPE is ignored. */
int start_signals(void);
/* As many descriptors as may be: arenas, doorbells and pidfds are several per rank. */
void start_descriptors(void);

#endif
