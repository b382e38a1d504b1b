/* What ckpt doctor looks at: doctor.c (the command), doctor_machine.c (kernel, memory, devices), doctor_gpu.c (the GPU's driver),
 * doctor_store.c (the store's file system), doctor_job.c (what a rank needs), doctor_daemon.c (what ckptd says of itself),
 * doctor_lustre.c (its layout, where that is Lustre). */
#ifndef CKPT_CLI_DOCTOR_H
#define CKPT_CLI_DOCTOR_H

#include "frame/output.h"

#include <stdbool.h>
#include <stdint.h>

enum result {
	RESULT_FINE = 0,
	RESULT_NOTE,     /* not there, and nothing that is wanted needs it */
	RESULT_DEGRADED, /* works, at a price */
	RESULT_BROKEN,   /* will not work */
};

enum { DOCTOR_CHECKS = 24, DOCTOR_TEXT_MAX = 256 };

struct check {
	const char *name; /* a word, the same for ever: it stands in the JSON */
	enum result result;
	char found[DOCTOR_TEXT_MAX];
	const char *costs, *remedy; /* NULL when it is fine */
};

struct doctor {
	uint64_t memory_limit; /* what arenas may take, as ckptd would be started now */
	const char *store;     /* NULL: none */
	char lustre[4096];     /* a remedy that is made of the path */
	char health[512];      /* a remedy that ckptd tells */
	struct check checks[DOCTOR_CHECKS];
	unsigned n;
};

/* Adds a check. costs and remedy are dropped when it is fine. */
void doctor_add(struct doctor *d, const char *name, enum result result, const char *costs, const char *remedy,
		const char *fmt, ...) __attribute__((format(printf, 6, 7)));

void doctor_machine(struct doctor *d);

/* What there is of a GPU's driver. */
struct gpu_seen {
	bool device, usable; /* /dev/nvidiactl: it is there, and this user may open it */
	unsigned cuda; /* the newest CUDA that the driver's library runs, 1000 major + 10 minor; 0: it does not load */
	char driver[32]; /* its version; "": it does not tell */
};
/* The check "gpu". */
void doctor_gpu(struct doctor *d);
/* What it says of that, in a build with this CUDA toolkit (numbered alike; 0: with none). */
void doctor_gpu_judge(struct doctor *d, const struct gpu_seen *seen, unsigned toolkit);

/* Writes a few small files into the store's directory, under names of its own, and removes them. */
void doctor_store(struct doctor *d);
/* What a rank lacks that is started here, in place of what ckptd lacks. socket: NULL: where ranks look. Asks the daemon. */
void doctor_job(struct doctor *d, const char *socket);
/* What the daemon's document tells. */
void doctor_daemon(struct doctor *d, const json_t *status);
/* The check "store-kind" of a directory on Lustre. */
void doctor_lustre(struct doctor *d, int dir, const char *path);

#endif
