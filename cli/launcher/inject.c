#include "launcher/inject.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "config/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the parser stands. */
struct spec {
	const char *text, *at;
	struct err *err;
};

bool fault_played(enum fault_kind kind)
{
	const struct fault_entry *entry = fault_of(kind);
	return entry && entry->actor == FAULT_BY_RANK;
}

static int wrong(const struct spec *s, const char *at, const char *what)
{
	return err_set(s->err, -EINVAL, "--inject, position %zu, at \"%.24s\": %s", (size_t)(at - s->text) + 1, at,
		       what);
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int take_number(struct spec *s, uint64_t max, uint64_t *out, const char *what)
{
	const char *from = s->at;
	uint64_t v = 0;
	while (is_digit(*s->at) && v <= max)
		v = v * 10 + (uint64_t)(*s->at++ - '0');
	if (s->at == from || v > max || is_digit(*s->at))
		return wrong(s, from, what);
	*out = v;
	return 0;
}

/* As in a setting, but never without a unit: at most a day. */
static int take_time(struct spec *s, uint64_t *out)
{
	static const struct setting kind = {.type = SETTING_DURATION, .min = 1, .max = 86400000};
	char text[32];
	size_t len = strcspn(s->at, ":@,");
	struct value value;
	snprintf(text, sizeof(text), "%.*s", (int)min_u64(len, sizeof(text)), s->at);
	if (!len || len >= sizeof(text) || is_digit(text[len - 1]) || value_parse(&kind, text, &value, NULL))
		return wrong(s, s->at, "a time such as 3s, 250ms or 1.5m is wanted, above 0 and at most a day");
	s->at += len;
	*out = value.number * CLOCK_NS_PER_MS;
	return 0;
}

/* The next of a sequence that the seed determines (splitmix64). */
static uint64_t draw(uint64_t seed, uint64_t index)
{
	uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* ---- one fault ------------------------------------------------------------------------------------------------- */

struct draft {
	struct fault fault;
	bool has_rank, has_for;
};

static bool take_word(struct spec *s, const char *word)
{
	size_t len = strlen(word);
	if (strncmp(s->at, word, len))
		return false;
	s->at += len;
	return true;
}

static int take_kind(struct spec *s, struct draft *d)
{
	size_t len = strcspn(s->at, ":@,=");
	const struct fault_entry *entry = fault_find(s->at, len);
	char names[256], what[320];
	if (entry && entry->run) {
		d->fault.kind = entry->kind;
		s->at += len;
		return 0;
	}
	if (entry)
		return wrong(s, s->at, "this one is for a running job: ckpt fault");
	snprintf(what, sizeof(what), "the faults are %s", fault_names(true, names, sizeof(names)));
	return wrong(s, s->at, len ? what : "a fault is missing");
}

static int take_rank(struct spec *s, const char *from, uint32_t world, struct draft *d)
{
	uint64_t rank = 0;
	char what[80];
	snprintf(what, sizeof(what), "a rank from 0 to %u is wanted, or any", world - 1);
	if (d->has_rank)
		return wrong(s, from, "rank= is here twice");
	d->has_rank = true;
	d->fault.any_rank = take_word(s, "any");
	int rc = d->fault.any_rank ? 0 : take_number(s, world - 1, &rank, what);
	d->fault.rank = (uint32_t)rank;
	return rc;
}

static int take_parameter(struct spec *s, uint32_t world, struct draft *d)
{
	const char *from = s->at;
	if (take_word(s, "rank="))
		return take_rank(s, from, world, d);
	if (!take_word(s, "for="))
		return wrong(s, from, "rank=N, rank=any or for=TIME may stand here");
	if (d->has_for)
		return wrong(s, from, "for= is here twice");
	d->has_for = true;
	return take_time(s, &d->fault.for_ns);
}

static int take_trigger(struct spec *s, struct draft *d)
{
	const char *from = s->at;
	if (d->fault.trigger)
		return wrong(s, from, "a fault has one trigger");
	if (take_word(s, "step=")) {
		d->fault.trigger = TRIGGER_STEP;
		return take_number(s, 999999999999ull, &d->fault.step, "a step from 0 to 999999999999 is wanted");
	}
	if (!take_word(s, "t="))
		return wrong(s, from, "the triggers are @step=N and @t=TIME");
	d->fault.trigger = TRIGGER_TIME;
	return take_time(s, &d->fault.at_ns);
}

static int check_fault(const struct spec *s, const char *from, const struct draft *d)
{
	const struct fault_entry *entry = fault_of(d->fault.kind);
	bool aims = entry->target == FAULT_AT_RANK;
	if (!d->fault.trigger)
		return wrong(s, from, "a trigger is missing: @step=N or @t=TIME");
	if (!aims && d->has_rank)
		return wrong(s, from, "kill-daemon takes no rank");
	if (aims && !d->has_rank)
		return wrong(s, from, "which rank? :rank=N or :rank=any is missing");
	if (!entry->time && d->has_for)
		return wrong(s, from, "only stop and slow take for=");
	if (entry->time == FAULT_TIME_MUST && d->fault.for_ns < CLOCK_NS_PER_MS)
		return wrong(s, from, "slow by how much in a step? :for=TIME, at least 1ms, is missing");
	if (fault_played(d->fault.kind) && d->fault.trigger != TRIGGER_STEP)
		return wrong(s, from, "the rank plays it itself, in a step: @step=N is wanted");
	return 0;
}

static int take_fault(struct spec *s, uint32_t world, struct draft *d)
{
	const char *from = s->at;
	int rc = take_kind(s, d);
	while (!rc && (*s->at == ':' || *s->at == '@'))
		rc = *s->at++ == ':' ? take_parameter(s, world, d) : take_trigger(s, d);
	if (!rc && *s->at && *s->at != ',')
		rc = wrong(s, s->at, "\":\", \"@\", \",\" or the end is wanted");
	if (rc)
		return rc;
	snprintf(d->fault.text, sizeof(d->fault.text), "%.*s", (int)(s->at - from), from);
	return check_fault(s, from, d);
}

char *inject_played(const struct fault *faults, size_t n, uint32_t rank)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	const char *comma = "";
	for (size_t i = 0; f && i < n; i++) {
		const struct fault *fault = &faults[i];
		if (!fault_played(fault->kind) || fault->rank != rank || fault->fired_ns)
			continue;
		fprintf(f, "%s%s", comma, fault_kind_name(fault->kind));
		if (fault->for_ns)
			fprintf(f, ":%" PRIu64, (uint64_t)(fault->for_ns / CLOCK_NS_PER_MS));
		fprintf(f, "@%" PRIu64, fault->step);
		comma = ",";
	}
	if (f && fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

int inject_parse(const char *spec, uint32_t world, uint64_t seed, struct fault *out, size_t *n, struct err *err)
{
	struct spec s = {.text = spec, .at = spec, .err = err};
	do {
		struct draft d = {0};
		if (s.at > spec)
			s.at++; /* the comma */
		if (*n >= FAULTS_MAX)
			return wrong(&s, s.at, "more than 256 faults");
		int rc = take_fault(&s, world, &d);
		if (rc)
			return rc;
		if (d.fault.any_rank)
			d.fault.rank = (uint32_t)(draw(seed, *n) % world);
		out[(*n)++] = d.fault;
	} while (*s.at);
	return 0;
}
