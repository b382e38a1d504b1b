#include "runtime/process_setup.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

int start_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file beyond RLIMIT_FSIZE is an error of the call (-EFBIG) */
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
