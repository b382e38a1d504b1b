#include "config/setting.h"

#include "base/address.h"
#include "base/bytes.h"
#include "base/cgroup.h"
#include "format/tensor/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
	SOCKET_PATH_MAX = 107,   /* sockaddr_un */
	BANDWIDTH_MIN = 1 << 16, /* bytes/s. Below, a commit would look stalled */
	TIME_MAX = 1000000000,   /* ms */
	PEER_TIMEOUT_MIN = 100,  /* ms. Below, a busy machine looks dead */
	KEEP_MAX = 1000000,      /* checkpoints */
	USERS_MAX = 256,
	COPIES_MAX = 4,
	SAVE_QUEUE_MAX = 5, /* slots of a rank, less one to capture into, one being written, the newest in memory */
};

static const char *const huge_pages[] = {"auto", "transparent", "never", NULL};
#define KEEP_TIME_MAX (100ull * 365 * 86400000) /* ms: a hundred years */

static const char *const store_modes[] = {"0700", "0750", "0770", "0755", "2750", "2770", NULL};
static const char *const fabric_providers[] = {"tcp", "verbs", "efa", NULL};
static const char *const save_policies[] = {"newest", "queue", "refuse", NULL};

static const char *const compressions[] = {"none", "zstd", NULL};

#define NODE(member) .scope = SCOPE_NODE, .offset = offsetof(struct config, member)
#define JOB(member) .scope = SCOPE_JOB, .offset = offsetof(struct policy, member)
#define USER(member) .scope = SCOPE_USER, .offset = offsetof(struct share, member)

