/* The simulated world that replaces disk, clock, workers and clients at link time. One thread, one seed: a failing run
 * replays exactly. */
#ifndef CKPT_SIM_WORLD_H
#define CKPT_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* Starts over: an empty disk with a directory /sim, the clock at one second. */
void world_reset(uint64_t seed);
void world_end(void);
uint64_t *world_rng(void);

/* Around what uses threads of its own (restore, read-back): their timing must not reach the run. Inside, nothing fails, and
 * neither randomness nor time moves on for the rest. */
void world_enter_threads(void);
void world_leave_threads(void);

/* clock_sim.c */
uint64_t clock_set(uint64_t ns); /* returns what it was */
void clock_advance(uint64_t ns);
void clock_reset(void);

/* disk_sim.c. A rate is per thousand operations. */
struct disk_faults {
	unsigned error;    /* -EIO from any operation */
	unsigned no_space; /* -ENOSPC from a write */
	unsigned link;     /* -EMLINK from a link into another directory */
	unsigned fsync;    /* -EIO from an fsync: then what was not yet written back is lost for good */
	unsigned answer; /* of a change of names that was done: the server is asked again, and says EEXIST or ENOENT */
};
struct disk_counts {
	uint64_t operations, errors, power_cuts, lost_sectors, lost_names;
	uint64_t answers; /* that were lost */
	uint64_t shared;  /* files that got a second name in another directory */
};
void disk_sim_reset(void);
struct disk_faults disk_sim_faults(const struct disk_faults *faults); /* returns what they were */
const struct disk_counts *disk_sim_counts(void);
/* The process dies: what it had submitted may or may not happen, the rest of the disk stays as it is. Every context must be freed
 * with disk_free afterwards; it waits for nothing. */
void disk_sim_kill(void);
/* The process that has this context dies, no other. What is submitted to it from then on fails. */
struct disk;
void disk_sim_kill_one(struct disk *d);
/* The machine loses power: of what was not fsynced any part may be lost, torn or kept, names as well as sectors. */
void disk_sim_power_cut(void);
/* Mutants: the simulator must notice when these lie. */
enum disk_lie { LIE_NONE = 0, LIE_FSYNC_FILE, LIE_FSYNC_DIR };
void disk_sim_lie(enum disk_lie lie);

/* Called before each operation that changes or opens something. */
struct disk_op;
struct inode;
typedef void disk_watch_fn(const struct disk *d, const struct disk_op *op);
void disk_sim_watch(disk_watch_fn *fn); /* NULL, and after disk_sim_reset: nobody */
struct inode *disk_sim_inode(int handle);
bool disk_sim_has_lock(const struct disk *d, const struct inode *inode);

/* client_sim.c: frames that were sent, newest last, at most a few per client. */
struct client;
struct client *client_new(void);
void client_free(struct client *client);
/* Takes the oldest frame of a type that is waiting; false: none. The body is valid until the next call. */
/* Which of these it was told first; 0: neither. */
uint16_t client_first(const struct client *client, uint16_t a, uint16_t b);
bool client_take(struct client *client, uint16_t type, uint32_t *seq, const void **body, uint64_t *len);
void client_clear(struct client *client);
/* The session has become that of another rank, or the daemon has ended it (NULL), since this was asked last. */
struct rank;
bool client_moved(struct client *client, struct rank **rank);

/* The check that ends a run: prints what, where and the seed, and exits with 1. */
#define SIM_CHECK(condition, ...)                                                                                      \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			sim_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                         \
	} while (0)
void sim_fail(const char *file, int line, const char *condition, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), noreturn));
void sim_context(uint64_t seed, uint64_t event);

#endif
