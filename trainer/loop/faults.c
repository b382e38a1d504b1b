#include "loop/faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[FAULTS_KINDS] = {
	[FAULTS_TRAP] = "trap",
	[FAULTS_ILLEGAL_ADDRESS] = "illegal-address",
	[FAULTS_NEVER_ENDS] = "never-ends",
	[FAULTS_DEVICE_LOST] = "device-lost",
	[FAULTS_ECC] = "ecc",
	[FAULTS_ABSENT] = "absent",
	[FAULTS_MISMATCH] = "mismatch",
	[FAULTS_NAN] = "nan",
	[FAULTS_FLIP] = "flip",
	[FAULTS_SLOW] = "slow",
	[FAULTS_LOSS_SPIKE] = "loss-spike",
	[FAULTS_EXIT_EARLY] = "exit-early",
};

static int wrong(char why[FAULTS_WHY_SIZE], const char *at, const char *what)
{
	snprintf(why, FAULTS_WHY_SIZE, "CKPT_PLAY at \"%.40s\": %s", at, what);
	return -EINVAL;
}

/* Up to 18 digits. */
static bool take_number(const char **at, uint64_t *number)
{
	size_t digits = strspn(*at, "0123456789");

	*number = strtoull(*at, NULL, 10);
	*at += digits;
	return digits && digits <= 18;
}

static int take_name(const char **at, enum faults_kind *kind)
{
	size_t length = strcspn(*at, ":@,");

	for (int k = 0; k < FAULTS_KINDS; k++) {
		if (strlen(names[k]) != length || memcmp(names[k], *at, length))
			continue;
		*kind = (enum faults_kind)k;
		*at += length;
		return 0;
	}
	return -EINVAL;
}

static int take_one(const char **at, struct faults_one *one, char why[FAULTS_WHY_SIZE])
{
	const char *from = *at;

	*one = (struct faults_one){0};
	if (take_name(at, &one->kind) < 0)
		return wrong(why, from, "there is no such fault");
	if (**at == ':' && (++*at, !take_number(at, &one->ms)))
		return wrong(why, from, "milliseconds are wanted behind the colon");
	if ((one->kind == FAULTS_SLOW) != (one->ms != 0))
		return wrong(why, from, "slow, and nothing else, takes milliseconds");
	if (**at != '@' || (++*at, !take_number(at, &one->step)))
		return wrong(why, from, "@ and a step are wanted");
	return **at && **at != ',' ? wrong(why, *at, "a comma or the end is wanted") : 0;
}

int faults_parse(struct faults *f, const char *text, char why[FAULTS_WHY_SIZE])
{
	const char *at = text ? text : "";
	int rc = 0;

	f->count = 0;
	while (rc == 0 && *at) {
		if (f->count == FAULTS_LIST_MAX)
			return wrong(why, at, "these are too many");
		rc = take_one(&at, &f->list[f->count], why);
		f->count += rc == 0;
		if (rc == 0 && *at == ',' && !*++at)
			return wrong(why, text, "it ends with a comma");
	}
	return rc;
}

/* In how many steps it happens; 0: in one, and it is done then. */
static uint64_t lasts(enum faults_kind kind)
{
	return kind == FAULTS_SLOW ? FAULTS_SLOW_STEPS : kind == FAULTS_LOSS_SPIKE ? FAULTS_SPIKE_STEPS : 0;
}

/* Those that are done make room, and those that last when they are over. */
static struct faults_one *place(struct faults *f, uint64_t step)
{
	for (size_t i = 0; i < f->count; i++) {
		struct faults_one *one = &f->list[i];

		if (one->done || (lasts(one->kind) && step > one->step + lasts(one->kind)))
			return one;
	}
	return f->count < FAULTS_LIST_MAX ? &f->list[f->count++] : NULL;
}

int faults_add(struct faults *f, const char *name, uint64_t ms, uint64_t step)
{
	enum faults_kind kind;
	struct faults_one *one;

	if (take_name(&name, &kind) < 0 || *name || (kind == FAULTS_SLOW) != (ms != 0))
		return -EINVAL;
	one = place(f, step);
	if (!one)
		return -EINVAL;
	*one = (struct faults_one){.kind = kind, .step = step, .ms = ms};
	return 0;
}

/* The index of it, or f->count. */
static size_t find(const struct faults *f, enum faults_kind kind, uint64_t step)
{
	size_t i = 0;

	while (i < f->count && (f->list[i].done || f->list[i].kind != kind || step < f->list[i].step))
		i++;
	return i;
}

bool faults_wait(const struct faults *f, enum faults_kind kind, uint64_t step)
{
	return find(f, kind, step) < f->count;
}

bool faults_take(struct faults *f, enum faults_kind kind, uint64_t step)
{
	size_t i = find(f, kind, step);

	if (i == f->count)
		return false;
	f->list[i].done = true;
	return true;
}

static bool is_on(const struct faults_one *one, enum faults_kind kind, uint64_t step)
{
	return one->kind == kind && step >= one->step && step - one->step < lasts(kind);
}

uint64_t faults_slow_ms(const struct faults *f, uint64_t step)
{
	uint64_t ms = 0;

	for (size_t i = 0; i < f->count; i++)
		ms += is_on(&f->list[i], FAULTS_SLOW, step) ? f->list[i].ms : 0;
	return ms;
}

bool faults_spike(const struct faults *f, uint64_t step)
{
	size_t i = 0;

	while (i < f->count && !is_on(&f->list[i], FAULTS_LOSS_SPIKE, step))
		i++;
	return i < f->count;
}
