/* What the tests of the disk share: a scratch directory, a context on it, and short forms of the operations. */
#ifndef CKPT_TESTS_DISK_FIXTURE_H
#define CKPT_TESTS_DISK_FIXTURE_H

#include "scratch.h"
#include "store/disk/disk_real.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* Of the running test: set by disk_setup. */
extern char path[SCRATCH_MAX];
extern struct disk *d;
extern int root;

void disk_setup(void);
void disk_teardown(void);

int do_name(enum disk_kind kind, const char *name);
int do_names(enum disk_kind kind, const char *name, const char *name2);
int do_file(enum disk_kind kind, int file, uint64_t size);
int64_t transfer(enum disk_kind kind, int file, void *buf, uint64_t offset, uint64_t len);
int create(const char *name, unsigned flags);
bool exists(const char *name);
void expect_contents(const char *name, const void *want, size_t len);
/* Aligned memory with contents that differ in every 8 bytes. */
uint8_t *pattern(size_t len, uint64_t seed);
/* failpoint_arm, which must succeed. */
void arm(const char *spec);

#endif
