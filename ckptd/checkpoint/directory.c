#include "checkpoint/directory_private.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/denied.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *name, *point; /* the failpoint is evaluated when the state is entered */
} states[SITE_STATE_END] = {
	[SITE_JOB_DIR] = {"job-dir", "commit.job_dir"},
	[SITE_OPEN_JOB] = {"open-job", "commit.open_job"},
	[SITE_MKDIR] = {"mkdir", "commit.mkdir"},
	[SITE_PROBE] = {"probe", "commit.probe"},
	[SITE_PROBE_MANIFEST] = {"probe-manifest", "commit.probe_manifest"},
	[SITE_READ_MANIFEST] = {"read-manifest", "commit.read_manifest"},
	[SITE_ASIDE_OLD] = {"aside-old", "commit.aside_old"},
	[SITE_OPEN_DIR] = {"open-dir", "commit.open_dir"},
	[SITE_SYNC_JOB] = {"sync-job", "commit.sync_job"},
	[SITE_SYNC_ROOT] = {"sync-root", "commit.sync_root"},
	[SITE_READY] = {"ready", "commit.ready"},
	[SITE_LOOK] = {"look", "commit.look"},
	[SITE_MANIFEST] = {"manifest", "commit.manifest"},
	[SITE_LINK] = {"link", "commit.link"},
	[SITE_RENAME] = {"rename", "commit.rename"},
	[SITE_UNLINK_TMP] = {"unlink-tmp", "commit.unlink_tmp"},
	[SITE_SYNC_LINK] = {"sync-link", "commit.sync_link"},
	[SITE_ASIDE] = {"aside", "commit.aside"},
	[SITE_SYNC_ASIDE] = {"sync-aside", "commit.sync_aside"},
	[SITE_DISARM] = {"disarm", "commit.disarm"},
	[SITE_LEFT] = {"left", "commit.left"},
	[SITE_REMOVE] = {"remove", "commit.remove"},
	[SITE_CLOSE_DIR] = {"close-site", "commit.close_site"},
	[SITE_CLOSE_JOB] = {"close-site-job", "commit.close_site_job"},
	[SITE_DONE] = {"over", "commit.over"},
};

const char *site_state_name(enum site_state state)
{
	return state > 0 && state < SITE_STATE_END ? states[state].name : "?";
}

void site_fail(struct site *s, int rc, const char *what)
{
	if (s->rc)
		return;
	s->rc = rc;
	err_set(&s->err, rc, "%s of %s/%s failed: %s", what, s->job, s->name, err_name(rc));
	denied_dir(s->disk, s->dir >= 0 ? s->dir : s->job_dir >= 0 ? s->job_dir : s->root, rc, &s->err);
}

static void enter(struct site *s);

static bool is_cleanup(enum site_state state)
{
	return state >= SITE_ASIDE;
}

/* The only place where the state changes. */
void site_set_state(struct site *s, enum site_state state)
{
	s->state = state;
	int rc = failpoint(states[state].point, NULL);
	if (rc && !is_cleanup(state)) {
		site_advance(s, rc);
		return;
	}
	log_debug("site %s/%s: %s", s->job, s->name, states[state].name);
	enter(s);
}

static void give_up(struct site *s)
{
	s->failed(s);
	s->kept = !s->dir_made;
	site_set_state(s, s->dir_made ? SITE_ASIDE : SITE_LEFT);
}

/* ---- single operations --------------------------------------------------------------------------------------- */

static void op_done(struct disk_op *op)
{
	site_advance(op->arg, op->result);
}

void site_submit(struct site *s, struct disk_op op)
{
	s->op = op;
	s->op.done = op_done;
	s->op.arg = s;
	disk_submit(s->disk, &s->op);
}

static void submit_sync(struct site *s, int handle)
{
	site_submit(s, (struct disk_op){.kind = DISK_FSYNC, .file = handle});
}

static void text_done(struct writer *w)
{
	site_advance(w->arg, w->rc);
}

