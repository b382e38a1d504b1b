/* One checkpoint's chain of documents: MANIFEST.json → node manifests → sidecars. */
#include "store/read/repo.h"

#include "base/cleanup.h"
#include "format/files/sidecar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What reading a document that must be there says of the checkpoint: missing, oversized, a link or a pipe in its place is
 * damage; the rest (EIO, EACCES, ENOMEM) is trouble of the machine. */
static int as_damage(int rc)
{
	switch (rc) {
	case -ENOENT:
	case -EFBIG:
	case -EINVAL:
	case -ELOOP:
	case -EISDIR:
	case -EAGAIN:
		return -EBADMSG;
	default:
		return rc;
	}
}

static int open_named(struct repo *repo, const char *job, const char *name, struct err *err)
{
	int rc = name_check("job", job, NAME_JOB_MAX, err);
	if (rc < 0)
		return rc;
	int job_dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (job_dir < 0)
		return err_set(err, job_dir, "cannot open %s/%s: %s", repo->path, job, err_name(job_dir));
	int dir = disk_open_at(repo->disk, job_dir, name, DISK_DIR);
	disk_close_file(repo->disk, job_dir);
	return dir < 0 ? err_set(err, dir, "cannot open %s/%s/%s: %s", repo->path, job, name, err_name(dir)) : dir;
}

static int open_dir(struct repo *repo, const char *job, struct step_id id, struct err *err)
{
	char name[NAME_DIR_MAX];
	name_dir(id, name);
	return open_named(repo, job, name, err);
}

/* The document must say that it is of this checkpoint: a copy from another place is not. */
static int check_identity(const struct checkpoint *ck, const char *document, const char *job, struct step_id id,
			  struct err *err)
{
	char is[NAME_DIR_MAX], wanted[NAME_DIR_MAX];
	if (!strcmp(job, ck->ref.job) && !step_compare(id, ck->ref.id))
		return 0;
	name_dir(id, is);
	name_dir(ck->ref.id, wanted);
	return err_set(err, -EBADMSG, "%s is that of %s/%s, not of %s/%s", document, job, is, ck->ref.job, wanted);
}

