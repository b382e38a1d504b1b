#include "contact.h"

#include "base/cleanup.h"
#include "ckpt.h"

#include <stdio.h>
#include <string.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define VERSION TEXT(CKPT_VERSION_MAJOR) "." TEXT(CKPT_VERSION_MINOR) "." TEXT(CKPT_VERSION_PATCH)

int contact_path(const char *option, char dst[CONTACT_PATH_MAX], struct err *err)
{
	const char *variable = getenv("CKPT_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
	const char *path = option ? option : variable;
	int n;
	if (path && *path)
		n = snprintf(dst, CONTACT_PATH_MAX, "%s", path);
	else if (dir && *dir)
		n = snprintf(dst, CONTACT_PATH_MAX, "%s/ckptd.sock", dir);
	else
		n = snprintf(dst, CONTACT_PATH_MAX, "/run/ckptd.sock");
	if (n < CONTACT_PATH_MAX)
		return 0;
	return err_set(err, -ENAMETOOLONG, "the path of the daemon's socket has %d bytes; at most %d are possible", n,
		       CONTACT_PATH_MAX - 1);
}

int contact_hello(const char *path, const struct wire_hello *hello, uint64_t deadline, struct err *err)
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
	rc = channel_send(sock, WIRE_HELLO, 1, body.data, body.len, NULL, 0, deadline);
	if (rc)
		return err_set(err, rc, "the daemon at %s does not take a greeting: %s", path, err_name(rc));
	return steal_fd(&sock);
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

static int ask(int sock, struct frame *f, uint64_t deadline, char **json, struct err *err)
{
	struct wire_welcome welcome;
	int rc = await(sock, f, deadline, err);
	if (rc)
		return rc;
	rc = contact_welcome(f, &welcome, err);
	frame_free(f);
	if (rc)
		return rc;
	rc = channel_send(sock, WIRE_STATUS, 2, NULL, 0, NULL, 0, deadline);
	if (rc)
		return err_set(err, rc, "the daemon does not take the question: %s", err_name(rc));
	rc = await(sock, f, deadline, err);
	if (rc)
		return rc;
	if (f->type == WIRE_ERROR)
		rc = read_error(f, err);
	else if (f->type != WIRE_STATUS)
		rc = err_set(err, -EPROTO, "the daemon answers STATUS with %s", wire_name(f->type));
	else if (!(*json = strndup((const char *)f->body, f->len)))
		rc = err_set(err, -ENOMEM, "out of memory");
	frame_free(f);
	return rc;
}

int contact_status(const char *path, uint64_t deadline, char **json, struct err *err)
{
	struct wire_hello hello = {.role = ROLE_OBSERVER};
	*json = NULL;
	AUTO_CLOSE int sock = contact_hello(path, &hello, deadline, err);
	if (sock < 0)
		return sock;
	AUTO_FREE struct frame *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = ask(sock, f, deadline, json, err);
	return rc ? err_prefix(err, rc, "%s", path) : 0;
}