static void write_manifest(struct site *s)
{
	struct writer *w = &s->writer;
	*w = (struct writer){.disk = s->disk, .dir = s->dir, .done = text_done, .arg = s, .size = s->text.len};
	snprintf(w->name, sizeof(w->name), "%s", MANIFEST_TMP);
	w->extents[0] = (struct writer_extent){s->text.data, 0, s->text.len};
	writer_start(w);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

static void enter_close(struct site *s, int *handle, enum site_state next)
{
	if (*handle < 0) {
		site_set_state(s, next);
		return;
	}
	int file = *handle;
	*handle = -1;
	site_submit(s, (struct disk_op){.kind = DISK_CLOSE, .file = file});
}

static void enter(struct site *s)
{
	switch (s->state) {
	case SITE_JOB_DIR:
		site_submit(s, (struct disk_op){.kind = DISK_MKDIR, .dir = s->root, .name = s->job});
		return;
	case SITE_OPEN_JOB:
		site_submit(s, (struct disk_op){.kind = DISK_OPEN, .dir = s->root, .name = s->job, .flags = DISK_DIR});
		return;
	case SITE_MKDIR:
		site_submit(s, (struct disk_op){.kind = DISK_MKDIR, .dir = s->job_dir, .name = s->name});
		return;
	case SITE_PROBE:
	case SITE_OPEN_DIR:
		site_submit(s,
			    (struct disk_op){.kind = DISK_OPEN, .dir = s->job_dir, .name = s->name, .flags = DISK_DIR});
		return;
	case SITE_PROBE_MANIFEST:
		site_submit(s, (struct disk_op){.kind = DISK_OPEN, .dir = s->dir, .name = NAME_MANIFEST});
		return;
	case SITE_READ_MANIFEST:
		site_read_found(s);
		return;
	case SITE_ASIDE_OLD:
	case SITE_ASIDE:
		site_move_aside(s);
		return;
	case SITE_SYNC_JOB:
	case SITE_SYNC_ASIDE:
		submit_sync(s, s->job_dir);
		return;
	case SITE_SYNC_ROOT:
		submit_sync(s, s->root);
		return;
	case SITE_READY:
		if (s->text.len)
			site_set_state(s, SITE_LOOK);
		return;
	case SITE_LOOK:
		site_look(s);
		return;
	case SITE_MANIFEST:
		write_manifest(s);
		return;
	case SITE_LINK:
	case SITE_RENAME:
		site_submit(s, (struct disk_op){.kind = s->state == SITE_LINK ? DISK_LINK : DISK_RENAME,
						.dir = s->dir,
						.name = MANIFEST_TMP,
						.dir2 = s->dir,
						.name2 = NAME_MANIFEST});
		return;
	case SITE_UNLINK_TMP:
		site_submit(s, (struct disk_op){.kind = DISK_UNLINK, .dir = s->dir, .name = MANIFEST_TMP});
		return;
	case SITE_SYNC_LINK:
		submit_sync(s, s->dir);
		return;
	case SITE_DISARM:
		site_disarm(s);
		return;
	case SITE_LEFT:
		s->left(s);
		return;
	case SITE_REMOVE:
		site_submit(s, (struct disk_op){.kind = DISK_RMDIR, .dir = s->job_dir, .name = s->aside});
		return;
	case SITE_CLOSE_DIR:
		if (list_empty(&s->closing)) /* else the last one that is closed enters anew */
			enter_close(s, &s->dir, SITE_CLOSE_JOB);
		return;
	case SITE_CLOSE_JOB:
		enter_close(s, &s->job_dir, SITE_DONE);
		return;
	case SITE_DONE:
		s->done(s);
		return;
	case SITE_STATE_END:
		return;
	}
}

/* States in which an error is an answer, not a failure. */
static bool tolerated(const struct site *s, int64_t result)
{
	switch (s->state) {
	case SITE_JOB_DIR:
	case SITE_MKDIR:
		return result == -EEXIST;
	case SITE_PROBE_MANIFEST:
	case SITE_ASIDE_OLD:
	case SITE_RENAME:
	case SITE_UNLINK_TMP:
		return result == -ENOENT;
	case SITE_LINK:
		return result == -EPERM || result == -EOPNOTSUPP || result == -ENOSYS || result == -EEXIST;
	default:
		return is_cleanup(s->state);
	}
}

/* A server that is asked again because its answer was lost says of what it has done that the name exists, or that it does not. */
static enum site_state after_naming(struct site *s, int64_t result)
{
	if (result == -EEXIST || result == -ENOENT) {
		s->doubt = (int)result;
		return SITE_PROBE_MANIFEST;
	}
	if (s->state == SITE_RENAME)
		return SITE_SYNC_LINK;
	return result < 0 ? SITE_RENAME : SITE_UNLINK_TMP;
}

/* A manifest in a directory of our name: an earlier life of this daemon finished this very commit, or we have just named it. Without
 * one the directory is what a crash left behind. */
static void after_probe(struct site *s, int64_t result)
{
	s->manifest = result < 0 ? -1 : (int)result;
	if (result >= 0) {
		site_set_state(s, SITE_READ_MANIFEST);
	} else if (!s->doubt) {
		site_set_state(s, SITE_ASIDE_OLD);
	} else {
		site_fail(s, s->doubt, "link");
		give_up(s);
	}
}

static void after_mkdir(struct site *s, int64_t result)
{
	if (result == -EEXIST && !s->aside_tried) {
		s->aside_tried = true;
		site_set_state(s, SITE_PROBE);
	} else if (result == -EEXIST) {
		site_fail(s, -EEXIST, "mkdir");
		give_up(s);
	} else {
		s->dir_made = true;
		site_set_state(s, SITE_OPEN_DIR);
	}
}

static void advance_cleanup(struct site *s, int64_t result)
{
	switch (s->state) {
	case SITE_ASIDE: /* -ENOENT: it bears our name no more, whatever became of the answer */
		s->kept = result < 0 && result != -ENOENT;
		site_set_state(s, s->kept ? SITE_LEFT : SITE_SYNC_ASIDE);
		return;
	case SITE_SYNC_ASIDE: /* without this fsync the files stay: see the invariants */
		s->kept = result < 0;
		site_set_state(s, s->kept ? SITE_LEFT : SITE_DISARM);
		return;
	case SITE_DISARM:
		site_disarm(s);
		return;
	case SITE_REMOVE:
		site_set_state(s, SITE_CLOSE_DIR);
		return;
	case SITE_CLOSE_DIR:
		site_set_state(s, SITE_CLOSE_JOB);
		return;
	default:
		site_set_state(s, SITE_DONE);
	}
}

/* What has arrived although it was given up meanwhile must be closed, and cleared away. */
static void give_up_with(struct site *s, int64_t result)
{
	if (result >= 0 && s->state == SITE_MKDIR)
		s->dir_made = true;
	if (result >= 0 && s->state == SITE_PROBE_MANIFEST)
		site_close_handle(s, (int)result);
	if (s->manifest >= 0)
		site_close_handle(s, s->manifest);
	s->manifest = -1;
	give_up(s);
}

static void after_open(struct site *s)
{
	site_set_state(s, SITE_SYNC_JOB);
	if (!s->rc)
		s->made(s);
}

static void seal_is_linked(struct site *s)
{
	site_set_state(s, SITE_CLOSE_DIR);
	s->sealed(s);
}

void site_advance(struct site *s, int64_t result)
{
	s->progress_ns = clock_now();
	if (is_cleanup(s->state)) {
		advance_cleanup(s, result);
		return;
	}
	if (result < 0 && !tolerated(s, result))
		site_fail(s, (int)result, states[s->state].name);
	if (result >= 0 && s->state == SITE_OPEN_JOB)
		s->job_dir = (int)result;
	if (result >= 0 && (s->state == SITE_OPEN_DIR || s->state == SITE_PROBE))
		s->dir = (int)result;
	if (s->rc) {
		give_up_with(s, result);
		return;
	}
	switch (s->state) {
	case SITE_OPEN_JOB:
		site_set_state(s, SITE_MKDIR);
		return;
	case SITE_MKDIR:
		after_mkdir(s, result);
		return;
	case SITE_PROBE:
		site_set_state(s, SITE_PROBE_MANIFEST);
		return;
	case SITE_PROBE_MANIFEST:
		after_probe(s, result);
		return;
	case SITE_READ_MANIFEST:
		site_found_read(s, result);
		return;
	case SITE_ASIDE_OLD:
		site_close_handle(s, s->dir);
		s->dir = -1;
		site_set_state(s, SITE_MKDIR);
		return;
	case SITE_OPEN_DIR:
		after_open(s);
		return;
	case SITE_LOOK:
		site_set_state(s, s->found ? SITE_SYNC_LINK : SITE_MANIFEST);
		return;
	case SITE_LINK:
	case SITE_RENAME:
		site_set_state(s, after_naming(s, result));
		return;
	case SITE_UNLINK_TMP:
		site_set_state(s, SITE_SYNC_LINK);
		return;
	case SITE_SYNC_LINK:
		seal_is_linked(s);
		return;
	default:
		site_set_state(s, s->state + 1);
	}
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

void site_start(struct site *s)
{
	name_dir(s->id, s->name);
	list_init(&s->closing);
	s->dir = s->job_dir = s->manifest = -1;
	s->progress_ns = clock_now();
	site_set_state(s, SITE_JOB_DIR);
}

void site_seal(struct site *s, const struct wbuf *manifest)
{
	if (s->text.len || s->rc)
		return;
	struct err err = {{0}};
	wbuf_put(&s->text, manifest->data, manifest->len);
	int rc = wbuf_finish(&s->text);
	if (!rc)
		rc = manifest_decode(s->text.data, s->text.len, &s->expected, &err);
	if (rc)
		site_drop(s, rc, err.text[0] ? err.text : "no memory for the manifest");
	else if (s->state == SITE_READY)
		site_set_state(s, SITE_LOOK);
}

void site_drop(struct site *s, int rc, const char *why)
{
	if (s->rc || is_cleanup(s->state))
		return;
	s->rc = rc;
	err_set(&s->err, rc, "%s", why);
	if (s->state == SITE_READY)
		give_up(s); /* nothing is in flight that would go on */
}

void site_remove(struct site *s)
{
	if (s->state == SITE_LEFT)
		site_set_state(s, s->kept ? SITE_CLOSE_DIR : SITE_REMOVE);
}

void site_free(struct site *s)
{
	if (!s)
		return;
	site_free_closing(s);
	wbuf_free(&s->text);
	manifest_free(&s->expected);
	free(s->there);
	site_free_looks(s);
	free(s);
}
