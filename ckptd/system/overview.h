/* Overview: what `ckpt status` shows root of a system service, as JSON text. Schema 1; keys are only added within a schema. */
#ifndef CKPTD_SYSTEM_OVERVIEW_H
#define CKPTD_SYSTEM_OVERVIEW_H

#include "base/bytes.h"
#include "users.h"

int overview_encode(const struct users *users, uint64_t started_ns, struct wbuf *out);

#endif
