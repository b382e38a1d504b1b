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
	SOCKET_PATH_MAX = 107,     /* sockaddr_un */
	BANDWIDTH_MIN = 1 << 16,   /* bytes/s. Below, a commit would look stalled */
	TIME_MAX = 1000000000,     /* ms */
	PEER_TIMEOUT_MIN = 100,    /* ms. Below, a busy machine looks dead */
	REGISTRY_LEASE_MIN = 2000, /* ms. Of less etcd makes more */
	KEEP_MAX = 1000000,        /* checkpoints */
	CHECK_INTERVAL_MIN = 100,  /* ms. Below, the store would have much to do with it */
	USERS_MAX = 256,
	LEMON_FAILURES_MAX = 16, /* so many are remembered */
	COPIES_MAX = 4,
	SAVE_QUEUE_MAX = 5, /* slots of a rank, less one to capture into, one being written, the newest in memory */
};

static const char *const huge_pages[] = {"auto", "transparent", "never", NULL};
#define KEEP_TIME_MAX (100ull * 365 * 86400000) /* ms: a hundred years */

static const char *const store_modes[] = {"0700", "0750", "0770", "0755", "2750", "2770", NULL};
static const char *const fabric_providers[] = {"tcp", "verbs", "efa", NULL};
static const char *const seal_copies[] = {"auto", "always", "never", NULL};
static const char *const save_policies[] = {"newest", "queue", "refuse", NULL};

static const char *const intervals[] = {"none", "auto", NULL};

static const char *const loss_policies[] = {"warn", "halt", "rollback", NULL};

static const char *const compressions[] = {"none", "zstd", NULL};

#define NODE(member) .scope = SCOPE_NODE, .offset = offsetof(struct config, member)
#define JOB(member) .scope = SCOPE_JOB, .offset = offsetof(struct policy, member)
#define USER(member) .scope = SCOPE_USER, .offset = offsetof(struct share, member)

