/* A deadline for every unit test, which ends what hangs and is no bound on what a busy machine may take. Criterion 2.4 does not honour
 * --timeout, and a .timeout of a test would only come before this. The alarm goes off in the process of one test (which Criterion
 * marks with BXFI_MAP), so that the report names that test. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 240 };

static void late(int sig)
{
	static const char text[] = "the test ran past its deadline (CKPT_UNIT_TIMEOUT seconds)\n";
	ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	signal(sig, SIG_DFL);
	raise(sig);
}

__attribute__((constructor)) static void set_deadline(void)
{
	if (!getenv("BXFI_MAP"))
		return;
	const char *word = getenv("CKPT_UNIT_TIMEOUT");
	unsigned long seconds = word ? strtoul(word, NULL, 10) : DEFAULT_SECONDS;
	signal(SIGALRM, late);
	alarm((unsigned)seconds);
}
