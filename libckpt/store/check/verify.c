#include "store/check/verify_private.h"

#include "store/check/cover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void verify_find(struct verify_run *run, const char *file, const char *tensor, uint64_t from, uint64_t to,
		 const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	run->result->findings++;
	if (run->opts->finding)
		run->opts->finding(run->opts->arg, file, tensor, from, to, text);
}

int verify_advance(struct verify_run *run, uint64_t bytes)
{
	run->done += bytes;
	run->result->bytes += bytes;
	if (!run->opts->progress || !run->opts->progress(run->opts->arg, run->done, run->total))
		return 0;
	return err_set(run->err, -ECANCELED, "cancelled after %" PRIu64 " of %" PRIu64 " bytes", run->done, run->total);
}

static const char *without(const char *text, const char *name)
{
	size_t len = strlen(name);
	return !strncmp(text, name, len) && !strncmp(text + len, ": ", 2) ? text + len + 2 : text;
}

/* Who is told of a finding is told its checkpoint and file, too: the sentence begins behind these. */
static const char *behind_names(const struct verify_run *run, const char *file, const char *text)
{
	char name[NAME_JOB_MAX + NAME_DIR_MAX];
	int at = snprintf(name, sizeof(name), "%s/", run->job);
	name_dir(run->id, name + at);
	return without(without(text, name), file);
}

/* Damage becomes a finding, an I/O error one that also is the run's result; anything else ends the run. */
static int found(struct verify_run *run, const char *file, uint64_t from, uint64_t to, int rc, const struct err *why)
{
	if (rc != -EBADMSG && rc != -EIO)
		return err_set(run->err, rc, "%s", why->text);
	if (rc == -EIO && !run->trouble)
		run->trouble = rc;
	verify_find(run, file, "", from, to, "%s", behind_names(run, file, why->text));
	return 0;
}

/* ---- documents */

static void find_uncovered(void *arg, const char *tensor, const char *text)
{
	verify_find(arg, NAME_MANIFEST, tensor, 0, 0, "%s", text);
}

static int check_documents(struct verify_run *run)
{
	struct checkpoint *ck = &run->ck;
	bool whole = true;
	int rc = 0;
	for (uint32_t i = 0; i < ck->nnodes && !rc; i++) {
		struct err why = {0};
		int node = checkpoint_load_node(ck, i, &why);
		if (node < 0) {
			whole = false;
			rc = found(run, ck->manifest.nodes[i].file, 0, 0, node, &why);
		}
	}
	if (rc < 0 || !whole)
		return rc;
	struct err why = {0};
	rc = checkpoint_check_totals(ck, &why);
	if (rc < 0)
		rc = found(run, NAME_MANIFEST, 0, 0, rc, &why);
	return rc < 0 ? rc : cover_check(ck, &(struct cover_tell){find_uncovered, run}, run->err);
}

/* ---- files */

void verify_file_put(struct verify_file *vf)
{
	if (--vf->refs)
		return;
	sidecar_free(&vf->sidecar);
	packed_index_free(&vf->index);
	if (vf->handle >= 0)
		disk_close_file(vf->run->ck.repo->disk, vf->handle);
	free(vf);
}

/* Size and sidecar. *good: both are as they should be. */
static int check_outside(struct verify_file *vf, bool *good)
{
	struct verify_run *run = vf->run;
	struct err why = {0};
	uint64_t size;
	int rc = checkpoint_check_size(&run->ck, vf->file, &size, &why);
	*good = !rc;
	if (rc < 0)
		rc = found(run, vf->file->name, min_u64(size, manifest_stored(vf->file)),
			   max_u64(size, manifest_stored(vf->file)), rc, &why);
	if (rc < 0)
		return rc;
	rc = checkpoint_load_sidecar(&run->ck, vf->file, &vf->sidecar, &why);
	*good = *good && !rc;
	return rc < 0 ? found(run, vf->file->sidecar_name, 0, 0, rc, &why) : 0;
}

/* Without it nothing of the file can be read. */
static int check_index(struct verify_file *vf, bool *good)
{
	struct err why = {0};
	int rc = checkpoint_load_index(&vf->run->ck, vf->file, &vf->index, &why);
	*good = !rc;
	return rc < 0 ? found(vf->run, vf->file->name, 0, vf->file->packed.index_size, rc, &why) : 0;
}

