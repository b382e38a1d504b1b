/* What the nodes of a fleet write in their store, looked at while they do it, and as a whole. */
#include "base/cleanup.h"
#include "control/record/directory_lock.h"
#include "disk_image.h"
#include "fleet.h"
#include "format/files/sidecar.h"
#include "store/check/verify.h"
#include "store/manage/trash.h"

#include <stdio.h>
#include <string.h>

/* ---- while it is written --------------------------------------------------------------------------------------------- */

static bool starts(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* The name of a directory of checkpoints that is what it says; NULL: another one, or one that is on its way out. */
static const char *checkpoint_name(const struct inode *dir)
{
	const struct inode *job = inode_walk(FLEET_STORE "/" FLEET_JOB);
	for (size_t i = 0; job && i < job->now_names.n; i++)
		if (job->now_names.list[i].inode == dir && starts(job->now_names.list[i].name, "step-"))
			return job->now_names.list[i].name;
	return NULL;
}

static bool is_mark(const char *name)
{
	return strstr(name, NAME_HEALTH) || strstr(name, NAME_PINNED);
}

static bool is_sealed(const struct inode *dir)
{
	return names_find(&dir->now_names, NAME_MANIFEST) != NULL && checkpoint_name(dir);
}

/* Directories of the job are the business of who has its lock. */
static void check_directory_lock(const struct disk *d, const struct inode *dir, const char *name)
{
	struct inode *job = inode_walk(FLEET_STORE "/" FLEET_JOB);
	if (dir != job || fleet.registry) /* then it hangs on a lease, and what is on its way to the disk may be late */
		return;
	SIM_CHECK(disk_sim_has_lock(d, names_find(&job->now_names, DIRECTORY_LOCK_FILE)),
		  "%s is made, renamed or removed by a daemon that does not coordinate the job", name);
}

/* It gets the name of a checkpoint. What has one loses it only on its way out. */
static void seal(const struct inode *named, const struct disk_op *op)
{
	SIM_CHECK(!starts(op->name, "step-") || starts(op->name2, REPO_TRASH), "%s is moved away to %s", op->name,
		  op->name2);
	if (!starts(op->name2, "step-"))
		return;
	SIM_CHECK(names_find(&named->now_names, NAME_MANIFEST), "%s becomes a checkpoint without a manifest",
		  op->name2);
	for (size_t i = 0; i < named->now_names.n; i++)
		named->now_names.list[i].inode->sealed = true;
}

static void look(const struct disk *d, const struct disk_op *op)
{
	struct inode *dir = NULL, *named = NULL;
	switch (op->kind) {
	case DISK_MKDIR:
		SIM_CHECK(!starts(op->name, "step-"), "%s is made as a checkpoint", op->name);
		if (starts(op->name, NAME_WORK_PREFIX))
			check_directory_lock(d, disk_sim_inode(op->dir), op->name);
		return;
	case DISK_RENAME:
	case DISK_RMDIR:
	case DISK_UNLINK:
		dir = disk_sim_inode(op->dir);
		named = names_find(&dir->now_names, op->name);
		if (named && named->dir)
			check_directory_lock(d, dir, op->name);
		SIM_CHECK(!named || named->dir || is_mark(op->name) || !is_sealed(dir),
			  "%s is removed from %s, which is sealed", op->name, checkpoint_name(dir));
		if (op->kind == DISK_RENAME && named && named->dir)
			seal(named, op);
		return;
	case DISK_OPEN:
		dir = disk_sim_inode(op->dir);
		SIM_CHECK(!(op->flags & DISK_CREATE) || is_mark(op->name) || !is_sealed(dir),
			  "%s is made in %s, which is sealed", op->name, checkpoint_name(dir));
		return;
	case DISK_WRITE:
	case DISK_TRUNCATE:
	case DISK_ALLOCATE:
		SIM_CHECK(!disk_sim_inode(op->file)->sealed, "a file is written that MANIFEST.json vouches for");
		return;
	default:
		return;
	}
}

void fleet_watch_store(void)
{
	disk_sim_watch(look);
}

/* ---- as a whole ------------------------------------------------------------------------------------------------------ */

static void show_finding(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	(void)arg;
	printf("%s %s %lu-%lu: %s\n", file, tensor, (unsigned long)from, (unsigned long)to, text);
}

static void check_piece(const struct checkpoint *ck, const char *file, const struct manifest_tensor *tensor,
			const struct manifest_piece *piece, const uint32_t *data)
{
	uint32_t entry = fleet_tensor(tensor->name);
	uint64_t start = 0, count = 0;
	region_contiguous(&tensor->shape, &piece->region, &start, &count);
	if (!count)
		return;
	struct step_id id = fleet_origin(ck->ref.id, entry, start, data[0])->id;
	for (uint64_t i = 0; i < count; i++)
		SIM_CHECK(data[i] == fleet_content(entry, start + i, id), "%s holds another step", file);
}

static void check_file(const struct checkpoint *ck, const struct node_manifest *m, const struct manifest_file *file)
{
	struct err err = {{0}};
	AUTO_FREE void *text = NULL;
	size_t len;
	int rc = disk_read_file(ck->repo->disk, ck->dir, file->name, 1 << 20, &text, &len, &err);
	SIM_CHECK(!rc, "%s", err.text);
	for (uint32_t p = 0; p < file->npieces; p++)
		check_piece(ck, file->name, &m->tensors[file->pieces[p].tensor], &file->pieces[p],
			    (const uint32_t *)((uint8_t *)text + file->data_at + file->pieces[p].at));
}

/* What it is was found while its files were looked at. */
static void check_origin(struct step_id id)
{
	const struct fleet_save *named = fleet_save_of(id);
	struct step_id is = named->begun ? id : named->is;
	const struct fleet_save *s = fleet_save_of(is);
	SIM_CHECK(fleet_complete(s), "step %lu epoch %u is committed, and was not copied by all in its epoch (%x, %x)",
		  (unsigned long)id.step, id.epoch, s->fenced, s->late);
	for (unsigned i = 0; i < fleet.nsaves; i++)
		SIM_CHECK(&fleet.saves[i] == named || !fleet.saves[i].committed ||
				  step_compare(fleet.saves[i].begun ? fleet.saves[i].id : fleet.saves[i].is, is) != 0,
			  "step %lu epoch %u is committed twice", (unsigned long)is.step, is.epoch);
	fleet_save_of(id)->committed = true;
}

/* leaves: their digests, too, which takes its time; what the files hold is looked at in any case. */
static void check_checkpoint(struct repo *repo, struct step_id id, bool leaves)
{
	struct err err = {{0}};
	struct checkpoint ck;
	struct verify_result result;
	struct verify_options options = {.depth = leaves ? VERIFY_DATA : VERIFY_QUICK,
					 .share = 1,
					 .threads = 1,
					 .memory = 1 << 20,
					 .finding = show_finding};
	int rc = verify_checkpoint(repo, FLEET_JOB, id, &options, &result, &err);
	SIM_CHECK(!rc, "step %lu epoch %u is committed but damaged: %s", (unsigned long)id.step, id.epoch, err.text);
	rc = checkpoint_open(repo, FLEET_JOB, id, &ck, &err);
	SIM_CHECK(!rc, "%s", err.text);
	for (uint32_t n = 0; n < ck.nnodes; n++)
		for (uint32_t f = 0; f < ck.nodes[n].nfiles; f++)
			check_file(&ck, &ck.nodes[n], &ck.nodes[n].files[f]);
	checkpoint_close(&ck);
	check_origin(id);
	fleet_sum.checked++;
}

static bool is_there(const struct checkpoint_ref *refs, size_t n, struct step_id id)
{
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED && !step_compare(refs[i].id, id))
			return true;
	return false;
}

