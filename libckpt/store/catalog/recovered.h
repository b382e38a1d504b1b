/* Recoveries that were noted: a table in the catalog. The daemon of each node writes its own, whoever asks for them reads them all. A row
 * is a JSON object as the daemon's status shows it (docs/reference/cli-watch.md); nobody vouches for it. */
#ifndef CKPT_STORE_RECOVERED_H
#define CKPT_STORE_RECOVERED_H

#include "format/tensor/names.h"

#include <stddef.h>
#include <stdint.h>

enum { RECOVERED_MAX = 1000, RECOVERED_JSON_MAX = 64 << 10 };

struct sqlite3;

struct recovered {
	char job[NAME_JOB_MAX], node[NAME_NODE_MAX];
	uint64_t at_ns;
	char *json;
};

struct recovered_list {
	struct recovered *list;
	size_t n;
};

/* Makes the table where it is missing. 0 or -EIO. */
int recovered_prepare(struct sqlite3 *db);
/* Of the job (NULL: of all), the oldest first, at most RECOVERED_MAX. 0, or -ENOENT: there is no catalog that has any such table, -EIO: it
 * could not be read to its end; *out has what came in any case. -ENOMEM. */
int recovered_read(const char *store, const char *job, struct recovered_list *out);
void recovered_free(struct recovered_list *list);

#endif
