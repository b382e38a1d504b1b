#include "observe/health.h"

#include "base/clock.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "format/document/json_out.h"
#include "job/room.h"
#include "machine/room.h"
#include "observe/observe.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "store/disk/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FAILURES_FAILING = 3,   /* saves in a row that did not reach storage */
	UNVERIFIED_S = 600,     /* that something durable waits to be read back */
	FREE_PERCENT_SOON = 10, /* of the file system */
	SAVES_SOON = 3,         /* that still fit */
	MEMORY_PERCENT = 95,
	HUGE_PERCENT = 90,
};

static const struct {
	const char *name;
	enum health_severity severity;
	const char *remedy;
} codes[HEALTH_CODE_END] = {
	[HEALTH_STORE_MISSING] = {"STORE_MISSING", HEALTH_FAILING,
				  "Do what the text says: until then nothing is saved to storage. What is in memory is "
				  "good."},
	[HEALTH_STORE_READ_ONLY] = {"STORE_READ_ONLY", HEALTH_FAILING,
				    "Mount the store for writing; a file system that went read-only by itself has met "
				    "errors: look into the kernel's log first."},
	[HEALTH_STORE_FULL] = {"STORE_FULL", HEALTH_FAILING,
			       "Make room in the store: delete checkpoints that nobody needs, or raise the quota."},
	[HEALTH_STORE_FULL_SOON] = {"STORE_FULL_SOON", HEALTH_DEGRADED,
				    "Make room in the store before it is full: delete checkpoints that nobody needs."},
	[HEALTH_SAVE_FAILING] = {"SAVE_FAILING", HEALTH_DEGRADED,
				 "Look at the error: it names the file. What is in memory is good; the next save is "
				 "tried afresh."},
	[HEALTH_NOT_VERIFIED] = {"NOT_VERIFIED_SINCE", HEALTH_DEGRADED,
				 "The store is too slow to read back what is written, or does not answer: save less "
				 "often, or run ckpt verify at a quiet hour."},
	[HEALTH_DAMAGED] =
		{"DAMAGED", HEALTH_FAILING,
		 "Run ckpt verify over all checkpoints; check the device of the store. A restore passes over "
		 "what is damaged."},
	[HEALTH_RESTORE_FAILED] =
		{"RESTORE_FAILED", HEALTH_FAILING,
		 "Look at the error: it names each step that was passed over and why. ckpt list and ckpt "
		 "verify tell what the store has."},
	[HEALTH_RANK_HUNG] =
		{"RANK_HUNG", HEALTH_FAILING,
		 "Look at the rank's stack; ckpt run --hang-timeout ends and replaces such ranks by itself."},
	[HEALTH_RANKS_MISSING] = {"RANKS_MISSING", HEALTH_FAILING,
				  "Start the missing ranks, or look at why they end: the others wait for them."},
	[HEALTH_COPIES_MISSING] =
		{"COPIES_MISSING", HEALTH_DEGRADED,
		 "Start the other nodes' ckptd, or give them more memory (memory-limit): until then the loss of this "
		 "node "
		 "takes its part of the newest snapshot with it. Copies that nobody wants: copies = 0 in [job]."},
	[HEALTH_COORDINATOR_AWAY] = {"COORDINATOR_AWAY", HEALTH_DEGRADED,
				     "Start ckptd on the node that coordinates the job, or mend the way to it: until "
				     "then ranks save to memory, and nothing is written or copied. With a registry "
				     "another node takes over by itself."},
	[HEALTH_REGISTRY_AWAY] =
		{"REGISTRY_AWAY", HEALTH_DEGRADED,
		 "Look whether etcd runs, has a leader, and can be reached from this node. Training and "
		 "saves to memory go on. Until it is back no coordinator is elected: then nothing is written, and ckpt "
		 "halt is refused. SIGTERM to each ckpt run of a job ends its ranks after --grace."},
	[HEALTH_LOSS_NOT_FINITE] =
		{"LOSS_NOT_FINITE", HEALTH_DEGRADED,
		 "Let the job go back to the newest healthy checkpoint (ckpt rollback healthy), or stop it (ckpt "
		 "halt). What was saved since may hold the damage. loss-policy = rollback in [job] does so by "
		 "itself, and loss-policy = halt stops such jobs."},
	[HEALTH_LOSS_DIVERGED] = {"LOSS_DIVERGED", HEALTH_DEGRADED,
				  "Look at the learning rate, the data and the norm of the gradients. Go back to a "
				  "checkpoint from before "
				  "the rise, or stop the job: ckpt halt."},
	[HEALTH_NODE_MEMORY_UNCORRECTED] =
		{"NODE_MEMORY_UNCORRECTED", HEALTH_DEGRADED,
		 "Let the node go (ckpt drain), and replace the module that the kernel's log names (EDAC). Counting "
		 "begins anew when the machine does."},
	[HEALTH_NODE_DISK_DEAD] = {"NODE_DISK_DEAD", HEALTH_FAILING,
				   "Look into the kernel's log for errors of the device, or whether the server of the "
				   "store answers. Until it does nothing is saved there."},
	[HEALTH_NODE_GPU_LOST] = {"NODE_GPU_LOST", HEALTH_DEGRADED,
				  "Let the node go (ckpt drain), end ckptd, and reset the GPU (nvidia-smi -r) or the "
				  "machine. If it is lost again, have it replaced."},
	[HEALTH_NODE_GPU_ECC] = {"NODE_GPU_ECC", HEALTH_DEGRADED,
				 "Let the node go (ckpt drain), end ckptd, and reset the GPU (nvidia-smi -r), which "
				 "maps the bad rows out. If errors come back, have it replaced."},
	[HEALTH_NODE_GPU_XID] = {"NODE_GPU_XID", HEALTH_DEGRADED,
				 "Look the number up in NVIDIA's catalogue of XIDs, and the kernel's log for what was "
				 "reported with it. If it comes again, let the node go: ckpt drain."},
	[HEALTH_STANDSTILL] = {"STANDSTILL", HEALTH_NOTICE,
			       "Look at the stack of the rank that is named. It may be at something that is no step, "
			       "as an evaluation: "
			       "then it goes on by itself."},
	[HEALTH_STRAGGLER] =
		{"STRAGGLER", HEALTH_NOTICE,
		 "Compare the GPU's clock, temperature and errors, and what else runs there, with those of the "
		 "others. If the node is to blame, let it go: ckpt drain."},
	[HEALTH_LOSS_SPIKE] = {"LOSS_SPIKE", HEALTH_NOTICE,
			       "Most are over by themselves. If this one stays, go back to a checkpoint from before "
			       "it, and leave out the "
			       "data of these steps."},
	[HEALTH_NODE_MEMORY_CORRECTED] = {"NODE_MEMORY_CORRECTED", HEALTH_NOTICE,
					  "Have the module replaced that the kernel's log names (EDAC) when the node "
					  "is free: errors that cannot be corrected may follow."},
	[HEALTH_NODE_DISK_SLOW] = {"NODE_DISK_SLOW", HEALTH_NOTICE,
				   "Look what else writes there, and at the errors and the wear of the device "
				   "(smartctl). Saves to storage take longer; training does not wait for them."},
	[HEALTH_NODE_GPU_SLOWED] = {"NODE_GPU_SLOWED", HEALTH_NOTICE,
				    "Look at temperatures, fans and power supplies (nvidia-smi -q -d "
				    "TEMPERATURE,POWER,PERFORMANCE). The ranks there make all others wait."},
	[HEALTH_NODE_GPU_LINK] = {"NODE_GPU_LINK", HEALTH_NOTICE,
				  "Reseat the GPU or its cable when the node is free. Copies between GPU and host "
				  "take longer."},
	[HEALTH_NODE_CLOCK] =
		{"NODE_CLOCK", HEALTH_NOTICE,
		 "Look whether the node's time service runs and is in step (chronyc tracking, timedatectl). "
		 "Saves and recoveries do not need the time; records of several nodes do not fit together."},
	[HEALTH_NODE_FAR] = {"NODE_FAR", HEALTH_NOTICE,
			     "Look at this node's cable, its network card, its port of the switch and what else its "
			     "network is used "
			     "for. If all nodes of the cluster say so, they are far from each other."},
	[HEALTH_NODE_PEER_FAR] =
		{"NODE_PEER_FAR", HEALTH_NOTICE,
		 "If several nodes name the same one, look at its cable, its port of the switch and what else its "
		 "network is used for. If only this node does, look at the way between the two."},
	[HEALTH_NODE_SET_ASIDE] = {"NODE_SET_ASIDE", HEALTH_NOTICE,
				   "Find out why it fails (its log, the kernel's log), and repair it. Then have its "
				   "failures forgotten: ckpt nodes clear."},
	[HEALTH_MEMORY_FULL] = {"MEMORY_FULL", HEALTH_NOTICE,
				"Another job may not fit: raise --memory-limit, or end a job that is not needed."},
	[HEALTH_NO_STORE] = {"NO_STORE", HEALTH_NOTICE,
			     "Checkpoints live in memory only and are lost with this machine: give ckptd a --store."},
	[HEALTH_NO_HUGE_PAGES] =
		{"NO_HUGE_PAGES", HEALTH_NOTICE,
		 "Reserve huge pages (vm.nr_hugepages), or allow transparent ones for shared memory "
		 "(/sys/kernel/mm/transparent_hugepage/shmem_enabled: advise). Saves cost more processor "
		 "time without."},
	[HEALTH_MEMLOCK] = {"MEMLOCK", HEALTH_NOTICE,
			    "Raise the limit of locked memory for ckptd (ulimit -l, LimitMEMLOCK=): writes from "
			    "unpinned memory cost more processor time."},
	[HEALTH_IO_URING_FORBIDDEN] =
		{"IO_URING_FORBIDDEN", HEALTH_NOTICE,
		 "Allow io_uring in the container's seccomp profile, or set kernel.io_uring_disabled "
		 "to 0: threads write in its place, at more processor time."},
};

