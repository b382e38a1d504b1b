/* The service thread: the only reader of the control socket. It matches replies to requests, keeps the sentences for failed
 * snapshots, runs the epoch callback, and when the daemon is gone connects again and hands the arena back. It is never on the
 * path of a save; with state on several devices it sums their counters. */
#ifndef CKPT_SERVICE_H
#define CKPT_SERVICE_H

#include "base/channel.h"
#include "base/list.h"
#include "ckpt.h"
#include "client/capture/env.h"
#include "format/message/wire.h"

#include <pthread.h>

enum { NEWS_MAX = 64 };

struct stage;

/* What came unasked. */
struct news {
	struct wire_event events[NEWS_MAX]; /* a ring */
	uint32_t nevents;                   /* ever */
	uint32_t epoch;                     /* the newest that was heard of */
	uint32_t told;                      /* up to which the callback was called */
	uint32_t joined;                    /* of the session; 0: never */
	bool joining; /* inside ckpt_join: the callback waits, the join may enter that epoch itself */
	char reason[WIRE_TEXT_MAX];
};

enum service_state {
	SERVICE_DOWN,      /* no daemon */
	SERVICE_RETURNING, /* connected again; the daemon has not yet given the arenas back */
	SERVICE_READY,
};

struct service {
	pthread_t thread;
	bool started;
	int wake;                  /* eventfd: something for the thread to do */
	int over;                  /* eventfd of ckpt_epoch_fd: counts while the joined epoch is over */
	pthread_mutex_t send_lock; /* whoever writes to the socket, or closes it */
	pthread_mutex_t lock;      /* everything below */
	pthread_cond_t changed;
	enum service_state state;
	bool stopping;
	uint32_t generation; /* connections so far */
	int trouble; /* why the last one was lost, or the last attempt failed, where it is not the daemon: -errno; else 0 */
	int sock;
	uint32_t seq;        /* of the last request */
	uint32_t return_seq; /* of the REGISTER that a reconnection sent */
	struct list requests;
	struct frame *spare; /* the thread's own: where the next frame is received */
	struct wire_welcome welcome;
	struct news news;
};

/* Connects (deadline) and starts the thread. */
int service_start(ckpt *s, uint64_t deadline, struct err *err);
/* Ends the thread and closes the socket. Harmless when it was not started. */
void service_stop(ckpt *s);

/* What the caller of service_call does while the reply is on its way. */
struct meanwhile {
	const struct stage *stage; /* at whose own arena it waits, when there is nothing to do */
	bool (*turn)(void *arg);   /* false: there was nothing */
	void *arg;
};

/* Sends a request and waits for its reply of type `want`, which the caller frees (frame_free, free). Waits for a daemon that is
 * restarting. An ERROR reply is returned as its code and text. meanwhile: NULL, or what is
 * done until then. -ENOTCONN; -ETIMEDOUT without a text. */
int service_call(ckpt *s, uint16_t type, const struct wbuf *body, uint16_t want, uint64_t deadline,
		 const struct meanwhile *meanwhile, struct frame **reply, struct err *err);
/* -ENOTCONN with the reason unless saves can be followed by a daemon now. welcome (may be NULL): what the last one said. */
int service_check(ckpt *s, struct wire_welcome *welcome, struct err *err);
/* Differs after every reconnection. */
uint32_t service_generation(ckpt *s);
/* The process has another place than its connection was opened for, unless it is still this one (by its generation): then
 * it connects again, as what it is now. */
void service_greet_again(ckpt *s, uint32_t generation);
/* Wakes the thread: captures on several devices are under way. */
void service_poke(ckpt *s);

/* news.c, with service.lock held unless said otherwise. */
void news_event(struct service *service, const struct wire_event *event);
void news_epoch(struct service *service, uint32_t epoch, const char *reason);
/* Takes the lock. Calls the callback without it when it is due. */
void news_tell(ckpt *s);
/* Take the lock: the sentence for a snapshot's failure, waited for until the deadline; false: none came. */
bool news_sentence(ckpt *s, struct step_id id, uint64_t deadline, char *dst, size_t size);
void news_join_begins(ckpt *s);
void news_join_ends(ckpt *s, uint32_t epoch); /* 0: it failed */

/* link.c */
/* One attempt: connect, HELLO, WELCOME. -ENOTCONN nobody is there; -EAGAIN a predecessor is being torn down. */
int link_open(const struct settings *settings, uint32_t epoch, uint64_t deadline, int *sock,
	      struct wire_welcome *welcome, struct err *err);
/* Attempts until the deadline while that can help. */
int link_open_patiently(const struct settings *settings, uint64_t deadline, int *sock, struct wire_welcome *welcome,
			struct err *err);
/* The code and text of an ERROR frame. */
int link_error(const struct frame *f, struct err *err);

#endif
