#include "cuda/nvml.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"

/* What is told of a device when NVML plays this. */
static const char *told(const char *playing, const char *bus_id, bool lost)
{
	static char text[256];
	struct nvml *n;

	setenv("CKPT_NVML_LIBRARY", FAKE_NVML, 1);
	setenv("NVML_FAKE", playing, 1);
	n = nvml_open(3, bus_id);
	cr_assert_not_null(n);
	nvml_explain(n, lost, deadline_in_ms(20000), text, sizeof(text));
	nvml_close(n);
	return text;
}

Test(nvml, tells_a_lost_device_from_a_lost_context)
{
	static const struct {
		const char *playing, *told;
	} cases[] = {
		{"", "GPU 3 (0000:1B:00.0) answers: this process alone has lost it"},
		{"xid=31", "GPU 3 (0000:1B:00.0) answers: this process alone has lost it: XID 31"},
		{"lost,xid=79", "GPU 3 (0000:1B:00.0) is lost: XID 79"},
		{"lost,xid=79,blind", "GPU 3 (0000:1B:00.0) is lost"},
		{"reset", "GPU 3 (0000:1B:00.0) must be reset before it can be used again"},
		{"odd,xid=62", "GPU 3 (0000:1B:00.0) is in an unknown state (NVML: Unknown Error): XID 62"},
		{"unloaded", "NVML knows nothing of GPU 3 (0000:1B:00.0): Driver Not Loaded"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(told(cases[i].playing, "0000:1B:00.0", false), cases[i].told);
	cr_expect_str_eq(told("", "0000:77:00.0", false), "GPU 3 (0000:77:00.0) is lost",
			 "it is not on the bus any more");
}

Test(nvml, a_device_that_is_played_to_be_lost_is_told_as_one)
{
	cr_expect_str_eq(told("", "0000:1B:00.0", true), "GPU 3 (0000:1B:00.0) is lost");
	cr_expect_str_eq(told("unloaded", "0000:1B:00.0", true),
			 "GPU 3 (0000:1B:00.0) is lost; NVML knows nothing of it: Driver Not Loaded");
}

Test(nvml, a_missing_library_or_call_is_named)
{
	struct nvml *n;
	char text[256];

	setenv("CKPT_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
	n = nvml_open(0, "0000:1B:00.0");
	nvml_explain(n, false, deadline_in_ms(1000), text, sizeof(text));
	cr_expect(strstr(text, "NVML knows nothing of GPU 0 (0000:1B:00.0): /nowhere/libnvidia-ml.so.1"), "%s", text);
	nvml_close(n);
	setenv("CKPT_NVML_LIBRARY", "libm.so.6", 1);
	n = nvml_open(0, "0000:1B:00.0");
	nvml_explain(n, false, deadline_in_ms(1000), text, sizeof(text));
	cr_expect(strstr(text, "libm.so.6 has no nvmlInit_v2"), "%s", text);
	nvml_close(n);
	nvml_explain(NULL, false, 0, text, sizeof(text));
	cr_expect_str_eq(text, "");
	nvml_close(NULL);
}

Test(nvml, one_that_hangs_is_not_waited_for)
{
	static struct nvml *n; /* the thread has it still */
	int64_t from = monotonic_ns();
	char text[256];

	setenv("CKPT_NVML_LIBRARY", FAKE_NVML, 1);
	setenv("NVML_FAKE", "hang", 1);
	n = nvml_open(3, "0000:1B:00.0");
	nvml_explain(n, false, deadline_in_ms(50), text, sizeof(text));
	cr_expect_str_eq(text, "GPU 3 (0000:1B:00.0): NVML does not answer either");
	cr_expect_lt(monotonic_ns() - from, INT64_C(10000000000));
}