const char *health_code_name(enum health_code code)
{
	return codes[code].name;
}

const char *health_remedy(enum health_code code)
{
	return codes[code].remedy;
}

const char *health_severity_name(enum health_severity severity)
{
	static const char *const names[] = {"notice", "degraded", "failing"};
	return names[severity];
}

const char *health_status_name(enum health_severity severity)
{
	return severity ? health_severity_name(severity) : "ok";
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

struct look {
	struct observe *observe;
	const struct job *job; /* NULL: of the daemon */
	struct finding *found;
	unsigned n, max;
	struct finding left_out; /* what was found last and has no room */
	uint64_t now;
};

/* Where there are too many a finding takes the place of a milder one, else it is left out: the worst decides the status. */
static struct finding *place(struct look *look, enum health_severity severity)
{
	if (look->n < look->max)
		return &look->found[look->n++];
	struct finding *mildest = look->found;
	for (unsigned i = 1; i < look->n; i++)
		if (look->found[i].severity < mildest->severity)
			mildest = &look->found[i];
	return mildest->severity < severity ? mildest : &look->left_out;
}

static void put(struct look *look, enum health_code code, enum health_severity severity, const char *fmt, va_list ap)
{
	struct finding *f = place(look, severity);
	f->code = code;
	f->severity = severity;
	snprintf(f->job, sizeof(f->job), "%s", look->job ? look->job->name : "");
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
}

__attribute__((format(printf, 3, 4))) static void add(struct look *look, enum health_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put(look, code, codes[code].severity, fmt, ap);
	va_end(ap);
}

/* Worse than its code. */
__attribute__((format(printf, 3, 4))) static void add_failing(struct look *look, enum health_code code, const char *fmt,
							      ...)
{
	va_list ap;
	va_start(ap, fmt);
	put(look, code, HEALTH_FAILING, fmt, ap);
	va_end(ap);
}

static void look_at_space(struct look *look)
{
	const struct err *trouble = &look->observe->storage->place.trouble;
	if (trouble->text[0])
		add(look, HEALTH_STORE_MISSING, "%s", trouble->text);
	struct space_view view = space_get(look->observe->storage->space);
	char is[16], of[16];
	if (!view.known)
		return;
	bytes_human(is, sizeof(is), view.free_bytes);
	bytes_human(of, sizeof(of), view.total_bytes);
	uint64_t largest = 0;
	list_for(node, &look->observe->jobs->list) {
		const struct save_stats *m = &list_entry(node, struct job, link)->save_stats;
		for (uint32_t i = 0; i < m->nsaves; i++)
			largest = max_u64(largest, m->saves[i].written_bytes);
	}
	if (view.free_bytes < largest || !view.free_bytes)
		add(look, HEALTH_STORE_FULL, "the store has %s left of %s: another checkpoint does not fit", is, of);
	else if (view.free_bytes < largest * SAVES_SOON || view.free_bytes < view.total_bytes / 100 * FREE_PERCENT_SOON)
		add(look, HEALTH_STORE_FULL_SOON, "the store has %s left of %s", is, of);
}

static void look_at_machine(struct look *look)
{
	static const enum health_code code_of[AILMENT_END] = {
		[AILMENT_MEMORY_UNCORRECTED] = HEALTH_NODE_MEMORY_UNCORRECTED,
		[AILMENT_DISK_DEAD] = HEALTH_NODE_DISK_DEAD,
		[AILMENT_GPU_LOST] = HEALTH_NODE_GPU_LOST,
		[AILMENT_GPU_ECC] = HEALTH_NODE_GPU_ECC,
		[AILMENT_GPU_XID] = HEALTH_NODE_GPU_XID,
		[AILMENT_MEMORY_CORRECTED] = HEALTH_NODE_MEMORY_CORRECTED,
		[AILMENT_DISK_SLOW] = HEALTH_NODE_DISK_SLOW,
		[AILMENT_GPU_SLOWED] = HEALTH_NODE_GPU_SLOWED,
		[AILMENT_GPU_LINK] = HEALTH_NODE_GPU_LINK,
		[AILMENT_CLOCK] = HEALTH_NODE_CLOCK,
		[AILMENT_FAR] = HEALTH_NODE_FAR,
		[AILMENT_PEER_FAR] = HEALTH_NODE_PEER_FAR,
	};
	unsigned n;
	const struct ailment *ailments = machine_ailments(look->observe->runtime->machine, &n);
	for (unsigned i = 0; i < n; i++)
		add(look, code_of[ailments[i].kind], "%s", ailments[i].text);
}

/* What is wrong with itself each node tells; this is of those that fail. */
static void look_at_nodes(struct look *look)
{
	const struct peers *peers = look->observe->peers;
	for (unsigned n = 0; peers->roster && n < peers->roster->n; n++) {
		const char *why = roster_has(peers->roster, n) ? set_aside_lemon(look->observe->control, n) : "";
		if (*why)
			add(look, HEALTH_NODE_SET_ASIDE, "node %s is set aside: %s", peers->roster->nodes[n].name, why);
	}
}

static void look_at_daemon(struct look *look)
{
	const struct observe *observe = look->observe;
	char used[16], limit[16];
	if (!observe->runtime->config.store)
		add(look, HEALTH_NO_STORE, "this daemon has no store");
	if (observe->storage->disk && !strcmp(disk_engine(observe->storage->disk), "threads"))
		add(look, HEALTH_IO_URING_FORBIDDEN, "reading and writing with threads, not io_uring");
	if (observe->runtime->memory.arenas + observe->runtime->memory.copies >
	    observe->runtime->config.memory_limit / 100 * MEMORY_PERCENT)
		add(look, HEALTH_MEMORY_FULL, "%s of %s are taken by arenas, and copies for other nodes",
		    bytes_human(used, sizeof(used), observe->runtime->memory.arenas + observe->runtime->memory.copies),
		    bytes_human(limit, sizeof(limit), observe->runtime->config.memory_limit));
	look_at_space(look);
}

static void look_at_storage(struct look *look)
{
	const struct save_stats *m = &look->job->save_stats;
	if (m->storage_failures) {
		enum health_code code = m->storage_rc == -EROFS                                ? HEALTH_STORE_READ_ONLY
					: m->storage_rc == -ENOSPC || m->storage_rc == -EDQUOT ? HEALTH_STORE_FULL
											       : HEALTH_SAVE_FAILING;
		(m->storage_failures >= FAILURES_FAILING ? add_failing : add)(
			look, code, "%u save%s in a row did not reach storage: %s", m->storage_failures,
			m->storage_failures > 1 ? "s" : "", m->storage_error);
	}
	if (m->damaged_id.epoch)
		add(look, HEALTH_DAMAGED, "step %lu epoch %u was read back from storage and does not match",
		    (unsigned long)m->damaged_id.step, m->damaged_id.epoch);
	uint64_t waits = m->unverified_ns ? (look->now - m->unverified_ns) / CLOCK_NS_PER_S : 0;
	if (waits > UNVERIFIED_S)
		add(look, HEALTH_NOT_VERIFIED, "what is on storage waits for its reading back for %lu s",
		    (unsigned long)waits);
}

static void look_at_ranks(struct look *look)
{
	const struct job *job = look->job;
	unsigned hung = 0, unpinned = 0, small = 0, missing = 0;
	uint32_t first_hung = 0, first_missing = 0;
	for (uint32_t r = job->nlocal; r-- > 0;) {
		const struct rank *rank = &job->ranks[r];
		const struct memory *mem = rank->mem;
		if (rank->hung) {
			hung++;
			first_hung = rank->id;
		}
		if (rank->state == RANK_ABSENT) {
			missing++;
			first_missing = rank->id;
		}
		unpinned += mem && mem->unpinned;
		small += mem && mem->settled && !mem->reserved && mem->huge_bytes < mem->size / 100 * HUGE_PERCENT;
	}
	if (hung)
		add(look, HEALTH_RANK_HUNG, "rank %u gives no heartbeat (%u of %u)%s%s", first_hung, hung, job->nlocal,
		    job->standstill.is ? "; " : "", job->standstill.is ? job->standstill.text : "");
	if (missing && job->recovery_log.raised_ns &&
	    look->now - job->recovery_log.raised_ns > job->policy.join_timeout_ms * CLOCK_NS_PER_MS)
		add(look, HEALTH_RANKS_MISSING, "rank %u is missing (%u of %u) for %lu s", first_missing, missing,
		    job->nlocal, (unsigned long)((look->now - job->recovery_log.raised_ns) / CLOCK_NS_PER_S));
	if (unpinned)
		add(look, HEALTH_MEMLOCK, "the arenas of %u ranks are not registered for I/O", unpinned);
	if (small && look->observe->runtime->config.huge_pages != HUGE_PAGES_NEVER)
		add(look, HEALTH_NO_HUGE_PAGES, "the arenas of %u ranks lie in ordinary pages", small);
}

static void look_at_standstill(struct look *look)
{
	const struct standstill *s = &look->job->standstill;
	if (s->is)
		add(look, HEALTH_STANDSTILL, "no heartbeat for %.1f s: %s", (double)(look->now - s->since_ns) / 1e9,
		    s->text);
}

static void look_at_stragglers(struct look *look)
{
	const struct straggler_watch *w = &look->job->stragglers;
	char text[HEALTH_TEXT_MAX];
	for (uint32_t i = 0; i < w->nepisodes; i++)
		if (!w->episodes[i].until_wall_ns)
			add(look, HEALTH_STRAGGLER, "%s", straggler_text(&w->episodes[i], text, sizeof(text)));
}

static void look_at_loss(struct look *look)
{
	static const enum health_code code_of[LOSS_TROUBLE_END] = {[LOSS_SPIKE] = HEALTH_LOSS_SPIKE,
								   [LOSS_DIVERGED] = HEALTH_LOSS_DIVERGED,
								   [LOSS_NOT_FINITE] = HEALTH_LOSS_NOT_FINITE};
	const struct loss_episode *e = loss_watch_open(&look->job->loss);
	char text[HEALTH_TEXT_MAX];
	if (e)
		add(look, code_of[e->found.kind], "%s", loss_episode_text(e, text, sizeof(text)));
}

static void look_at_copies(struct look *look)
{
	const struct copies *c = &look->job->copies;
	const char *why = look->job->copying.why.text;
	unsigned n = copying_missing(look->job);
	if (n)
		add(look, HEALTH_COPIES_MISSING,
		    "step %lu of %u rank%s has not the copies on other nodes that it should: %s",
		    (unsigned long)c->id.step, n, n > 1 ? "s" : "", why[0] ? why : "a node that held some is lost");
}

static void look_at_restore(struct look *look)
{
	const struct recovery_log *all = &look->job->recovery_log;
	const struct recovery_record *last = all->n ? recoveries_at(all, all->n - 1) : NULL;
	if (last && last->rc)
		add(look, HEALTH_RESTORE_FAILED, "%s", last->passed_over);
}

static void look_at_coordinator(struct look *look)
{
	char who[200];
	if (look->job->spread && !look->job->linked)
		add(look, HEALTH_COORDINATOR_AWAY, "%s",
		    coordinator_text(look->observe->control, look->job->name, who, sizeof(who)));
}

static void look_at_registry(struct look *look)
{
	struct election_view v;
	if (election_look(look->observe->control, &v) && !v.synced)
		add(look, HEALTH_REGISTRY_AWAY, "%s", *v.away ? v.away : "it has not been reached yet");
}

static int by_severity(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	if (x->severity != y->severity)
		return (int)y->severity - (int)x->severity;
	return x->code != y->code ? (int)x->code - (int)y->code : strcmp(x->job, y->job);
}

unsigned health_find(struct observe *observe, struct finding *found, unsigned max, enum health_severity *severity)
{
	struct look look = {.observe = observe, .found = found, .max = max, .now = clock_now()};
	look_at_daemon(&look);
	look_at_machine(&look);
	look_at_nodes(&look);
	look_at_registry(&look);
	list_for(node, &observe->jobs->list) {
		look.job = list_entry(node, struct job, link);
		look_at_storage(&look);
		look_at_ranks(&look);
		look_at_standstill(&look);
		look_at_stragglers(&look);
		look_at_loss(&look);
		look_at_copies(&look);
		look_at_coordinator(&look);
		look_at_restore(&look);
	}
	qsort(found, look.n, sizeof(*found), by_severity);
	*severity = look.n ? found[0].severity : HEALTH_NOTICE;
	return look.n;
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

static void put_finding(struct wbuf *out, const struct finding *f)
{
	jout_raw(out, "{\"code\":");
	jout_text(out, codes[f->code].name);
	jout_raw(out, ",\"severity\":");
	jout_text(out, health_severity_name(f->severity));
	jout_raw(out, ",\"job\":");
	if (*f->job)
		jout_text(out, f->job);
	else
		jout_raw(out, "null");
	jout_raw(out, ",\"text\":");
	jout_text(out, f->text);
	jout_raw(out, ",\"remedy\":");
	jout_text(out, codes[f->code].remedy);
	jout_raw(out, "}");
}

int health_json(struct observe *observe, struct wbuf *out, enum health_severity *severity)
{
	struct finding *found = calloc(HEALTH_MAX, sizeof(*found));
	if (!found)
		return -ENOMEM;
	unsigned n = health_find(observe, found, HEALTH_MAX, severity);
	jout_raw(out, "{\"schema\":1,\"status\":");
	jout_text(out, health_status_name(*severity));
	jout_raw(out, ",\"node\":");
	jout_text(out, observe->runtime->config.node);
	jout_raw(out, ",\"findings\":[");
	for (unsigned i = 0; i < n; i++) {
		if (i)
			jout_raw(out, ",");
		put_finding(out, &found[i]);
	}
	jout_raw(out, "]}\n");
	free(found);
	return wbuf_finish(out);
}
