#include "checkpoint/node_part_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "checkpoint/node_manifest.h"
#include "store/disk/denied.h"

static const struct {
	const char *name, *point; /* the failpoint is evaluated when the state is entered */
} states[NODE_PART_STATE_END] = {
	[NODE_PART_ASK] = {"ask", "commit.ask"},
	[NODE_PART_FIND_JOB] = {"find-job", "commit.find_job"},
	[NODE_PART_FIND_DIR] = {"find-dir", "commit.find_dir"},
	[NODE_PART_OPEN_NODE] = {"open-node", "commit.open_node"},
	[NODE_PART_READ_NODE] = {"read-node", "commit.read_node"},
	[NODE_PART_PREVIOUS] = {"previous", "commit.previous"},
	[NODE_PART_DATA] = {"data", "commit.data"},
	[NODE_PART_DIGESTS] = {"digests", "commit.digests"},
	[NODE_PART_SIDECARS] = {"sidecars", "commit.sidecars"},
	[NODE_PART_NOTICE] = {"notice", "commit.notice"},
	[NODE_PART_NODE] = {"node", "commit.node"},
	[NODE_PART_SYNC_DIR] = {"sync-dir", "commit.sync_dir"},
	[NODE_PART_PREPARED] = {"prepared", "commit.prepared"},
	[NODE_PART_STOPPED] = {"stopped", "commit.stopped"},
	[NODE_PART_WITHDRAW] = {"withdraw", "commit.withdraw"},
	[NODE_PART_CLOSE_NODE] = {"close-node", "commit.close_node"},
	[NODE_PART_CLOSE_DIR] = {"close-dir", "commit.close_dir"},
	[NODE_PART_CLOSE_PREVIOUS] = {"close-previous", "commit.close_previous"},
	[NODE_PART_CLOSE_JOB] = {"close-job", "commit.close_job"},
	[NODE_PART_DONE] = {"done", "commit.done"},
};

const char *node_part_state_name(enum node_part_state state)
{
	return state > 0 && state < NODE_PART_STATE_END ? states[state].name : "?";
}

static void enter(struct node_part *c);

/* The coordinator's daemon had it made and fsynced before it ordered this part. */
static bool is_elsewhere(const struct node_part *c, int rc)
{
	return c->store && rc == -ENOENT && (c->state == NODE_PART_FIND_JOB || c->state == NODE_PART_FIND_DIR);
}

void node_part_fail(struct node_part *c, int rc, const char *what)
{
	if (c->rc)
		return;
	c->rc = rc;
	if (is_elsewhere(c, rc))
		err_set(&c->err, rc,
			"node %s does not find in its store %s what the job's coordinator has made in its own: all "
			"nodes need the same store. Is it mounted on all?",
			c->node, c->store);
	else
		err_set(&c->err, rc, "%s of %s/%s failed: %s", what, c->job, c->name, err_name(rc));
	denied_dir(c->disk, c->dir >= 0 ? c->dir : c->job_dir >= 0 ? c->job_dir : c->root, rc, &c->err);
	node_part_stop_files(c); /* which nothing would arrive for any more */
}

static bool is_cleanup(enum node_part_state state)
{
	return state >= NODE_PART_STOPPED;
}

/* The only place where the state changes. */
void node_part_set_state(struct node_part *c, enum node_part_state state)
{
	c->state = state;
	int rc = failpoint(states[state].point, NULL);
	if (rc && !is_cleanup(state)) {
		node_part_fail(c, rc, states[state].name);
		c->state = NODE_PART_STOPPED;
	}
	log_debug("commit %s/%s: %s", c->job, c->name, states[c->state].name);
	enter(c);
}

/* ---- single operations --------------------------------------------------------------------------------------- */

static void op_done(struct disk_op *op)
{
	node_part_advance(op->arg, op->result);
}

void node_part_submit(struct node_part *c, struct disk_op op)
{
	c->op = op;
	c->op.done = op_done;
	c->op.arg = c;
	disk_submit(c->disk, &c->op);
}

static void enter_digests(struct node_part *c)
{
	if (!c->digests_ready)
		return; /* node_part_digests_ready goes on */
	int rc = node_part_encode_sidecars(c);
	if (!rc && c->found)
		rc = node_part_compare_found(c);
	node_part_advance(c, rc);
}

