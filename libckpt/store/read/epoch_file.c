#include "store/read/epoch_file.h"

#include "base/cleanup.h"
#include "format/tensor/names.h"
#include "store/read/repo.h"

#include <errno.h>

static int read_in(struct repo *repo, int dir, struct begun *begun, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len = 0;
	int rc = disk_read_file(repo->disk, dir, NAME_EPOCH, BEGUN_BYTES_MAX, &text, &len, err);
	if (rc == -ENOENT)
		return 0;
	return rc ? rc : begun_decode(text, len, begun, err);
}

int epoch_file_read(struct repo *repo, const char *job, struct begun *begun, struct err *err)
{
	*begun = (struct begun){0};
	int dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_set(err, dir, "cannot open %s/%s: %s", repo->path, job, err_name(dir));
	int rc = read_in(repo, dir, begun, err);
	disk_close_file(repo->disk, dir);
	return rc ? err_prefix(err, rc, "%s/%s/" NAME_EPOCH, repo->path, job) : 0;
}
