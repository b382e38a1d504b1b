/* Settings: what an operator can decide, in one table. It is the single source of ckptd's options and environment, of the
 * configuration file, of `ckpt config`, and of what the documentation is compared with. A new setting is one row of
 * settings[] and one field of the struct that its offset names. */
#ifndef CKPT_CONFIG_SETTING_H
#define CKPT_CONFIG_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_scope {
	SCOPE_NODE = 1, /* [node]: the daemon, all jobs together */
	SCOPE_JOB,      /* [job], [job NAME], [job PATTERN]: each job by itself */
	SCOPE_USER,     /* [user], [user NAME], [user PATTERN], [user @GROUP]: each user of a system service */
};

enum setting_type {
	SETTING_BYTES = 1, /* K, M, G, T: powers of 1024 */
	SETTING_DURATION,  /* kept in milliseconds; ms (also without a unit, unless needs_unit), s, m, h, d */
	SETTING_COUNT,
	SETTING_BOOL, /* yes or no */
	SETTING_CHOICE,
	SETTING_PATH,
	SETTING_ADDRESS, /* of base/address.h, or off */
	SETTING_NAME,    /* the letters of name_check() */
	SETTING_URL,     /* of a registry; what follows the scheme is checked by who uses it */
	SETTING_NODE,    /* HOST:PORT and labels, as in a roster; checked by who uses it */
};

/* [node], as ckptd uses it. Texts belong to the sources that they came from; NULL: none. */
struct config {
	const char *store; /* path of the repository; NULL: memory only */
	const char *socket;
	const char *node;
	const char *http;                                            /* "ADDR:PORT", or "off" */
	const char *span_log;                                        /* path of a file; NULL: none */
	const char *cluster;                                         /* path of the roster; NULL: this node is alone */
	const char *node_address;                                    /* of this node in an open roster; NULL: none */
	const char *cluster_key, *cluster_key_old;                   /* paths; NULL: none */
	const char *cluster_cert, *cluster_cert_key, *cluster_ca;    /* the same, in its place */
	const char *registry;                                        /* URL of etcd; NULL: none */
	const char *registry_ca, *registry_cert, *registry_cert_key; /* paths; NULL: none */
	const char *registry_user, *registry_password_file;
	uint64_t registry_lease_ms; /* without renewal for so long, what this node holds there is free */
	uint64_t store_mode;        /* index of the choice: setting_store_mode() has its number */
	uint64_t fabric_provider;   /* enum fabric_provider */
	uint64_t seal_copies;       /* enum seal_copies */
	uint64_t peer_timeout_ms;   /* silence after which another node counts as lost */
	uint64_t net_bandwidth;     /* bytes/s of what is copied to other nodes; 0: as fast as the network */
	uint64_t memory_limit;      /* bytes of arenas on this node */
	uint64_t huge_pages;        /* enum huge_pages of ckptd */
	uint64_t write_bandwidth;   /* bytes/s of all jobs; 0: as fast as the storage */
	uint64_t read_bandwidth;    /* of reading back; 0: as fast as the storage */
	uint64_t scrub_interval_ms; /* a checkpoint that was read before is read again; 0: never */
	uint64_t collect_after_ms;  /* what crashes left half-written is deleted when it is older */
	uint64_t max_users;         /* that a system service serves at the same time */
	uint64_t user_linger_ms;    /* how long a user's worker stays without jobs */
	bool system;                /* serve all users of the node */
	bool faults;                /* faults on purpose may be caused (ckpt fault) */
	uint64_t lemon_failures;    /* of a node within the window, for which it is set aside; 0: it never is */
	uint64_t lemon_window_ms;
	uint64_t check_interval_ms; /* the machine is looked at so often; 0: never */
	uint64_t clock_limit_ms;    /* the clock may differ by so much from that of other nodes; 0: it is not judged */
};

/* In the order of the table's choices. */
enum fabric_provider { FABRIC_TCP = 0, FABRIC_VERBS, FABRIC_EFA };
enum seal_copies { SEAL_AUTO = 0, SEAL_ALWAYS, SEAL_NEVER };

/* What becomes of a save to storage that meets an unfinished one; in the order of the table's choices. */
enum save_policy {
	SAVE_NEWEST = 0, /* waits; of those that wait the newest is written */
	SAVE_QUEUE,      /* waits its turn, while there is room */
	SAVE_REFUSE,     /* stays in memory */
};

