#include "frame/state.h"

#include "base/clock.h"

int state_of(const struct cli *cli, uint64_t answer_ns, struct state_of *of)
{
	struct err err = {""};
	of->user = cli_text(cli, "user");
	of->answer_ns = answer_ns;
	return contact_path(cli_text(cli, "socket"), of->path, &err) ? cli_fail(cli, EXIT_USAGE, "%s", err.text)
								     : EXIT_OK;
}

int state_ask_any(const struct state_of *of, json_t **doc, struct err *err)
{
	int rc = contact_status(of->path, of->user, clock_deadline(of->answer_ns), doc, err);
	return !rc ? EXIT_OK : rc == -EBADMSG ? EXIT_FAILED : EXIT_NO_DAEMON;
}

int state_ask(const struct state_of *of, json_t **doc, struct err *err)
{
	int code = state_ask_any(of, doc, err);
	if (code || !json_is_array(json_object_get(*doc, "users")))
		return code;
	json_decref(*doc);
	*doc = NULL;
	err_set(err, -EINVAL, "this is a service for all users: name one with --user; ckpt status lists them");
	return EXIT_USAGE;
}
