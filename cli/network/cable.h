/* A bad cable, in user space: a thread carries frames between two network devices, and loses or delays some. It needs no
 * more of the kernel than packet sockets, where netem would be a module that few have. */
#ifndef CKPT_CLI_NETWORK_CABLE_H
#define CKPT_CLI_NETWORK_CABLE_H

#include "base/err.h"

#include <stdint.h>

struct campaign_cable;

/* Frames lost of each hundred, and by how much all others come later. The devices are of the namespace in which this thread is. The thread
 * ends with the cable. */
int campaign_cable_open(const char *one, const char *other, uint32_t percent, uint64_t delay_ns,
			struct campaign_cable **out, struct err *err);
/* Frames that were lost on purpose, and that were delayed, so far. */
void campaign_cable_count(const struct campaign_cable *cable, uint64_t *lost, uint64_t *delayed);
/* What is on its way is lost. NULL is nothing. */
void campaign_cable_close(struct campaign_cable *cable);

#endif
