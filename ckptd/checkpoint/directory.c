#include "checkpoint/directory_private.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/disk/denied.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *name, *point; /* the failpoint is evaluated when the state is entered */
} states[DIRECTORY_STATE_END] = {
	[DIRECTORY_JOB_DIR] = {"job-dir", "commit.job_dir"},
	[DIRECTORY_OPEN_JOB] = {"open-job", "commit.open_job"},
	[DIRECTORY_MKDIR] = {"mkdir", "commit.mkdir"},
	[DIRECTORY_PROBE] = {"probe", "commit.probe"},
	[DIRECTORY_PROBE_MANIFEST] = {"probe-manifest", "commit.probe_manifest"},
	[DIRECTORY_READ_MANIFEST] = {"read-manifest", "commit.read_manifest"},
	[DIRECTORY_ASIDE_OLD] = {"aside-old", "commit.aside_old"},
	[DIRECTORY_OPEN_DIR] = {"open-dir", "commit.open_dir"},
	[DIRECTORY_SYNC_JOB] = {"sync-job", "commit.sync_job"},
	[DIRECTORY_SYNC_ROOT] = {"sync-root", "commit.sync_root"},
	[DIRECTORY_READY] = {"ready", "commit.ready"},
	[DIRECTORY_LOOK] = {"look", "commit.look"},
	[DIRECTORY_MANIFEST] = {"manifest", "commit.manifest"},
	[DIRECTORY_LINK] = {"link", "commit.link"},
	[DIRECTORY_RENAME] = {"rename", "commit.rename"},
	[DIRECTORY_UNLINK_TMP] = {"unlink-tmp", "commit.unlink_tmp"},
	[DIRECTORY_SYNC_LINK] = {"sync-link", "commit.sync_link"},
	[DIRECTORY_ASIDE] = {"aside", "commit.aside"},
	[DIRECTORY_SYNC_ASIDE] = {"sync-aside", "commit.sync_aside"},
	[DIRECTORY_DISARM] = {"disarm", "commit.disarm"},
	[DIRECTORY_LEFT] = {"left", "commit.left"},
	[DIRECTORY_REMOVE] = {"remove", "commit.remove"},
	[DIRECTORY_CLOSE_DIR] = {"close-dir", "commit.close_directory"},
	[DIRECTORY_CLOSE_JOB] = {"close-job", "commit.close_directory_job"},
	[DIRECTORY_DONE] = {"over", "commit.over"},
};

const char *directory_state_name(enum directory_state state)
{
	return state > 0 && state < DIRECTORY_STATE_END ? states[state].name : "?";
}

void directory_fail(struct directory *s, int rc, const char *what)
{
	if (s->rc)
		return;
	s->rc = rc;
	err_set(&s->err, rc, "%s of %s/%s failed: %s", what, s->job, s->name, err_name(rc));
	denied_dir(s->disk, s->dir >= 0 ? s->dir : s->job_dir >= 0 ? s->job_dir : s->root, rc, &s->err);
}

static void enter(struct directory *s);
static void abandon(struct directory *s);

static bool is_cleanup(enum directory_state state)
{
	return state >= DIRECTORY_ASIDE;
}

/* The only place where the state changes. */
void directory_set_state(struct directory *s, enum directory_state state)
{
	bool stands = s->abandoned || state >= DIRECTORY_CLOSE_DIR || !s->stands || s->stands(s);
	s->state = state;
	if (!stands) {
		abandon(s);
		return;
	}
	int rc = failpoint(states[state].point, NULL);
	if (rc && !is_cleanup(state)) {
		directory_advance(s, rc);
		return;
	}
	log_debug("directory %s/%s: %s", s->job, s->name, states[state].name);
	enter(s);
}

/* Nothing is in flight. */
static void abandon(struct directory *s)
{
	s->abandoned = true;
	s->rc = s->rc ? s->rc : err_set(&s->err, -ECANCELED, "another daemon may have taken over the job");
	directory_set_state(s, DIRECTORY_CLOSE_DIR);
}

static void give_up(struct directory *s)
{
	if (s->abandoned) {
		directory_set_state(s, DIRECTORY_CLOSE_DIR);
		return;
	}
	s->failed(s);
	s->kept = !s->dir_made;
	directory_set_state(s, s->dir_made ? DIRECTORY_ASIDE : DIRECTORY_LEFT);
}

