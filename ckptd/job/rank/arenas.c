#include "job/rank/barriers.h"

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "format/arena/job_blobs.h"
#include "job/jobs.h"
#include "job/participation.h"
#include "job/rank/job_former.h"
#include "job/rank/keeping.h"
#include "job/rank/prefault.h"
#include "participant/room.h"
#include "runtime/room.h"
#include "service/room.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SOON_MS = 2 };

#define MEBI (1ull << 20)

/* What the tables of all ranks come to; arenas that fit are kept. */
struct forming {
	struct layout layouts[WIRE_LOCAL_MAX];
	bool keep[WIRE_LOCAL_MAX];
	uint64_t cost[WIRE_LOCAL_MAX];
	uint64_t state; /* bytes of all ranks */
	bool leaves;    /* what is in the arenas is kept beside those that are made */
	struct memory *made[WIRE_LOCAL_MAX];
};

static void forming_free(struct job *job, struct forming *f)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		layout_free(&f->layouts[r]);
		memory_put(f->made[r]);
	}
	free(f);
}

static bool fits(const struct memory *mem, const struct table *table, const struct layout *layout)
{
	return mem && !mem->failed && table_equal(table, mem->table) && layout_equal(layout, &mem->layout);
}

/* The arena holds the same table: one of the two is enough. */
static void share_table(struct rank *rank)
{
	table_put(rank->table);
	rank->table = table_get(rank->mem->table);
}

/* Arenas of these very tables, laid out together. */
static bool as_before(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		if (!job->has_arenas || rank->mem->failed || rank->table != rank->mem->table)
			return false;
	}
	return true;
}

static int weigh(struct rank *rank, struct forming *f, struct err *err)
{
	struct layout *layout = &f->layouts[rank->index];
	f->state += layout->data_bytes;
	if (f->keep[rank->index]) {
		share_table(rank);
		return 0;
	}
	f->cost[rank->index] = memory_cost(rank->table, layout, rank->job->nslots);
	return f->cost[rank->index] ? 0 : err_set(err, -EOVERFLOW, "the state of rank %u is too large", rank->id);
}

/* What is complete in the arenas goes with all of them. */
static void match(struct job *job, struct forming *f)
{
	bool all = true;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		f->keep[r] = fits(rank->mem, rank->table, &f->layouts[r]);
		all &= f->keep[r];
	}
	f->leaves = !all && saves_in_memory(&job->saves, UINT64_MAX);
	for (uint32_t r = 0; f->leaves && r < job->nlocal; r++)
		f->keep[r] = false;
}

static int lay_out(struct job *job, struct forming *f, struct err *err)
{
	const struct registration *regs[WIRE_LOCAL_MAX];
	bool same = as_before(job);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		regs[r] = &job->ranks[r].table->reg;
		f->keep[r] = same;
	}
	int rc = same ? 0 : registrations_share_blobs(regs, job->nlocal, err);
	if (!rc && !same)
		rc = layout_make(regs, job->nlocal, job->nlocal == job->world, LAYOUT_FILE_MAX, f->layouts, err);
	if (!rc && !same)
		match(job, f);
	for (uint32_t r = 0; !rc && !same && r < job->nlocal; r++)
		rc = weigh(&job->ranks[r], f, err);
	return rc;
}

/* The limit of the node, and whose it is where a container set it: the default is a share of that. */
static const char *limit_text(const struct runtime *runtime, char *dst, size_t size)
{
	uint64_t limit = runtime->config.memory_limit, group = cgroup_memory_limit();
	char is[16], all[16];
	bytes_human(is, sizeof(is), limit);
	if (group != UINT64_MAX && limit == (group / 10 * 8 & ~(MEBI - 1)))
		snprintf(dst, size, "%s, 80%% of the %s of ckptd's control group", is,
			 bytes_human(all, sizeof(all), group));
	else
		snprintf(dst, size, "%s", is);
	return dst;
}

