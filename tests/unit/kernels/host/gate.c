#include "gate.h"

#include <criterion/criterion.h>

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *closed;
static int arrived[2], opened[2];

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	char *at = info->si_addr, word;
	if (!closed || at < closed || at >= closed + PAGE) {
		signal(sig, SIG_DFL); /* a fault of its own: crash on return */
		return;
	}
	if (write(arrived[1], "a", 1) != 1 || read(opened[0], &word, 1) != 1)
		_exit(99);
}

char *gate_memory(size_t n)
{
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(p, MAP_FAILED);
	return p;
}

void gate_close(void *p)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	if (!closed) {
		cr_assert_eq(pipe(arrived), 0);
		cr_assert_eq(pipe(opened), 0);
	}
	cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
	closed = (char *)((uintptr_t)p & ~(uintptr_t)(PAGE - 1));
	cr_assert_eq(mprotect(closed, PAGE, PROT_NONE), 0);
}

void gate_await(void)
{
	char word;
	cr_assert_eq(read(arrived[0], &word, 1), 1);
}

void gate_open(void)
{
	cr_assert_eq(mprotect(closed, PAGE, PROT_READ | PROT_WRITE), 0);
	cr_assert_eq(write(opened[1], "o", 1), 1);
}