static void enter_node(struct node_part *c)
{
	char name[NAME_FILE_MAX];
	int rc = node_manifest_make(c, &c->err);
	if (rc) {
		c->rc = rc;
		node_part_set_state(c, NODE_PART_STOPPED);
		return;
	}
	name_node(c->node, name);
	node_part_write_text(c, name, &c->node_text);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

/* Nothing of it is in flight. What was there before is not deleted. */
static void enter_stopped(struct node_part *c)
{
	bool cleared = c->cleared;
	if (!c->told) {
		c->told = true;
		c->failed(c); /* which may have cleared it */
		if (!cleared)
			return;
	}
	node_part_set_state(c, c->kept || c->only_compare || c->found ? NODE_PART_CLOSE_NODE : NODE_PART_WITHDRAW);
}

static void enter_withdraw(struct node_part *c)
{
	if (c->dir < 0 || !node_part_remove_next(c))
		node_part_set_state(c, NODE_PART_CLOSE_NODE);
}

static void enter_close(struct node_part *c, int *handle)
{
	if (*handle < 0) {
		node_part_set_state(c, c->state + 1);
		return;
	}
	int file = *handle;
	*handle = -1;
	node_part_submit(c, (struct disk_op){.kind = DISK_CLOSE, .file = file});
}

static void enter(struct node_part *c)
{
	switch (c->state) {
	case NODE_PART_ASK:
		return;
	case NODE_PART_FIND_JOB:
		node_part_submit(
			c, (struct disk_op){.kind = DISK_OPEN, .dir = c->root, .name = c->job, .flags = DISK_DIR});
		return;
	case NODE_PART_FIND_DIR:
		node_part_submit(
			c, (struct disk_op){.kind = DISK_OPEN, .dir = c->job_dir, .name = c->work, .flags = DISK_DIR});
		return;
	case NODE_PART_OPEN_NODE:
		node_part_open_found(c);
		return;
	case NODE_PART_READ_NODE:
		node_part_read_found(c);
		return;
	case NODE_PART_PREVIOUS:
		node_part_open_previous(c);
		return;
	case NODE_PART_DATA:
	case NODE_PART_SIDECARS:
		node_part_write_files(c);
		return;
	case NODE_PART_DIGESTS:
		enter_digests(c);
		return;
	case NODE_PART_NOTICE:
		node_part_write_notice(c);
		return;
	case NODE_PART_NODE:
		enter_node(c);
		return;
	case NODE_PART_SYNC_DIR:
		node_part_submit(c, (struct disk_op){.kind = DISK_FSYNC, .file = c->dir});
		return;
	case NODE_PART_PREPARED:
		c->prepared(c);
		return;
	case NODE_PART_STOPPED:
		enter_stopped(c);
		return;
	case NODE_PART_WITHDRAW:
		enter_withdraw(c);
		return;
	case NODE_PART_CLOSE_NODE:
		enter_close(c, &c->node_file);
		return;
	case NODE_PART_CLOSE_DIR:
		enter_close(c, &c->dir);
		return;
	case NODE_PART_CLOSE_PREVIOUS:
		enter_close(c, &c->previous_dir);
		return;
	case NODE_PART_CLOSE_JOB:
		enter_close(c, &c->job_dir);
		return;
	case NODE_PART_DONE:
		c->done(c);
		return;
	case NODE_PART_STATE_END:
		return;
	}
}

static void after_open_node(struct node_part *c, int64_t result)
{
	if (result >= 0) {
		node_part_set_state(c, NODE_PART_READ_NODE);
	} else if (!c->only_compare) {
		node_part_set_state(c, NODE_PART_PREVIOUS);
	} else {
		node_part_fail(c, -EEXIST, "writing over another checkpoint");
		node_part_set_state(c, NODE_PART_STOPPED);
	}
}

static void after_digests(struct node_part *c)
{
	c->already = c->found != NULL;
	node_part_set_state(c, c->already ? NODE_PART_SYNC_DIR : NODE_PART_SIDECARS);
}

static void after_files(struct node_part *c)
{
	if (c->state == NODE_PART_DATA && c->data_written)
		c->data_written(c);
	node_part_set_state(c, c->state + 1);
}

static void advance_cleanup(struct node_part *c)
{
	if (c->state == NODE_PART_WITHDRAW)
		enter_withdraw(c);
	else
		node_part_set_state(c, c->state + 1);
}

/* A handle that arrived is kept even when the commit was given up meanwhile: it must be closed. */
static void take_handle(struct node_part *c, int file)
{
	if (c->state == NODE_PART_FIND_JOB)
		c->job_dir = file;
	else if (c->state == NODE_PART_FIND_DIR)
		c->dir = file;
	else if (c->state == NODE_PART_OPEN_NODE)
		c->node_file = file;
}

void node_part_advance(struct node_part *c, int64_t result)
{
	c->progress_ns = clock_now();
	if (is_cleanup(c->state)) {
		advance_cleanup(c);
		return;
	}
	if (result < 0 && !(c->state == NODE_PART_OPEN_NODE && result == -ENOENT))
		node_part_fail(c, (int)result, states[c->state].name);
	if (result >= 0)
		take_handle(c, (int)result);
	if (c->rc) {
		node_part_set_state(c, NODE_PART_STOPPED);
		return;
	}
	switch (c->state) {
	case NODE_PART_OPEN_NODE:
		after_open_node(c, result);
		return;
	case NODE_PART_READ_NODE:
		c->found_len = (uint64_t)result;
		node_part_set_state(c, NODE_PART_DIGESTS);
		return;
	case NODE_PART_DATA:
	case NODE_PART_SIDECARS:
		after_files(c);
		return;
	case NODE_PART_DIGESTS:
		after_digests(c);
		return;
	default:
		node_part_set_state(c, c->state + 1);
	}
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static uint32_t began(const struct node_part *c)
{
	uint32_t epoch = 0;
	for (uint32_t r = 0; r < c->nranks; r++) {
		uint32_t said = memory_began(c->ranks[r].mem, c->ranks[r].slot);
		if (said > epoch)
			epoch = said;
	}
	return epoch;
}

int node_part_start(struct node_part *c)
{
	name_dir(c->id, c->name);
	c->dir = c->job_dir = c->node_file = c->previous_dir = -1;
	c->progress_ns = clock_now();
	c->began = began(c);
	int rc = node_part_collect_files(c);
	if (rc)
		return rc;
	node_part_set_state(c, NODE_PART_ASK);
	return 0;
}

void node_part_write(struct node_part *c, bool only_compare, uint64_t maker, const struct share_parts *parts)
{
	if (c->state != NODE_PART_ASK || c->rc)
		return;
	int rc = node_part_choose_files(c, parts);
	if (rc) {
		c->rc = rc;
		node_part_set_state(c, NODE_PART_STOPPED);
		return;
	}
	c->only_compare = only_compare;
	c->maker = maker;
	if (only_compare)
		name_dir(c->id, c->work);
	else
		name_work(c->id, maker, c->work);
	c->progress_ns = clock_now();
	node_part_set_state(c, NODE_PART_FIND_JOB);
}

bool node_part_waits(const struct node_part *c)
{
	if (c->state == NODE_PART_DATA)
		return node_part_files_wait(c);
	return c->state == NODE_PART_DIGESTS && !c->digests_ready;
}

/* What it waited for has come. */
static void end_wait(struct node_part *c)
{
	uint64_t now = clock_now();
	if (!node_part_waits(c))
		return;
	c->waited_ns += now - c->progress_ns;
	c->progress_ns = now;
}

void node_part_arrived(struct node_part *c)
{
	if (c->rc || c->state != NODE_PART_DATA)
		return;
	end_wait(c);
	node_part_resume_files(c);
}

void node_part_digests_ready(struct node_part *c)
{
	if (c->rc)
		return;
	end_wait(c);
	c->digests_ready = true;
	if (c->state == NODE_PART_DATA)
		node_part_resume_files(c);
	else if (c->state == NODE_PART_DIGESTS)
		enter_digests(c);
}

void node_part_end(struct node_part *c)
{
	if (c->state == NODE_PART_PREPARED && !c->rc)
		node_part_set_state(c, NODE_PART_CLOSE_NODE);
}

void node_part_abort(struct node_part *c, int rc, const char *why)
{
	if (c->rc || is_cleanup(c->state))
		return;
	c->rc = rc;
	err_set(&c->err, rc, "%s", why);
	bool stopped = node_part_stop_files(c) || c->state == NODE_PART_ASK || c->state == NODE_PART_PREPARED;
	if (stopped || (c->state == NODE_PART_DIGESTS && !c->digests_ready))
		node_part_set_state(c, NODE_PART_STOPPED); /* nothing is in flight that would go on */
}

void node_part_clear(struct node_part *c, uint64_t maker)
{
	if (c->cleared || (!c->rc && !is_cleanup(c->state)))
		return;
	c->cleared = true;
	c->kept = !maker || maker != c->maker;
	if (c->state == NODE_PART_STOPPED)
		enter_stopped(c);
}

void node_part_free(struct node_part *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->nfiles; i++)
		node_part_free_file(&c->cfiles[i]);
	free(c->cfiles);
	part_layout_put(c->layout);
	free(c->found);
	free(c->previous_mark);
	wbuf_free(&c->node_text);
	wbuf_free(&c->notice);
	free(c);
}