static int check_memory(struct job *job, const struct forming *f, struct err *err)
{
	struct runtime *runtime = job->runtime;
	uint64_t used = runtime->memory.arenas + runtime->memory.tables + runtime->memory.copies,
		 of_job = former_bytes(job);
	uint64_t limit = job->policy.memory_limit, more = 0;
	char a[16], b[16], c[16], e[16], node[96];
	for (uint32_t r = 0; r < job->nlocal; r++) {
		if (f->keep[r])
			continue;
		if (job->ranks[r].mem && !f->leaves) {
			used -= job->ranks[r].mem->size;
			of_job -= job->ranks[r].mem->size;
		}
		more += f->cost[r];
	}
	if (limit && of_job + more > limit)
		return err_set(
			err, -ENOMEM,
			"job '%s' needs %s of arenas (%s of state on %u ranks, %u slots each) and holds %s of "
			"others, the limit of this job is %s: raise memory-limit of [job %s] or lower CKPT_SLOTS",
			job->name, bytes_human(a, sizeof(a), more), bytes_human(b, sizeof(b), f->state), job->nlocal,
			job->nslots, bytes_human(c, sizeof(c), of_job), bytes_human(e, sizeof(e), limit), job->name);
	if (used + more <= runtime->config.memory_limit) {
		int rc = manager_reserve(runtime->manager, used + more, err);
		return rc ? err_prefix(err, rc, "job '%s' needs %s of arenas (%s of state on %u ranks, %u slots each)",
				       job->name, bytes_human(a, sizeof(a), more), bytes_human(b, sizeof(b), f->state),
				       job->nlocal, job->nslots)
			  : 0;
	}
	return err_set(err, -ENOMEM,
		       "job '%s' needs %s of arenas (%s of state on %u ranks, %u slots each), %s of other arenas, of "
		       "tables and of copies for other nodes are in use, the limit of this node is %s: raise "
		       "--memory-limit or lower CKPT_SLOTS",
		       job->name, bytes_human(a, sizeof(a), more), bytes_human(b, sizeof(b), f->state), job->nlocal,
		       job->nslots, bytes_human(c, sizeof(c), used), limit_text(runtime, node, sizeof(node)));
}

/* A table counts like arenas, before anything is made of it. */
static int charge_table(struct rank *rank, uint64_t len, struct err *err)
{
	struct runtime *runtime = rank->job->runtime;
	uint64_t others = runtime->memory.tables - rank->table_bytes,
		 arenas = runtime->memory.arenas + runtime->memory.copies, more = TABLE_COST * len;
	char a[16], b[16], c[16], l[16];
	if (more > rank->table_bytes && arenas + others + more > runtime->config.memory_limit)
		return err_set(err, -ENOMEM,
			       "the table of rank %u needs %s, %s of other tables and %s of arenas and copies for "
			       "other nodes are in use, the "
			       "limit of this "
			       "node is %s: register fewer tensors and pieces, or raise --memory-limit",
			       rank->id, bytes_human(a, sizeof(a), more), bytes_human(b, sizeof(b), others),
			       bytes_human(c, sizeof(c), arenas),
			       bytes_human(l, sizeof(l), runtime->config.memory_limit));
	int rc = manager_reserve(runtime->manager, arenas + others + more, err);
	if (rc)
		return err_prefix(err, rc, "the table of rank %u needs %s", rank->id, bytes_human(a, sizeof(a), more));
	runtime->memory.tables = others + more;
	rank->table_bytes = more;
	return 0;
}

/* While others are mapped to arenas of the agreed tables, a newcomer cannot bring another table. */
static int check_same_table(struct rank *rank, struct err *err)
{
	struct job *job = rank->job;
	if (!job->has_arenas || !rank->mem || table_equal(rank->table, rank->mem->table))
		return 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (r != rank->index && job->ranks[r].client && job->ranks[r].arena_sent)
			return err_set(
				err, -EINVAL,
				"rank %u registers another table (%u entries) than the one that the arenas of job '%s' "
				"were made for (%u entries), while rank %u still uses it",
				rank->id, rank->table->reg.nentries, job->name, rank->mem->table->reg.nentries,
				job->ranks[r].id);
	return 0;
}

