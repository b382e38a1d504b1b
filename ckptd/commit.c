#include "commit_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "prepare.h"
#include "store/denied.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *point; /* the failpoint is evaluated when the state is entered */
} states[COMMIT_STATE_END] = {
	[COMMIT_JOB_DIR] = {"job-dir", "commit.job_dir"},
	[COMMIT_OPEN_JOB] = {"open-job", "commit.open_job"},
	[COMMIT_MKDIR] = {"mkdir", "commit.mkdir"},
	[COMMIT_PROBE] = {"probe", "commit.probe"},
	[COMMIT_PROBE_MANIFEST] = {"probe-manifest", "commit.probe_manifest"},
	[COMMIT_READ_MANIFEST] = {"read-manifest", "commit.read_manifest"},
	[COMMIT_ASIDE_OLD] = {"aside-old", "commit.aside_old"},
	[COMMIT_OPEN_DIR] = {"open-dir", "commit.open_dir"},
	[COMMIT_PARENT] = {"parent", "commit.parent"},
	[COMMIT_DATA] = {"data", "commit.data"},
	[COMMIT_DIGESTS] = {"digests", "commit.digests"},
	[COMMIT_SIDECARS] = {"sidecars", "commit.sidecars"},
	[COMMIT_NODE] = {"node", "commit.node"},
	[COMMIT_SYNC_DIR] = {"sync-dir", "commit.sync_dir"},
	[COMMIT_SYNC_JOB] = {"sync-job", "commit.sync_job"},
	[COMMIT_SYNC_ROOT] = {"sync-root", "commit.sync_root"},
	[COMMIT_PREPARED] = {"prepared", "commit.prepared"},
	[COMMIT_MANIFEST] = {"manifest", "commit.manifest"},
	[COMMIT_LINK] = {"link", "commit.link"},
	[COMMIT_RENAME] = {"rename", "commit.rename"},
	[COMMIT_UNLINK_TMP] = {"unlink-tmp", "commit.unlink_tmp"},
	[COMMIT_SYNC_LINK] = {"sync-link", "commit.sync_link"},
	[COMMIT_ASIDE] = {"aside", "commit.aside"},
	[COMMIT_SYNC_ASIDE] = {"sync-aside", "commit.sync_aside"},
	[COMMIT_REMOVE] = {"remove", "commit.remove"},
	[COMMIT_CLOSE_DIR] = {"close-dir", "commit.close_dir"},
	[COMMIT_CLOSE_PARENT] = {"close-parent", "commit.close_parent"},
	[COMMIT_CLOSE_JOB] = {"close-job", "commit.close_job"},
	[COMMIT_DONE] = {"done", "commit.done"},
};

const char *commit_state_name(enum commit_state state)
{
	return state > 0 && state < COMMIT_STATE_END ? states[state].name : "?";
}

static void enter(struct commit *c);

void commit_fail(struct commit *c, int rc, const char *what)
{
	if (c->rc)
		return;
	c->rc = rc;
	err_set(&c->err, rc, "%s of %s/%s failed: %s", what, c->job, c->name, err_name(rc));
	denied_dir(c->disk, c->dir >= 0 ? c->dir : c->job_dir >= 0 ? c->job_dir : c->root, rc, &c->err);
}

static bool is_cleanup(enum commit_state state)
{
	return state >= COMMIT_ASIDE;
}

/* The only place where the state changes. */
void commit_set_state(struct commit *c, enum commit_state state)
{
	c->state = state;
	int rc = failpoint(states[state].point, NULL);
	if (rc && !is_cleanup(state)) {
		commit_fail(c, rc, states[state].name);
		c->state = c->dir_made ? COMMIT_ASIDE : COMMIT_CLOSE_DIR;
	}
	log_debug("commit %s/%s: %s", c->job, c->name, states[c->state].name);
	enter(c);
}

static void give_up(struct commit *c)
{
	commit_set_state(c, c->dir_made ? COMMIT_ASIDE : COMMIT_CLOSE_DIR);
}

/* ---- single operations --------------------------------------------------------------------------------------- */

static void op_done(struct disk_op *op)
{
	commit_advance(op->arg, op->result);
}

void commit_submit(struct commit *c, struct disk_op op)
{
	c->op = op;
	c->op.done = op_done;
	c->op.arg = c;
	disk_submit(c->disk, &c->op);
}

