/* Every order in every state, and every report: in sim_cluster messages come once more when what they were about is over. A run may end with a promise
 * that is broken, which is an exit status of 1; a daemon that dies of it, or reads what is not there, ends otherwise.
 * Usage: sim_stale [FIRST [COUNT]]; CKPT_NIGHTLY=1 runs more. CKPT_SIM_STALE=200 CKPT_SIM_ELASTIC=1 sim_cluster SEED 1 is what a seed runs. */
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SEEDS = 60, SEEDS_NIGHTLY = 4000, BROKEN = 1, CRASHED = 99 };

static void add_option(const char *name, const char *more)
{
	char value[4096];
	const char *was = getenv(name);
	snprintf(value, sizeof(value), "%s%s%s", was ? was : "", was ? ":" : "", more);
	setenv(name, value, 1);
}

static int run(const char *program, uint64_t seed)
{
	char first[32], count[] = "1";
	char *argv[] = {(char *)program, first, count, NULL};
	int status;
	pid_t pid;
	snprintf(first, sizeof(first), "%" PRIu64, seed);
	if (posix_spawn(&pid, program, NULL, NULL, argv, environ) || waitpid(pid, &status, 0) < 0) {
		perror(program);
		return CRASHED;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : CRASHED;
}

int main(int argc, char **argv)
{
	char path[4096];
	const char *slash = strrchr(argv[0], '/'), *nightly = getenv("CKPT_NIGHTLY");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : nightly && *nightly == '1' ? SEEDS_NIGHTLY : SEEDS;
	uint64_t broken = 0, crashed = 0;
	snprintf(path, sizeof(path), "%.*ssim_cluster", slash ? (int)(slash - argv[0] + 1) : 0, argv[0]);
	setenv("CKPT_SIM_STALE", "200", 1);
	setenv("CKPT_SIM_ELASTIC", "1", 1); /* plans take ranks away and give others */
	add_option("ASAN_OPTIONS", "exitcode=99");
	add_option("UBSAN_OPTIONS", "halt_on_error=1:exitcode=99");
	for (uint64_t seed = first; seed < first + count; seed++) {
		int rc = run(path, seed);
		broken += rc == BROKEN;
		if (!rc || rc == BROKEN)
			continue;
		crashed++;
		printf("seed %" PRIu64 " ends with %d\n", seed, rc);
	}
	printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " went through, %" PRIu64 " broke a promise, %" PRIu64
	       " crashed\n",
	       count, first, count - broken - crashed, broken, crashed);
	return crashed || broken == count;
}
