#include "frame/state.h"

#include "base/cleanup.h"
#include "base/clock.h"

int state_of(const struct cli *cli, uint64_t answer_ns, struct state_of *of)
{
	struct err err = {""};
	of->user = cli_text(cli, "user");
	of->answer_ns = answer_ns;
	return contact_path(cli_text(cli, "socket"), of->path, &err) ? cli_fail(cli, EXIT_USAGE, "%s", err.text)
								     : EXIT_OK;
}

static int refuse(json_t **doc, int code, struct err *err, const char *why)
{
	json_decref(*doc);
	*doc = NULL;
	err_set(err, -EINVAL, "%s", why);
	return code;
}

int state_ask(const struct state_of *of, json_t **doc, struct err *err)
{
	AUTO_FREE char *text = NULL;
	*doc = NULL;
	if (contact_status(of->path, of->user, clock_deadline(of->answer_ns), &text, err))
		return EXIT_NO_DAEMON;
	*doc = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_array(json_object_get(*doc, "users")))
		return refuse(doc, EXIT_USAGE, err,
			      "this is a service for all users: name one with --user; ckpt status lists them");
	if (json_integer_value(json_object_get(*doc, "schema")) != JSON_SCHEMA)
		return refuse(doc, EXIT_FAILED, err,
			      "the daemon's answer is not understood: are ckpt and ckptd of one release?");
	return EXIT_OK;
}