static void submit_sync(struct commit *c, int handle)
{
	commit_submit(c, (struct disk_op){.kind = DISK_FSYNC, .file = handle});
}

void commit_unlink(struct commit *c, const char *name)
{
	commit_submit(c, (struct disk_op){.kind = DISK_UNLINK, .dir = c->dir, .name = name});
}

/* A handle that is being closed beside the machine, which does not end before that has. */
struct closing {
	struct list link;
	struct disk_op op;
	struct commit *commit;
};

static void closed(struct disk_op *op)
{
	struct closing *closing = list_entry(op, struct closing, op);
	struct commit *c = closing->commit;
	list_remove(&closing->link);
	free(closing);
	if (c->state == COMMIT_CLOSE_DIR && list_empty(&c->closing))
		enter(c);
}

void commit_close_handle(struct commit *c, int file)
{
	struct closing *closing = calloc(1, sizeof(*closing));
	if (!closing) {
		log_warn("no memory to close a handle of %s/%s: it stays open", c->job, c->name);
		return;
	}
	closing->commit = c;
	closing->op = (struct disk_op){.kind = DISK_CLOSE, .file = file, .done = closed};
	list_push(&c->closing, &closing->link);
	disk_submit(c->disk, &closing->op);
}

static void enter_digests(struct commit *c)
{
	if (!c->digests_ready)
		return; /* commit_digests_ready goes on */
	int rc = commit_encode_sidecars(c);
	if (!rc && c->already)
		rc = commit_compare_found(c);
	commit_advance(c, rc);
}

