#include "checkpoint/directory_private.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/disk/denied.h"
#include "store/read/repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *point; /* the failpoint is evaluated when the state is entered */
} states[DIRECTORY_STATE_END] = {
	[DIRECTORY_JOB_DIR] = {"job-dir", "commit.job_dir"},
	[DIRECTORY_OPEN_JOB] = {"open-job", "commit.open_job"},
	[DIRECTORY_PROBE] = {"probe", "commit.probe"},
	[DIRECTORY_PROBE_MANIFEST] = {"probe-manifest", "commit.probe_manifest"},
	[DIRECTORY_READ_MANIFEST] = {"read-manifest", "commit.read_manifest"},
	[DIRECTORY_MKDIR] = {"mkdir", "commit.mkdir"},
	[DIRECTORY_ASIDE] = {"aside", "commit.aside"},
	[DIRECTORY_OPEN_DIR] = {"open-dir", "commit.open_dir"},
	[DIRECTORY_SYNC_ROOT] = {"sync-root", "commit.sync_root"},
	[DIRECTORY_READY] = {"ready", "commit.ready"},
	[DIRECTORY_LOOK] = {"look", "commit.look"},
	[DIRECTORY_MANIFEST] = {"manifest", "commit.manifest"},
	[DIRECTORY_SYNC_MANIFEST] = {"sync-manifest", "commit.sync_manifest"},
	[DIRECTORY_NAME] = {"name", "commit.name"},
	[DIRECTORY_SYNC_NAME] = {"sync-name", "commit.sync_name"},
	[DIRECTORY_LEFT] = {"left", "commit.left"},
	[DIRECTORY_DISARM] = {"disarm", "commit.disarm"},
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
	return state >= DIRECTORY_LEFT;
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
	s->kept = !s->dir_made || s->naming;
	directory_set_state(s, DIRECTORY_LEFT);
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
	snprintf(w->name, sizeof(w->name), "%s", NAME_MANIFEST);
	w->extents[0] = (struct writer_extent){s->text.data, 0, s->text.len};
	writer_start(w);
}

static void make_job_dir(struct directory *s)
{
	directory_submit(s, (struct disk_op){.kind = DISK_MKDIR, .dir = s->root, .name = s->job});
}

static void move_aside(struct directory *s)
{
	snprintf(s->aside, sizeof(s->aside), "%s%s.%lx", REPO_ABANDONED, s->work + strlen(NAME_WORK_PREFIX),
		 (unsigned long)clock_wall());
	directory_submit(s, (struct disk_op){.kind = DISK_RENAME,
					     .dir = s->job_dir,
					     .name = s->work,
					     .dir2 = s->job_dir,
					     .name2 = s->aside});
}

/* Whatever is answered, and whenever: from here on it may be a checkpoint. */
static void ask_for_name(struct directory *s)
{
	s->naming = true;
	directory_submit(
		s,
		(struct disk_op){
			.kind = DISK_RENAME, .dir = s->job_dir, .name = s->work, .dir2 = s->job_dir, .name2 = s->name});
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
		directory_if_in_place(s, make_job_dir);
		return;
	case DIRECTORY_OPEN_JOB:
		directory_submit(
			s, (struct disk_op){.kind = DISK_OPEN, .dir = s->root, .name = s->job, .flags = DISK_DIR});
		return;
	case DIRECTORY_MKDIR:
		directory_submit(s, (struct disk_op){.kind = DISK_MKDIR, .dir = s->job_dir, .name = s->work});
		return;
	case DIRECTORY_PROBE:
	case DIRECTORY_OPEN_DIR:
		directory_submit(s, (struct disk_op){.kind = DISK_OPEN,
						     .dir = s->job_dir,
						     .name = s->state == DIRECTORY_PROBE ? s->name : s->work,
						     .flags = DISK_DIR});
		return;
	case DIRECTORY_PROBE_MANIFEST:
		directory_submit(s, (struct disk_op){.kind = DISK_OPEN, .dir = s->dir, .name = NAME_MANIFEST});
		return;
	case DIRECTORY_READ_MANIFEST:
		directory_read_found(s);
		return;
	case DIRECTORY_ASIDE:
		move_aside(s);
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
	case DIRECTORY_SYNC_MANIFEST:
		submit_sync(s, s->dir);
		return;
	case DIRECTORY_NAME:
		directory_if_in_place(s, ask_for_name);
		return;
	case DIRECTORY_SYNC_NAME:
		submit_sync(s, s->job_dir);
		return;
	case DIRECTORY_LEFT:
		if (s->abandoned)
			directory_set_state(s, DIRECTORY_CLOSE_DIR);
		else
			s->left(s);
		return;
	case DIRECTORY_DISARM:
		if (s->dir < 0)
			directory_set_state(s, DIRECTORY_REMOVE);
		else
			directory_submit(s,
					 (struct disk_op){.kind = DISK_UNLINK, .dir = s->dir, .name = NAME_MANIFEST});
		return;
	case DIRECTORY_REMOVE:
		directory_submit(s, (struct disk_op){.kind = DISK_RMDIR, .dir = s->job_dir, .name = s->work});
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
	case DIRECTORY_PROBE:
	case DIRECTORY_PROBE_MANIFEST:
	case DIRECTORY_ASIDE:
		return result == -ENOENT;
	case DIRECTORY_NAME:
		return result == -ENOENT || result == -EEXIST || result == -ENOTEMPTY;
	default:
		return is_cleanup(s->state);
	}
}

