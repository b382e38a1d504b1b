/* Process setup: what every ckptd, whatever it is to be, does to its process first. */
#ifndef CKPTD_RUNTIME_PROCESS_SETUP_H
#define CKPTD_RUNTIME_PROCESS_SETUP_H

/* SIGINT, SIGTERM and SIGHUP come as a signalfd, which is returned; SIGPIPE is ignored. */
int start_signals(void);
/* As many descriptors as may be: arenas, doorbells and pidfds are several per rank. */
void start_descriptors(void);

#endif
