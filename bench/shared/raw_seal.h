/* The least that sealed copies can take: one process seals its memory record by record (AES-256-GCM of libcrypto) into a
 * buffer, and sends that over TCP of loopback. Another one receives, opens, and has it in its own memory. No requests, no
 * lookups, no other thread. It is tried with several records and buffers, opened in place and copied or opened to where
 * it belongs, and its best is what is compared with. */
#ifndef CKPT_BENCH_RAW_SEAL_H
#define CKPT_BENCH_RAW_SEAL_H

#include <stdbool.h>
#include <stddef.h>

struct seal_shape {
	size_t record, buffer;
	bool copied; /* opened in place, then copied */
};

/* Of raw_from to raw_to, GB/s. verified: the receiver digests every leaf, too. */
double raw_seal_run(const struct seal_shape *shape, size_t len, bool verified);
/* Prints each. */
struct seal_shape raw_seal_best(bool verified);

#endif