/* How often ranks save that ask (ckpt_due); in the order of the table's choices. */
enum save_interval { INTERVAL_NONE = 0, INTERVAL_AUTO };

/* What becomes of a job whose loss is no number, or diverges; in the order of the table's choices. */
enum loss_policy { LOSS_WARN = 0, LOSS_HALT, LOSS_ROLLBACK };

/* What is done to data files; in the order of the table's choices. */
enum compress { COMPRESS_NONE = 0, COMPRESS_ZSTD };

/* [job], as ckptd uses it. Times in milliseconds. */
struct policy {
	uint64_t memory_limit;      /* bytes of arenas of the job on this node; 0: only the node's limit */
	uint64_t write_bandwidth;   /* bytes/s; 0: only the node's limit */
	uint64_t read_bandwidth;    /* bytes/s of reading back; 0: only the node's limit */
	uint64_t save_policy;       /* enum save_policy */
	uint64_t save_queue;        /* saves that may wait, with SAVE_QUEUE */
	uint64_t persist_every;     /* of the saves to storage that the ranks ask for */
	uint64_t interval;          /* enum save_interval */
	uint64_t interval_overhead; /* percent of the time that saves to memory may keep training from */
	uint64_t interval_most_ms;  /* between saves, with INTERVAL_AUTO */
	uint64_t loss_policy;       /* enum loss_policy */
	uint64_t compress;          /* enum compress */
	uint64_t full_every;        /* checkpoints that a file which does not change may serve */
	uint64_t copies;            /* of each snapshot, in the memory of other nodes */
	uint64_t save_timeout_ms;   /* from the first begin of a step until it is captured on every rank */
	uint64_t join_timeout_ms;   /* a barrier of ranks (register, join, restore) */
	uint64_t stall_timeout_ms;  /* a commit that makes no progress */
	uint64_t hang_timeout_ms;   /* no heartbeat; 0: hangs are not watched */
	uint64_t node_wait_ms;      /* for a node that is missing, where the world may change */
	uint64_t linger_ms;         /* how long the arenas of a job without processes are kept */
	uint64_t keep_last;         /* retention: see store/manage/retention.h; all 0: everything stays */
	uint64_t keep_every;
	uint64_t keep_within_ms;
	uint64_t keep_hourly;
	uint64_t keep_daily;
	bool verify; /* read back after each commit */
};

/* [user], as the system service uses it. */
struct share {
	uint64_t memory_limit;    /* bytes of arenas of all jobs of the user; 0: only the node's limit */
	uint64_t write_bandwidth; /* bytes/s; 0: only the user's part of the node's limit */
	uint64_t read_bandwidth;
	bool allow;
};

struct setting {
	const char *key; /* in the section of its scope; NULL ends the table */
	enum setting_scope scope;
	enum setting_type type;
	const char *flag;           /* of ckptd, without dashes; a yes-or-no has --no-FLAG, too */
	const char *env;            /* environment variable */
	const char *value;          /* how help and documents call the value: "SIZE" */
	const char *fallback;       /* the default, as it would stand in a file; NULL: see setting_fallback() */
	const char *fallback_text;  /* where fallback is NULL: the rule, for people */
	uint64_t min, max;          /* numbers; of a path or a name max is its length */
	bool zero;                  /* 0 is allowed although it is below min: it means "none" */
	bool needs_unit;            /* of a time that is long as a rule: 24 may have been meant as hours */
	const char *const *choices; /* NULL-terminated; the value is the index */
	size_t offset;              /* in struct config, struct policy or struct share */
	bool restart;     /* a change takes effect when ckptd is started anew. Texts need this: see struct config */
	const char *help; /* one line, no full stop */
};

extern const struct setting settings[];

/* The choices of store-mode as numbers. */
uint32_t setting_store_mode(const struct config *config);
/* Whether copies between nodes are sealed. */
bool setting_seals_copies(const struct config *config);

/* By key within a scope; NULL: there is none. */
const struct setting *setting_find(enum setting_scope scope, const char *key);
/* "node", "job" or "user". */
const char *scope_name(enum setting_scope scope);

enum { SETTING_TEXT_MAX = 4096 };

/* The default in words of a file; "" where there is none (no store). Returns dst. */
char *setting_fallback(const struct setting *setting, char *dst, size_t size);

#endif
