#include "machine/gpu.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

static struct gpu gpu[GPU_MAX];
static unsigned n;

static struct gpus *play(const char *playing)
{
	setenv("CKPT_NVML_LIBRARY", FAKE_NVML, 1);
	setenv("NVML_FAKE", playing, 1);
	return gpus_open();
}

/* What is read of the first when NVML plays this. */
static const struct gpu *is(const char *playing)
{
	struct gpus *gpus = play(playing);
	cr_assert_eq(gpus_read(gpus, gpu, &n), 0);
	cr_assert_eq(n, 1u);
	gpus_close(gpus);
	return &gpu[0];
}

Test(gpu, one_that_is_well_has_a_place_and_its_whole_link)
{
	const struct gpu *g = is("");
	cr_assert_str_eq(g->bus_id, "00000000:1B:00.0");
	cr_assert(!g->lost && !g->reset && !g->slowed && g->full);
	cr_assert_eq(g->uncorrected, 0u);
	cr_assert(g->width == 16 && g->width_max == 16 && g->generation == 5 && g->generation_max == 5);
}

Test(gpu, lost_is_told_from_one_that_wants_a_reset)
{
	cr_assert(is("lost")->lost);
	cr_assert(!is("lost")->reset);
	cr_assert(is("reset")->reset);
	cr_assert(!is("reset")->lost);
	cr_assert(is("gone")->lost, "it was not there to begin with");
	cr_assert(!is("odd")->lost, "an error that means nothing is none");
}

Test(gpu, errors_and_link_are_read)
{
	cr_assert_eq(is("ecc=3")->uncorrected, 3u);
	cr_assert_eq(is("lanes=8")->width, 8u);
	cr_assert_eq(is("idle")->generation, 1u);
	cr_assert(!is("idle")->full);
}

Test(gpu, heat_and_power_supply_slow_it_and_nothing_else)
{
	cr_assert(is("slow=8")->slowed, "hardware");
	cr_assert(is("slow=32")->slowed && is("slow=64")->slowed, "heat");
	cr_assert(is("slow=128")->slowed, "power brake");
	cr_assert(!is("slow=1")->slowed, "it has nothing to do");
	cr_assert(!is("slow=6")->slowed, "what it is allowed to draw, and clocks that were set");
}

Test(gpu, what_it_does_not_tell_is_as_of_one_that_is_well)
{
	const struct gpu *g = is("mute");
	cr_assert(!g->slowed && !g->uncorrected && !g->width_max && !g->generation_max);
}

Test(gpu, an_xid_of_the_hardware_is_told_once)
{
	struct gpus *gpus = play("xid=79");
	cr_assert_eq(gpus_read(gpus, gpu, &n), 0);
	cr_assert_eq(gpu[0].xid, 79u);
	cr_assert_eq(gpus_read(gpus, gpu, &n), 0);
	cr_assert_eq(gpu[0].xid, 0u);
	cr_assert_eq(gpu[0].xids, 1u);
	gpus_close(gpus);
}

Test(gpu, an_xid_that_a_program_causes_is_counted_alone)
{
	const struct gpu *g = is("xid=31");
	cr_assert_eq(g->xid, 0u);
	cr_assert_eq(g->xids, 0u);
	cr_assert_eq(g->others, 1u);
	cr_assert_eq(is("xid=79,blind")->xid, 0u, "events cannot be watched");
}

Test(gpu, a_driver_may_come_later)
{
	struct gpus *gpus = play("unloaded");
	cr_assert_eq(gpus_read(gpus, gpu, &n), -EIO);
	setenv("NVML_FAKE", "none", 1);
	cr_assert_eq(gpus_read(gpus, gpu, &n), -ENOENT);
	setenv("NVML_FAKE", "", 1);
	cr_assert_eq(gpus_read(gpus, gpu, &n), 0);
	gpus_close(gpus);
	gpus = gpus_open();
	setenv("CKPT_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
	cr_assert_eq(gpus_read(gpus, gpu, &n), -ENOENT);
	setenv("CKPT_NVML_LIBRARY", "libm.so.6", 1);
	cr_assert_eq(gpus_read(gpus, gpu, &n), -EIO, "that is another library");
	gpus_close(gpus);
}
