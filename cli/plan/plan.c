/* ckpt plan: how often to save, what that needs, and what is left of the machine: by formula and by simulation. */
#include "frame/replace_file.h"
#include "plan/plan_picture.h"
#include "plan/plan_quantity.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define SEED 1
#define PRICE_MAX 1e9

enum kind { KIND_BYTES, KIND_TIME };

/* Options that are amounts, and where they go. */
static const struct {
	const char *name;
	enum kind kind;
	bool needed;
	size_t offset;
} amounts[] = {
	{"state", KIND_BYTES, true, offsetof(struct plan_input, state)},
	{"mtbf-node", KIND_TIME, true, offsetof(struct plan_input, mtbf_node)},
	{"store-bandwidth", KIND_BYTES, true, offsetof(struct plan_input, store_bandwidth)},
	{"mtbf-cluster", KIND_TIME, false, offsetof(struct plan_input, mtbf_cluster)},
	{"fabric-bandwidth", KIND_BYTES, false, offsetof(struct plan_input, fabric_bandwidth)},
	{"capture-bandwidth", KIND_BYTES, false, offsetof(struct plan_input, capture_bandwidth)},
	{"stall", KIND_TIME, false, offsetof(struct plan_input, stall)},
	{"detect", KIND_TIME, false, offsetof(struct plan_input, detect)},
	{"restart", KIND_TIME, false, offsetof(struct plan_input, restart)},
	{"step", KIND_TIME, false, offsetof(struct plan_input, step)},
	{"storage-most", KIND_TIME, false, offsetof(struct plan_input, storage_most)},
	{"storage-least", KIND_TIME, false, offsetof(struct plan_input, storage_least)},
	{"baseline", KIND_TIME, false, offsetof(struct plan_input, baseline)},
};

static int read_amounts(const struct cli *cli, struct plan_input *in)
{
	for (size_t i = 0; i < sizeof(amounts) / sizeof(amounts[0]); i++) {
		const char *text = cli_text(cli, amounts[i].name);
		double *value = (double *)((char *)in + amounts[i].offset);
		bool time = amounts[i].kind == KIND_TIME;
		if (!text && (!amounts[i].needed || *value > 0))
			continue;
		if (!text)
			return cli_fail(cli, EXIT_USAGE, "--%s is missing: see ckpt help plan", amounts[i].name);
		if ((time ? quantity_time : quantity_bytes)(text, value))
			return cli_fail(
				cli, EXIT_USAGE, "--%s %s: %s", amounts[i].name, text,
				time ? "a time such as 90d, 5y or 250ms is wanted, up to 1000000y"
				     : "an amount such as 5.7TB, 64GiB or 200GB/s is wanted, up to 1000000000PB");
	}
	return EXIT_OK;
}

static int read_price(const struct cli *cli, struct plan_input *in)
{
	const char *text = cli_text(cli, "price");
	char *end;
	if (!text)
		return EXIT_OK;
	in->price = strtod(text, &end);
	if (*end || end == text || !isfinite(in->price) || in->price < 0 || in->price > PRICE_MAX)
		return cli_fail(cli, EXIT_USAGE, "--price %s: an amount of money per GPU and hour is wanted", text);
	return EXIT_OK;
}

static int read_counts(const struct cli *cli, struct plan_input *in)
{
	uint64_t gpus = cli_number(cli, "gpus", 0), per_node = cli_number(cli, "gpus-per-node", 8),
		 copies = cli_number(cli, "copies", 1);
	if (!gpus || gpus > 100000000)
		return cli_fail(cli, EXIT_USAGE, "how many GPUs? --gpus N, from 1 to 100000000");
	if (!per_node || per_node > 1024)
		return cli_fail(cli, EXIT_USAGE, "--gpus-per-node %lu: 1 to 1024", (unsigned long)per_node);
	if (copies > 4)
		return cli_fail(cli, EXIT_USAGE, "--copies %lu: 0 to 4", (unsigned long)copies);
	in->gpus = (double)gpus;
	in->gpus_per_node = (double)per_node;
	in->copies = (unsigned)copies;
	in->soft = cli_share(cli, "soft", in->soft);
	in->overhead = cli_share(cli, "overhead", in->overhead);
	return EXIT_OK;
}

/* What was measured takes the place of defaults; what is given on the command line, of both. */
static void use_spans(const struct plan_spans *s, struct plan_input *in)
{
	double nodes = ceil(in->gpus / in->gpus_per_node);
	if (isfinite(s->detect) && s->detect > 0)
		in->detect = s->detect;
	if (isfinite(s->restart) && s->restart > 0)
		in->restart = s->restart;
	if (isfinite(s->bytes) && s->bytes > 0)
		in->state = s->bytes * nodes;
	if (isfinite(s->write) && s->write > 0)
		in->store_bandwidth = in->state / s->write;
	if (isfinite(s->replicate) && s->replicate > 0 && in->copies)
		in->fabric_bandwidth = s->bytes * in->copies / s->replicate;
	if (isfinite(s->mtbf) && s->mtbf > 0)
		in->mtbf_node = s->mtbf * nodes;
}

enum { LOGS_MAX = 1024 };

