/* A recovery as it stands in the status and in the catalog (docs/reference/cli-watch.md). */
#ifndef CKPTD_RESTORE_RECOVERY_JSON_H
#define CKPTD_RESTORE_RECOVERY_JSON_H

#include <jansson.h>

struct roster;
struct recovery_record;

/* NULL: no memory. */
json_t *recovery_json(const struct roster *roster, const struct recovery_record *r);
/* On one line; to be freed. NULL: no memory. */
char *recovery_text(const struct roster *roster, const struct recovery_record *r);

#endif
