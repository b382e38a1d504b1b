#include "start.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

void start_default_signals(void)
{
	static const int taken[] = {SIGINT, SIGTERM, SIGILL, SIGABRT, SIGBUS, SIGSEGV};
	for (unsigned i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		signal(taken[i], SIG_DFL);
}

int start_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void start_descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}
