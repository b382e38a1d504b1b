/* The file EPOCH of a job in a store: the last epoch that was recorded there, and what goes with it (format/files/marks.h). */
#ifndef CKPT_STORE_EPOCH_FILE_H
#define CKPT_STORE_EPOCH_FILE_H

#include "base/err.h"
#include "format/files/marks.h"

struct repo;

/* To be freed with begun_free. Where there is no such job or file, *begun is empty and 0 is returned. */
int epoch_file_read(struct repo *repo, const char *job, struct begun *begun, struct err *err);

#endif
