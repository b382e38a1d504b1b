/* What became of saves in the struct that plays the daemon. */
#include <stdatomic.h>
#include <string.h>

#include "fake_ckpt.h"

static bool differs(const struct fake_job *j, const struct fake_save *save)
{
	for (int r = 0; r < j->world; r++)
		if (!save->copy[r])
			return false;
	for (int r = 1; r < j->world; r++)
		if (save->alike[r] != save->alike[0])
			return true;
	return false;
}

bool fake_deviates(const struct fake_job *j, const struct fake_save *save)
{
	for (int i = 0; i < j->save_count; i++)
		if (j->saves[i].epoch == save->epoch && j->saves[i].step <= save->step && differs(j, &j->saves[i]))
			return true;
	return false;
}

bool fake_complete(const struct fake_job *j, const struct fake_save *save)
{
	if (fake_deviates(j, save))
		return false;
	for (int r = 0; r < j->world; r++)
		if (!save->copy[r])
			return false;
	return true;
}

uint64_t fake_saved(const struct fake_job *j, ckpt_target target)
{
	uint64_t step = 0;

	for (int i = 0; i < j->save_count; i++)
		if (j->saves[i].target == target && j->saves[i].step > step && fake_complete(j, &j->saves[i]))
			step = j->saves[i].step;
	return step;
}

bool fake_newer(const struct fake_save *a, const struct fake_save *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->step > b->step;
}

int ckpt_fault(ckpt *s, char *name, size_t size, uint64_t *ms)
{
	(void)s;
	(void)name;
	(void)size;
	*ms = 0;
	return 0; /* nobody asks for one */
}

/* Each rank is a thread. */
static _Thread_local const char *entered;
static atomic_int connects;

void ckpt_collective_enter(ckpt *s, const char *op, uint64_t seq, uint64_t bytes)
{
	(void)s, (void)seq, (void)bytes;
	entered = op;
}

void ckpt_collective_enter_typed(ckpt *s, const char *op, ckpt_dtype dtype, uint64_t seq, uint64_t bytes)
{
	(void)dtype;
	ckpt_collective_enter(s, op, seq, bytes);
}

void ckpt_collective_leave(ckpt *s)
{
	(void)s;
	connects += entered && !strcmp(entered, "connect");
	entered = NULL;
}

int fake_connects(void)
{
	return connects;
}

int fake_begin_error(const struct fake_job *job, int rank, uint64_t step)
{
	bool its = !job->begin_of || job->begin_of == rank;

	return its && step >= job->begin_from && step < job->begin_to ? job->begin_error : 0;
}
