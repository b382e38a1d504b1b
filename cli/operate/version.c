#include "frame/output.h"

#include "ckpt.h"
#include "format/files/manifest.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define VERSION TEXT(CKPT_VERSION_MAJOR) "." TEXT(CKPT_VERSION_MINOR) "." TEXT(CKPT_VERSION_PATCH)

static int run(struct cli *cli)
{
	if (!cli->json) {
		out(TONE_PLAIN, "ckpt %s (format %d)\n", VERSION, MANIFEST_VERSION);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "version", json_string(VERSION));
	json_object_set_new(doc, "format", json_integer(MANIFEST_VERSION));
	json_emit(doc);
	return EXIT_OK;
}

const struct command command_version = {
	.name = "version",
	.summary = "show the version of the program and of the format that it writes",
	.args = "",
	.no_repo = true,
	.run = run,
};
