#include "store/check/repair_private.h"

#include "base/cleanup.h"
#include "format/files/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int repair_new(struct repo *repo, const char *job, struct step_id id, struct repair **out)
{
	struct repair *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->repo = repo;
	r->id = id;
	snprintf(r->job, sizeof(r->job), "%s", job);
	*out = r;
	return 0;
}

void repair_free(struct repair *r)
{
	if (!r)
		return;
	free(r->noted);
	free(r);
}

static bool is_noted(const struct repair *r, const char *file)
{
	for (size_t i = 0; i < r->nnoted; i++)
		if (!strcmp(r->noted[i], file))
			return true;
	return r->all;
}

/* Without memory, or with very many names, every file is looked at. */
void repair_note(struct repair *r, const char *file)
{
	if (is_noted(r, file))
		return;
	if (!r->noted)
		r->noted = calloc(REPAIR_NOTED_MAX, sizeof(*r->noted));
	if (!r->noted || r->nnoted == REPAIR_NOTED_MAX)
		r->all = true;
	else
		snprintf(r->noted[r->nnoted++], NAME_FILE_MAX, "%s", file);
}

/* ---- sidecars ----------------------------------------------------------------------------------------------------- */

/* A donor's sidecar is good when its digest is the one in the node manifest. -ENOENT: it is not. */
static int copy_sidecar(struct repair *r, const struct manifest_file *file, const struct donor *donor,
			struct sidecar *sc, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len = 0;
	struct err ignored = {{0}};
	int rc = disk_read_file(r->repo->disk, donor->dir, donor->sidecar, file->sidecar_size, &text, &len, &ignored);
	if (rc || len != file->sidecar_size || !digest_equal(digest_bytes(text, len), file->sidecar) ||
	    sidecar_decode(text, len, sc, &ignored))
		return -ENOENT;
	rc = r->trial ? 0 : disk_put_file(r->repo->disk, r->ck.dir, file->sidecar_name, text, len, true, err);
	if (rc)
		sidecar_free(sc);
	return rc;
}

/* Loads it, from a donor where the own one is damaged. */
static int good_sidecar(struct repair *r, const struct manifest_file *file, const struct donors *donors,
			struct sidecar *sc, struct err *err)
{
	int rc = checkpoint_load_sidecar(&r->ck, file, sc, err);
	if (rc != -EBADMSG && rc != -EIO && rc != -ENOENT)
		return rc;
	r->result->files++;
	for (uint32_t i = 0; i < donors->n; i++) {
		rc = copy_sidecar(r, file, &donors->donor[i], sc, err);
		r->result->mended += !rc;
		if (rc != -ENOENT)
			return rc;
	}
	return err_set(err, -EBADMSG, "nobody has %s", file->sidecar_name);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* With a damaged sidecar nobody has looked at the data yet. */
static bool is_suspect(struct repair *r, const struct manifest_file *file, const struct sidecar *sc)
{
	uint64_t size;
	struct err ignored = {{0}};
	return is_noted(r, file->name) || checkpoint_check_size(&r->ck, file, &size, &ignored) ||
	       mend_check(r, file, sc, file->name, &ignored);
}

static int mend(struct repair *r, const struct manifest_file *file, struct donors *donors, struct err *err)
{
	struct sidecar sc = {0};
	int rc = good_sidecar(r, file, donors, &sc, err);
	if (rc)
		return rc;
	if (is_suspect(r, file, &sc)) {
		r->result->files++;
		rc = mend_file(r, file, &sc, donors, err);
		r->result->mended += !rc;
	}
	sidecar_free(&sc);
	return rc;
}

static int mend_noted(struct repair *r, const struct manifest_file *file, struct err *err)
{
	if (!is_noted(r, file->name) && !is_noted(r, file->sidecar_name))
		return 0;
	AUTO_FREE struct donors *donors = calloc(1, sizeof(*donors));
	if (!donors)
		return err_set(err, -ENOMEM, "no memory for the list of other checkpoints");
	int rc = donors_find(r, file, donors, err);
	if (!rc)
		rc = mend(r, file, donors, err);
	donors_close(r, donors);
	return rc;
}

/* All that can be mended, also after one that cannot. */
static int mend_all(struct repair *r, struct err *err)
{
	int worst = 0;
	for (uint32_t n = 0; n < r->ck.nnodes; n++)
		for (uint32_t f = 0; f < r->ck.nodes[n].nfiles; f++) {
			struct err why = {{0}};
			int rc = mend_noted(r, &r->ck.nodes[n].files[f], &why);
			if (rc && rc != -EBADMSG)
				return err_set(err, rc, "%s", why.text);
			if (rc && !worst)
				worst = err_set(err, rc, "%s", why.text);
		}
	return worst;
}

/* Findings about documents are none that copies could help. */
static bool only_files(struct repair *r)
{
	size_t known = 0;
	for (uint32_t n = 0; n < r->ck.nnodes; n++)
		for (uint32_t f = 0; f < r->ck.nodes[n].nfiles; f++) {
			const struct manifest_file *file = &r->ck.nodes[n].files[f];
			for (size_t i = 0; i < r->nnoted; i++)
				known += !strcmp(r->noted[i], file->name) || !strcmp(r->noted[i], file->sidecar_name);
		}
	return known == r->nnoted;
}

int repair_run(struct repair *r, bool trial, const struct repair_memory *memory, struct repair_result *result,
	       struct err *err)
{
	*result = (struct repair_result){0};
	r->trial = trial;
	r->memory = memory;
	r->result = result;
	int rc = checkpoint_open(r->repo, r->job, r->id, &r->ck, err);
	if (rc)
		return rc;
	rc = mend_all(r, err);
	if (!rc && !only_files(r))
		rc = err_set(err, -EBADMSG, "manifests are damaged, and are not repaired");
	checkpoint_close(&r->ck);
	return rc;
}