/* A server that is asked again because its answer was lost says of what it has done that the name exists, or that it does not. */
static enum directory_state after_naming(struct directory *s, int64_t result)
{
	if (result >= 0)
		return DIRECTORY_SYNC_NAME;
	s->doubt = result == -ENOENT ? -ENOENT : -EEXIST;
	return DIRECTORY_PROBE;
}

static void let_go_of_dir(struct directory *s)
{
	if (s->dir >= 0)
		directory_close_handle(s, s->dir);
	s->dir = -1;
}

/* There is no such checkpoint. A directory of its name without a manifest is of an older release, which wrote under that name: upkeep/gc.h
 * collects it. Ours takes the place of an empty one. */
static void no_checkpoint(struct directory *s)
{
	let_go_of_dir(s);
	if (!s->doubt) {
		directory_set_state(s, DIRECTORY_MKDIR);
		return;
	}
	directory_fail(s, s->doubt, "name");
	give_up(s);
}

/* What has its name: an earlier incarnation of this daemon, or another coordinator, finished this very commit, or we have just named it. */
static void after_probe(struct directory *s, int64_t result)
{
	if (result < 0) {
		no_checkpoint(s);
		return;
	}
	let_go_of_dir(s);
	s->dir = (int)result;
	directory_set_state(s, DIRECTORY_PROBE_MANIFEST);
}

static void after_probe_manifest(struct directory *s, int64_t result)
{
	if (result < 0) {
		no_checkpoint(s);
		return;
	}
	s->manifest = (int)result;
	directory_set_state(s, DIRECTORY_READ_MANIFEST);
}

static void after_mkdir(struct directory *s, int64_t result)
{
	if (result == -EEXIST && !s->aside_tried) {
		s->aside_tried = true;
		directory_set_state(s, DIRECTORY_ASIDE);
	} else if (result == -EEXIST) {
		directory_fail(s, -EEXIST, "mkdir");
		give_up(s);
	} else {
		s->dir_made = true;
		directory_set_state(s, DIRECTORY_OPEN_DIR);
	}
}

static void advance_cleanup(struct directory *s)
{
	switch (s->state) {
	case DIRECTORY_DISARM:
		directory_set_state(s, DIRECTORY_REMOVE);
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
	if (result >= 0 && (s->state == DIRECTORY_PROBE || s->state == DIRECTORY_PROBE_MANIFEST))
		directory_close_handle(s, (int)result);
	if (s->manifest >= 0)
		directory_close_handle(s, s->manifest);
	s->manifest = -1;
	give_up(s);
}

static void after_open(struct directory *s)
{
	directory_set_state(s, DIRECTORY_SYNC_ROOT);
	if (!s->rc)
		s->made(s);
}

static void is_named(struct directory *s)
{
	directory_set_state(s, DIRECTORY_CLOSE_DIR);
	if (!s->abandoned)
		s->sealed(s);
}

void directory_advance(struct directory *s, int64_t result)
{
	s->progress_ns = clock_now();
	if (is_cleanup(s->state)) {
		advance_cleanup(s);
		return;
	}
	if (result < 0 && !tolerated(s, result))
		directory_fail(s, (int)result, states[s->state].name);
	if (result >= 0 && s->state == DIRECTORY_OPEN_JOB)
		s->job_dir = (int)result;
	if (result >= 0 && s->state == DIRECTORY_OPEN_DIR)
		s->dir = (int)result;
	if (s->rc) {
		give_up_with(s, result);
		return;
	}
	switch (s->state) {
	case DIRECTORY_MKDIR:
		after_mkdir(s, result);
		return;
	case DIRECTORY_PROBE:
		after_probe(s, result);
		return;
	case DIRECTORY_PROBE_MANIFEST:
		after_probe_manifest(s, result);
		return;
	case DIRECTORY_READ_MANIFEST:
		directory_found_read(s, result);
		return;
	case DIRECTORY_ASIDE:
		directory_set_state(s, DIRECTORY_MKDIR);
		return;
	case DIRECTORY_OPEN_DIR:
		after_open(s);
		return;
	case DIRECTORY_LOOK:
		directory_set_state(s, s->found ? DIRECTORY_SYNC_MANIFEST : DIRECTORY_MANIFEST);
		return;
	case DIRECTORY_SYNC_MANIFEST:
		directory_set_state(s, s->found ? DIRECTORY_SYNC_NAME : DIRECTORY_NAME);
		return;
	case DIRECTORY_NAME:
		directory_set_state(s, after_naming(s, result));
		return;
	case DIRECTORY_SYNC_NAME:
		is_named(s);
		return;
	default:
		directory_set_state(s, s->state + 1);
	}
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

void directory_start(struct directory *s)
{
	name_dir(s->id, s->name);
	name_work(s->id, s->maker, s->work);
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
		directory_set_state(s, s->kept ? DIRECTORY_CLOSE_DIR : DIRECTORY_DISARM);
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
	directory_place_forget(s);
	free(s);
}
