/* Status: what `ckpt status` shows, as JSON text. Schema 1; keys are only added within a schema. */
#ifndef CKPTD_OBSERVE_STATUS_H
#define CKPTD_OBSERVE_STATUS_H

#include "base/bytes.h"

struct observe;

int status_encode(struct observe *observe, struct wbuf *out);

#endif