int job_take_table(struct rank *rank, const void *data, size_t len, struct err *err)
{
	const struct registration *reg;
	int rc = charge_table(rank, len, err);
	if (rc)
		return rc;
	if (rank->mem && digest_equal(digest_bytes(data, len), rank->mem->table->digest)) {
		rank->table = table_get(rank->mem->table);
		return 0;
	}
	rc = table_decode(data, len, &rank->table, err);
	if (rc)
		return rc;
	reg = &rank->table->reg;
	if (reg->rank != rank->id || reg->world != rank->job->world)
		return err_set(err, -EINVAL, "the table says rank %u of %u, the session rank %u of %u", reg->rank,
			       reg->world, rank->id, rank->job->world);
	return check_same_table(rank, err);
}

int job_check_arena(const struct job *job, uint64_t size, struct err *err)
{
	char is[16], used[16], most[16];
	uint64_t all = job->runtime->memory.arenas + job->runtime->memory.copies,
		 limit = job->runtime->config.memory_limit;
	uint64_t of_job = former_bytes(job), job_limit = job->policy.memory_limit;
	if (size > limit || all > limit - size)
		return err_set(err, -ENOMEM,
			       "an arena of %s and the %s of arenas, and of copies for other nodes, in use exceed the "
			       "limit of this node, %s: raise "
			       "memory-limit of [node]",
			       bytes_human(is, sizeof(is), size), bytes_human(used, sizeof(used), all),
			       bytes_human(most, sizeof(most), limit));
	if (job_limit && (size > job_limit || of_job > job_limit - size))
		return err_set(err, -ENOMEM,
			       "an arena of %s and the other arenas of job '%s', %s, exceed the job's limit, %s: raise "
			       "memory-limit of [job %s]",
			       bytes_human(is, sizeof(is), size), job->name, bytes_human(used, sizeof(used), of_job),
			       bytes_human(most, sizeof(most), job_limit), job->name);
	int rc = manager_reserve(job->runtime->manager, all + job->runtime->memory.tables + size, err);
	return rc ? err_prefix(err, rc, "an arena of %s", bytes_human(is, sizeof(is), size)) : 0;
}

static int make_arenas(struct job *job, struct forming *f, struct err *err)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		if (f->keep[r])
			continue;
		int rc = memory_create(job->name, job->ranks[r].table, &f->layouts[r], job->nslots,
				       job->runtime->config.huge_pages, &f->made[r], err);
		if (rc)
			return rc;
	}
	return failpoint("job.arenas", NULL);
}

/* ---- installing ------------------------------------------------------------------------------------------------ */

static void doorbell_rang(void *arg, uint32_t events)
{
	struct rank *rank = arg;
	uint64_t count;
	ssize_t ignored = read(rank->doorbell, &count, sizeof(count));
	(void)ignored;
	(void)events;
	saves_follow(&rank->job->saves);
	interval_look(rank->job);
	loop_soon(rank->job->runtime->loop, SOON_MS); /* a capture by a device, or a copy, that has begun */
}

static int open_doorbell(struct rank *rank, struct err *err)
{
	if (rank->doorbell >= 0)
		return 0;
	rank->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rank->doorbell < 0)
		return err_set(err, -errno, "eventfd: %s", err_name(errno));
	rank->doorbell_watch = loop_watch(rank->job->runtime->loop, rank->doorbell, EPOLLIN, doorbell_rang, rank);
	return rank->doorbell_watch ? 0 : err_set(err, -ENOMEM, "cannot watch a doorbell");
}

