#include "registry/registry_private.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEASE_MIN_S = 2, TIMEOUT_MIN_MS = 100 };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static bool copy_texts(struct registry *r, const struct registry_config *config)
{
	return copy_text(&r->ca, config->ca) && copy_text(&r->cert, config->cert) && copy_text(&r->key, config->key) &&
	       copy_text(&r->user, config->user) && copy_text(&r->password_file, config->password_file);
}

/* Whoever opens a FIFO waits for somebody at its other end. */
static int check_open(const char *path, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s: %s", path, err_name(errno));
	return S_ISREG(st.st_mode) ? 0 : err_set(err, -EINVAL, "%s is not a file", path);
}

static int check_file(const char *name, const char *path, bool secret, struct err *err)
{
	int rc = 0;
	if (path && secret)
		rc = secret_check(path, err);
	else if (path)
		rc = check_open(path, err);
	return rc ? err_prefix(err, rc, "%s", name) : 0;
}

static int check_together(const struct registry *r, struct err *err)
{
	if (!r->cert != !r->key)
		return err_set(err, -EINVAL, "registry-cert and registry-cert-key are needed together");
	if (!r->user != !r->password_file)
		return err_set(err, -EINVAL, "registry-user and registry-password-file are needed together");
	if ((r->ca || r->cert) && !r->url.tls)
		return err_set(err, -EINVAL,
			       "registry-ca and registry-cert are for TLS: write etcds:// in place of etcd://");
	return 0;
}

static int check_files(const struct registry *r, struct err *err)
{
	int rc = check_file("registry-ca", r->ca, false, err);
	if (!rc)
		rc = check_file("registry-cert", r->cert, false, err);
	if (!rc)
		rc = check_file("registry-cert-key", r->key, true, err);
	if (!rc)
		rc = check_file("registry-password-file", r->password_file, true, err);
	if (!rc && r->password_file) {
		char secret[SECRET_MAX];
		rc = secret_read(r->password_file, secret, err);
		explicit_bzero(secret, sizeof(secret));
		rc = rc ? err_prefix(err, rc, "registry-password-file") : 0;
	}
	return rc;
}

static int check_config(const struct registry_config *config, struct registry *r, struct err *err)
{
	int rc = url_parse(config->url, &r->url, err);
	if (rc)
		return err_prefix(err, rc, "registry");
	if (config->lease_ns < LEASE_MIN_S * CLOCK_NS_PER_S)
		return err_set(err, -EINVAL, "registry-lease is less than %d s", LEASE_MIN_S);
	if (config->timeout_ns < TIMEOUT_MIN_MS * CLOCK_NS_PER_MS)
		return err_set(err, -EINVAL, "the registry's timeout is less than %d ms", TIMEOUT_MIN_MS);
	if (!copy_texts(r, config))
		return err_set(err, -ENOMEM, "no memory for the registry");
	rc = check_together(r, err);
	return rc ? rc : check_files(r, err);
}

/* Nodes that start together begin at different endpoints. */
static unsigned any_endpoint(unsigned n)
{
	unsigned number = 0;
	return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? number % n : 0;
}

int registry_new(const struct registry_config *config, const struct registry_events *events, struct registry **out,
		 struct err *err)
{
	struct registry *r = calloc(1, sizeof(*r));
	if (!r || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(r);
		return err_set(err, -ENOMEM, "no memory for the registry");
	}
	*r = (struct registry){.pump = {.epoll = -1, .timer = -1},
			       .timeout_ns = config->timeout_ns,
			       .events = *events,
			       .mirror = mirror_empty(REGISTRY_RECORDS_MAX, REGISTRY_BYTES_MAX),
			       .lease = lease_begin(config->lease_ns)};
	list_init(&r->calls);
	list_init(&r->transactions.waiting);
	list_init(&r->transactions.begun);
	int rc = check_config(config, r, err);
	if (!rc)
		rc = pump_open(&r->pump, err);
	if (rc) {
		registry_free(r);
		return rc;
	}
	r->endpoint = any_endpoint(r->url.n);
	follow_begin(r, clock_since_boot());
	pump_wake(&r->pump, 0);
	*out = r;
	return 0;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	renew_end(r);
	transaction_end_all(r);
	call_end_all(r);
	follow_end(r);
	pump_close(&r->pump);
	mirror_free(&r->mirror);
	explicit_bzero(&r->login, sizeof(r->login));
	free(r->ca);
	free(r->cert);
	free(r->key);
	free(r->user);
	free(r->password_file);
	free(r);
	curl_global_cleanup();
}

/* ---- polling ----------------------------------------------------------------------------------------------------- */

int registry_event_fd(const struct registry *r)
{
	return r->pump.epoll;
}

static void collect(struct registry *r)
{
	int left;
	for (CURLMsg *msg; (msg = curl_multi_info_read(r->pump.multi, &left));) {
		CURL *easy = msg->easy_handle;
		CURLcode code = msg->data.result;
		if (msg->msg != CURLMSG_DONE)
			continue;
		if (easy == r->stream.easy) {
			r->stream.over = true;
			r->stream.code = code;
		} else {
			call_finished(r, easy, code);
		}
	}
}

/* What one part begins another may carry out, or end: a few rounds, then at once again. */
void registry_poll(struct registry *r)
{
	uint64_t now = clock_since_boot(), next;
	r->polling = true;
	renew_look(r, now);
	pump_run(&r->pump, now);
	collect(r);
	call_turn(r, now);
	now = clock_since_boot();
	renew_look(r, now);
	login_turn(r, now);
	next = follow_turn(r, now);
	next = min_u64(next, renew_turn(r, now));
	next = min_u64(next, transaction_turn(r, now));
	next = min_u64(next, call_turn(r, now));
	if (!login_ready(r) && !r->login.asked)
		next = min_u64(next, r->login.due);
	r->polling = false;
	pump_wake(&r->pump, next);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

uint64_t registry_try_ns(const struct registry *r)
{
	enum { TRIES = 3 };
	return r->timeout_ns / min_u64(r->url.n, TRIES);
}

static void show(const struct registry *r, const struct mirror_record *from, struct registry_record *to)
{
	*to = (struct registry_record){.key = from->key,
				       .value = from->value,
				       .len = from->len,
				       .created = from->created,
				       .changed = from->changed,
				       .ours = r->lease.state == LEASE_HELD && from->lease == r->lease.id};
}

bool registry_get(const struct registry *r, const char *key, struct registry_record *record)
{
	const struct mirror_record *found = mirror_find(&r->mirror, key);
	if (found)
		show(r, found, record);
	return found;
}

bool registry_next(const struct registry *r, const char *prefix, const void **at, struct registry_record *record)
{
	const struct mirror_record *found = mirror_next(&r->mirror, prefix, *at);
	*at = found;
	if (found)
		show(r, found, record);
	return found;
}

bool registry_is_synced(const struct registry *r)
{
	return r->follow.synced;
}

uint64_t registry_revision(const struct registry *r)
{
	return r->follow.revision;
}

uint64_t registry_lease_left(const struct registry *r)
{
	return lease_left(&r->lease, clock_since_boot());
}

struct registry_counts registry_counts(const struct registry *r)
{
	struct registry_counts counts = r->counts;
	counts.records = r->mirror.n;
	return counts;
}
