/* The status page, ckptd/observe/web/status.html, as it is sent: its script and its style bear a number drawn for this
 * answer, and the policy lets the browser run nothing else. */
#ifndef CKPTD_OBSERVE_HTTP_PAGE_H
#define CKPTD_OBSERVE_HTTP_PAGE_H

#include "base/bytes.h"

enum { HTTP_POLICY_MAX = 256 };

/* 0, -ENOMEM, or -errno of the kernel's random numbers. */
int http_page(struct wbuf *out, char policy[HTTP_POLICY_MAX]);

#endif