void job_keep_arena(struct rank *rank)
{
	struct memory *mem = rank->mem;
	if (mem->ready && !mem->kept && !rank->job->former) /* whose arenas have that place */
		mem->kept = manager_keep(rank->job->runtime->manager, rank->job->name, rank->id, mem->fd);
}

void job_drop_arena(struct rank *rank)
{
	if (!rank->mem || !rank->mem->kept || rank->job->runtime->stopping)
		return;
	manager_drop(rank->job->runtime->manager, rank->job->name, rank->id);
	rank->mem->kept = false;
}

static void hold_at_launcher(struct rank *rank)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_arena_of m = {.rank = rank->id, .size = rank->mem->size};
	if (!rank->mem->ready)
		return;
	rank->mem->held = true;
	job_keep_arena(rank);
	if (!rank->job->launcher || wire_arena_of_encode(&m, &body))
		return;
	client_send(rank->job->launcher, WIRE_HOLD, 0, &body, &rank->mem->fd, 1);
}

void job_hold_all(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			hold_at_launcher(&job->ranks[r]);
}

static void install(struct rank *rank, struct memory *mem)
{
	struct runtime *runtime = rank->job->runtime;
	if (rank->mem)
		runtime->memory.arenas -= rank->mem->size;
	job_drop_arena(rank);
	memory_put(rank->mem);
	rank->mem = mem;
	runtime->memory.arenas += mem->size;
	int near = memory_near(mem, rank->pid, NUMA_NODES);
	if (near && near != -ENOENT)
		log_debug("job %s: the arena of rank %u lies on any NUMA node: %s", rank->job->name,
			  mem->table->reg.rank, err_name(near));
	prefault_start(rank->job->jobs, mem);
}

/* What was left is let go where it is on storage, too; else the refusal says what it takes. */
static int find_room(struct job *job, const struct forming *f, struct err *err)
{
	int rc = check_memory(job, f, err);
	if (rc == -ENOMEM && former_let_go_stored(job, "it is on storage, and its memory is needed"))
		rc = check_memory(job, f, err);
	if (rc == -ENOMEM && job->former)
		former_explain(job->former, err);
	if (rc == -ENOMEM)
		keeping_explain(job, err);
	return rc;
}

/* Before the arenas are replaced. */
static int leave(struct job *job, struct err *err)
{
	struct former *former;
	int rc = former_take(job, &former, err);
	if (!rc)
		former_give(job, former);
	return rc;
}

int job_make_arenas(struct job *job, struct err *err)
{
	struct forming *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, -ENOMEM, "no memory for the arenas of job '%s'", job->name);
	former_return(job);
	int rc = lay_out(job, f, err);
	if (!rc)
		rc = find_room(job, f, err);
	if (!rc)
		rc = make_arenas(job, f, err);
	for (uint32_t r = 0; !rc && r < job->nlocal; r++)
		rc = open_doorbell(&job->ranks[r], err);
	if (!rc && f->leaves)
		rc = leave(job, err);
	for (uint32_t r = 0; !rc && r < job->nlocal; r++) {
		if (f->made[r]) {
			install(&job->ranks[r], f->made[r]);
			f->made[r] = NULL;
		}
		if (f->keep[r] && memory_renew(job->ranks[r].mem, job->name))
			log_warn("job %s: no memory to renew the head of rank %u's arena", job->name, job->ranks[r].id);
		if (!job->ranks[r].mem->held)
			hold_at_launcher(&job->ranks[r]);
		memory_set_epoch(job->ranks[r].mem, job->epoch);
		if (job->stop)
			memory_set_stop(job->ranks[r].mem, true);
		memory_set_pause(job->ranks[r].mem, job->pause);
		health_marks_keep(&job->health_marks, job->ranks[r].mem);
	}
	if (!rc) {
		job->has_arenas = true;
		participation_shares(job);
	}
	forming_free(job, f);
	return rc;
}
