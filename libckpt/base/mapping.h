/* Mapping: shared memory at an address at which huge pages can be entered as such. */
#ifndef CKPT_BASE_MAPPING_H
#define CKPT_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HUGE_PAGE = 2 << 20 };

/* As mmap(MAP_SHARED) of the first `size` bytes of fd, aligned to HUGE_PAGE where the address space has room for that. MAP_FAILED
 * and errno. Unmapped with munmap(base, size): for memory of huge pages size must be a multiple of theirs. */
void *mapping_shared(int fd, uint64_t size, int prot);

/* Makes the pages of [base, base + n) there, as transparent huge ones whatever the machine's default is; n is a multiple of HUGE_PAGE.
 * False and errno: not all are (before Linux 6.1 none; ENOMEM: memory is scattered), and what is there stays. */
bool mapping_collapse(void *base, uint64_t n);

#endif
