/* Observe: what is shown of this node. It changes nothing there. */
#ifndef CKPTD_OBSERVE_OBSERVE_H
#define CKPTD_OBSERVE_OBSERVE_H

struct control;
struct faults;
struct http;
struct jobs;
struct peers;
struct runtime;
struct storage;

struct observe {
	struct runtime *runtime;
	struct storage *storage;
	struct peers *peers;
	struct jobs *jobs;
	struct control *control;
	struct http *http;     /* NULL: off */
	struct faults *faults; /* on purpose; NULL: before the start */
};

#endif
