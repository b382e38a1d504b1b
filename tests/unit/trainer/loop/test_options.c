#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loop/options.h"

enum { ARGS = 32 };

static char error[OPTIONS_ERROR_SIZE];

/* Parses words separated by blanks; argv stays alive for the files. */
static int parse(struct train_options *o, char *line)
{
	static char *argv[ARGS + 1];
	char *rest = line, name[] = "ckpt-train";
	int argc = 0;

	argv[argc++] = name;
	for (char *word; argc < ARGS && (word = strsep(&rest, " "));)
		if (*word)
			argv[argc++] = word;
	argv[argc] = NULL;
	options_default(o);
	return options_parse(o, argc, argv, error);
}

static void assert_refused(const char *text, const char *expected)
{
	struct train_options o;
	char line[128];

	snprintf(line, sizeof(line), "%s", text);
	cr_assert_eq(parse(&o, line), -EINVAL, "%s", text);
	cr_assert_not_null(strstr(error, expected), "%s: %s", text, error);
}

Test(options, defaults)
{
	struct train_options o;
	char line[] = "";

	cr_assert_eq(parse(&o, line), 0);
	cr_assert_eq(o.file_count, 0);
	cr_assert_eq(o.steps, 200);
	cr_assert_eq(o.batch, 8);
	cr_assert_eq(o.model.layers, 2);
	cr_assert_eq(o.model.width, 64);
	cr_assert_eq(o.model.seq_len, 64);
	cr_assert_eq(o.model.heads, 4);
	cr_assert_eq(o.memory_every, 5);
	cr_assert_eq(o.storage_every, 50);
	cr_assert_not(o.strict || o.progress || o.help);
}

Test(options, a_size_is_about_as_many_parameters_as_its_name_says)
{
	static const struct {
		const char *name;
		double parameters;
	} sizes[] = {{"25m", 25e6}, {"85m", 85e6}, {"300m", 300e6}, {"700m", 700e6}, {"1.5b", 1.5e9}};
	struct train_options o;
	char line[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct tensor table[1024];

		snprintf(line, sizeof(line), "--size %s", sizes[i].name);
		cr_assert_eq(parse(&o, line), 0, "%s", error);
		cr_assert_float_eq((double)tensor_layout(&o.model, table) / sizes[i].parameters, 1, 0.05, "%s",
				   sizes[i].name);
	}
	char changed[] = "--size 1.5b --seq 64 --layers 2";
	cr_assert_eq(parse(&o, changed), 0, "%s", error);
	cr_assert(o.model.width == 1600 && o.model.heads == 25 && o.model.seq_len == 64 && o.model.layers == 2);
	assert_refused("--size 2b", "must be demo, 25m, 85m, 300m, 700m or 1.5b");
	char demo[] = "--layers 9 --size demo";
	cr_assert_eq(parse(&o, demo), 0);
	cr_assert_eq(o.model.layers, 2);
}

Test(options, the_device_is_that_of_the_option_else_of_the_environment)
{
	struct train_options o;
	char none[] = "", own[] = "--device cuda --compress topk --recompute", other[] = "--device tpu";

	unsetenv("CKPT_DEVICE");
	cr_assert_eq(parse(&o, none), 0);
	cr_assert_eq(o.device, DEVICE_AUTO);
	cr_assert_eq(o.compress, COMPRESS_NONE);
	setenv("CKPT_DEVICE", "host", 1);
	cr_assert_eq(parse(&o, none), 0);
	cr_assert_eq(o.device, DEVICE_HOST);
	cr_assert_eq(parse(&o, own), 0);
	cr_assert_eq(o.device, DEVICE_CUDA);
	cr_assert_eq(o.compress, COMPRESS_TOPK);
	cr_assert(o.recompute);
	cr_assert_eq(parse(&o, other), -EINVAL);
	assert_refused("--compress lz4", "must be none, int8, topk or 1bit");
	setenv("CKPT_DEVICE", "gpu", 1);
	cr_assert_eq(parse(&o, none), -EINVAL);
	cr_assert_str_eq(error, "--device (from CKPT_DEVICE) gpu: must be auto, host or cuda");
}

