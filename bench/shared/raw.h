/* What bench_fabric and bench_fetch share: copies between the memories of two processes, in turns by ckptd and by a bare loop over
 * libfabric on the same provider, tcp on loopback. The loop is tried with several chunks and depths, polling and waiting, and its best
 * is what is compared with, each round against the loop's runs just before and after. A child of its own is the other side of each run. */
#ifndef CKPT_BENCH_RAW_H
#define CKPT_BENCH_RAW_H

#include "cluster/net.h"
#include "cluster/net/rail.h"

#include <stdlib.h>
#include <sys/types.h>

enum { RAW_LIMIT_MS = 60000 };

struct raw_bench {
	const char *program, *what; /* "bench_fabric", "replicate" */
	bool reads;                 /* the loop is tried with reads, too */
	bool verified;              /* what arrives is digested */
	double (*run)(void);        /* one copy of raw_size; GB/s */
};

/* Options --mib, --rounds and, last, --sealed (copies that are sealed; then against a bare loop that seals, too:
 * raw_seal.h) or --fabric (by libfabric, too); prints each round, and the ratio: median (least .. most). The exit status. */
int raw_main(int argc, char **argv, const struct raw_bench *bench);

/* Contents that are new in each round, and the loop's target; pages of both are there. */
extern uint8_t *raw_from, *raw_to;
extern uint64_t raw_size;

/* Around what is measured: GB/s of so many bytes. Each round tells what all processors of the machine did meanwhile. */
void raw_begin(void);
double raw_speed(uint64_t len);

/* What the other side tells. */
struct raw_hello {
	struct hello_address address;
	struct net_ticket ticket;
};

pid_t raw_start(void (*target)(int out), int *in);
void raw_end(pid_t pid, int in);
struct raw_hello raw_hear(int in);
/* A fork leaves the pages of shared memory to be faulted in again: not in the time that is measured. */
void raw_tell(int out, const struct raw_hello *hello, void *memory);
_Noreturn void raw_die(const char *what, int rc);
void raw_compare(const char *who, const void *copy, uint64_t len);

struct roster *raw_roster(void);
/* Node 0 (127.0.0.1) or 1. */
struct net *raw_net(unsigned self, const struct roster *roster, const struct net_events *events);

#endif