const struct setting settings[] = {
	{"store", NODE(store), .type = SETTING_PATH, .flag = "store", .env = "CKPT_STORE", .value = "DIR",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "repository of checkpoints, made when missing; without one checkpoints stay in memory"},
	{"store-mode", NODE(store_mode), .type = SETTING_CHOICE, .flag = "store-mode", .env = "CKPT_STORE_MODE",
	 .value = "MODE", .fallback = "0700", .choices = store_modes, .restart = true,
	 .help = "permissions of a store that is made: 0700 (its user alone), 0750, 2770 (a group's), 0755, …"},
	{"socket", NODE(socket), .type = SETTING_PATH, .flag = "socket", .env = "CKPT_SOCKET", .value = "PATH",
	 .fallback_text = "$XDG_RUNTIME_DIR/ckptd.sock, else /run/ckptd.sock", .max = SOCKET_PATH_MAX, .restart = true,
	 .help = "control socket, made with mode 0600"},
	{"name", NODE(node), .type = SETTING_NAME, .flag = "node", .env = "CKPT_NODE", .value = "NAME",
	 .fallback_text = "the host name", .max = NAME_NODE_MAX - 1, .restart = true,
	 .help = "name of this node in manifests"},
	{"http", NODE(http), .type = SETTING_ADDRESS, .flag = "http", .env = "CKPT_HTTP", .value = "ADDR:PORT",
	 .fallback = "off", .max = ADDRESS_MAX - 1, .restart = true,
	 .help = "serve metrics, health and a status page there, for reading; port 0: any that is free"},
	{"span-log", NODE(span_log), .type = SETTING_PATH, .flag = "span-log", .env = "CKPT_SPAN_LOG", .value = "FILE",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "add a line of JSON for each save and recovery that has ended"},
	{"cluster", NODE(cluster), .type = SETTING_PATH, .flag = "cluster", .env = "CKPT_CLUSTER", .value = "FILE",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "roster of the cluster, the same on all its nodes; without one this node is alone"},
	{"cluster-key", NODE(cluster_key), .type = SETTING_PATH, .flag = "cluster-key", .env = "CKPT_CLUSTER_KEY",
	 .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "secret by which the nodes of the cluster know each other, the same on all"},
	{"fabric-provider", NODE(fabric_provider), .type = SETTING_CHOICE, .flag = "fabric-provider",
	 .env = "CKPT_FABRIC_PROVIDER", .value = "PROVIDER", .fallback = "tcp", .choices = fabric_providers,
	 .restart = true, .help = "of libfabric, for copies between the memories of nodes: tcp, verbs, efa"},
	{"peer-timeout", NODE(peer_timeout_ms), .type = SETTING_DURATION, .flag = "peer-timeout",
	 .env = "CKPT_PEER_TIMEOUT", .value = "TIME", .fallback = "1s", .min = PEER_TIMEOUT_MIN, .max = TIME_MAX,
	 .restart = true, .help = "another node that is silent for so long is lost"},
	{"net-bandwidth", NODE(net_bandwidth), .type = SETTING_BYTES, .flag = "net-bandwidth",
	 .env = "CKPT_NET_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "all jobs together copy at most this much to other nodes per second; 0: no limit"},
	{"memory-limit", NODE(memory_limit), .type = SETTING_BYTES, .flag = "memory-limit", .env = "CKPT_MEMORY_LIMIT",
	 .value = "SIZE", .fallback_text = "80% of the memory, or of the control group's", .min = 1, .max = UINT64_MAX,
	 .help = "ceiling for the arenas of all jobs and what is kept of their tables"},
	{"huge-pages", NODE(huge_pages), .type = SETTING_CHOICE, .flag = "huge-pages", .env = "CKPT_HUGE_PAGES",
	 .value = "WHICH", .fallback = "auto", .choices = huge_pages,
	 .help = "of arenas made from now on: auto (the kernel's pool, else transparent), transparent, never"},
	{"write-bandwidth", NODE(write_bandwidth), .type = SETTING_BYTES, .flag = "write-bandwidth",
	 .env = "CKPT_WRITE_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "all jobs together write at most this much to storage per second; 0: no limit"},
	{"scrub-interval", NODE(scrub_interval_ms), .type = SETTING_DURATION, .flag = "scrub-interval",
	 .env = "CKPT_SCRUB_INTERVAL", .value = "TIME", .fallback = "168h", .max = KEEP_TIME_MAX,
	 .help = "a checkpoint that nobody has read for so long is read and checked again; 0: never"},
	{"read-bandwidth", NODE(read_bandwidth), .type = SETTING_BYTES, .flag = "read-bandwidth",
	 .env = "CKPT_READ_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "checkpoints of all jobs are read back at most this fast per second; 0: no limit"},
	{"collect-after", NODE(collect_after_ms), .type = SETTING_DURATION, .flag = "collect-after",
	 .env = "CKPT_COLLECT_AFTER", .value = "TIME", .fallback = "1h", .max = KEEP_TIME_MAX,
	 .help = "what crashes left half-written in the store is deleted after this time"},
	{"system", NODE(system), .type = SETTING_BOOL, .flag = "system", .env = "CKPT_SYSTEM", .value = "YES|NO",
	 .fallback = "no", .restart = true,
	 .help = "serve all users of this node, each by a process of his own; needs root"},
	{"max-users", NODE(max_users), .type = SETTING_COUNT, .flag = "max-users", .env = "CKPT_MAX_USERS",
	 .value = "N", .fallback = "64", .min = 1, .max = USERS_MAX,
	 .help = "of a system service: users that are served at the same time"},
	{"user-linger", NODE(user_linger_ms), .type = SETTING_DURATION, .flag = "user-linger",
	 .env = "CKPT_USER_LINGER", .value = "TIME", .fallback = "10m", .min = 1, .max = TIME_MAX,
	 .help = "of a system service: how long the process of a user stays without jobs and connections"},

	{"memory-limit", JOB(memory_limit), .type = SETTING_BYTES, .flag = "job-memory-limit",
	 .env = "CKPT_JOB_MEMORY_LIMIT", .value = "SIZE", .fallback = "0", .min = 1, .max = UINT64_MAX, .zero = true,
	 .help = "ceiling for the arenas of one job on this node; 0: that of the node alone"},
	{"write-bandwidth", JOB(write_bandwidth), .type = SETTING_BYTES, .flag = "job-write-bandwidth",
	 .env = "CKPT_JOB_WRITE_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "a job writes at most this much to storage per second; 0: no limit of its own"},
	{"read-bandwidth", JOB(read_bandwidth), .type = SETTING_BYTES, .flag = "job-read-bandwidth",
	 .env = "CKPT_JOB_READ_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true,
	 .help = "a job's checkpoints are read back at most this fast per second; 0: no limit of its own"},
	{"save-policy", JOB(save_policy), .type = SETTING_CHOICE, .flag = "save-policy", .env = "CKPT_SAVE_POLICY",
	 .value = "POLICY", .fallback = "newest", .choices = save_policies,
	 .help = "what becomes of a save to storage that meets an unfinished one"},
	{"save-queue", JOB(save_queue), .type = SETTING_COUNT, .flag = "save-queue", .env = "CKPT_SAVE_QUEUE",
	 .value = "N", .fallback = "1", .min = 1, .max = SAVE_QUEUE_MAX,
	 .help = "with the policy queue: saves that may wait for the disk, never more than the slots less 3"},
	{"persist-every", JOB(persist_every), .type = SETTING_COUNT, .flag = "persist-every",
	 .env = "CKPT_PERSIST_EVERY", .value = "N", .fallback = "1", .min = 1, .max = 1000000,
	 .help = "write one in N of the saves to storage that the ranks ask for, the first of them first"},
	{"full-every", JOB(full_every), .type = SETTING_COUNT, .flag = "full-every", .env = "CKPT_FULL_EVERY",
	 .value = "N", .fallback = "10", .min = 1, .max = 1000000,
	 .help = "checkpoints that one file may serve by hard links, as long as it does not change; 1: no links"},
	{"compress", JOB(compress), .type = SETTING_CHOICE, .flag = "compress", .env = "CKPT_COMPRESS", .value = "HOW",
	 .fallback = "none", .choices = compressions,
	 .help = "none, or zstd: data files are packed by byte plane where that pays; see format.md"},
	{"verify", JOB(verify), .type = SETTING_BOOL, .flag = "verify", .env = "CKPT_VERIFY", .value = "YES|NO",
	 .fallback = "yes", .help = "read checkpoints back after the commit; without, they end at durable"},
	{"keep-last", JOB(keep_last), .type = SETTING_COUNT, .flag = "keep-last", .env = "CKPT_KEEP_LAST", .value = "N",
	 .fallback = "0", .max = KEEP_MAX, .help = "keep the newest N checkpoints; 0: not a rule"},
	{"keep-every", JOB(keep_every), .type = SETTING_COUNT, .flag = "keep-every", .env = "CKPT_KEEP_EVERY",
	 .value = "STEPS", .fallback = "0", .max = STEP_MAX,
	 .help = "keep checkpoints whose step is a multiple of this; 0: not a rule"},
	{"keep-within", JOB(keep_within_ms), .type = SETTING_DURATION, .flag = "keep-within", .env = "CKPT_KEEP_WITHIN",
	 .value = "TIME", .fallback = "0", .max = KEEP_TIME_MAX,
	 .help = "keep checkpoints that were committed within this time; 0: not a rule"},
	{"keep-hourly", JOB(keep_hourly), .type = SETTING_COUNT, .flag = "keep-hourly", .env = "CKPT_KEEP_HOURLY",
	 .value = "N", .fallback = "0", .max = KEEP_MAX,
	 .help = "keep the newest checkpoint of each of the last N hours (UTC) that have one; 0: not a rule"},
	{"keep-daily", JOB(keep_daily), .type = SETTING_COUNT, .flag = "keep-daily", .env = "CKPT_KEEP_DAILY",
	 .value = "N", .fallback = "0", .max = KEEP_MAX,
	 .help = "keep the newest checkpoint of each of the last N days (UTC) that have one; 0: not a rule"},
	{"copies", JOB(copies), .type = SETTING_COUNT, .flag = "copies", .env = "CKPT_COPIES", .value = "N",
	 .fallback = "1", .max = COPIES_MAX,
	 .help = "in a cluster: copies of each snapshot in the memory of other nodes; 0: none"},
	{"save-timeout", JOB(save_timeout_ms), .type = SETTING_DURATION, .flag = "save-timeout",
	 .env = "CKPT_SAVE_TIMEOUT", .value = "TIME", .fallback = "2m", .min = 1, .max = TIME_MAX,
	 .help = "a step that is begun must be captured on every rank within this"},
	{"join-timeout", JOB(join_timeout_ms), .type = SETTING_DURATION, .flag = "join-timeout",
	 .env = "CKPT_JOIN_TIMEOUT", .value = "TIME", .fallback = "2m", .min = 1, .max = TIME_MAX,
	 .help = "how long ranks wait for each other when they do not say themselves"},
	{"stall-timeout", JOB(stall_timeout_ms), .type = SETTING_DURATION, .flag = "stall-timeout",
	 .env = "CKPT_STALL_TIMEOUT", .value = "TIME", .fallback = "10m", .min = 1, .max = TIME_MAX,
	 .help = "a commit that makes no progress for so long fails"},
	{"hang-timeout", JOB(hang_timeout_ms), .type = SETTING_DURATION, .flag = "hang-timeout",
	 .env = "CKPT_HANG_TIMEOUT", .value = "TIME", .fallback = "1m", .max = TIME_MAX,
	 .help = "a rank without heartbeat for so long is reported; 0: never"},
	{"node-wait", JOB(node_wait_ms), .type = SETTING_DURATION, .flag = "node-wait", .env = "CKPT_NODE_WAIT",
	 .value = "TIME", .fallback = "10s", .max = TIME_MAX,
	 .help = "how long a job whose world may change waits for a node that is missing"},
	{"linger", JOB(linger_ms), .type = SETTING_DURATION, .flag = "linger", .env = "CKPT_LINGER", .value = "TIME",
	 .fallback = "10m", .max = TIME_MAX, .help = "how long the arenas of a job without processes are kept"},

	{"allow", USER(allow), .type = SETTING_BOOL, .flag = "allow", .env = "CKPT_ALLOW", .value = "YES|NO",
	 .fallback = "yes", .help = "a system service serves the user; accounts below 1000 must be named"},
	{"memory-limit", USER(memory_limit), .type = SETTING_BYTES, .flag = "user-memory-limit",
	 .env = "CKPT_USER_MEMORY_LIMIT", .value = "SIZE", .fallback = "0", .min = 1, .max = UINT64_MAX, .zero = true,
	 .help = "ceiling for the arenas of all jobs of one user; 0: what others leave of the node's"},
	{"write-bandwidth", USER(write_bandwidth), .type = SETTING_BYTES, .flag = "user-write-bandwidth",
	 .env = "CKPT_USER_WRITE_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "a user's jobs write at most this much per second; 0: his part of the node's"},
	{"read-bandwidth", USER(read_bandwidth), .type = SETTING_BYTES, .flag = "user-read-bandwidth",
	 .env = "CKPT_USER_READ_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "a user's checkpoints are read back at most this fast; 0: his part of the node's"},
	{NULL},
};

const struct setting *setting_find(enum setting_scope scope, const char *key)
{
	for (const struct setting *s = settings; s->key; s++)
		if (s->scope == scope && !strcmp(s->key, key))
			return s;
	return NULL;
}

uint32_t setting_store_mode(const struct config *config)
{
	return (uint32_t)strtoul(store_modes[config->store_mode], NULL, 8);
}

const char *scope_name(enum setting_scope scope)
{
	static const char *const names[] = {[SCOPE_NODE] = "node", [SCOPE_JOB] = "job", [SCOPE_USER] = "user"};
	return names[scope];
}

/* ---- defaults that depend on the machine ------------------------------------------------------------------------- */

static void default_socket(char *dst, size_t size)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	if (dir && *dir)
		snprintf(dst, size, "%s/ckptd.sock", dir);
	else
		snprintf(dst, size, "/run/ckptd.sock");
}

static void default_node(char *dst, size_t size)
{
	char name[NAME_NODE_MAX] = "";
	if (gethostname(name, sizeof(name) - 1) < 0 || name_check("node", name, sizeof(name), NULL))
		snprintf(name, sizeof(name), "node");
	snprintf(dst, size, "%s", name);
}

/* In whole MiB, so that a person can read it. */
static void default_memory(char *dst, size_t size)
{
	struct sysinfo info;
	uint64_t bytes = sysinfo(&info) ? 1ull << 30 : (uint64_t)info.totalram * info.mem_unit;
	bytes = min_u64(bytes, cgroup_memory_limit()) / 10 * 8;
	snprintf(dst, size, "%luM", (unsigned long)max_u64(bytes >> 20, 1));
}

char *setting_fallback(const struct setting *setting, char *dst, size_t size)
{
	dst[0] = 0;
	if (setting->fallback)
		snprintf(dst, size, "%s", setting->fallback);
	else if (setting->scope == SCOPE_NODE && setting->offset == offsetof(struct config, socket))
		default_socket(dst, size);
	else if (setting->scope == SCOPE_NODE && setting->offset == offsetof(struct config, node))
		default_node(dst, size);
	else if (setting->scope == SCOPE_NODE && setting->offset == offsetof(struct config, memory_limit))
		default_memory(dst, size);
	return dst;
}