Test(options, the_address_is_that_of_the_environment)
{
	struct train_options o;
	char none[] = "", own[] = "--address 10.0.0.7";

	cr_assert_eq(parse(&o, none), 0);
	cr_assert_str_eq(o.address, "127.0.0.1");
	setenv("CKPT_ADDRESS", "10.0.0.3", 1);
	cr_assert_eq(parse(&o, none), 0);
	cr_assert_str_eq(o.address, "10.0.0.3");
	cr_assert_eq(parse(&o, own), 0);
	cr_assert_str_eq(o.address, "10.0.0.7");
	setenv("CKPT_ADDRESS", "", 1);
	cr_assert_eq(parse(&o, none), 0);
	cr_assert_str_eq(o.address, "127.0.0.1");
}

Test(options, values)
{
	struct train_options o;
	char line[] = "--steps 7 --batch=9 --width 32 --heads 8 --seed 18446744073709551615 --lr 1e-3 --strict "
		      "--save-auto --save-storage-every 0 --timeout 3 --report r";

	cr_assert_eq(parse(&o, line), 0, "%s", error);
	cr_assert_eq(o.steps, 7);
	cr_assert_eq(o.batch, 9);
	cr_assert_eq(o.model.width, 32);
	cr_assert_eq(o.model.heads, 8);
	cr_assert_eq(o.seed, UINT64_MAX);
	cr_assert_float_eq(o.rate, 1e-3, 1e-12);
	cr_assert(o.strict);
	cr_assert_eq(o.storage_every, 0);
	cr_assert(o.save_auto);
	cr_assert_eq(o.timeout_ms, 3000);
	cr_assert_str_eq(o.report, "r");
}

Test(options, files_keep_their_order_wherever_they_stand)
{
	struct train_options o;
	static char line[] = "a --data b c --steps 3 --data=d -- --e";
	const char *expected[] = {"a", "b", "c", "d", "--e"};

	cr_assert_eq(parse(&o, line), 0, "%s", error);
	cr_assert_eq(o.file_count, 5);
	for (int i = 0; i < 5; i++)
		cr_assert_str_eq(o.files[i], expected[i]);
	cr_assert_eq(o.steps, 3);
}

Test(options, refusals_name_the_option)
{
	assert_refused("--steps 0", "--steps 0: must be between 1 and 999999999999");
	assert_refused("--steps 1x", "--steps 1x: is not a whole number");
	assert_refused("--steps -1", "--steps -1: is not a whole number");
	assert_refused("--seed 18446744073709551616", "is not a whole number");
	assert_refused("--batch 5000", "--batch 5000: must be between 1 and 4096");
	assert_refused("--layers 129", "--layers 129");
	assert_refused("--heads 3", "--width 64 is not a multiple of --heads 3");
	assert_refused("--lr nan", "--lr nan: must be a number");
	assert_refused("--lr 2", "--lr 2: must be a number");
	assert_refused("--timeout 0", "--timeout 0: must be between 1 and 86400");
	assert_refused("--nonsense", "unknown option --nonsense");
	assert_refused("--steps", "--steps needs a value");
	assert_refused("--address=", "--address : is empty");
}

Test(options, help_needs_nothing_else_to_be_right)
{
	struct train_options o;
	char line[] = "--help --steps zero";

	cr_assert_eq(parse(&o, line), 0);
	cr_assert(o.help);
}

Test(options, help_fits_a_terminal_and_names_what_is_parsed)
{
	static const char *const some[] = {"--data FILE", "--save-storage-every K", "--report FILE", "--help"};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	options_help(f);
	fclose(f);
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		cr_assert_not_null(strstr(text, some[i]), "%s", some[i]);
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
		cr_assert_leq(end - line, 120);
	free(text);
}
