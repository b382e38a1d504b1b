#include "format/message/fault.h"

#include <criterion/criterion.h>
#include <string.h>

Test(fault, kinds_and_names_are_unique_and_complete)
{
	unsigned n = 0;
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++, n++) {
		cr_expect_eq(fault_find(f->name, strlen(f->name)), f, "%s stands there twice", f->name);
		cr_expect_eq(fault_of(f->kind), f, "the kind of %s stands there twice", f->name);
		cr_expect_lt(strlen(f->name), FAULT_NAME_MAX);
		cr_expect(f->does && *f->does && f->needs && f->fired && *f->fired && f->expected && *f->expected, "%s",
			  f->name);
	}
	cr_expect_eq(n, FAULT_KIND_END - 1, "a kind is not in the catalogue");
}

Test(fault, what_is_signalled_has_a_signal_and_has_a_time_to_fire)
{
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++) {
		if (f->actor == FAULT_BY_SIGNAL)
			cr_expect(f->signal, "%s", f->name);
		cr_expect(f->fires_ms || f->time == FAULT_TIME_MUST, "%s never has to fire", f->name);
		cr_expect(!f->run || f->target == FAULT_AT_RANK || f->target == FAULT_AT_DAEMON, "%s", f->name);
	}
}

/* What is found when somebody reads it, or after so many steps, has no time. */
Test(fault, what_is_expected_has_a_time)
{
	static const enum fault_kind without[] = {FAULT_SLOW,        FAULT_FLIP_ARENA,   FAULT_FLIP_REPLICA,
						  FAULT_FLIP_FILE,   FAULT_FLIP_SIDECAR, FAULT_FLIP_MANIFEST,
						  FAULT_DISK_CORRUPT};
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++) {
		bool has = true;
		for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
			has &= f->kind != without[i];
		cr_expect_eq(f->expected_ms > 0, has, "%s", f->name);
		cr_expect_leq(f->expected_ms, FAULT_AT_WORK_MS, "%s", f->name);
	}
	cr_expect_eq(fault_of(FAULT_ABSENT)->expected_ms, FAULT_NAMED_MS);
}

Test(fault, names_are_listed_as_a_sentence_has_them)
{
	char names[512];
	fault_names(true, names, sizeof(names));
	cr_expect(strstr(names, "kill, abort, stop, "), "%s", names);
	cr_expect(strstr(names, " and kill-daemon"), "%s", names);
	cr_expect_null(strstr(names, "flip-file"));
	fault_names(false, names, sizeof(names));
	cr_expect(strstr(names, "link-loss and link-delay"), "%s", names);
	cr_expect_null(fault_find("kil", 3));
	cr_expect_str_eq(fault_kind_name(FAULT_KIND_END), "?");
}
