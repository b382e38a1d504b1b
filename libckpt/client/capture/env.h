/* Settings of a session: the caller's options, completed from the environment of the common launchers. */
#ifndef CKPT_ENV_H
#define CKPT_ENV_H

#include "base/err.h"
#include "ckpt.h"
#include "format/tensor/names.h"

#include <stdbool.h>
#include <stdint.h>

enum { SETTINGS_SOCKET_MAX = 108 }; /* sockaddr_un */

/* Whether replicas are digested, to be compared with those of other ranks. */
enum vote { VOTE_AUTO = 0, VOTE_ALWAYS, VOTE_NEVER };

struct settings {
	char job[NAME_JOB_MAX];
	char socket[SETTINGS_SOCKET_MAX];
	uint32_t rank, world, local_world, slots, timeout_ms;
	bool strict, staging;
	enum vote vote;
	bool spread; /* the job is on several nodes: as the daemon has said */
	ckpt_epoch_fn *on_epoch;
	void *on_epoch_arg;
};

/* opts may be NULL. -EINVAL, -E2BIG: the option or the variable is named. Reads the environment: not while another thread
 * changes it. */
int settings_make(const ckpt_options *opts, struct settings *out, struct err *err);

#endif
