#include "runtime/span_log.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "format/document/json_out.h"
#include "format/tensor/names.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct spanlog {
	char path[PATH_MAX], node[NAME_NODE_MAX];
	uint64_t file_max;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct wbuf queue;
	uint64_t dropped;
	bool closing, ended;
	/* the thread's own */
	int fd;
	uint64_t size;
	bool complained;
	bool cut; /* the file ends within a line: what comes begins on one of its own */
};

/* -EINVAL: there is something else than a file, such as a FIFO, for whose reader nobody waits (-ENXIO). */
static int open_file(const char *path)
{
	struct stat st;
	AUTO_CLOSE int fd =
		open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
	if (fd < 0)
		return errno == ENXIO ? -EINVAL : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? steal_fd(&fd) : -EINVAL;
}

/* An earlier incarnation of the daemon was killed while it wrote. */
static bool is_cut(const char *path, uint64_t size)
{
	char last = '\n';
	AUTO_CLOSE int fd = size ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	return fd >= 0 && pread(fd, &last, 1, (off_t)size - 1) == 1 && last != '\n';
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

static void complain(struct spanlog *log, const char *what, int rc)
{
	if (!log->complained)
		log_warn("span log %s: %s: %s; what cannot be written is lost", log->path, what, err_name(rc));
	log->complained = true;
}

static void rotate(struct spanlog *log)
{
	char old[PATH_MAX + 2];
	snprintf(old, sizeof(old), "%s.1", log->path);
	if (rename(log->path, old) < 0) {
		complain(log, "cannot rename it", -errno);
		return;
	}
	int fd = open_file(log->path);
	if (fd < 0) {
		complain(log, "cannot begin a new file", fd);
		return;
	}
	close(log->fd);
	log->fd = fd;
	log->size = 0;
	log->cut = false;
}

/* False: only a part of it, or nothing, is there. */
static bool write_bytes(struct spanlog *log, const uint8_t *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(log->fd, data + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			complain(log, "cannot write", n < 0 ? -errno : -EIO);
			return false;
		}
		at += (size_t)n;
		log->size += (size_t)n;
		log->cut = data[at - 1] != '\n';
	}
	return true;
}

static void write_all(struct spanlog *log, const struct wbuf *lines)
{
	if (log->size && log->size + lines->len > log->file_max)
		rotate(log);
	if (log->size && log->size + lines->len > log->file_max)
		return; /* could not be rotated: the bound holds */
	if ((!log->cut || write_bytes(log, (const uint8_t *)"\n", 1)) && write_bytes(log, lines->data, lines->len))
		log->complained = false;
}

static void *run(void *arg)
{
	struct spanlog *log = arg;
	pthread_mutex_lock(&log->lock);
	for (;;) {
		while (!log->queue.len && !log->closing)
			pthread_cond_wait(&log->changed, &log->lock);
		if (!log->queue.len)
			break;
		AUTO_WBUF struct wbuf lines = log->queue;
		log->queue = (struct wbuf){0};
		pthread_mutex_unlock(&log->lock);
		write_all(log, &lines);
		pthread_mutex_lock(&log->lock);
	}
	log->ended = true;
	pthread_cond_broadcast(&log->changed);
	pthread_mutex_unlock(&log->lock);
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static int start_thread(struct spanlog *log)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&log->lock, NULL);
	pthread_cond_init(&log->changed, &attr);
	pthread_condattr_destroy(&attr);
	return -pthread_create(&log->thread, NULL, run, log);
}

int spanlog_open(const char *path, const char *node, uint64_t file_max, struct spanlog **out, struct err *err)
{
	struct stat st;
	struct spanlog *log = calloc(1, sizeof(*log));
	if (!log)
		return err_set(err, -ENOMEM, "no memory for the span log");
	log->file_max = file_max;
	snprintf(log->path, sizeof(log->path), "%s", path);
	snprintf(log->node, sizeof(log->node), "%s", node);
	log->fd = open_file(path);
	int rc = log->fd < 0 ? log->fd : fstat(log->fd, &st) < 0 ? -errno : 0;
	if (rc) {
		err_set(err, rc, "--span-log %s: %s", path, rc == -EINVAL ? "it is no file" : err_name(rc));
		goto fail;
	}
	log->size = (uint64_t)st.st_size;
	log->cut = is_cut(path, log->size);
	rc = start_thread(log);
	if (rc) {
		err_set(err, rc, "span log: cannot start its thread: %s", err_name(rc));
		goto fail;
	}
	*out = log;
	return 0;
fail:
	if (log->fd >= 0)
		close(log->fd);
	free(log);
	return rc;
}

void spanlog_close(struct spanlog *log)
{
	if (!log)
		return;
	uint64_t until = clock_deadline(SPANLOG_CLOSE_MS * CLOCK_NS_PER_MS);
	struct timespec at = {.tv_sec = (time_t)(until / CLOCK_NS_PER_S), .tv_nsec = (long)(until % CLOCK_NS_PER_S)};
	int rc = 0;
	pthread_mutex_lock(&log->lock);
	log->closing = true;
	pthread_cond_broadcast(&log->changed);
	while (!log->ended && !rc)
		rc = pthread_cond_timedwait(&log->changed, &log->lock, &at);
	bool ended = log->ended;
	pthread_mutex_unlock(&log->lock);
	if (!ended) {
		log_warn("span log %s: its file system does not answer: the last lines are lost", log->path);
		pthread_detach(log->thread);
		return;
	}
	pthread_join(log->thread, NULL);
	close(log->fd);
	wbuf_free(&log->queue);
	free(log);
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static void put(struct spanlog *log, const struct wbuf *line)
{
	LOCK_SCOPE(&log->lock);
	if (line->failed || log->queue.len + line->len > SPANLOG_QUEUE_MAX) {
		log->dropped++;
		return;
	}
	if (log->dropped) {
		char text[96];
		snprintf(text, sizeof(text), "{\"schema\":1,\"span\":\"dropped\",\"count\":%lu}\n",
			 (unsigned long)log->dropped);
		jout_raw(&log->queue, text);
		log->dropped = 0;
	}
	wbuf_put(&log->queue, line->data, line->len);
	if (log->queue.failed)
		wbuf_free(&log->queue);
	pthread_cond_broadcast(&log->changed);
}

void span_u64(struct wbuf *out, const char *key, uint64_t v)
{
	jout_raw(out, ",\"");
	jout_raw(out, key);
	jout_raw(out, "\":");
	jout_u64(out, v);
}

/* What was not reached, or is not known, is null. */
void span_ns(struct wbuf *out, const char *key, uint64_t v, bool known)
{
	if (known) {
		span_u64(out, key, v);
		return;
	}
	jout_raw(out, ",\"");
	jout_raw(out, key);
	jout_raw(out, "\":null");
}

void span_text(struct wbuf *out, const char *key, const char *text)
{
	jout_raw(out, ",\"");
	jout_raw(out, key);
	jout_raw(out, "\":");
	if (text && *text)
		jout_text(out, text);
	else
		jout_raw(out, "null");
}

void span_begin(struct wbuf *out, const struct spanlog *log, const char *span, const char *job)
{
	jout_raw(out, "{\"schema\":1,\"span\":\"");
	jout_raw(out, span);
	jout_raw(out, "\"");
	span_text(out, "node", log->node);
	span_text(out, "job", job);
}

void span_end(struct spanlog *log, struct wbuf *out)
{
	jout_raw(out, "}\n");
	put(log, out);
}
