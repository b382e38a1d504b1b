/* The reader inside: what the files of the library share.
 *
 *   refused.c  the sentence of a thread's last failure
 *   listed.c   the checkpoints of a store
 *   opened.c   one checkpoint: which one, open and close
 *   tensors.c  what is in it
 *   lanes.c    the ways to its files, one for each thread that reads
 *   boxes_read.c  the reads */
#ifndef CKPT_READER_READER_H
#define CKPT_READER_READER_H

#include "ckpt_reader.h"
#include "store/read/contents.h"
#include "store/read/listing.h"

#include <pthread.h>

enum { LANES_IDLE = 8 }; /* that are kept */

/* A disk belongs to one thread: each thread that reads has one of its own meanwhile. */
struct lane {
	struct lane *next;
	struct repo repo;
	struct checkpoint ck;
};

struct listed {
	ckpt_reader_checkpoint face;
	char job[NAME_JOB_MAX], name[NAME_DIR_MAX];
};

struct ckpt_reader {
	pid_t pid; /* of the process that opened it */
	ckpt_reader_options opts;
	struct repo repo;
	struct checkpoint ck;
	struct contents contents;
	ckpt_reader_tensor *tensors; /* of contents */
	struct listed listed;
	char *path;
	pthread_mutex_t lock; /* what follows */
	struct lane *idle;
	unsigned nidle;
};

/* refused.c */
/* Keeps the sentence for the calling thread; returns rc. */
int reader_fail(int rc, const struct err *err);
/* 0; -EINVAL: it is NULL; -ECHILD. */
int reader_check(const ckpt_reader *r, struct err *err);

/* listed.c */
/* CKPT_REPO where it is NULL. -EINVAL: nobody says which. */
int reader_store(const char *given, const char **store, struct err *err);
/* False: it was removed meanwhile. */
bool reader_describe(struct repo *repo, const struct checkpoint_ref *ref, struct listed *out);

/* tensors.c */
int reader_tensors_make(ckpt_reader *r, struct err *err);

/* lanes.c */
int lane_take(ckpt_reader *r, struct lane **out, struct err *err);
void lane_put(ckpt_reader *r, struct lane *lane);
/* Nobody has one. */
void lanes_free(ckpt_reader *r);

#endif
