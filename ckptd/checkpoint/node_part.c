#include "checkpoint/node_part_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "checkpoint/node_manifest.h"
#include "store/denied.h"

static const struct {
	const char *name, *point; /* the failpoint is evaluated when the state is entered */
} states[COMMIT_STATE_END] = {
	[COMMIT_ASK] = {"ask", "commit.ask"},
	[COMMIT_FIND_JOB] = {"find-job", "commit.find_job"},
	[COMMIT_FIND_DIR] = {"find-dir", "commit.find_dir"},
	[COMMIT_OPEN_NODE] = {"open-node", "commit.open_node"},
	[COMMIT_READ_NODE] = {"read-node", "commit.read_node"},
	[COMMIT_PARENT] = {"parent", "commit.parent"},
	[COMMIT_DATA] = {"data", "commit.data"},
	[COMMIT_DIGESTS] = {"digests", "commit.digests"},
	[COMMIT_SIDECARS] = {"sidecars", "commit.sidecars"},
	[COMMIT_NODE] = {"node", "commit.node"},
	[COMMIT_SYNC_DIR] = {"sync-dir", "commit.sync_dir"},
	[COMMIT_PREPARED] = {"prepared", "commit.prepared"},
	[COMMIT_STOPPED] = {"stopped", "commit.stopped"},
	[COMMIT_WITHDRAW] = {"withdraw", "commit.withdraw"},
	[COMMIT_CLOSE_NODE] = {"close-node", "commit.close_node"},
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
	return state >= COMMIT_STOPPED;
}