static int open_data(struct verify_file *vf, bool *good)
{
	struct err why = {0};
	struct checkpoint *ck = &vf->run->ck;
	vf->handle = disk_open_at(ck->repo->disk, ck->dir, vf->file->name, DISK_RDONLY | DISK_DIRECT);
	*good = vf->handle >= 0;
	if (*good)
		return 0;
	/* It had its size a moment ago: what is not a plain file is damage. */
	int rc = vf->handle == -EINVAL || vf->handle == -ELOOP || vf->handle == -EISDIR || vf->handle == -ENOENT
			 ? -EBADMSG
			 : vf->handle;
	err_set(&why, rc, "cannot open %s: %s", vf->file->name, err_name(vf->handle));
	return found(vf->run, vf->file->name, 0, vf->file->size, rc, &why);
}

/* Takes over vf. */
static int check_file(struct verify_file *vf)
{
	bool good;
	struct verify_run *run = vf->run;
	int rc = check_outside(vf, &good);
	if (!rc && good)
		rc = check_index(vf, &good);
	if (!rc && good)
		rc = open_data(vf, &good);
	if (!rc && good)
		rc = verify_header(vf, &good);
	run->result->files++;
	/* A damaged header does not hide its data: the sidecar says where they are. */
	if (!rc && vf->handle >= 0 && run->opts->depth == VERIFY_DATA)
		return reader_add(run->reader, vf);
	verify_file_put(vf);
	return rc;
}

static int check_files(struct verify_run *run)
{
	uint64_t index = 0;
	int rc = 0;
	for (uint32_t n = 0; n < run->ck.nnodes; n++) {
		const struct node_manifest *node = &run->ck.nodes[n];
		for (uint32_t f = 0; f < node->nfiles && !rc; f++, index++) {
			struct verify_file *vf = calloc(1, sizeof(*vf));
			if (!vf)
				return err_set(run->err, -ENOMEM, "out of memory");
			*vf = (struct verify_file){.run = run,
						   .node = node,
						   .file = &node->files[f],
						   .handle = -1,
						   .number = index,
						   .refs = 1};
			rc = check_file(vf);
		}
	}
	return rc;
}

static void count_total(struct verify_run *run)
{
	uint64_t index = 0;
	for (uint32_t n = 0; n < run->ck.nnodes; n++) {
		for (uint32_t f = 0; f < run->ck.nodes[n].nfiles; f++, index++) {
			const struct manifest_file *file = &run->ck.nodes[n].files[f];
			run->total += file->data_at;
			if (run->opts->depth == VERIFY_DATA)
				run->total += share_bytes(run->opts, index, file);
		}
	}
}

static int verify_open(struct verify_run *run)
{
	int rc = check_documents(run);
	if (rc < 0)
		return rc;
	count_total(run);
	rc = reader_new(run, &run->reader);
	if (rc < 0)
		return rc;
	rc = check_files(run);
	int drained = reader_drain(run->reader);
	reader_free(run->reader);
	return rc < 0 ? rc : drained;
}

int verify_checkpoint(struct repo *repo, const char *job, struct step_id id, const struct verify_options *opts,
		      struct verify_result *result, struct err *err)
{
	struct verify_run run = {.job = job, .id = id, .opts = opts, .result = result, .err = err};
	struct err why = {0};
	*result = (struct verify_result){0};
	if (opts->depth == VERIFY_DATA && !(opts->share > 0 && opts->share <= 1))
		return err_set(err, -EINVAL, "a share of %g is not above 0 and at most 1", opts->share);
	int rc = checkpoint_open_root(repo, job, id, &run.ck, &why);
	if (rc < 0)
		rc = found(&run, NAME_MANIFEST, 0, 0, rc, &why);
	else
		rc = verify_open(&run);
	checkpoint_close(&run.ck);
	if (rc < 0)
		return rc;
	if (run.trouble)
		return err_set(err, run.trouble, "parts of it cannot be read: %s", err_name(run.trouble));
	return result->findings ? err_set(err, -EBADMSG, "%" PRIu64 " finding%s", result->findings,
					  result->findings == 1 ? "" : "s")
				: 0;
}