static void enter_node(struct commit *c)
{
	int rc = prepare_node(c, &c->err);
	if (rc) {
		c->rc = rc;
		give_up(c);
		return;
	}
	char name[NAME_FILE_MAX];
	name_node(c->node, name);
	commit_write_text(c, name, &c->node_text);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

static void enter_close(struct commit *c, int *handle, enum commit_state next)
{
	if (*handle < 0) {
		commit_set_state(c, next);
		return;
	}
	int file = *handle;
	*handle = -1;
	commit_submit(c, (struct disk_op){.kind = DISK_CLOSE, .file = file});
}

static void enter(struct commit *c)
{
	switch (c->state) {
	case COMMIT_JOB_DIR:
		commit_submit(c, (struct disk_op){.kind = DISK_MKDIR, .dir = c->root, .name = c->job});
		return;
	case COMMIT_OPEN_JOB:
		commit_submit(c,
			      (struct disk_op){.kind = DISK_OPEN, .dir = c->root, .name = c->job, .flags = DISK_DIR});
		return;
	case COMMIT_MKDIR:
		commit_submit(c, (struct disk_op){.kind = DISK_MKDIR, .dir = c->job_dir, .name = c->name});
		return;
	case COMMIT_PROBE:
	case COMMIT_OPEN_DIR:
		commit_submit(
			c, (struct disk_op){.kind = DISK_OPEN, .dir = c->job_dir, .name = c->name, .flags = DISK_DIR});
		return;
	case COMMIT_PROBE_MANIFEST:
		commit_submit(c, (struct disk_op){.kind = DISK_OPEN, .dir = c->dir, .name = NAME_MANIFEST});
		return;
	case COMMIT_READ_MANIFEST:
		commit_read_found(c);
		return;
	case COMMIT_ASIDE_OLD:
	case COMMIT_ASIDE:
		commit_move_aside(c);
		return;
	case COMMIT_PARENT:
		commit_open_parent(c);
		return;
	case COMMIT_DATA:
	case COMMIT_SIDECARS:
		commit_write_files(c);
		return;
	case COMMIT_DIGESTS:
		enter_digests(c);
		return;
	case COMMIT_NODE:
		enter_node(c);
		return;
	case COMMIT_SYNC_DIR:
	case COMMIT_SYNC_LINK:
		submit_sync(c, c->dir);
		return;
	case COMMIT_SYNC_JOB:
	case COMMIT_SYNC_ASIDE:
		submit_sync(c, c->job_dir);
		return;
	case COMMIT_SYNC_ROOT:
		submit_sync(c, c->root);
		return;
	case COMMIT_PREPARED:
		c->prepared(c);
		return;
	case COMMIT_MANIFEST:
		commit_write_text(c, MANIFEST_TMP, &c->manifest_text);
		return;
	case COMMIT_LINK:
	case COMMIT_RENAME:
		commit_submit(c, (struct disk_op){.kind = c->state == COMMIT_LINK ? DISK_LINK : DISK_RENAME,
						  .dir = c->dir,
						  .name = MANIFEST_TMP,
						  .dir2 = c->dir,
						  .name2 = NAME_MANIFEST});
		return;
	case COMMIT_UNLINK_TMP:
		commit_unlink(c, MANIFEST_TMP);
		return;
	case COMMIT_REMOVE:
		c->remove_at = 0;
		commit_remove_next(c);
		return;
	case COMMIT_CLOSE_DIR:
		if (list_empty(&c->closing)) /* else the last one that is closed enters anew */
			enter_close(c, &c->dir, COMMIT_CLOSE_PARENT);
		return;
	case COMMIT_CLOSE_PARENT:
		enter_close(c, &c->parent_dir, COMMIT_CLOSE_JOB);
		return;
	case COMMIT_CLOSE_JOB:
		enter_close(c, &c->job_dir, COMMIT_DONE);
		return;
	case COMMIT_DONE:
		c->done(c);
		return;
	case COMMIT_STATE_END:
		return;
	}
}

/* States in which an error is an answer, not a failure. */
static bool tolerated(const struct commit *c, int64_t result)
{
	switch (c->state) {
	case COMMIT_JOB_DIR:
	case COMMIT_MKDIR:
		return result == -EEXIST;
	case COMMIT_PROBE_MANIFEST:
	case COMMIT_ASIDE_OLD:
	case COMMIT_RENAME:
	case COMMIT_UNLINK_TMP:
		return result == -ENOENT;
	case COMMIT_LINK:
		return result == -EPERM || result == -EOPNOTSUPP || result == -ENOSYS || result == -EEXIST;
	default:
		return is_cleanup(c->state);
	}
}

/* A server that is asked again because its answer was lost says of what it has done that the name exists, or that it does not. */
static enum commit_state after_naming(struct commit *c, int64_t result)
{
	if (result == -EEXIST || result == -ENOENT) {
		c->doubt = (int)result;
		return COMMIT_PROBE_MANIFEST;
	}
	if (c->state == COMMIT_RENAME)
		return COMMIT_SYNC_LINK;
	return result < 0 ? COMMIT_RENAME : COMMIT_UNLINK_TMP;
}

/* A manifest in a directory of our name: an earlier life of this daemon finished this very commit, or we have just named it. Without
 * one the directory is what a crash left behind. */
static enum commit_state after_probe(struct commit *c, int64_t result)
{
	c->manifest = result < 0 ? -1 : (int)result;
	if (result >= 0)
		return COMMIT_READ_MANIFEST;
	if (!c->doubt)
		return COMMIT_ASIDE_OLD;
	commit_fail(c, c->doubt, "link");
	return COMMIT_ASIDE;
}

static void after_mkdir(struct commit *c, int64_t result)
{
	if (result == -EEXIST && !c->aside_tried) {
		c->aside_tried = true;
		commit_set_state(c, COMMIT_PROBE);
	} else if (result == -EEXIST) {
		commit_fail(c, -EEXIST, "mkdir");
		give_up(c);
	} else {
		c->dir_made = true;
		commit_set_state(c, COMMIT_OPEN_DIR);
	}
}

static void advance_cleanup(struct commit *c, int64_t result)
{
	switch (c->state) {
	case COMMIT_ASIDE: /* -ENOENT: it bears our name no more, whatever became of the answer */
		commit_set_state(c, result < 0 && result != -ENOENT ? COMMIT_CLOSE_DIR : COMMIT_SYNC_ASIDE);
		return;
	case COMMIT_SYNC_ASIDE: /* without this fsync the files stay: see the invariants */
		commit_set_state(c, result < 0 ? COMMIT_CLOSE_DIR : COMMIT_REMOVE);
		return;
	case COMMIT_REMOVE:
		commit_removed_one(c);
		return;
	case COMMIT_CLOSE_DIR:
	case COMMIT_CLOSE_PARENT:
		commit_set_state(c, c->state + 1);
		return;
	default:
		commit_set_state(c, COMMIT_DONE);
	}
}

static void advance_file_states(struct commit *c)
{
	if (c->state == COMMIT_DATA && c->data_written)
		c->data_written(c);
	commit_set_state(c, c->state + 1);
}

void commit_advance(struct commit *c, int64_t result)
{
	c->progress_ns = clock_now();
	if (is_cleanup(c->state)) {
		advance_cleanup(c, result);
		return;
	}
	if (result < 0 && !tolerated(c, result))
		commit_fail(c, (int)result, states[c->state].name);
	/* A handle that arrived is kept even when the commit was given up meanwhile: it must be closed. */
	if (result >= 0 && c->state == COMMIT_OPEN_JOB)
		c->job_dir = (int)result;
	if (result >= 0 && (c->state == COMMIT_OPEN_DIR || c->state == COMMIT_PROBE))
		c->dir = (int)result;
	if (c->rc) {
		if (result >= 0 && c->state == COMMIT_MKDIR)
			c->dir_made = true;
		if (result >= 0 && c->state == COMMIT_PROBE_MANIFEST)
			commit_close_handle(c, (int)result);
		if (c->manifest >= 0)
			commit_close_handle(c, c->manifest);
		c->manifest = -1;
		give_up(c);
		return;
	}
	switch (c->state) {
	case COMMIT_OPEN_JOB:
		commit_set_state(c, COMMIT_MKDIR);
		return;
	case COMMIT_MKDIR:
		after_mkdir(c, result);
		return;
	case COMMIT_PROBE:
		commit_set_state(c, COMMIT_PROBE_MANIFEST);
		return;
	case COMMIT_PROBE_MANIFEST:
		commit_set_state(c, after_probe(c, result));
		return;
	case COMMIT_READ_MANIFEST:
		commit_found_read(c, result);
		return;
	case COMMIT_DIGESTS:
		commit_set_state(c, c->already ? COMMIT_SYNC_LINK : COMMIT_SIDECARS);
		return;
	case COMMIT_ASIDE_OLD:
		commit_close_handle(c, c->dir);
		c->dir = -1;
		commit_set_state(c, COMMIT_MKDIR);
		return;
	case COMMIT_DATA:
	case COMMIT_SIDECARS:
		advance_file_states(c);
		return;
	case COMMIT_LINK:
	case COMMIT_RENAME:
		commit_set_state(c, after_naming(c, result));
		return;
	case COMMIT_UNLINK_TMP:
		commit_set_state(c, COMMIT_SYNC_LINK);
		return;
	case COMMIT_SYNC_LINK:
		commit_set_state(c, COMMIT_CLOSE_DIR);
		return;
	default:
		commit_set_state(c, c->state + 1);
	}
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

int commit_start(struct commit *c)
{
	name_dir(c->id, c->name);
	list_init(&c->closing);
	c->dir = c->job_dir = c->manifest = c->parent_dir = -1;
	c->progress_ns = clock_now();
	int rc = commit_collect_files(c);
	if (rc)
		return rc;
	commit_set_state(c, COMMIT_JOB_DIR);
	return 0;
}

void commit_digests_ready(struct commit *c)
{
	c->digests_ready = true;
	if (c->rc)
		return;
	if (c->state == COMMIT_DATA)
		commit_resume_files(c);
	else if (c->state == COMMIT_DIGESTS)
		enter_digests(c);
}

void commit_seal(struct commit *c, const struct wbuf *manifest)
{
	if (c->state != COMMIT_PREPARED || c->rc)
		return;
	wbuf_put(&c->manifest_text, manifest->data, manifest->len);
	if (wbuf_finish(&c->manifest_text)) {
		commit_advance(c, -ENOMEM);
		return;
	}
	commit_set_state(c, COMMIT_MANIFEST);
}

void commit_abort(struct commit *c, int rc, const char *why)
{
	if (c->rc || is_cleanup(c->state))
		return;
	c->rc = rc;
	err_set(&c->err, rc, "%s", why);
	bool stopped = commit_stop_files(c);
	if (stopped || (c->state == COMMIT_DIGESTS && !c->digests_ready) || c->state == COMMIT_PREPARED)
		give_up(c); /* nothing is in flight that would go on */
}

void commit_free(struct commit *c)
{
	if (!c)
		return;
	for (struct list *node; (node = list_pop(&c->closing));)
		free(list_entry(node, struct closing, link));
	for (uint32_t i = 0; i < c->nfiles; i++)
		commit_free_file(&c->cfiles[i]);
	free(c->cfiles);
	free(c->found);
	free(c->found_node);
	free(c->parent_mark);
	wbuf_free(&c->node_text);
	wbuf_free(&c->manifest_text);
	free(c);
}