/* ---- single operations --------------------------------------------------------------------------------------- */

static void op_done(struct disk_op *op)
{
	directory_advance(op->arg, op->result);
}

void directory_submit(struct directory *s, struct disk_op op)
{
	s->op = op;
	s->op.done = op_done;
	s->op.arg = s;
	disk_submit(s->disk, &s->op);
}

static void submit_sync(struct directory *s, int handle)
{
	directory_submit(s, (struct disk_op){.kind = DISK_FSYNC, .file = handle});
}

static void text_done(struct writer *w)
{
	directory_advance(w->arg, w->rc);
}

static void write_manifest(struct directory *s)
{
	struct writer *w = &s->writer;
	*w = (struct writer){.disk = s->disk, .dir = s->dir, .done = text_done, .arg = s, .size = s->text.len};
	snprintf(w->name, sizeof(w->name), "%s", MANIFEST_TMP);
	w->extents[0] = (struct writer_extent){s->text.data, 0, s->text.len};
	writer_start(w);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

static void enter_close(struct directory *s, int *handle, enum directory_state next)
{
	if (*handle < 0) {
		directory_set_state(s, next);
		return;
	}
	int file = *handle;
	*handle = -1;
	directory_submit(s, (struct disk_op){.kind = DISK_CLOSE, .file = file});
}

static void enter(struct directory *s)
{
	switch (s->state) {
	case DIRECTORY_JOB_DIR:
		directory_submit(s, (struct disk_op){.kind = DISK_MKDIR, .dir = s->root, .name = s->job});
		return;
	case DIRECTORY_OPEN_JOB:
		directory_submit(
			s, (struct disk_op){.kind = DISK_OPEN, .dir = s->root, .name = s->job, .flags = DISK_DIR});
		return;
	case DIRECTORY_MKDIR:
		directory_submit(s, (struct disk_op){.kind = DISK_MKDIR, .dir = s->job_dir, .name = s->name});
		return;
	case DIRECTORY_PROBE:
	case DIRECTORY_OPEN_DIR:
		directory_submit(
			s, (struct disk_op){.kind = DISK_OPEN, .dir = s->job_dir, .name = s->name, .flags = DISK_DIR});
		return;
	case DIRECTORY_PROBE_MANIFEST:
		directory_submit(s, (struct disk_op){.kind = DISK_OPEN, .dir = s->dir, .name = NAME_MANIFEST});
		return;
	case DIRECTORY_READ_MANIFEST:
		directory_read_found(s);
		return;
	case DIRECTORY_ASIDE_OLD:
	case DIRECTORY_ASIDE:
		directory_move_aside(s);
		return;
	case DIRECTORY_SYNC_JOB:
	case DIRECTORY_SYNC_ASIDE:
		submit_sync(s, s->job_dir);
		return;
	case DIRECTORY_SYNC_ROOT:
		submit_sync(s, s->root);
		return;
	case DIRECTORY_READY:
		if (s->text.len)
			directory_set_state(s, DIRECTORY_LOOK);
		return;
	case DIRECTORY_LOOK:
		directory_look(s);
		return;
	case DIRECTORY_MANIFEST:
		write_manifest(s);
		return;
	case DIRECTORY_LINK:
	case DIRECTORY_RENAME:
		directory_submit(s, (struct disk_op){.kind = s->state == DIRECTORY_LINK ? DISK_LINK : DISK_RENAME,
						     .dir = s->dir,
						     .name = MANIFEST_TMP,
						     .dir2 = s->dir,
						     .name2 = NAME_MANIFEST});
		return;
	case DIRECTORY_UNLINK_TMP:
		directory_submit(s, (struct disk_op){.kind = DISK_UNLINK, .dir = s->dir, .name = MANIFEST_TMP});
		return;
	case DIRECTORY_SYNC_LINK:
		submit_sync(s, s->dir);
		return;
	case DIRECTORY_DISARM:
		directory_disarm(s);
		return;
	case DIRECTORY_LEFT:
		if (s->abandoned)
			directory_set_state(s, DIRECTORY_CLOSE_DIR);
		else
			s->left(s);
		return;
	case DIRECTORY_REMOVE:
		directory_submit(s, (struct disk_op){.kind = DISK_RMDIR, .dir = s->job_dir, .name = s->aside});
		return;
	case DIRECTORY_CLOSE_DIR:
		if (list_empty(&s->closing)) /* else the last one that is closed enters anew */
			enter_close(s, &s->dir, DIRECTORY_CLOSE_JOB);
		return;
	case DIRECTORY_CLOSE_JOB:
		enter_close(s, &s->job_dir, DIRECTORY_DONE);
		return;
	case DIRECTORY_DONE:
		s->done(s);
		return;
	case DIRECTORY_STATE_END:
		return;
	}
}

/* States in which an error is an answer, not a failure. */
static bool tolerated(const struct directory *s, int64_t result)
{
	switch (s->state) {
	case DIRECTORY_JOB_DIR:
	case DIRECTORY_MKDIR:
		return result == -EEXIST;
	case DIRECTORY_PROBE_MANIFEST:
	case DIRECTORY_ASIDE_OLD:
	case DIRECTORY_RENAME:
	case DIRECTORY_UNLINK_TMP:
		return result == -ENOENT;
	case DIRECTORY_LINK:
		return result == -EPERM || result == -EOPNOTSUPP || result == -ENOSYS || result == -EEXIST;
	default:
		return is_cleanup(s->state);
	}
}

/* A server that is asked again because its answer was lost says of what it has done that the name exists, or that it does not. */
static enum directory_state after_naming(struct directory *s, int64_t result)
{
	if (result == -EEXIST || result == -ENOENT) {
		s->doubt = (int)result;
		return DIRECTORY_PROBE_MANIFEST;
	}
	if (s->state == DIRECTORY_RENAME)
		return DIRECTORY_SYNC_LINK;
	return result < 0 ? DIRECTORY_RENAME : DIRECTORY_UNLINK_TMP;
}

/* A manifest in a directory of our name: an earlier life of this daemon finished this very commit, or we have just named it. Without
 * one the directory is what a crash left behind. */
static void after_probe(struct directory *s, int64_t result)
{
	s->manifest = result < 0 ? -1 : (int)result;
	if (result >= 0) {
		directory_set_state(s, DIRECTORY_READ_MANIFEST);
	} else if (!s->doubt) {
		directory_set_state(s, DIRECTORY_ASIDE_OLD);
	} else {
		directory_fail(s, s->doubt, "link");
		give_up(s);
	}
}

static void after_mkdir(struct directory *s, int64_t result)
{
	if (result == -EEXIST && !s->aside_tried) {
		s->aside_tried = true;
		directory_set_state(s, DIRECTORY_PROBE);
	} else if (result == -EEXIST) {
		directory_fail(s, -EEXIST, "mkdir");
		give_up(s);
	} else {
		s->dir_made = true;
		directory_set_state(s, DIRECTORY_OPEN_DIR);
	}
}

static void advance_cleanup(struct directory *s, int64_t result)
{
	switch (s->state) {
	case DIRECTORY_ASIDE: /* -ENOENT: it bears our name no more, whatever became of the answer */
		s->kept = result < 0 && result != -ENOENT;
		directory_set_state(s, s->kept ? DIRECTORY_LEFT : DIRECTORY_SYNC_ASIDE);
		return;
	case DIRECTORY_SYNC_ASIDE: /* without this fsync the files stay: see the invariants */
		s->kept = result < 0;
		directory_set_state(s, s->kept ? DIRECTORY_LEFT : DIRECTORY_DISARM);
		return;
	case DIRECTORY_DISARM:
		directory_disarm(s);
		return;
	case DIRECTORY_REMOVE:
		directory_set_state(s, DIRECTORY_CLOSE_DIR);
		return;
	case DIRECTORY_CLOSE_DIR:
		directory_set_state(s, DIRECTORY_CLOSE_JOB);
		return;
	default:
		directory_set_state(s, DIRECTORY_DONE);
	}
}

/* What has arrived although it was given up meanwhile must be closed, and cleared away. */
static void give_up_with(struct directory *s, int64_t result)
{
	if (result >= 0 && s->state == DIRECTORY_MKDIR)
		s->dir_made = true;
	if (result >= 0 && s->state == DIRECTORY_PROBE_MANIFEST)
		directory_close_handle(s, (int)result);
	if (s->manifest >= 0)
		directory_close_handle(s, s->manifest);
	s->manifest = -1;
	give_up(s);
}

static void after_open(struct directory *s)
{
	directory_set_state(s, DIRECTORY_SYNC_JOB);
	if (!s->rc)
		s->made(s);
}

static void seal_is_linked(struct directory *s)
{
	directory_set_state(s, DIRECTORY_CLOSE_DIR);
	if (!s->abandoned)
		s->sealed(s);
}

void directory_advance(struct directory *s, int64_t result)
{
	s->progress_ns = clock_now();
	if (is_cleanup(s->state)) {
		advance_cleanup(s, result);
		return;
	}
	if (result < 0 && !tolerated(s, result))
		directory_fail(s, (int)result, states[s->state].name);
	if (result >= 0 && s->state == DIRECTORY_OPEN_JOB)
		s->job_dir = (int)result;
	if (result >= 0 && (s->state == DIRECTORY_OPEN_DIR || s->state == DIRECTORY_PROBE))
		s->dir = (int)result;
	if (s->rc) {
		give_up_with(s, result);
		return;
	}
	switch (s->state) {
	case DIRECTORY_OPEN_JOB:
		directory_set_state(s, DIRECTORY_MKDIR);
		return;
	case DIRECTORY_MKDIR:
		after_mkdir(s, result);
		return;
	case DIRECTORY_PROBE:
		directory_set_state(s, DIRECTORY_PROBE_MANIFEST);
		return;
	case DIRECTORY_PROBE_MANIFEST:
		after_probe(s, result);
		return;
	case DIRECTORY_READ_MANIFEST:
		directory_found_read(s, result);
		return;
	case DIRECTORY_ASIDE_OLD:
		directory_close_handle(s, s->dir);
		s->dir = -1;
		directory_set_state(s, DIRECTORY_MKDIR);
		return;
	case DIRECTORY_OPEN_DIR:
		after_open(s);
		return;
	case DIRECTORY_LOOK:
		directory_set_state(s, s->found ? DIRECTORY_SYNC_LINK : DIRECTORY_MANIFEST);
		return;
	case DIRECTORY_LINK:
	case DIRECTORY_RENAME:
		directory_set_state(s, after_naming(s, result));
		return;
	case DIRECTORY_UNLINK_TMP:
		directory_set_state(s, DIRECTORY_SYNC_LINK);
		return;
	case DIRECTORY_SYNC_LINK:
		seal_is_linked(s);
		return;
	default:
		directory_set_state(s, s->state + 1);
	}
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

void directory_start(struct directory *s)
{
	name_dir(s->id, s->name);
	list_init(&s->closing);
	s->dir = s->job_dir = s->manifest = -1;
	s->progress_ns = clock_now();
	directory_set_state(s, DIRECTORY_JOB_DIR);
}

void directory_seal(struct directory *s, const struct wbuf *manifest)
{
	if (s->text.len || s->rc)
		return;
	struct err err = {{0}};
	wbuf_put(&s->text, manifest->data, manifest->len);
	int rc = wbuf_finish(&s->text);
	if (!rc)
		rc = manifest_decode(s->text.data, s->text.len, &s->expected, &err);
	if (rc)
		directory_drop(s, rc, err.text[0] ? err.text : "no memory for the manifest");
	else if (s->state == DIRECTORY_READY)
		directory_set_state(s, DIRECTORY_LOOK);
}

void directory_drop(struct directory *s, int rc, const char *why)
{
	if (s->rc || is_cleanup(s->state))
		return;
	s->rc = rc;
	err_set(&s->err, rc, "%s", why);
	if (s->state == DIRECTORY_READY)
		give_up(s); /* nothing is in flight that would go on */
}

void directory_abandon(struct directory *s)
{
	s->abandoned = true;
	if (s->state == DIRECTORY_LEFT)
		directory_set_state(s, DIRECTORY_CLOSE_DIR);
	else
		directory_drop(s, -ECANCELED, "another daemon has taken over the job");
}

void directory_remove(struct directory *s)
{
	if (s->state == DIRECTORY_LEFT)
		directory_set_state(s, s->kept ? DIRECTORY_CLOSE_DIR : DIRECTORY_REMOVE);
}

void directory_free(struct directory *s)
{
	if (!s)
		return;
	directory_free_closing(s);
	wbuf_free(&s->text);
	manifest_free(&s->expected);
	free(s->there);
	directory_free_looks(s);
	directory_compare_forget(s);
	free(s);
}
