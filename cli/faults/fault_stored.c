/* Bits that flip in a checkpoint on storage. */
#include "faults/fault_request.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "frame/contact.h"
#include "frame/output.h"
#include "store/read/repo.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)

/* Where the store is: as asked, or as the daemon says. */
static int store_of(const struct fault_request *q, char path[PATH_MAX], struct err *err)
{
	json_t *doc;
	snprintf(path, PATH_MAX, "%s", q->store ? q->store : "");
	if (q->store)
		return 0;
	int rc = contact_status(q->socket, q->user, clock_deadline(ASK_NS), &doc, err);
	if (rc)
		return rc;
	const char *store = json_string_value(json_object_get(doc, "store"));
	snprintf(path, PATH_MAX, "%s", store ? store : "");
	json_decref(doc);
	return *path ? 0 : err_set(err, -ENOENT, "the daemon has no store");
}

/* The newest committed one of that step that can be read: of what a former flip has damaged nothing more is to be found. */
static int open_checkpoint(const struct fault_request *q, struct repo *repo, const char *job, struct checkpoint *ck,
			   struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	int opened = -ENOENT, rc = repo_scan(repo, job, &refs, &n, err);
	for (; !rc && opened && n; n--) {
		const struct checkpoint_ref *ref = &refs[n - 1];
		if (ref->state == CHECKPOINT_COMMITTED && (q->step == UINT64_MAX || ref->id.step == q->step))
			opened = checkpoint_open(repo, job, ref->id, ck, err);
	}
	if (rc || opened != -ENOENT)
		return rc ? rc : opened;
	return q->step == UINT64_MAX
		       ? err_set(err, -ENOENT, "job %s has no checkpoint on storage", job)
		       : err_set(err, -ENOENT, "job %s has no checkpoint of step %lu", job, (unsigned long)q->step);
}

/* Name of the file, and where a flip counts in it: [*from, size). */
static int choose_file(const struct fault_request *q, const struct checkpoint *ck, uint64_t *random,
		       char name[NAME_FILE_MAX], uint64_t *from, struct err *err)
{
	uint64_t n = 0;
	*from = 0;
	snprintf(name, NAME_FILE_MAX, "%s", NAME_MANIFEST);
	if (q->entry->kind == FAULT_FLIP_MANIFEST)
		return 0;
	for (uint32_t i = 0; i < ck->nnodes; i++)
		n += ck->nodes[i].nfiles;
	if (!n)
		return err_set(err, -ENOENT, "the checkpoint has no data files");
	n = random_next(random) % n;
	for (uint32_t i = 0; i < ck->nnodes; n -= ck->nodes[i++].nfiles) {
		if (n >= ck->nodes[i].nfiles)
			continue;
		const struct manifest_file *file = &ck->nodes[i].files[n];
		bool sidecar = q->entry->kind == FAULT_FLIP_SIDECAR;
		snprintf(name, NAME_FILE_MAX, "%s", sidecar ? file->sidecar_name : file->name);
		*from = sidecar || file->packed.index_size ? 0 : file->data_at;
		return 0;
	}
	return err_set(err, -ENOENT, "the checkpoint has no data files");
}

static int flip(int fd, uint64_t at, unsigned bit)
{
	uint8_t was, is;
	if (pread(fd, &was, 1, (off_t)at) != 1)
		return errno ? -errno : -EIO;
	was ^= (uint8_t)(1u << bit);
	if (pwrite(fd, &was, 1, (off_t)at) != 1 || fsync(fd) < 0 || pread(fd, &is, 1, (off_t)at) != 1)
		return errno ? -errno : -EIO;
	return is == was ? 0 : -EIO;
}

static int flip_in(const char *path, uint64_t from, uint64_t *random, uint64_t *at, unsigned *bit, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = -errno;
		return err_set(err, rc, "%s: %s", path, err_name(rc));
	}
	if ((uint64_t)st.st_size <= from)
		return err_set(err, -ENOENT, "%s has no data", path);
	*at = from + random_next(random) % ((uint64_t)st.st_size - from);
	*bit = (unsigned)(random_next(random) % 8);
	errno = 0;
	int rc = flip(fd, *at, *bit);
	return rc ? err_set(err, rc, "%s, byte %lu: %s", path, (unsigned long)*at, err_name(rc)) : 0;
}

static int flip_stored(const struct fault_request *q, struct repo *repo, const char *job, char text[WIRE_REASON_MAX],
		       struct err *err)
{
	char name[NAME_FILE_MAX], dir[NAME_DIR_MAX], path[PATH_MAX];
	struct checkpoint ck;
	uint64_t random = q->seed, from, at = 0;
	unsigned bit = 0;
	int rc = open_checkpoint(q, repo, job, &ck, err);
	if (rc)
		return rc;
	struct step_id id = ck.ref.id;
	rc = choose_file(q, &ck, &random, name, &from, err);
	checkpoint_close(&ck);
	if (rc)
		return rc;
	name_dir(id, dir);
	if (snprintf(path, sizeof(path), "%s/%s/%s/%s", repo->path, job, dir, name) >= (int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, "the path of %s is too long", name);
	rc = flip_in(path, from, &random, &at, &bit, err);
	snprintf(text, WIRE_REASON_MAX, "bit %u of byte %lu of %s of step %lu of epoch %u flipped", bit,
		 (unsigned long)at, name, (unsigned long)id.step, id.epoch);
	return rc;
}

int fault_flip_stored(const struct fault_request *q, const char *job, char text[WIRE_REASON_MAX], struct err *err)
{
	char path[PATH_MAX];
	struct repo repo;
	int rc = store_of(q, path, err);
	if (!rc)
		rc = repo_open(path, &repo, err);
	if (rc)
		return rc;
	rc = flip_stored(q, &repo, job, text, err);
	repo_close(&repo);
	return rc;
}
