#include "loop/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

enum kind {
	KIND_FLAG,
	KIND_TEXT,
	KIND_COUNT,
	KIND_RATE,
	KIND_SECONDS,
	KIND_COMPRESS,
	KIND_DEVICE,
	KIND_SIZE,
	KIND_FILES
};

/* One line of the command line and of the help. Counts are bounded by min and max, both included. */
struct description {
	const char *name, *value, *help;
	enum kind kind;
	size_t offset; /* in struct train_options */
	uint64_t min, max;
};

#define FIELD(name) offsetof(struct train_options, name)

static const uint64_t step_max = 999999999999; /* what a checkpoint's name has room for */

/* The fields of the model are int, those of KIND_COUNT uint64_t: the model's are read into a copy and assigned at the end. */
struct model_counts {
	uint64_t layers, width, seq, heads;
};

struct parse {
	struct train_options options;
	struct model_counts model;
	uint64_t batch;
};

/* By their number of parameters, with the proportions that models of these sizes have. */
static const struct {
	const char *name;
	struct model_counts model;
} sizes[] = {
	{"demo", {2, 64, 64, 4}},       {"25m", {8, 512, 256, 8}},      {"85m", {12, 768, 512, 12}},
	{"300m", {24, 1024, 1024, 16}}, {"700m", {36, 1280, 1024, 20}}, {"1.5b", {48, 1600, 1024, 25}},
};

#define MODEL(name) (offsetof(struct parse, model) + offsetof(struct model_counts, name))
#define BATCH offsetof(struct parse, batch)

static const struct description descriptions[] = {
	{"data", "FILE", "text to train on; repeat it, or name more files behind the options", KIND_FILES, 0, 0, 0},
	{"steps", "N", "train until this step (default 200)", KIND_COUNT, FIELD(steps), 1, step_max},
	{"batch", "ROWS", "rows of a step, over all ranks (default 8)", KIND_COUNT, BATCH, 1, MODEL_MAX_ROWS},
	{"size", "NAME", "the four that follow: demo (default), 25m, 85m, 300m, 700m or 1.5b parameters", KIND_SIZE, 0,
	 0, 0},
	{"layers", "N", "blocks of the model (default 2)", KIND_COUNT, MODEL(layers), 1, 128},
	{"width", "N", "channels of the model (default 64)", KIND_COUNT, MODEL(width), 1, 65536},
	{"seq", "N", "bytes of a row (default 64)", KIND_COUNT, MODEL(seq), 1, 65536},
	{"heads", "N", "attention heads; they divide the width (default 4)", KIND_COUNT, MODEL(heads), 1, 256},
	{"lr", "RATE", "learning rate (default 0.003)", KIND_RATE, FIELD(rate), 0, 0},
	{"warmup", "N", "steps in which the rate rises from zero (default 20)", KIND_COUNT, FIELD(warmup), 0, step_max},
	{"seed", "N", "of parameters and order of data (default 1)", KIND_COUNT, FIELD(seed), 0, UINT64_MAX},
	{"save-memory-every", "K", "steps between saves to memory; 0: none (default 5)", KIND_COUNT,
	 FIELD(memory_every), 0, step_max},
	{"save-storage-every", "K", "steps between saves to storage; 0: none, not even at the end (default 50)",
	 KIND_COUNT, FIELD(storage_every), 0, step_max},
	{"save-auto", NULL, "save when the daemon says so; by step where its interval is not automatic", KIND_FLAG,
	 FIELD(save_auto), 0, 0},
	{"healthy-after", "K", "good steps after which a checkpoint may be gone back to (default 3)", KIND_COUNT,
	 FIELD(healthy_after), 1, 1000000},
	{"device", "WHICH", "cuda, host, or auto: a GPU where there is one (else CKPT_DEVICE, else auto)", KIND_DEVICE,
	 FIELD(device), 0, 0},
	{"recompute", NULL, "on a GPU: compute activations again on the way back, to save memory", KIND_FLAG,
	 FIELD(recompute), 0, 0},
	{"compress", "HOW", "gradients on their way: none (default), int8, topk or 1bit, with error feedback",
	 KIND_COMPRESS, FIELD(compress), 0, 0},
	{"no-vote", NULL, "saves are not compared between ranks in what all hold alike", KIND_FLAG, FIELD(no_vote), 0,
	 0},
	{"strict", NULL, "catch every change of the state during a capture, at the cost of two reads", KIND_FLAG,
	 FIELD(strict), 0, 0},
	{"address", "IP", "where this rank listens for its neighbour (else CKPT_ADDRESS, else 127.0.0.1)", KIND_TEXT,
	 FIELD(address), 0, 0},
	{"timeout", "SECONDS", "longest wait for a neighbour in one collective (default 60)", KIND_SECONDS,
	 FIELD(timeout_ms), 1, 86400},
	{"patience", "SECONDS", "give up after this long without a completed step (default 300)", KIND_SECONDS,
	 FIELD(patience_ms), 1, 864000},
	{"stopped-status", "CODE", "status of a process that was asked to stop before the last step (default 0)",
	 KIND_COUNT, FIELD(stopped_status), 0, 125},
	{"pace", "MS", "least time of a rank's own part of a step (default 0)", KIND_COUNT, FIELD(pace_ms), 0, 3600000},
	{"progress", NULL, "a line per second on stderr, from rank 0", KIND_FLAG, FIELD(progress), 0, 0},
	{"report", "FILE", "append measurements as JSON lines", KIND_TEXT, FIELD(report), 0, 0},
	{"dump", "FILE", "rank 0 writes the final parameters there: float32, flat", KIND_TEXT, FIELD(dump), 0, 0},
	{"help", NULL, "print this and exit", KIND_FLAG, FIELD(help), 0, 0},
};