static int read_spans(const struct cli *cli, struct plan_spans *spans, bool *read)
{
	const char *paths[LOGS_MAX];
	struct err err = {""};
	unsigned n = 0;
	for (; n < LOGS_MAX && cli_repeat(cli, "from-span-log", (int)n); n++)
		paths[n] = cli_repeat(cli, "from-span-log", (int)n);
	*read = n > 0;
	if (n && plan_spans_read(paths, n, spans, &err))
		return cli_fail(cli, EXIT_FAILED, "%s", err.text);
	return EXIT_OK;
}

static void simulate(struct plan_report *p)
{
	for (int i = 0; i < PLAN_SEEDS; i++) {
		p->sims[i] = plan_simulate(&p->in, &p->result, p->days * PLAN_DAY, (uint64_t)(SEED + i));
		p->baseline[i] = plan_simulate_baseline(&p->in, &p->result, p->days * PLAN_DAY, (uint64_t)(SEED + i));
	}
}

/* Who has too little time to start again has no interval to choose. */
static void note_hopeless(const struct cli *cli, const struct plan_report *p)
{
	char fails[QUANTITY_TEXT_MAX], restart[QUANTITY_TEXT_MAX];
	double between = PLAN_DAY / p->result.failures;
	if (between > p->result.memory.restart)
		return;
	cli_note(cli,
		 "no interval helps: something fails every %s, and a restart from memory takes %s. Raise --mtbf-node, "
		 "or "
		 "lower --detect and --restart",
		 quantity_time_text(between, fails), quantity_time_text(p->result.memory.restart, restart));
}

static int draw(struct cli *cli, const struct plan_report *p)
{
	const char *path = cli_text(cli, "picture");
	struct err err = {""};
	if (path && replace_file(path, plan_picture, p, &err))
		return cli_fail(cli, EXIT_FAILED, "--picture: %s", err.text);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	struct plan_report p = {.in = plan_defaults()};
	struct plan_spans spans = {0};
	bool measured = false;
	p.days = (double)cli_number(cli, "days", 90);
	if (p.days < 1 || p.days > 3650)
		return cli_fail(cli, EXIT_USAGE, "--days %.0f: 1 to 3650", p.days);
	int code = read_counts(cli, &p.in);
	if (!code)
		code = read_spans(cli, &spans, &measured);
	if (!code && measured)
		use_spans(&spans, &p.in);
	if (!code)
		code = read_amounts(cli, &p.in);
	if (!code)
		code = read_price(cli, &p.in);
	if (code)
		return code;
	p.spans = measured ? &spans : NULL;
	p.result = plan_compute(&p.in);
	simulate(&p);
	plan_changes(&p.in, p.changes);
	code = draw(cli, &p);
	if (code)
		return code;
	note_hopeless(cli, &p);
	if (cli->json)
		json_emit(plan_json(cli, &p));
	else
		plan_print(&p);
	return EXIT_OK;
}

static const struct option_spec options[] = {
	{"gpus", OPTION_NUMBER, "N", "GPUs of the job"},
	{"gpus-per-node", OPTION_NUMBER, "N", "of each node (default 8)"},
	{"state", OPTION_TEXT, "SIZE", "bytes of a checkpoint, of all ranks: 5.7TB"},
	{"mtbf-node", OPTION_TEXT, "TIME", "mean time between failures of one node: 5y"},
	{"mtbf-cluster", OPTION_TEXT, "TIME", "between outages that take all memory (default 90d)"},
	{"soft", OPTION_SHARE, "SHARE", "of the failures of nodes, those that leave their memory (default 50%)"},
	{"copies", OPTION_NUMBER, "N", "of each snapshot in the memory of other nodes (default 1)"},
	{"store-bandwidth", OPTION_TEXT, "RATE", "of the store, all nodes together: 200GB/s"},
	{"fabric-bandwidth", OPTION_TEXT, "RATE", "of one node, for copies (default 40GB/s)"},
	{"capture-bandwidth", OPTION_TEXT, "RATE", "of one GPU into host memory (default 40GB/s)"},
	{"stall", OPTION_TEXT, "TIME", "that a save keeps training waiting (default: all of the capture)"},
	{"detect", OPTION_TEXT, "TIME", "until a failure is seen (default 5s)"},
	{"restart", OPTION_TEXT, "TIME", "until processes are there and connected (default 60s)"},
	{"step", OPTION_TEXT, "TIME", "of training; intervals are whole steps (default 5s)"},
	{"overhead", OPTION_SHARE, "SHARE", "of the time, that stalls may take (default 5%)"},
	{"storage-most", OPTION_TEXT, "TIME", "longest interval of saves to storage (default 1h)"},
	{"storage-least", OPTION_TEXT, "TIME", "shortest interval of saves to storage"},
	{"baseline", OPTION_TEXT, "TIME", "interval of the synchronous saves that it is compared with (default 30m)"},
	{"days", OPTION_NUMBER, "N", "to simulate (default 90)"},
	{"price", OPTION_TEXT, "MONEY", "of a GPU for an hour"},
	{"picture", OPTION_TEXT, "FILE", "draw the plan: an SVG file; one that exists is replaced"},
	{"from-span-log", OPTION_REPEAT, "FILE", "span log of a daemon: what was measured takes the place of defaults"},
	{NULL},
};

const struct command command_plan = {
	.name = "plan",
	.summary = "how often to save, and what is left of the machine",
	.detail = "Computes the intervals of saves to memory and to storage by the formulas of Young and Daly, what\n"
		  "they need, and the goodput. Simulates the same model event by event, and synchronous saves to\n"
		  "storage alone beside it. No daemon is asked.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
