/* The parts of a registry on etcd, by the file that owns them:
 *
 *	etcd.c         struct registry: opens, polls, closes; keeps the order in which its parts are looked at
 *	pump.c         libcurl's sockets and timers in one epoll descriptor
 *	call.c         one request and its answer, at each endpoint in turn
 *	login.c        the token of a user
 *	follow.c       the mirror: reads what stands, and then the watch; after an outage what has changed
 *	stream.c       the watch: messages as they come
 *	renew.c        the lease
 *	transaction.c  what was committed and is not decided
 *
 * Nobody outside is called but by registry_poll(), and never by code that libcurl has called. */
#ifndef CKPTD_REGISTRY_REGISTRY_PRIVATE_H
#define CKPTD_REGISTRY_REGISTRY_PRIVATE_H

#include "base/bytes.h"
#include "base/list.h"
#include "registry/answer_private.h"
#include "registry/lease_private.h"
#include "registry/mirror_private.h"
#include "registry/registry.h"
#include "registry/secret_private.h"
#include "registry/url_private.h"

#include <curl/curl.h>

/* ---- pump.c ------------------------------------------------------------------------------------------------------ */

struct pump {
	int epoll, timer;
	CURLM *multi;
	uint64_t due; /* when libcurl wants to look; UINT64_MAX: not */
};

int pump_open(struct pump *pump, struct err *err);
void pump_close(struct pump *pump);
/* Runs libcurl on what is ready. Calls nobody but its callbacks. */
void pump_run(struct pump *pump, uint64_t now);
/* The descriptor becomes readable then, at the latest. 0: at once. */
void pump_wake(struct pump *pump, uint64_t at);

/* ---- call.c ------------------------------------------------------------------------------------------------------ */

/* How a call ended. */
struct outcome {
	enum failure failure; /* FAILURE_NONE: body is etcd's answer */
	int rc;               /* 0 with FAILURE_NONE, else what a caller of ours is told */
	const void *body;
	size_t len;
	uint64_t sent;   /* before the request that was answered left */
	const char *why; /* a sentence where it failed */
};
typedef void call_done(struct registry *r, void *arg, const struct outcome *outcome);

struct call_plan {
	const char *path;  /* "/v3/kv/range" */
	struct wbuf *body; /* taken over; wiped in the end */
	uint64_t deadline; /* of clock_since_boot() */
	uint64_t try_ns;   /* how long one endpoint may take */
	bool once;         /* may not be done twice: what may have been applied is not sent again */
	bool anonymous;    /* needs no token */
	call_done *done;
	void *arg;
};

/* done is called once, by call_turn(), at the latest when the deadline has passed. -ENOMEM: not at all. */
int call_begin(struct registry *r, const struct call_plan *plan);
/* Tells of those that are over, begins those that wait. Returns when to come back. */
uint64_t call_turn(struct registry *r, uint64_t now);
/* libcurl has done with it. */
void call_finished(struct registry *r, CURL *easy, CURLcode code);
void call_end_all(struct registry *r);

/* An easy handle for a POST that is not yet begun, with what all of them have in common. headers: its list, to be freed after it. */
CURL *call_handle(struct registry *r, const char *path, unsigned endpoint, struct curl_slist **headers);
/* The endpoint does not serve: another one is the current. */
void call_avoid(struct registry *r, unsigned endpoint);
/* A sentence about how libcurl ended. */
void call_explain(const struct registry *r, unsigned endpoint, CURLcode code, const char *detail, struct err *why);

/* ---- login.c ----------------------------------------------------------------------------------------------------- */

struct login {
	char token[ANSWER_TOKEN_MAX]; /* "": none */
	bool none;                    /* etcd does not ask for one */
	bool asked;
	uint64_t due;   /* not before, after a failure */
	struct err why; /* of the last failure; "": none */
};

/* Whether calls may go: there is a token, or none is needed. */
bool login_ready(const struct registry *r);
void login_turn(struct registry *r, uint64_t now);
/* This token does not count any more. */
void login_expire(struct registry *r, const char *token);

/* ---- stream.c ---------------------------------------------------------------------------------------------------- */

struct stream {
	CURL *easy; /* NULL: there is none */
	struct curl_slist *headers;
	struct wbuf request, received;
	size_t parsed; /* bytes of received that are done with */
	unsigned endpoint;
	char token[ANSWER_TOKEN_MAX];
	char detail[CURL_ERROR_SIZE];
	bool over, full; /* over: libcurl has done with it, as code says */
	CURLcode code;
};

int stream_open(struct registry *r, uint64_t revision);
void stream_close(struct registry *r);
/* The next whole message. False: there is none yet. */
bool stream_next(struct stream *s, const char **text, size_t *len);
/* libcurl has done with it, or too much has come: a sentence. */
bool stream_is_over(struct registry *r, struct err *why);

/* ---- follow.c ---------------------------------------------------------------------------------------------------- */

enum follow_state { FOLLOW_REST, FOLLOW_CHANGES, FOLLOW_KEYS, FOLLOW_WATCH };

struct follow {
	enum follow_state state;
	bool synced, told_away;
	uint64_t cluster, revision; /* up to which the mirror is complete; 0: not at all */
	uint64_t since;             /* of the changes that are being read */
	uint64_t at, count; /* revision that is being read, and what it has; 0: the first page is being waited for */
	char *cursor;       /* first key of the next page, with a NUL more */
	size_t cursor_len;
	uint64_t page;       /* records that are asked for at once */
	uint64_t due, gap;   /* FOLLOW_REST */
	uint64_t trouble;    /* since when it has not been followed; 0: it is */
	uint64_t heard;      /* the watch */
	uint64_t expect, by; /* a revision that the watch must tell of, and until when; 0: none */
	bool created;        /* the watch stands, */
	uint64_t stood;      /* since then */
};

void follow_begin(struct registry *r, uint64_t now);
uint64_t follow_turn(struct registry *r, uint64_t now);
/* We have changed something in this revision: the watch must tell. */
void follow_expect(struct registry *r, uint64_t revision);
/* The endpoint of the watch does not serve. */
void follow_avoid(struct registry *r, unsigned endpoint);
void follow_end(struct registry *r);

/* ---- renew.c ----------------------------------------------------------------------------------------------------- */

/* First of all in a turn: time that has passed counts before what has come. */
void renew_look(struct registry *r, uint64_t now);
uint64_t renew_turn(struct registry *r, uint64_t now);
/* etcd knows our lease no more. */
void renew_lost(struct registry *r, uint64_t id);
/* Revokes it, and waits a little for that. */
void renew_end(struct registry *r);

/* ---- transaction.c ----------------------------------------------------------------------------------------------- */

struct transactions {
	struct list waiting, begun;
	unsigned all, running;
};

uint64_t transaction_turn(struct registry *r, uint64_t now);
void transaction_end_all(struct registry *r);

/* ---- etcd.c ------------------------------------------------------------------------------------------------------ */

struct registry {
	struct url url;
	char *ca, *cert, *key, *user, *password_file;
	uint64_t timeout_ns;
	struct registry_events events;
	struct pump pump;
	unsigned endpoint; /* the current one */
	struct list calls;
	struct login login;
	struct stream stream;
	struct follow follow;
	struct mirror mirror;
	struct lease lease;
	struct transactions transactions;
	struct registry_counts counts;
	struct err complaint; /* why something did not work last */
	bool polling;
};

/* How long one endpoint may take, so that others can be tried within the timeout. */
uint64_t registry_try_ns(const struct registry *r);

#endif