const struct setting settings[] = {
	{"store", NODE(store), .type = SETTING_PATH, .flag = "store", .env = "CKPT_STORE", .value = "DIR",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "where checkpoints are stored; without a store they stay in memory"},
	{"store-mode", NODE(store_mode), .type = SETTING_CHOICE, .flag = "store-mode", .env = "CKPT_STORE_MODE",
	 .value = "MODE", .fallback = "0700", .choices = store_modes, .restart = true,
	 .help = "mode of a new store: 0700 for its user alone, or 0750, 0770, 0755, 2750, 2770"},
	{"socket", NODE(socket), .type = SETTING_PATH, .flag = "socket", .env = "CKPT_SOCKET", .value = "PATH",
	 .fallback_text = "$XDG_RUNTIME_DIR/ckptd.sock, else /run/ckptd.sock", .max = SOCKET_PATH_MAX, .restart = true,
	 .help = "path of the control socket"},
	{"name", NODE(node), .type = SETTING_NAME, .flag = "node", .env = "CKPT_NODE", .value = "NAME",
	 .fallback_text = "the host name", .max = NAME_NODE_MAX - 1, .restart = true,
	 .help = "name of this node in manifests and in the roster"},
	{"http", NODE(http), .type = SETTING_ADDRESS, .flag = "http", .env = "CKPT_HTTP", .value = "ADDR:PORT",
	 .fallback = "off", .max = ADDRESS_MAX - 1, .restart = true,
	 .help = "address of the pages for metrics, health and status; port 0: any free port"},
	{"span-log", NODE(span_log), .type = SETTING_PATH, .flag = "span-log", .env = "CKPT_SPAN_LOG", .value = "FILE",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "file that gets a line of JSON for each save and each recovery"},
	{"cluster", NODE(cluster), .type = SETTING_PATH, .flag = "cluster", .env = "CKPT_CLUSTER", .value = "FILE",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "file with the nodes of the cluster, the same on all of them; without it this node is alone"},
	{"node-address", NODE(node_address), .type = SETTING_NODE, .flag = "node-address", .env = "CKPT_NODE_ADDRESS",
	 .value = "'HOST:PORT [LABELS]'", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "in place of cluster, with registry: where other nodes reach this one, and its labels as in a roster"},
	{"cluster-key", NODE(cluster_key), .type = SETTING_PATH, .flag = "cluster-key", .env = "CKPT_CLUSTER_KEY",
	 .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1,
	 .help = "file with the secret of the cluster, the same on all nodes; read again at SIGHUP"},
	{"cluster-key-old", NODE(cluster_key_old), .type = SETTING_PATH, .flag = "cluster-key-old",
	 .env = "CKPT_CLUSTER_KEY_OLD", .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1,
	 .help = "while the cluster's key is changed: file with the one before, which counts, too"},
	{"cluster-cert", NODE(cluster_cert), .type = SETTING_PATH, .flag = "cluster-cert", .env = "CKPT_CLUSTER_CERT",
	 .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "in place of cluster-key: certificate of this node (PEM)"},
	{"cluster-cert-key", NODE(cluster_cert_key), .type = SETTING_PATH, .flag = "cluster-cert-key",
	 .env = "CKPT_CLUSTER_CERT_KEY", .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1,
	 .restart = true, .help = "with cluster-cert: its private key (PEM)"},
	{"cluster-ca", NODE(cluster_ca), .type = SETTING_PATH, .flag = "cluster-ca", .env = "CKPT_CLUSTER_CA",
	 .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "with cluster-cert: certificates of the authorities that sign nodes (PEM)"},
	{"registry", NODE(registry), .type = SETTING_URL, .flag = "registry", .env = "CKPT_REGISTRY", .value = "URL",
	 .fallback_text = "none", .max = SETTING_TEXT_MAX - 1, .restart = true,
	 .help = "where the cluster keeps what no single node may take with it: etcd://HOST:PORT,.../PREFIX"},
	{"registry-ca", NODE(registry_ca), .type = SETTING_PATH, .flag = "registry-ca", .env = "CKPT_REGISTRY_CA",
	 .value = "FILE", .fallback_text = "the authorities of the system", .max = SETTING_TEXT_MAX - 1,
	 .restart = true, .help = "with etcds://: certificates of the authorities that sign the registry (PEM)"},
	{"registry-cert", NODE(registry_cert), .type = SETTING_PATH, .flag = "registry-cert",
	 .env = "CKPT_REGISTRY_CERT", .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1,
	 .restart = true, .help = "with etcds://: certificate that this node shows to the registry (PEM)"},
	{"registry-cert-key", NODE(registry_cert_key), .type = SETTING_PATH, .flag = "registry-cert-key",
	 .env = "CKPT_REGISTRY_CERT_KEY", .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1,
	 .restart = true, .help = "with registry-cert: its private key (PEM)"},
	{"registry-user", NODE(registry_user), .type = SETTING_NAME, .flag = "registry-user",
	 .env = "CKPT_REGISTRY_USER", .value = "NAME", .fallback_text = "none", .max = NAME_NODE_MAX - 1,
	 .restart = true, .help = "user of the registry"},
	{"registry-password-file", NODE(registry_password_file), .type = SETTING_PATH, .flag = "registry-password-file",
	 .env = "CKPT_REGISTRY_PASSWORD_FILE", .value = "FILE", .fallback_text = "none", .max = SETTING_TEXT_MAX - 1,
	 .restart = true, .help = "with registry-user: file with its password"},
	{"registry-lease", NODE(registry_lease_ms), .type = SETTING_DURATION, .flag = "registry-lease",
	 .env = "CKPT_REGISTRY_LEASE", .value = "TIME", .fallback = "5s", .min = REGISTRY_LEASE_MIN, .max = TIME_MAX,
	 .restart = true,
	 .help = "what this node holds in the registry is free after this time without a word from it"},
	{"fabric-provider", NODE(fabric_provider), .type = SETTING_CHOICE, .flag = "fabric-provider",
	 .env = "CKPT_FABRIC_PROVIDER", .value = "PROVIDER", .fallback = "tcp", .choices = fabric_providers,
	 .restart = true, .help = "libfabric provider for copies between nodes: tcp, verbs or efa"},
	{"seal-copies", NODE(seal_copies), .type = SETTING_CHOICE, .flag = "seal-copies", .env = "CKPT_SEAL_COPIES",
	 .value = "WHEN", .fallback = "auto", .choices = seal_copies, .restart = true,
	 .help = "copies between nodes are sealed: auto (but where fabric-provider is verbs), always or never"},
	{"peer-timeout", NODE(peer_timeout_ms), .type = SETTING_DURATION, .flag = "peer-timeout",
	 .env = "CKPT_PEER_TIMEOUT", .value = "TIME", .fallback = "1s", .min = PEER_TIMEOUT_MIN, .max = TIME_MAX,
	 .restart = true, .help = "a node that is silent for this time counts as lost"},
	{"net-bandwidth", NODE(net_bandwidth), .type = SETTING_BYTES, .flag = "net-bandwidth",
	 .env = "CKPT_NET_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for copies to other nodes, all jobs together; 0: no limit"},
	{"memory-limit", NODE(memory_limit), .type = SETTING_BYTES, .flag = "memory-limit", .env = "CKPT_MEMORY_LIMIT",
	 .value = "SIZE", .fallback_text = "80% of the memory, or of the control group's", .min = 1, .max = UINT64_MAX,
	 .help = "limit for all arenas, their tables and copies for other nodes"},
	{"huge-pages", NODE(huge_pages), .type = SETTING_CHOICE, .flag = "huge-pages", .env = "CKPT_HUGE_PAGES",
	 .value = "WHICH", .fallback = "auto", .choices = huge_pages,
	 .help = "pages of new arenas: auto (the kernel's pool, else transparent), transparent or never"},
	{"write-bandwidth", NODE(write_bandwidth), .type = SETTING_BYTES, .flag = "write-bandwidth",
	 .env = "CKPT_WRITE_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for writes to the store, all jobs together; 0: no limit"},
	{"scrub-interval", NODE(scrub_interval_ms), .type = SETTING_DURATION, .flag = "scrub-interval",
	 .env = "CKPT_SCRUB_INTERVAL", .value = "TIME", .fallback = "168h", .max = KEEP_TIME_MAX, .needs_unit = true,
	 .help = "a checkpoint is read and checked again after this time; 0: never"},
	{"read-bandwidth", NODE(read_bandwidth), .type = SETTING_BYTES, .flag = "read-bandwidth",
	 .env = "CKPT_READ_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for reading back, all jobs together; 0: no limit"},
	{"collect-after", NODE(collect_after_ms), .type = SETTING_DURATION, .flag = "collect-after",
	 .env = "CKPT_COLLECT_AFTER", .value = "TIME", .fallback = "1h", .max = KEEP_TIME_MAX, .needs_unit = true,
	 .help = "half-written directories of crashes are deleted after this time"},
	{"check-interval", NODE(check_interval_ms), .type = SETTING_DURATION, .flag = "check-interval",
	 .env = "CKPT_CHECK_INTERVAL", .value = "TIME", .fallback = "1m", .min = CHECK_INTERVAL_MIN, .max = TIME_MAX,
	 .zero = true,
	 .help = "memory, store, GPUs and clock of this node, and ways to others, are looked at so often; 0: never"},
	{"clock-limit", NODE(clock_limit_ms), .type = SETTING_DURATION, .flag = "clock-limit",
	 .env = "CKPT_CLOCK_LIMIT", .value = "TIME", .fallback = "1s", .min = 1, .max = TIME_MAX, .zero = true,
	 .help = "it is told when the clock differs by more from those of the other nodes; 0: never"},
	{"lemon-failures", NODE(lemon_failures), .type = SETTING_COUNT, .flag = "lemon-failures",
	 .env = "CKPT_LEMON_FAILURES", .value = "N", .fallback = "3", .min = 1, .max = LEMON_FAILURES_MAX, .zero = true,
	 .help = "a node that fails so often within lemon-window is set aside, spares come before it; 0: never"},
	{"lemon-window", NODE(lemon_window_ms), .type = SETTING_DURATION, .flag = "lemon-window",
	 .env = "CKPT_LEMON_WINDOW", .value = "TIME", .fallback = "24h", .min = 1, .max = TIME_MAX, .needs_unit = true,
	 .help = "failures of a node count for so long"},
	{"faults", NODE(faults), .type = SETTING_BOOL, .flag = "faults", .env = "CKPT_FAULTS", .value = "YES|NO",
	 .fallback = "no", .help = "ckpt fault may cause faults on purpose in the jobs of this node"},
	{"system", NODE(system), .type = SETTING_BOOL, .flag = "system", .env = "CKPT_SYSTEM", .value = "YES|NO",
	 .fallback = "no", .restart = true,
	 .help = "serve all users of this node, each by a process of their own; needs root"},
	{"max-users", NODE(max_users), .type = SETTING_COUNT, .flag = "max-users", .env = "CKPT_MAX_USERS",
	 .value = "N", .fallback = "64", .min = 1, .max = USERS_MAX,
	 .help = "with --system: users that are served at the same time"},
	{"user-linger", NODE(user_linger_ms), .type = SETTING_DURATION, .flag = "user-linger",
	 .env = "CKPT_USER_LINGER", .value = "TIME", .fallback = "10m", .min = 1, .max = TIME_MAX,
	 .help = "with --system: the idle process of a user ends after this time"},

	{"memory-limit", JOB(memory_limit), .type = SETTING_BYTES, .flag = "job-memory-limit",
	 .env = "CKPT_JOB_MEMORY_LIMIT", .value = "SIZE", .fallback = "0", .min = 1, .max = UINT64_MAX, .zero = true,
	 .help = "limit for the arenas of one job on this node; 0: only the node's limit"},
	{"write-bandwidth", JOB(write_bandwidth), .type = SETTING_BYTES, .flag = "job-write-bandwidth",
	 .env = "CKPT_JOB_WRITE_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for writes of one job to the store; 0: only the node's limit"},
	{"read-bandwidth", JOB(read_bandwidth), .type = SETTING_BYTES, .flag = "job-read-bandwidth",
	 .env = "CKPT_JOB_READ_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for reading back one job; 0: only the node's limit"},
	{"save-policy", JOB(save_policy), .type = SETTING_CHOICE, .flag = "save-policy", .env = "CKPT_SAVE_POLICY",
	 .value = "POLICY", .fallback = "newest", .choices = save_policies,
	 .help = "a save to storage meets an unfinished one: newest, queue or refuse"},
	{"save-queue", JOB(save_queue), .type = SETTING_COUNT, .flag = "save-queue", .env = "CKPT_SAVE_QUEUE",
	 .value = "N", .fallback = "1", .min = 1, .max = SAVE_QUEUE_MAX,
	 .help = "with save-policy queue: saves that may wait, at most slots - 3"},
	{"persist-every", JOB(persist_every), .type = SETTING_COUNT, .flag = "persist-every",
	 .env = "CKPT_PERSIST_EVERY", .value = "N", .fallback = "1", .min = 1, .max = 1000000,
	 .help = "write the first save to storage, and then every N-th"},
	{"interval", JOB(interval), .type = SETTING_CHOICE, .flag = "interval", .env = "CKPT_INTERVAL", .value = "HOW",
	 .fallback = "none", .choices = intervals,
	 .help = "how often ranks save that ask (ckpt_due): none, or auto: by what was measured"},
	{"interval-overhead", JOB(interval_overhead), .type = SETTING_COUNT, .flag = "interval-overhead",
	 .env = "CKPT_INTERVAL_OVERHEAD", .value = "PERCENT", .fallback = "5", .min = 1, .max = 50,
	 .help = "with interval auto: saves may keep training waiting for this share of the time"},
	{"interval-most", JOB(interval_most_ms), .type = SETTING_DURATION, .flag = "interval-most",
	 .env = "CKPT_INTERVAL_MOST", .value = "TIME", .fallback = "1h", .min = 1, .max = TIME_MAX,
	 .help = "with interval auto: the longest time between saves, also to storage"},
	{"loss-policy", JOB(loss_policy), .type = SETTING_CHOICE, .flag = "loss-policy", .env = "CKPT_LOSS_POLICY",
	 .value = "POLICY", .fallback = "warn", .choices = loss_policies,
	 .help = "the loss is no number, or diverges (ckpt_beat_loss): warn; halt the job, too; or rollback"},
	{"full-every", JOB(full_every), .type = SETTING_COUNT, .flag = "full-every", .env = "CKPT_FULL_EVERY",
	 .value = "N", .fallback = "10", .min = 1, .max = 1000000,
	 .help = "an unchanged file serves at most N checkpoints, by hard links; 1: no links"},
	{"compress", JOB(compress), .type = SETTING_CHOICE, .flag = "compress", .env = "CKPT_COMPRESS", .value = "HOW",
	 .fallback = "none", .choices = compressions, .help = "none, or zstd: pack data files that shrink enough"},
	{"verify", JOB(verify), .type = SETTING_BOOL, .flag = "verify", .env = "CKPT_VERIFY", .value = "YES|NO",
	 .fallback = "yes", .help = "read checkpoints back after the commit"},
	{"keep-last", JOB(keep_last), .type = SETTING_COUNT, .flag = "keep-last", .env = "CKPT_KEEP_LAST", .value = "N",
	 .fallback = "0", .max = KEEP_MAX, .help = "keep the newest N checkpoints; 0: not a rule"},
	{"keep-every", JOB(keep_every), .type = SETTING_COUNT, .flag = "keep-every", .env = "CKPT_KEEP_EVERY",
	 .value = "STEPS", .fallback = "0", .max = STEP_MAX,
	 .help = "keep checkpoints whose step is a multiple of STEPS; 0: not a rule"},
	{"keep-within", JOB(keep_within_ms), .type = SETTING_DURATION, .flag = "keep-within", .env = "CKPT_KEEP_WITHIN",
	 .value = "TIME", .fallback = "0", .max = KEEP_TIME_MAX, .needs_unit = true,
	 .help = "keep checkpoints that were committed within this time before the newest; 0: not a rule"},
	{"keep-hourly", JOB(keep_hourly), .type = SETTING_COUNT, .flag = "keep-hourly", .env = "CKPT_KEEP_HOURLY",
	 .value = "N", .fallback = "0", .max = KEEP_MAX,
	 .help = "keep the newest checkpoint of each of the last N hours with one; 0: not a rule"},
	{"keep-daily", JOB(keep_daily), .type = SETTING_COUNT, .flag = "keep-daily", .env = "CKPT_KEEP_DAILY",
	 .value = "N", .fallback = "0", .max = KEEP_MAX,
	 .help = "keep the newest checkpoint of each of the last N days with one; 0: not a rule"},
	{"copies", JOB(copies), .type = SETTING_COUNT, .flag = "copies", .env = "CKPT_COPIES", .value = "N",
	 .fallback = "1", .max = COPIES_MAX, .help = "in a cluster: copies of each snapshot on other nodes; 0: none"},
	{"save-timeout", JOB(save_timeout_ms), .type = SETTING_DURATION, .flag = "save-timeout",
	 .env = "CKPT_SAVE_TIMEOUT", .value = "TIME", .fallback = "2m", .min = 1, .max = TIME_MAX,
	 .help = "a save must be captured on all ranks within this time"},
	{"join-timeout", JOB(join_timeout_ms), .type = SETTING_DURATION, .flag = "join-timeout",
	 .env = "CKPT_JOIN_TIMEOUT", .value = "TIME", .fallback = "2m", .min = 1, .max = TIME_MAX,
	 .help = "how long ranks wait for each other; a rank may ask for another time"},
	{"stall-timeout", JOB(stall_timeout_ms), .type = SETTING_DURATION, .flag = "stall-timeout",
	 .env = "CKPT_STALL_TIMEOUT", .value = "TIME", .fallback = "10m", .min = 1, .max = TIME_MAX,
	 .help = "a commit fails after this time without progress"},
	{"hang-timeout", JOB(hang_timeout_ms), .type = SETTING_DURATION, .flag = "hang-timeout",
	 .env = "CKPT_HANG_TIMEOUT", .value = "TIME", .fallback = "1m", .max = TIME_MAX,
	 .help = "a rank is reported after this time without heartbeat; 0: never"},
	{"node-wait", JOB(node_wait_ms), .type = SETTING_DURATION, .flag = "node-wait", .env = "CKPT_NODE_WAIT",
	 .value = "TIME", .fallback = "10s", .max = TIME_MAX,
	 .help = "a job whose world may change waits this long for a missing node"},
	{"linger", JOB(linger_ms), .type = SETTING_DURATION, .flag = "linger", .env = "CKPT_LINGER", .value = "TIME",
	 .fallback = "10m", .max = TIME_MAX, .help = "arenas of a job without processes are kept for this time"},

	{"allow", USER(allow), .type = SETTING_BOOL, .flag = "allow", .env = "CKPT_ALLOW", .value = "YES|NO",
	 .fallback = "yes", .help = "with --system: serve the user; accounts below 1000 must be named"},
	{"memory-limit", USER(memory_limit), .type = SETTING_BYTES, .flag = "user-memory-limit",
	 .env = "CKPT_USER_MEMORY_LIMIT", .value = "SIZE", .fallback = "0", .min = 1, .max = UINT64_MAX, .zero = true,
	 .help = "limit for the arenas and tables of one user; 0: only the node's limit"},
	{"write-bandwidth", USER(write_bandwidth), .type = SETTING_BYTES, .flag = "user-write-bandwidth",
	 .env = "CKPT_USER_WRITE_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for writes of one user; 0: only an equal part of the node's limit"},
	{"read-bandwidth", USER(read_bandwidth), .type = SETTING_BYTES, .flag = "user-read-bandwidth",
	 .env = "CKPT_USER_READ_BANDWIDTH", .value = "SIZE", .fallback = "0", .min = BANDWIDTH_MIN, .max = 1ull << 50,
	 .zero = true, .help = "limit per second for reading back one user; 0: only an equal part of the node's limit"},
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

bool setting_seals_copies(const struct config *config)
{
	/* What keeps strangers out of an RDMA fabric is the fabric, where its connections prove whose they are: efa has none. */
	bool isolated = config->fabric_provider == FABRIC_VERBS;
	return config->seal_copies == SEAL_ALWAYS || (config->seal_copies == SEAL_AUTO && !isolated);
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
