#include "change/beside.h"

#include "frame/output.h"
#include "frame/progress.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_SIZE ((size_t)1 << 20)

/* ---- which files ----------------------------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);
	return n >= m && !strcmp(name + n - m, end);
}

/* All names that an export writes are of this kind. Others of it would be taken for tensors that belong to them. */
static bool holds_tensors(const char *name)
{
	return ends_in(name, ".safetensors") || ends_in(name, ".safetensors.index.json") || ends_in(name, ".ckptz");
}

/* Opened without waiting for a writer of a pipe. A link is followed: caches of models are full of them. */
static int open_source(const char *path, struct stat *st, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", path, err_name(errno));
	int rc = fstat(fd, st) < 0 ? -errno : S_ISREG(st->st_mode) ? 0 : -EINVAL;
	if (!rc)
		return fd;
	close(fd);
	return err_set(err, rc, "%s is %s: only files are copied", path,
		       S_ISDIR(st->st_mode) ? "a directory" : "no file");
}

/* Takes the path. */
static int add(struct beside *b, char *path, struct err *err)
{
	struct stat st;
	const char *slash = path ? strrchr(path, '/') : NULL;
	struct beside_file *grown = path ? reallocarray(b->files, b->n + 1, sizeof(*grown)) : NULL;
	if (!grown) {
		free(path);
		return err_set(err, -ENOMEM, "out of memory");
	}
	b->files = grown;
	const struct beside_file *f = &b->files[b->n++];
	b->files[b->n - 1] = (struct beside_file){path, slash ? slash + 1 : path};
	if (holds_tensors(f->name))
		return err_set(err, -EEXIST,
			       "%s would be taken for a part of what is exported: name the files that are wanted",
			       path);
	for (size_t i = 0; i + 1 < b->n; i++)
		if (!strcmp(b->files[i].name, f->name))
			return err_set(err, -EEXIST, "%s and %s have one name", b->files[i].path, path);
	int fd = open_source(path, &st, err);
	if (fd < 0)
		return fd;
	close(fd);
	b->bytes += (uint64_t)st.st_size;
	return 0;
}

/* What begins with a dot is of tools (.git, .cache), not of the model. */
static int add_entries(struct beside *b, DIR *d, const char *path, struct err *err)
{
	size_t before = b->n;
	for (struct dirent *e; (e = readdir(d));) {
		char *file;
		if (e->d_name[0] == '.')
			continue;
		if (asprintf(&file, "%s/%s", path, e->d_name) < 0)
			file = NULL;
		int rc = add(b, file, err);
		if (rc < 0)
			return rc;
	}
	return b->n > before ? 0 : err_set(err, -ENOENT, "%s has no files", path);
}

static int add_named(struct beside *b, const char *path, struct err *err)
{
	AUTO_CLOSEDIR DIR *d = opendir(path);
	if (d)
		return add_entries(b, d, path, err);
	if (errno != ENOTDIR)
		return err_set(err, -errno, "cannot open %s: %s", path, err_name(errno));
	return add(b, strdup(path), err);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct beside_file *)a)->name, ((const struct beside_file *)b)->name);
}

int beside_read(const struct cli *cli, struct beside *beside)
{
	struct err err = {0};
	const char *path;
	*beside = (struct beside){0};
	for (int i = 0; (path = cli_repeat(cli, "with", i)); i++)
		if (add_named(beside, path, &err) < 0)
			return cli_fail(cli, EXIT_FAILED, "--with: %s", err.text);
	if (beside->n)
		qsort(beside->files, beside->n, sizeof(*beside->files), by_name);
	return EXIT_OK;
}

void beside_free(struct beside *beside)
{
	for (size_t i = 0; i < beside->n; i++)
		free(beside->files[i].path);
	free(beside->files);
	*beside = (struct beside){0};
}

/* ---- the copy -------------------------------------------------------------------------------------------------------- */

static int put(int fd, const char *name, const char *data, size_t len, struct err *err)
{
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? -errno : -EIO, "writing %s: %s", name,
				       err_name(n < 0 ? errno : EIO));
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int copy_data(int from, int to, const struct beside_file *f, char *buffer, struct err *err)
{
	for (;;) {
		if (cli_interrupted())
			return err_set(err, -ECANCELED, "cancelled while %s was copied", f->name);
		ssize_t n = read(from, buffer, COPY_SIZE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "reading %s: %s", f->path, err_name(errno));
		int rc = n ? put(to, f->name, buffer, (size_t)n, err) : 0;
		if (rc < 0)
			return rc;
		if (!n)
			return fsync(to) < 0 ? err_set(err, -errno, "syncing %s: %s", f->name, err_name(errno)) : 0;
	}
}

static int copy_one(const struct beside_file *f, int dir, char *buffer, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int from = open_source(f->path, &st, err);
	if (from < 0)
		return from;
	AUTO_CLOSE int to = openat(dir, f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (to < 0)
		return err_set(err, -errno, "cannot create %s: %s", f->name, err_name(errno));
	return copy_data(from, to, f, buffer, err);
}

int beside_copy(const struct beside *beside, int dir, struct err *err)
{
	AUTO_FREE char *buffer = beside->n ? malloc(COPY_SIZE) : NULL;
	if (beside->n && !buffer)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = 0;
	for (size_t i = 0; i < beside->n && !rc; i++)
		rc = copy_one(&beside->files[i], dir, buffer, err);
	return rc;
}
