/* Files that are copied beside what is exported: a model of Hugging Face is no model without its config.json and tokenizer. */
#ifndef CKPT_CLI_BESIDE_H
#define CKPT_CLI_BESIDE_H

#include "frame/command.h"

#include "base/err.h"

#include <stddef.h>

struct beside_file {
	char *path;
	const char *name; /* in path: its last part, under which it is copied */
};

struct beside {
	struct beside_file *files;
	size_t n;
	uint64_t bytes;
};

/* What the options --with name, each a file or a directory of files, looked at before anything is written. EXIT_OK, or a code with
 * the message printed: two of one name, a name that readers take for tensors, nothing to copy. To be freed in any case. */
int beside_read(const struct cli *cli, struct beside *beside);
/* Copies and syncs them into the directory. -EEXIST: a name is taken; -ECANCELED: by an interrupt. */
int beside_copy(const struct beside *beside, int dir, struct err *err);
void beside_free(struct beside *beside);

#endif
