#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/quoted.h"
#include "client/session/register.h"
#include "format/arena/sized_blob.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOB_GROUP "blobs"

struct blob {
	void *data;
	size_t bytes;
	int device;
	bool sized; /* data is the library's, and goes to the table */
};

static int fill_blob(const ckpt *s, const char *name, ckpt_scope scope, const struct blob *b, struct entry *e,
		     struct held *held, struct err *err)
{
	*e = (struct entry){.kind = scope == CKPT_SCOPE_JOB ? ENTRY_JOB_BLOB : ENTRY_RANK_BLOB,
			    .dtype = DTYPE_U8,
			    .sized = b->sized,
			    .shape = {.ndim = 1, .dim = {b->bytes}},
			    .group = BLOB_GROUP};
	*held = (struct held){.device = b->device, .own = b->sized ? b->data : NULL};
	int n = scope == CKPT_SCOPE_JOB ? asprintf(&e->name, "%s", name)
					: asprintf(&e->name, RANK_BLOB_NAME, name, s->settings.rank);
	if (n < 0) {
		e->name = NULL;
		return err_set(err, -ENOMEM, "no memory for a name");
	}
	return entry_add_pieces(e, held, &(ckpt_piece){.data = b->data}, 1, err);
}

static int check_blob(const ckpt *s, const char *name, ckpt_scope scope, const struct blob *b, struct err *err)
{
	if (!name)
		return err_set(err, -EINVAL, "the name of the blob is NULL");
	if (scope != CKPT_SCOPE_JOB && scope != CKPT_SCOPE_RANK)
		return err_set(err, -EINVAL, "blob %s: scope %d is neither CKPT_SCOPE_JOB nor CKPT_SCOPE_RANK",
			       quoted(name).text, (int)scope);
	int rc = name_check_blob(name, scope == CKPT_SCOPE_RANK, err);
	if (rc)
		return rc;
	if (!b->data)
		return err_set(err, -EINVAL, "blob %s: its data is NULL", quoted(name).text);
	if (!b->bytes)
		return err_set(err, -EINVAL, "blob %s has 0 bytes: leave it out", quoted(name).text);
	if (b->bytes > INT64_MAX / 16)
		return err_set(err, -EOVERFLOW, "blob %s: %zu bytes are too many", quoted(name).text, b->bytes);
	rc = register_check_device(s, b->device, err);
	return rc ? err_prefix(err, rc, "blob %s", quoted(name).text) : 0;
}

/* A blob of changing size gives its memory away in any case. */
static int register_blob(ckpt *s, const char *name, ckpt_scope scope, const struct blob *b, struct err *err)
{
	struct entry e = {0};
	struct held held = {0};
	int rc = fill_blob(s, name, scope, b, &e, &held, err);
	if (!rc)
		rc = register_entry(s, &e, &held, err);
	if (rc) {
		entry_drop(&e, &held);
		return err_prefix(err, rc, "blob %s", quoted(name).text);
	}
	return 0;
}

int ckpt_register_device_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes, int device)
{
	struct err err = {0};
	const struct blob blob = {data, bytes, device, false};
	int rc = register_check_open(s, &err);
	if (!rc)
		rc = check_blob(s, name, scope, &blob, &err);
	if (!rc)
		rc = register_blob(s, name, scope, &blob, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}

int ckpt_register_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes)
{
	return ckpt_register_device_blob(s, name, scope, data, bytes, CKPT_HOST);
}

/* ---- of changing size -------------------------------------------------------------------------------------------- */

static int register_sized(ckpt *s, const char *name, ckpt_scope scope, size_t most, struct err *err)
{
	struct blob blob = {.data = (void *)name, .bytes = most, .device = CKPT_HOST, .sized = true};
	int rc = register_check_open(s, err);
	if (!rc)
		rc = check_blob(s, name, scope, &blob, err);
	if (rc)
		return rc;
	blob.bytes = most + SIZED_HEAD;
	blob.data = calloc(1, blob.bytes);
	if (!blob.data)
		return err_set(err, -ENOMEM, "blob %s: no memory for %zu bytes", quoted(name).text, most);
	return register_blob(s, name, scope, &blob, err);
}

int ckpt_register_sized_blob(ckpt *s, const char *name, ckpt_scope scope, size_t most)
{
	struct err err = {0};
	int rc = register_sized(s, name, scope, most, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}

/* Its memory, and the bytes that it has room for. With the save lock held: a join in another thread may end the registration. */
static int find_sized(ckpt *s, const char *name, uint8_t **own, uint64_t *room, struct err *err)
{
	if (!name)
		return err_set(err, -EINVAL, "the name of the blob is NULL");
	int64_t at = table_find_own(&s->table, name);
	if (at < 0)
		return err_set(err, -ENOENT, "nothing is registered as %s", quoted(name).text);
	*own = s->table.held[at].own;
	*room = s->table.reg.entries[at].shape.dim[0] - SIZED_HEAD;
	return *own ? 0
		    : err_set(err, -EINVAL, "%s is no blob of changing size: ckpt_register_sized_blob makes one",
			      quoted(name).text);
}

static int set_blob(ckpt *s, const char *name, const void *data, size_t bytes, struct err *err)
{
	uint8_t *own;
	uint64_t room;
	LOCK_SCOPE(&s->save);
	int rc = find_sized(s, name, &own, &room, err);
	if (rc)
		return rc;
	if (bytes && !data)
		return err_set(err, -EINVAL, "blob %s: its data is NULL", quoted(name).text);
	if (bytes > room)
		return err_set(err, -ENOSPC, "blob %s: %zu bytes are more than the %" PRIu64 " that were registered",
			       quoted(name).text, bytes, room);
	if (save_is_open(s))
		return err_set(err, -EBUSY, "blob %s: a save reads it until its fence: set it before ckpt_begin",
			       quoted(name).text);
	uint64_t former = min_u64(sized_length(own), room);
	if (bytes)
		memcpy(own + SIZED_HEAD, data, bytes);
	if (former > bytes)
		memset(own + SIZED_HEAD + bytes, 0, former - bytes);
	sized_set_length(own, bytes);
	return 0;
}

int ckpt_set_blob(ckpt *s, const char *name, const void *data, size_t bytes)
{
	struct err err = {0};
	int rc = session_check(s, &err);
	if (!rc)
		rc = set_blob(s, name, data, bytes, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}

static int get_blob(ckpt *s, const char *name, void *data, size_t room, uint64_t *bytes, struct err *err)
{
	uint8_t *own;
	uint64_t most;
	LOCK_SCOPE(&s->save);
	int rc = find_sized(s, name, &own, &most, err);
	if (rc)
		return rc;
	*bytes = sized_length(own);
	if (*bytes > most)
		return err_set(err, -EBADMSG, "blob %s says that it has %" PRIu64 " bytes, in a room of %" PRIu64,
			       quoted(name).text, *bytes, most);
	if (data && *bytes > room)
		return err_set(err, -ENOSPC, "blob %s has %" PRIu64 " bytes, and there is room for %zu",
			       quoted(name).text, *bytes, room);
	if (data && *bytes)
		memcpy(data, own + SIZED_HEAD, *bytes);
	return 0;
}

int64_t ckpt_get_blob(ckpt *s, const char *name, void *data, size_t room)
{
	struct err err = {0};
	uint64_t bytes;
	int rc = session_check(s, &err);
	if (!rc)
		rc = get_blob(s, name, data, room, &bytes, &err);
	return rc ? session_fail(s, rc, &err) : (int64_t)bytes;
}