/* The only place where the state changes. */
void commit_set_state(struct commit *c, enum commit_state state)
{
	c->state = state;
	int rc = failpoint(states[state].point, NULL);
	if (rc && !is_cleanup(state)) {
		commit_fail(c, rc, states[state].name);
		c->state = COMMIT_STOPPED;
	}
	log_debug("commit %s/%s: %s", c->job, c->name, states[c->state].name);
	enter(c);
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

static void enter_digests(struct commit *c)
{
	if (!c->digests_ready)
		return; /* commit_digests_ready goes on */
	int rc = commit_encode_sidecars(c);
	if (!rc && c->found)
		rc = commit_compare_found(c);
	commit_advance(c, rc);
}

static void enter_node(struct commit *c)
{
	char name[NAME_FILE_MAX];
	int rc = prepare_node(c, &c->err);
	if (rc) {
		c->rc = rc;
		commit_set_state(c, COMMIT_STOPPED);
		return;
	}
	name_node(c->node, name);
	commit_write_text(c, name, &c->node_text);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

/* Nothing of it is in flight. What was there before is not deleted. */
static void enter_stopped(struct commit *c)
{
	bool cleared = c->cleared;
	if (!c->told) {
		c->told = true;
		c->failed(c); /* which may have cleared it */
		if (!cleared)
			return;
	}
	commit_set_state(c, c->kept || c->only_compare || c->found ? COMMIT_CLOSE_NODE : COMMIT_WITHDRAW);
}

static void enter_withdraw(struct commit *c)
{
	if (c->dir < 0 || !commit_remove_next(c))
		commit_set_state(c, COMMIT_CLOSE_NODE);
}

static void enter_close(struct commit *c, int *handle)
{
	if (*handle < 0) {
		commit_set_state(c, c->state + 1);
		return;
	}
	int file = *handle;
	*handle = -1;
	commit_submit(c, (struct disk_op){.kind = DISK_CLOSE, .file = file});
}

static void enter(struct commit *c)
{
	switch (c->state) {
	case COMMIT_ASK:
		return;
	case COMMIT_FIND_JOB:
		commit_submit(c,
			      (struct disk_op){.kind = DISK_OPEN, .dir = c->root, .name = c->job, .flags = DISK_DIR});
		return;
	case COMMIT_FIND_DIR:
		commit_submit(
			c, (struct disk_op){.kind = DISK_OPEN, .dir = c->job_dir, .name = c->name, .flags = DISK_DIR});
		return;
	case COMMIT_OPEN_NODE:
		commit_open_found(c);
		return;
	case COMMIT_READ_NODE:
		commit_read_found(c);
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
		commit_submit(c, (struct disk_op){.kind = DISK_FSYNC, .file = c->dir});
		return;
	case COMMIT_PREPARED:
		c->prepared(c);
		return;
	case COMMIT_STOPPED:
		enter_stopped(c);
		return;
	case COMMIT_WITHDRAW:
		enter_withdraw(c);
		return;
	case COMMIT_CLOSE_NODE:
		enter_close(c, &c->node_file);
		return;
	case COMMIT_CLOSE_DIR:
		enter_close(c, &c->dir);
		return;
	case COMMIT_CLOSE_PARENT:
		enter_close(c, &c->parent_dir);
		return;
	case COMMIT_CLOSE_JOB:
		enter_close(c, &c->job_dir);
		return;
	case COMMIT_DONE:
		c->done(c);
		return;
	case COMMIT_STATE_END:
		return;
	}
}

static void after_open_node(struct commit *c, int64_t result)
{
	if (result >= 0) {
		commit_set_state(c, COMMIT_READ_NODE);
	} else if (!c->only_compare) {
		commit_set_state(c, COMMIT_PARENT);
	} else {
		commit_fail(c, -EEXIST, "writing over another checkpoint");
		commit_set_state(c, COMMIT_STOPPED);
	}
}

static void after_digests(struct commit *c)
{
	c->already = c->found != NULL;
	commit_set_state(c, c->already ? COMMIT_SYNC_DIR : COMMIT_SIDECARS);
}

static void after_files(struct commit *c)
{
	if (c->state == COMMIT_DATA && c->data_written)
		c->data_written(c);
	commit_set_state(c, c->state + 1);
}

static void advance_cleanup(struct commit *c)
{
	if (c->state == COMMIT_WITHDRAW)
		enter_withdraw(c);
	else
		commit_set_state(c, c->state + 1);
}

/* A handle that arrived is kept even when the commit was given up meanwhile: it must be closed. */
static void take_handle(struct commit *c, int file)
{
	if (c->state == COMMIT_FIND_JOB)
		c->job_dir = file;
	else if (c->state == COMMIT_FIND_DIR)
		c->dir = file;
	else if (c->state == COMMIT_OPEN_NODE)
		c->node_file = file;
}

void commit_advance(struct commit *c, int64_t result)
{
	c->progress_ns = clock_now();
	if (is_cleanup(c->state)) {
		advance_cleanup(c);
		return;
	}
	if (result < 0 && !(c->state == COMMIT_OPEN_NODE && result == -ENOENT))
		commit_fail(c, (int)result, states[c->state].name);
	if (result >= 0)
		take_handle(c, (int)result);
	if (c->rc) {
		commit_set_state(c, COMMIT_STOPPED);
		return;
	}
	switch (c->state) {
	case COMMIT_OPEN_NODE:
		after_open_node(c, result);
		return;
	case COMMIT_READ_NODE:
		c->found_len = (uint64_t)result;
		commit_set_state(c, COMMIT_DIGESTS);
		return;
	case COMMIT_DATA:
	case COMMIT_SIDECARS:
		after_files(c);
		return;
	case COMMIT_DIGESTS:
		after_digests(c);
		return;
	default:
		commit_set_state(c, c->state + 1);
	}
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

/* The rank can write any number. What came from another node, which is no arena, or out of a checkpoint, tells nothing. */
static uint32_t began(const struct commit *c)
{
	uint32_t epoch = 0;
	for (uint32_t r = 0; r < c->nranks; r++) {
		const struct arena_head *head = c->ranks[r].mem->head;
		uint32_t said = head ? head->slots[c->ranks[r].slot].began : 0;
		if (said <= c->id.epoch && said > epoch)
			epoch = said;
	}
	return epoch;
}

int commit_start(struct commit *c)
{
	name_dir(c->id, c->name);
	c->dir = c->job_dir = c->node_file = c->parent_dir = -1;
	c->progress_ns = clock_now();
	c->began = began(c);
	int rc = commit_collect_files(c);
	if (rc)
		return rc;
	commit_set_state(c, COMMIT_ASK);
	return 0;
}

void commit_write(struct commit *c, bool only_compare, const struct share_parts *parts)
{
	if (c->state != COMMIT_ASK || c->rc)
		return;
	commit_choose_files(c, parts);
	c->only_compare = only_compare;
	c->progress_ns = clock_now();
	commit_set_state(c, COMMIT_FIND_JOB);
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

void commit_end(struct commit *c)
{
	if (c->state == COMMIT_PREPARED && !c->rc)
		commit_set_state(c, COMMIT_CLOSE_NODE);
}

void commit_abort(struct commit *c, int rc, const char *why)
{
	if (c->rc || is_cleanup(c->state))
		return;
	c->rc = rc;
	err_set(&c->err, rc, "%s", why);
	bool stopped = commit_stop_files(c) || c->state == COMMIT_ASK || c->state == COMMIT_PREPARED;
	if (stopped || (c->state == COMMIT_DIGESTS && !c->digests_ready))
		commit_set_state(c, COMMIT_STOPPED); /* nothing is in flight that would go on */
}

void commit_clear(struct commit *c, bool kept)
{
	if (c->cleared || !c->rc)
		return;
	c->cleared = true;
	c->kept = kept;
	if (c->state == COMMIT_STOPPED)
		enter_stopped(c);
}

void commit_free(struct commit *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->nfiles; i++)
		commit_free_file(&c->cfiles[i]);
	free(c->cfiles);
	free(c->found);
	free(c->parent_mark);
	wbuf_free(&c->node_text);
	free(c);
}
