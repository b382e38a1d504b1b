#include "machine/machine.h"

#include "base/clock.h"
#include "config/setting.h"
#include "machine/memory_errors.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char store[SCRATCH_MAX];
static struct config config;
static struct machine *m;

static void put(const char *name, const char *text)
{
	char path[SCRATCH_MAX + 128];
	snprintf(path, sizeof(path), "%s/" MEMORY_ERRORS_DIR "/mc0/%s", store, name);
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	FILE *file = fopen(path, "w");
	cr_assert(file && fputs(text, file) >= 0 && !fclose(file));
}

/* The store is the root of sysfs, too. */
static void setup(void)
{
	scratch_new(store);
	put("ce_count", "0");
	put("ue_count", "0");
	setenv("CKPT_SYSFS", store, 1);
	setenv("CKPT_NVML_LIBRARY", FAKE_NVML, 1);
	setenv("NVML_FAKE", "", 1);
	config = (struct config){.store = store, .node = "n0", .check_interval_ms = 10};
	cr_assert_eq(machine_new(&config, &m, NULL), 0);
}

static void teardown(void)
{
	scratch_remove(store);
}

TestSuite(machine, .init = setup, .fini = teardown);

static uint64_t deadline(void)
{
	return clock_deadline(20 * CLOCK_NS_PER_S);
}

/* Looks go on. */
static void await_unfit(const char *part)
{
	uint64_t late = deadline();
	while (!strstr(machine_unfit(m), part) || (!*part && *machine_unfit(m))) {
		cr_assert_lt(clock_now(), late, "it says: %s", machine_unfit(m));
		machine_first(m, late);
	}
}

Test(machine, is_looked_at_before_anybody_is_let_in)
{
	machine_first(m, deadline());
	const struct checkup *c = machine_checkup(m);
	cr_assert(c->disk_read && c->devices_read);
	cr_assert_eq(c->disk.rc, 0);
	cr_assert_gt(c->disk.ns, 0u);
	cr_assert_eq(c->gpus.n, 1u);
	cr_assert_str_eq(machine_unfit(m), "");
	machine_free(m);
}

Test(machine, what_is_wrong_is_told_and_what_is_over_is_not)
{
	unsigned n;
	machine_first(m, deadline());
	setenv("NVML_FAKE", "ecc=1", 1);
	await_unfit("ECC");
	setenv("NVML_FAKE", "", 1);
	put("ue_count", "4");
	await_unfit("memory: 4 uncorrected");
	const struct ailment *all = machine_ailments(m, &n);
	cr_assert_eq(all[0].kind, AILMENT_MEMORY_UNCORRECTED);
	put("ue_count", "0");
	await_unfit("");
	machine_free(m);
}

Test(machine, a_driver_that_hangs_keeps_nobody_waiting)
{
	setenv("NVML_FAKE", "hang", 1);
	/* The disk is looked at once: nobody waits for a later look, which would write while the scratch folder is removed. */
	machine_free(m);
	config.check_interval_ms = 3600000;
	cr_assert_eq(machine_new(&config, &m, NULL), 0);
	machine_first(m, clock_deadline(50 * CLOCK_NS_PER_MS));
	uint64_t late = deadline();
	while (!machine_checkup(m)->disk_read) {
		cr_assert_lt(clock_now(), late);
		machine_first(m, clock_deadline(CLOCK_NS_PER_MS));
	}
	cr_assert(!machine_checkup(m)->devices_read);
	machine_tick(m, clock_now() + CHECKUP_STUCK_NS);
	cr_assert(strstr(machine_unfit(m), "driver of the GPUs has not answered"), "%s", machine_unfit(m));
	machine_free(m); /* its thread is left behind */
}

Test(machine, without_a_store_and_never_there_is_nothing_to_do)
{
	unsigned n;
	machine_free(m);
	config.store = NULL;
	cr_assert_eq(machine_new(&config, &m, NULL), 0);
	machine_first(m, deadline());
	cr_assert(!machine_checkup(m)->disk_read && machine_checkup(m)->devices_read);
	machine_free(m);
	config.check_interval_ms = 0;
	cr_assert_eq(machine_new(&config, &m, NULL), 0);
	machine_first(m, deadline());
	cr_assert(!machine_checkup(m)->devices_read);
	machine_free(m);
	machine_tick(NULL, 1);
	machine_free(NULL);
	cr_assert_str_eq(machine_unfit(NULL), "");
	cr_assert(!machine_checkup(NULL) && !machine_ailments(NULL, &n) && !n);
}
