/* ckpt-train: a small data-parallel trainer that survives the loss of ranks. One process per rank. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/message.h"
#include "loop/loop.h"
#include "loop/options.h"
#include "model/data.h"

enum { EXIT_USAGE = 2, EXIT_UNSAFE = 3, EXIT_DEVICE = 4 };

static volatile sig_atomic_t stop;

/* The end comes after the current step, when all ranks know. */
static void want_stop(int signal)
{
	(void)signal;
	stop = 1;
}

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = want_stop, .sa_flags = SA_RESTART};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN); /* who reads our messages may go */
}

static int train(const struct train_options *options)
{
	char error[DATA_ERROR_SIZE], why[LOOP_WHY_SIZE];
	struct loop_result result;
	struct data *data;
	int rc = data_load(options->files, options->file_count, &data, error);

	if (rc < 0) {
		message(-1, "%s", error);
		return EXIT_FAILURE;
	}
	rc = loop_run(options, data, &stop, &result, why);
	if (rc == -ENOTRECOVERABLE) {
		message(-1, "leaves, to be replaced: %s", why);
		_exit(EXIT_DEVICE); /* what runs at a clean exit would wait for the device */
	}
	data_free(data);
	if (rc < 0) {
		message(-1, "%s", why);
		return EXIT_FAILURE;
	}
	if (result.rank == 0)
		printf("final step=%" PRIu64 " loss=%.9g params=%016" PRIx64 "\n", result.step, result.loss,
		       result.fingerprint);
	if (result.unsafe)
		return EXIT_UNSAFE;
	return result.step < options->steps ? (int)options->stopped_status : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	char error[OPTIONS_ERROR_SIZE];
	struct train_options options;

	options_default(&options);
#ifdef CKPT_HAVE_CUDA
	options.open_gpu = platform_cuda;
#endif
	if (options_parse(&options, argc, argv, error) < 0) {
		message(-1, "%s; see --help", error);
		return EXIT_USAGE;
	}
	if (options.help) {
		options_help(stdout);
		return EXIT_SUCCESS;
	}
	catch_signals();
	return train(&options);
}
