#include "frame/contact.h"
#include "frame/amount.h"

#include "base/cleanup.h"
#include "ckpt.h"

#include <stdio.h>
#include <string.h>

enum { TIMEOUT_DEFAULT_MS = 5000, TIMEOUT_MAX_MS = 3600000 };

#define SYSTEM_SOCKET "/run/ckptd.sock"
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define VERSION TEXT(CKPT_VERSION_MAJOR) "." TEXT(CKPT_VERSION_MINOR) "." TEXT(CKPT_VERSION_PATCH)

int contact_path(const char *option, char dst[CONTACT_PATH_MAX], struct err *err)
{
	const char *variable = getenv("CKPT_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
	const char *path = option ? option : variable;
	int n = 0;
	if (path && *path)
		n = snprintf(dst, CONTACT_PATH_MAX, "%s", path);
	else if (dir && *dir)
		n = snprintf(dst, CONTACT_PATH_MAX, "%s/ckptd.sock", dir);
	if (!n || (!(path && *path) && access(dst, F_OK) && !access(SYSTEM_SOCKET, F_OK)))
		n = snprintf(dst, CONTACT_PATH_MAX, SYSTEM_SOCKET);
	if (n < CONTACT_PATH_MAX)
		return 0;
	return err_set(err, -ENAMETOOLONG, "the path of the daemon's socket has %d bytes; at most %d are possible", n,
		       CONTACT_PATH_MAX - 1);
}

/* The other end may have said no before it has heard anything: that is read with the answer. */
static int tell(int sock, uint16_t type, const struct wbuf *body, uint64_t deadline)
{
	int rc = channel_send(sock, type, 1, body->data, body->len, NULL, 0, deadline);
	return rc == -EPIPE ? 0 : rc;
}

static int tell_user(int sock, const char *user, uint64_t deadline, struct err *err)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_user m;
	if (geteuid() != 0)
		return err_set(err, -EPERM, "only root may look at user %s's part", user);
	if (snprintf(m.name, sizeof(m.name), "%s", user) >= (int)sizeof(m.name))
		return err_set(err, -ENAMETOOLONG, "the name of user %s is too long", user);
	int rc = wire_user_encode(&m, &body);
	if (!rc)
		rc = tell(sock, WIRE_USER, &body, deadline);
	return rc ? err_set(err, rc, "the daemon does not take the name of a user: %s", err_name(rc)) : 0;
}

static int greet(const char *path, const char *user, const struct wire_hello *hello, uint64_t deadline, struct err *err)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_hello m = *hello;
	m.protocol_min = m.protocol_max = WIRE_PROTOCOL;
	snprintf(m.version, sizeof(m.version), "%s", VERSION);
	int rc = wire_hello_encode(&m, &body);
	if (rc)
		return err_set(err, rc, "out of memory");
	AUTO_CLOSE int sock = channel_connect(path, deadline, err);
	if (sock < 0)
		return sock;
	if (user)
		rc = tell_user(sock, user, deadline, err);
	if (rc)
		return rc;
	rc = tell(sock, WIRE_HELLO, &body, deadline);
	if (rc)
		return err_set(err, rc, "the daemon at %s does not take a greeting: %s", path, err_name(rc));
	return steal_fd(&sock);
}

int contact_hello(const char *path, const struct wire_hello *hello, uint64_t deadline, struct err *err)
{
	return greet(path, NULL, hello, deadline, err);
}

/* An ERROR as result and sentence. */
static int read_error(const struct frame *frame, struct err *err)
{
	struct wire_error m;
	int rc = wire_error_decode(frame->body, frame->len, &m, err);
	if (rc)
		return rc;
	return err_set(err, m.rc < 0 ? m.rc : -EPROTO, "the daemon refuses: %s", m.text);
}