enum { OPTION_COUNT = sizeof(descriptions) / sizeof(descriptions[0]) };

void options_default(struct train_options *o)
{
	const char *address = getenv("CKPT_ADDRESS");

	*o = (struct train_options){
		.steps = 200,
		.batch = 8,
		.model = {.layers = 2, .width = 64, .seq_len = 64, .heads = 4},
		.rate = 0.003,
		.warmup = 20,
		.seed = 1,
		.memory_every = 5,
		.storage_every = 50,
		.timeout_ms = 60000,
		.patience_ms = 300000,
		.healthy_after = 3,
		.faults = getenv("CKPT_PLAY"),
		.address = address && *address ? address : "127.0.0.1",
	};
}

static int complain(char *error, const struct description *d, const char *text, const char *what)
{
	snprintf(error, OPTIONS_ERROR_SIZE, "--%s %s: %s", d->name, text, what);
	return -EINVAL;
}

static int parse_count(const struct description *d, const char *text, uint64_t *to, char *error)
{
	char what[64], *end;

	errno = 0;
	*to = strtoull(text, &end, 10);
	if (!*text || strspn(text, "0123456789") != strlen(text) || errno)
		return complain(error, d, text, "is not a whole number");
	snprintf(what, sizeof(what), "must be between %llu and %llu", (unsigned long long)d->min,
		 (unsigned long long)d->max);
	return *to < d->min || *to > d->max ? complain(error, d, text, what) : 0;
}

static int parse_rate(const struct description *d, const char *text, double *to, char *error)
{
	char *end;

	*to = strtod(text, &end);
	if (end == text || *end || !isfinite(*to) || *to <= 0 || *to > 1)
		return complain(error, d, text, "must be a number above 0 and at most 1");
	return 0;
}

static int parse_seconds(const struct description *d, const char *text, int64_t *ms, char *error)
{
	uint64_t seconds;
	int rc = parse_count(d, text, &seconds, error);

	if (rc == 0)
		*ms = (int64_t)seconds * 1000;
	return rc;
}

static int parse_device(const struct description *d, const char *text, enum train_device *to, char *error)
{
	static const char *const names[] = {[DEVICE_AUTO] = "auto", [DEVICE_HOST] = "host", [DEVICE_CUDA] = "cuda"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]))
			continue;
		*to = (enum train_device)i;
		return 0;
	}
	return complain(error, d, text, "must be auto, host or cuda");
}

/* What stands behind it on the command line may change a part of it. */
static int parse_size(const struct description *d, const char *text, struct model_counts *to, char *error)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (strcmp(text, sizes[i].name))
			continue;
		*to = sizes[i].model;
		return 0;
	}
	return complain(error, d, text, "must be demo, 25m, 85m, 300m, 700m or 1.5b");
}

static int parse_one(struct parse *p, const struct description *d, const char *text, char *error)
{
	char *field = (char *)p + d->offset;

	switch (d->kind) {
	case KIND_FLAG:
		*(bool *)field = true;
		return 0;
	case KIND_TEXT:
		if (!*text)
			return complain(error, d, text, "is empty");
		*(const char **)field = text;
		return 0;
	case KIND_COUNT:
		return parse_count(d, text, (uint64_t *)field, error);
	case KIND_RATE:
		return parse_rate(d, text, (double *)field, error);
	case KIND_SECONDS:
		return parse_seconds(d, text, (int64_t *)field, error);
	case KIND_COMPRESS:
		return compress_kind_of(text, (enum compress_kind *)field) < 0
			       ? complain(error, d, text, "must be none, int8, topk or 1bit")
			       : 0;
	case KIND_DEVICE:
		return parse_device(d, text, (enum train_device *)field, error);
	case KIND_SIZE:
		return parse_size(d, text, &p->model, error);
	case KIND_FILES:
		break;
	}
	return 0;
}