void fleet_check_store(void)
{
	struct err err = {{0}};
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	if (!fleet.stored)
		return;
	world_enter_threads();
	int rc = repo_open(FLEET_STORE, &repo, &err);
	if (!rc)
		rc = repo_scan(&repo, FLEET_JOB, &refs, &n, &err);
	SIM_CHECK(!rc || rc == -ENOENT, "the store cannot be read: %s", err.text);
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED)
			check_checkpoint(&repo, refs[i].id, i + 1 == n);
	for (unsigned i = 0; i < fleet.nsaves; i++)
		SIM_CHECK(fleet.saves[i].level < LEVEL_DURABLE || is_there(refs, n, fleet.saves[i].id),
			  "step %lu epoch %u was acknowledged as durable and is lost",
			  (unsigned long)fleet.saves[i].id.step, fleet.saves[i].id.epoch);
	if (rc != -ENOENT)
		repo_close(&repo);
	world_leave_threads();
}

bool fleet_stored_since(struct step_id id)
{
	const struct inode *job = inode_walk(FLEET_STORE "/" FLEET_JOB);
	for (size_t i = 0; job && i < job->safe_names.n; i++) {
		struct step_id is;
		const struct inode *dir = job->safe_names.list[i].inode;
		if (name_parse_dir(job->safe_names.list[i].name, &is) || !dir->dir ||
		    !names_find(&dir->safe_names, NAME_MANIFEST))
			continue;
		if (is.step >= id.step && is.epoch >= id.epoch)
			return true;
	}
	return false;
}