int contact_welcome(const struct frame *frame, struct wire_welcome *welcome, struct err *err)
{
	if (frame->type == WIRE_ERROR)
		return read_error(frame, err);
	if (frame->type != WIRE_WELCOME)
		return err_set(err, -EPROTO, "the daemon answers HELLO with %s", wire_name(frame->type));
	return wire_welcome_decode(frame->body, frame->len, welcome, err);
}

static int await(int sock, struct frame *f, uint64_t deadline, struct err *err)
{
	int rc = channel_recv(sock, f, deadline);
	return rc ? err_set(err, rc, "the daemon does not answer: %s", err_name(rc)) : 0;
}

/* After HELLO: sends the question and leaves in *f an answer of its own type, or an ERROR, to be freed. */
static int ask(int sock, uint16_t type, const struct wbuf *body, uint64_t deadline, struct frame *f, struct err *err)
{
	struct wire_welcome welcome;
	int rc = await(sock, f, deadline, err);
	if (rc)
		return rc;
	rc = contact_welcome(f, &welcome, err);
	frame_free(f);
	if (rc)
		return rc;
	rc = channel_send(sock, type, 2, body->data, body->len, NULL, 0, deadline);
	if (rc)
		return err_set(err, rc, "the daemon does not take the question: %s", err_name(rc));
	rc = await(sock, f, deadline, err);
	if (rc)
		return rc;
	if (f->type == type || f->type == WIRE_ERROR)
		return 0;
	rc = err_set(err, -EPROTO, "the daemon answers %s with %s", wire_name(type), wire_name(f->type));
	frame_free(f);
	return rc;
}

static int question(const char *path, const char *user, uint16_t type, const struct wbuf *body, uint64_t deadline,
		    struct frame *f, struct err *err)
{
	struct wire_hello hello = {.role = ROLE_OBSERVER};
	AUTO_CLOSE int sock = greet(path, user, &hello, deadline, err);
	if (sock < 0)
		return sock;
	int rc = ask(sock, type, body, deadline, f, err);
	return rc ? err_prefix(err, rc, "%s", path) : 0;
}

/* NULL: another release's, or no document. */
static json_t *read_status(const struct frame *f)
{
	json_t *doc = json_loadb((const char *)f->body, f->len, JSON_REJECT_DUPLICATES, NULL);
	if (json_integer_value(json_object_get(doc, "schema")) == JSON_SCHEMA)
		return doc;
	json_decref(doc);
	return NULL;
}

int contact_status(const char *path, const char *user, uint64_t deadline, json_t **doc, struct err *err)
{
	struct wbuf nothing = {0};
	*doc = NULL;
	AUTO_FREE struct frame *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = question(path, user, WIRE_STATUS, &nothing, deadline, f, err);
	if (rc)
		return rc;
	if (f->type == WIRE_ERROR)
		rc = read_error(f, err);
	else if (!(*doc = read_status(f)))
		rc = err_set(err, -EBADMSG,
			     "the daemon's answer is not understood (schema %d is known): are ckpt and ckptd of one "
			     "release?",
			     JSON_SCHEMA);
	frame_free(f);
	return rc;
}

int contact_timeout(const struct cli *cli, uint64_t *ms)
{
	return amount_time(cli, "timeout", AMOUNT_MS, TIMEOUT_DEFAULT_MS, 0, TIMEOUT_MAX_MS, ms);
}

int contact_command(const char *path, const char *user, const struct wire_command *command, uint64_t deadline,
		    struct wire_answer *answer, bool *refused, struct err *err)
{
	AUTO_WBUF struct wbuf body = {0};
	AUTO_FREE struct frame *f = calloc(1, sizeof(*f));
	*refused = false;
	if (!f || wire_command_encode(command, &body))
		return err_set(err, -ENOMEM, "out of memory");
	int rc = question(path, user, WIRE_COMMAND, &body, deadline, f, err);
	if (rc)
		return rc;
	*refused = f->type == WIRE_ERROR;
	rc = *refused ? read_error(f, err) : wire_answer_decode(f->body, f->len, answer, err);
	frame_free(f);
	return rc;
}