static int take_root(struct checkpoint *ck, const void *text, size_t len, struct err *err)
{
	int rc = manifest_decode(text, len, &ck->manifest, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s", NAME_MANIFEST);
	rc = check_identity(ck, NAME_MANIFEST, ck->manifest.job, ck->manifest.id, err);
	if (rc < 0)
		return rc;
	ck->nodes = calloc(ck->manifest.nnodes ? ck->manifest.nnodes : 1, sizeof(*ck->nodes));
	if (!ck->nodes)
		return err_set(err, -ENOMEM, "no memory for %u node manifests", ck->manifest.nnodes);
	ck->nnodes = ck->manifest.nnodes;
	return 0;
}

static int load_root(struct checkpoint *ck, struct err *err)
{
	struct disk *disk = ck->repo->disk;
	AUTO_FREE void *text = NULL;
	struct disk_stat st;
	size_t len;
	int rc = disk_stat_at(disk, ck->dir, NAME_MANIFEST, &st);
	if (rc == -ENOENT)
		return err_set(err, rc, "was never committed: it has no %s", NAME_MANIFEST);
	if (!rc)
		rc = disk_read_file(disk, ck->dir, NAME_MANIFEST, MANIFEST_BYTES_MAX, &text, &len, err);
	if (rc < 0)
		return as_damage(rc);
	ck->ref.committed_ns = st.mtime_ns;
	return take_root(ck, text, len, err);
}

static int name_checkpoint(const char *job, struct step_id id, int rc, struct err *err)
{
	char name[NAME_DIR_MAX];
	name_dir(id, name);
	return err_prefix(err, rc, "%s/%s", job, name);
}

static int open_with(struct repo *repo, const char *job, const char *name, struct step_id id, const struct wbuf *root,
		     struct checkpoint *ck, struct err *err)
{
	*ck = (struct checkpoint){.repo = repo, .dir = -1};
	int dir = open_named(repo, job, name, err);
	if (dir < 0)
		return dir;
	ck->dir = dir;
	ck->ref = (struct checkpoint_ref){.id = id, .state = CHECKPOINT_COMMITTED};
	memcpy(ck->ref.job, job, strlen(job) + 1);
	int rc = root ? take_root(ck, root->data, root->len, err) : load_root(ck, err);
	if (rc < 0) {
		checkpoint_close(ck);
		return name_checkpoint(job, id, rc, err);
	}
	return 0;
}

int checkpoint_open_root(struct repo *repo, const char *job, struct step_id id, struct checkpoint *ck, struct err *err)
{
	char name[NAME_DIR_MAX];
	name_dir(id, name);
	return open_with(repo, job, name, id, NULL, ck, err);
}

int checkpoint_open_unnamed(struct repo *repo, const char *job, const char *name, struct step_id id,
			    const struct wbuf *manifest, struct checkpoint *ck, struct err *err)
{
	return open_with(repo, job, name, id, manifest, ck, err);
}

bool checkpoint_gone(struct repo *repo, const char *job, struct step_id id)
{
	struct checkpoint ck;
	int rc = checkpoint_open_root(repo, job, id, &ck, NULL);
	if (!rc)
		checkpoint_close(&ck);
	return rc == -ENOENT;
}

static int check_node(const struct checkpoint *ck, const struct manifest_node *entry, const struct node_manifest *node,
		      struct err *err)
{
	int rc = check_identity(ck, entry->file, node->job, node->id, err);
	if (rc < 0)
		return rc;
	if (strcmp(node->node, entry->name))
		return err_set(err, -EBADMSG, "%s is of node %s, not %s", entry->file, node->node, entry->name);
	if (node->world != ck->manifest.world)
		return err_set(err, -EBADMSG, "%s has a world of %u ranks, %s one of %u", entry->file, node->world,
			       NAME_MANIFEST, ck->manifest.world);
	return 0;
}

int checkpoint_load_node(struct checkpoint *ck, uint32_t index, struct err *err)
{
	const struct manifest_node *entry = &ck->manifest.nodes[index];
	struct node_manifest *node = &ck->nodes[index];
	AUTO_FREE void *text = NULL;
	size_t len;
	int rc = disk_read_file(ck->repo->disk, ck->dir, entry->file, entry->size, &text, &len, err);
	if (rc < 0)
		return as_damage(rc);
	if (len != entry->size)
		return err_set(err, -EBADMSG, "%s has %zu bytes instead of %" PRIu64, entry->file, len, entry->size);
	if (!digest_equal(digest_bytes(text, len), entry->digest))
		return err_set(err, -EBADMSG, "%s is damaged: its digest is not the one in %s", entry->file,
			       NAME_MANIFEST);
	rc = node_manifest_decode(text, len, node, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s", entry->file);
	rc = check_node(ck, entry, node, err);
	if (rc < 0)
		node_manifest_free(node);
	return rc;
}

int checkpoint_check_totals(const struct checkpoint *ck, struct err *err)
{
	const struct manifest *m = &ck->manifest;
	uint64_t bytes = 0, stored = 0, files = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		files += ck->nodes[i].nfiles;
		for (uint32_t f = 0; f < ck->nodes[i].nfiles; f++) {
			bytes += ck->nodes[i].files[f].size;
			stored += manifest_stored(&ck->nodes[i].files[f]);
		}
	}
	if (bytes != m->bytes || files != m->files)
		return err_set(err, -EBADMSG,
			       "%s says %" PRIu64 " files of %" PRIu64 " bytes, its node manifests %" PRIu64
			       " of %" PRIu64,
			       NAME_MANIFEST, m->files, m->bytes, files, bytes);
	if (stored != m->stored)
		return err_set(err, -EBADMSG,
			       "%s says that its files take %" PRIu64 " bytes, its node manifests %" PRIu64,
			       NAME_MANIFEST, m->stored, stored);
	return 0;
}

int checkpoint_open(struct repo *repo, const char *job, struct step_id id, struct checkpoint *ck, struct err *err)
{
	int rc = checkpoint_open_root(repo, job, id, ck, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < ck->nnodes && !rc; i++)
		rc = checkpoint_load_node(ck, i, err);
	if (!rc)
		rc = checkpoint_check_totals(ck, err);
	if (rc < 0) {
		checkpoint_close(ck);
		return name_checkpoint(job, id, rc, err);
	}
	return 0;
}

void checkpoint_close(struct checkpoint *ck)
{
	for (uint32_t i = 0; i < ck->nnodes; i++)
		node_manifest_free(&ck->nodes[i]);
	free(ck->nodes);
	manifest_free(&ck->manifest);
	if (ck->repo && ck->dir >= 0)
		disk_close_file(ck->repo->disk, ck->dir);
	*ck = (struct checkpoint){.dir = -1};
}

int checkpoint_share(const struct checkpoint *ck, struct repo *repo, struct checkpoint *out, struct err *err)
{
	int dir = open_dir(repo, ck->ref.job, ck->ref.id, err);
	if (dir < 0)
		return dir;
	*out = *ck;
	out->repo = repo;
	out->dir = dir;
	return 0;
}

void checkpoint_unshare(struct checkpoint *ck)
{
	disk_close_file(ck->repo->disk, ck->dir);
	*ck = (struct checkpoint){.dir = -1};
}

/* ---- sidecars */

static int match_piece(const struct manifest_file *file, const struct sidecar *sc, uint32_t i, struct err *err)
{
	const struct manifest_piece *wanted = &file->pieces[i];
	const struct sidecar_piece *piece = &sc->pieces[i];
	if (piece->at == wanted->at && piece->bytes == wanted->bytes)
		return 0;
	return err_set(err, -EBADMSG,
		       "%s: piece %u is [%" PRIu64 ", +%" PRIu64 "), the node manifest says [%" PRIu64 ", +%" PRIu64
		       ")",
		       file->sidecar_name, i, piece->at, piece->bytes, wanted->at, wanted->bytes);
}

/* That the sidecar speaks of the file as the node manifest does. */
static int match_sidecar(const struct manifest_file *file, const struct sidecar *sc, struct err *err)
{
	if (sc->data_at != file->data_at || sc->data_size != file->size - file->data_at)
		return err_set(
			err, -EBADMSG,
			"%s: data at %" PRIu64 " of %" PRIu64 " bytes, the node manifest says %" PRIu64 " of %" PRIu64,
			file->sidecar_name, sc->data_at, sc->data_size, file->data_at, file->size - file->data_at);
	if (sc->npieces != file->npieces)
		return err_set(err, -EBADMSG, "%s: %" PRIu64 " pieces, the node manifest says %u", file->sidecar_name,
			       sc->npieces, file->npieces);
	for (uint32_t i = 0; i < file->npieces; i++) {
		int rc = match_piece(file, sc, i, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int checkpoint_check_size(struct checkpoint *ck, const struct manifest_file *file, uint64_t *size, struct err *err)
{
	struct disk_stat st;
	*size = 0;
	int rc = disk_stat_at(ck->repo->disk, ck->dir, file->name, &st);
	if (rc == -ENOENT)
		return err_set(err, -EBADMSG, "%s is missing", file->name);
	if (rc < 0)
		return err_set(err, rc, "%s: %s", file->name, err_name(rc));
	*size = st.size;
	if (st.size != manifest_stored(file))
		return err_set(err, -EBADMSG, "%s has %" PRIu64 " bytes instead of %" PRIu64, file->name, st.size,
			       manifest_stored(file));
	return 0;
}

int checkpoint_load_sidecar(struct checkpoint *ck, const struct manifest_file *file, struct sidecar *sc,
			    struct err *err)
{
	*sc = (struct sidecar){0};
	AUTO_FREE void *data = NULL;
	size_t len;
	int rc = disk_read_file(ck->repo->disk, ck->dir, file->sidecar_name, file->sidecar_size, &data, &len, err);
	if (rc < 0)
		return as_damage(rc);
	if (len != file->sidecar_size)
		return err_set(err, -EBADMSG, "%s has %zu bytes instead of %" PRIu64, file->sidecar_name, len,
			       file->sidecar_size);
	if (!digest_equal(digest_bytes(data, len), file->sidecar))
		return err_set(err, -EBADMSG, "%s is damaged: its digest is not the one in the node manifest",
			       file->sidecar_name);
	rc = sidecar_decode(data, len, sc, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s", file->sidecar_name);
	rc = match_sidecar(file, sc, err);
	if (rc < 0)
		sidecar_free(sc);
	return rc;
}

int checkpoint_sidecar(struct checkpoint *ck, const struct manifest_file *file, struct sidecar *sc, struct err *err)
{
	uint64_t size;
	*sc = (struct sidecar){0};
	int rc = checkpoint_check_size(ck, file, &size, err);
	return rc < 0 ? rc : checkpoint_load_sidecar(ck, file, sc, err);
}

/* ---- marks */

static int read_mark(const struct checkpoint *ck, const char *name, void **text, size_t *len, struct err *err)
{
	struct disk_stat st;
	int rc = disk_stat_at(ck->repo->disk, ck->dir, name, &st);
	if (rc < 0)
		return err_set(err, rc, "%s: %s", name, err_name(rc));
	return as_damage(disk_read_file(ck->repo->disk, ck->dir, name, MARK_BYTES_MAX, text, len, err));
}

/* What a decoder says, with the file that it is said of. */
static int in_document(const char *name, int rc, struct err *err)
{
	return rc < 0 ? err_prefix(err, rc, "%s", name) : rc;
}

int checkpoint_health(const struct checkpoint *ck, struct health *health, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len;
	int rc = read_mark(ck, NAME_HEALTH, &text, &len, err);
	if (!rc)
		rc = in_document(NAME_HEALTH, health_decode(text, len, health, err), err);
	return rc < 0 ? rc : check_identity(ck, NAME_HEALTH, health->job, health->id, err);
}

int checkpoint_health_mark(const struct checkpoint *ck, struct health_mark *mark, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len;
	int rc = read_mark(ck, NAME_HEALTH_MARK, &text, &len, err);
	if (!rc)
		rc = in_document(NAME_HEALTH_MARK, health_mark_decode(text, len, mark, err), err);
	return rc < 0 ? rc : check_identity(ck, NAME_HEALTH_MARK, mark->job, mark->id, err);
}

int checkpoint_pin(const struct checkpoint *ck, struct pin *pin, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len;
	int rc = read_mark(ck, NAME_PINNED, &text, &len, err);
	if (!rc)
		rc = in_document(NAME_PINNED, pin_decode(text, len, pin, err), err);
	return rc < 0 ? rc : check_identity(ck, NAME_PINNED, pin->job, pin->id, err);
}

static int put_mark(struct repo *repo, const char *job, struct step_id id, const char *name, const struct wbuf *text,
		    struct err *err)
{
	if (wbuf_finish(text) < 0)
		return err_set(err, -ENOMEM, "no memory for %s", name);
	int dir = open_dir(repo, job, id, err);
	if (dir < 0)
		return dir;
	int rc = disk_put_file(repo->disk, dir, name, text->data, text->len, true, err);
	disk_close_file(repo->disk, dir);
	return rc;
}

int checkpoint_put_health(struct repo *repo, const struct health *health, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	health_encode(health, &text);
	return put_mark(repo, health->job, health->id, NAME_HEALTH, &text, err);
}

static bool say_the_same(const struct health_mark *a, const struct health_mark *b)
{
	return a->unhealthy == b->unhealthy && !strcmp(a->reason, b->reason);
}

int checkpoint_put_health_mark(struct repo *repo, const struct health_mark *mark, bool old, struct err *err)
{
	struct checkpoint ck;
	struct health_mark there;
	AUTO_WBUF struct wbuf text = {0};
	int rc = checkpoint_open_root(repo, mark->job, mark->id, &ck, err);
	if (rc)
		return rc;
	bool stands = !checkpoint_health_mark(&ck, &there, NULL);
	if (stands && old && there.given_at > mark->given_at) {
		rc = err_set(err, -EEXIST, "a later one stands there");
	} else if (!stands || !say_the_same(&there, mark)) {
		health_mark_encode(mark, &text);
		rc = put_mark(repo, mark->job, mark->id, NAME_HEALTH_MARK, &text, err);
	}
	checkpoint_close(&ck);
	return rc;
}

int checkpoint_put_pin(struct repo *repo, const struct pin *pin, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	pin_encode(pin, &text);
	return put_mark(repo, pin->job, pin->id, NAME_PINNED, &text, err);
}

int checkpoint_drop_pin(struct repo *repo, const char *job, struct step_id id, struct err *err)
{
	int dir = open_dir(repo, job, id, err);
	if (dir < 0)
		return dir;
	int rc = disk_remove_file(repo->disk, dir, NAME_PINNED, err);
	disk_close_file(repo->disk, dir);
	return rc;
}
