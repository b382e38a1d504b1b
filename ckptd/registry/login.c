/* Login: a user's token. The password is read from its file each time, and wiped when it has been sent: it may be changed while we run. */
#include "registry/registry_private.h"

#include "base/clock.h"
#include "registry/request_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_MS = 1000, BODY_ROOM = 8192 };

bool login_ready(const struct registry *r)
{
	return !r->user || r->login.none || r->login.token[0];
}

void login_expire(struct registry *r, const char *token)
{
	if (!strcmp(r->login.token, token)) {
		explicit_bzero(r->login.token, sizeof(r->login.token));
		r->login.none = false;
	}
}

static void fail(struct registry *r, const struct err *why)
{
	r->login.why = r->complaint = *why;
	r->login.due = clock_since_boot() + PAUSE_MS * CLOCK_NS_PER_MS;
}

static void on_token(struct registry *r, void *arg, const struct outcome *outcome)
{
	struct err why = {{0}};
	struct login *login = &r->login;
	(void)arg;
	login->asked = false;
	login->why.text[0] = 0;
	if (outcome->failure == FAILURE_NONE) {
		if (answer_login(outcome->body, outcome->len, login->token, &why)) {
			explicit_bzero(login->token, sizeof(login->token));
			fail(r, &why);
		}
	} else if (strstr(outcome->why, "authentication is not enabled")) {
		login->none = true;
	} else {
		err_set(&why, 0, "user %s: %s", r->user, outcome->why);
		fail(r, &why);
	}
}

static int ask(struct registry *r, uint64_t now, struct err *why)
{
	char password[SECRET_MAX];
	uint8_t *room = malloc(BODY_ROOM);
	struct wbuf body = wbuf_over(room, BODY_ROOM);
	int rc = room ? secret_read(r->password_file, password, why) : -ENOMEM;
	if (!rc) {
		request_login(&body, r->user, password);
		body.borrowed = false; /* the call frees it; it is never moved, so that no copy stays */
		rc = call_begin(r, &(struct call_plan){.path = "/v3/auth/authenticate",
						       .body = &body,
						       .deadline = now + r->timeout_ns,
						       .try_ns = registry_try_ns(r),
						       .anonymous = true,
						       .done = on_token});
		if (rc)
			err_set(why, rc, "no memory to log in to the registry");
	} else {
		free(room);
	}
	explicit_bzero(password, sizeof(password));
	return rc;
}

void login_turn(struct registry *r, uint64_t now)
{
	struct err why = {{0}};
	if (login_ready(r) || r->login.asked || now < r->login.due)
		return;
	if (ask(r, now, &why))
		fail(r, &why);
	else
		r->login.asked = true;
}
