/* Answers of etcd's JSON gateway: decoded and checked as a whole before anybody uses them. They come from outside: sizes are bounded, a
 * record that is not under the prefix or has no revision is none, and what is wrong is said in a sentence. */
#ifndef CKPTD_REGISTRY_ANSWER_PRIVATE_H
#define CKPTD_REGISTRY_ANSWER_PRIVATE_H

#include "base/err.h"
#include "registry/registry.h"

enum {
	ANSWER_BYTES_MAX = 16 << 20, /* of a body, and of a message of a watch */
	ANSWER_EVENTS_MAX = 1 << 16, /* in one of them */
	ANSWER_TOKEN_MAX = 4096,     /* with the NUL */
	ANSWER_WORDS_MAX = 256,      /* of etcd, with the NUL */
};

/* A record that stands, or one that was deleted (gone: no value; created is 0). */
struct answer_record {
	char *key; /* without the prefix */
	void *value;
	size_t len;
	uint64_t created, changed, lease;
	bool gone;
};

struct answer_page {
	uint64_t cluster, revision; /* of who answers */
	uint64_t count;             /* of all that the range had, also on later pages */
	bool more;
	struct answer_record *records;
	size_t n;
};

struct answer_message {
	uint64_t cluster, revision;
	bool created;                 /* the watch stands */
	bool cancelled;               /* and has ended */
	bool fragment;                /* more of the same revision follows */
	uint64_t compacted;           /* it has ended because what it asked for is gone up to this revision */
	char words[ANSWER_WORDS_MAX]; /* why it has ended */
	struct answer_record *records;
	size_t n;
};

/* What it means that etcd refuses. Of all but FAILURE_UNKNOWN nothing was applied. */
enum failure {
	FAILURE_NONE,
	FAILURE_UNKNOWN,   /* it may have been applied, or will be */
	FAILURE_ELSEWHERE, /* another member may do it: this one has no leader, or too much to do */
	FAILURE_TOKEN,     /* authenticate again */
	FAILURE_LEASE,     /* there is no such lease */
	FAILURE_COMPACTED, /* that revision is gone */
	FAILURE_DENIED,    /* -EACCES */
	FAILURE_FULL,      /* -ENOSPC */
	FAILURE_REQUEST,   /* -EINVAL: it does not like what is asked */
};

/* 0, -EBADMSG, -EMSGSIZE, -ENOMEM. What they fill in is to be freed if they return 0. */
int answer_range(const void *text, size_t len, const char *prefix, struct answer_page *out, struct err *err);
void answer_page_free(struct answer_page *page);
/* One message of a watch. An error that it carries is one that is cancelled. */
int answer_watch(const void *text, size_t len, const char *prefix, struct answer_message *out, struct err *err);
void answer_message_free(struct answer_message *message);

int answer_txn(const void *text, size_t len, bool *succeeded, uint64_t *revision, struct err *err);
/* Of grant and keepalive. *ttl_s is 0 where the lease has ended. -EBADMSG where it is about another lease. */
int answer_lease(const void *text, size_t len, uint64_t id, uint64_t *ttl_s, struct err *err);
/* token: ANSWER_TOKEN_MAX bytes; of letters that may stand in a header. */
int answer_login(const void *text, size_t len, char *token, struct err *err);

/* A body whose HTTP status is not 200. words: ANSWER_WORDS_MAX bytes, what etcd says, or the status. */
enum failure answer_failure(const void *text, size_t len, long status, char *words);
/* Of words that a watch has ended with. */
enum failure answer_words_mean(const char *words);

#endif