static void describe_long(struct option *options, int first)
{
	for (int i = 0; i < OPTION_COUNT; i++)
		options[i] = (struct option){.name = descriptions[i].name,
					     .has_arg = descriptions[i].value ? required_argument : no_argument,
					     .val = first + i};
	options[OPTION_COUNT] = (struct option){0};
}

/* Takes what the model's counts say, and checks it as a whole. */
static int take_model(struct parse *p, char *error)
{
	struct train_options *o = &p->options;

	o->batch = (size_t)p->batch;
	o->model = (struct model_config){.layers = (int)p->model.layers,
					 .width = (int)p->model.width,
					 .seq_len = (int)p->model.seq,
					 .heads = (int)p->model.heads};
	if (model_config_check(&o->model) == 0)
		return 0;
	snprintf(error, OPTIONS_ERROR_SIZE, "--width %d is not a multiple of --heads %d", o->model.width,
		 o->model.heads);
	return -EINVAL;
}

/*
 * Files gather at the front of argv, in places that were read before. '-' in the string of short options: what is not an
 * option is handed out as option 1, in its turn.
 */
static int parse_all(struct parse *p, int argc, char **argv, char *error)
{
	enum { PLAIN = 1, FIRST = 2 };
	struct option options[OPTION_COUNT + 1];
	int rc = 0, files = 1, option;

	describe_long(options, FIRST);
	optind = 0; /* starts anew: getopt keeps its place in hidden variables */
	opterr = 0;
	while (rc == 0 && !p->options.help && (option = getopt_long(argc, argv, "-:", options, NULL)) != -1) {
		if (option == '?' || option == ':') {
			snprintf(error, OPTIONS_ERROR_SIZE, option == '?' ? "unknown option %s" : "%s needs a value",
				 argv[optind - 1]);
			return -EINVAL;
		}
		if (option == PLAIN || descriptions[option - FIRST].kind == KIND_FILES)
			argv[files++] = optarg;
		else
			rc = parse_one(p, &descriptions[option - FIRST], optarg, error);
	}
	for (int i = optind; rc == 0 && i < argc; i++)
		argv[files++] = argv[i];
	p->options.files = (const char *const *)argv + 1;
	p->options.file_count = (size_t)files - 1;
	return rc;
}

static int take_environment(struct parse *p, char *error)
{
	static const struct description variable = {.name = "device (from CKPT_DEVICE)"};
	const char *device = getenv("CKPT_DEVICE");

	return device && *device ? parse_device(&variable, device, &p->options.device, error) : 0;
}

int options_parse(struct train_options *o, int argc, char **argv, char error[OPTIONS_ERROR_SIZE])
{
	struct parse p = {.options = *o, .batch = o->batch};
	int rc;

	error[0] = '\0';
	p.model = (struct model_counts){(uint64_t)o->model.layers, (uint64_t)o->model.width, (uint64_t)o->model.seq_len,
					(uint64_t)o->model.heads};
	rc = take_environment(&p, error);
	if (rc == 0)
		rc = parse_all(&p, argc, argv, error);
	if (rc == 0 && !p.options.help)
		rc = take_model(&p, error);
	if (rc == 0)
		*o = p.options;
	return rc;
}

void options_help(FILE *to)
{
	fprintf(to, "Usage: ckpt-train [OPTION…] [FILE…]\n"
		    "Trains a byte-level GPT on text, data-parallel, and survives the loss of ranks: it saves to "
		    "memory and to storage\n"
		    "through ckptd, and goes on from there. Start one process per rank, as 'ckpt run' does; rank, "
		    "world, job and the\n"
		    "daemon's socket come from CKPT_RANK, CKPT_WORLD, CKPT_JOB and CKPT_SOCKET.\n\n");
	for (int i = 0; i < OPTION_COUNT; i++) {
		const struct description *d = &descriptions[i];
		int used = fprintf(to, "  --%s%s%s", d->name, d->value ? " " : "", d->value ? d->value : "");

		fprintf(to, "%*s%s\n", used < 30 ? 30 - used : 1, "", d->help);
	}
	fprintf(to,
		"\nWithout a file the licence texts of the system are the text. SIGTERM or SIGINT: a last save, then "
		"the end.\n"
		"Rank 0 prints 'final step=N loss=X params=H', H being the FNV-1a-64 of the parameters' bytes.\n"
		"Exit status: 0 done, 1 failed, 2 wrong usage, 3 trained to the end but the last save is not safe, 4 "
		"the device is lost.\n");
}
