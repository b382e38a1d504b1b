/* The fuzzer's entry point for registrations and layouts, run on mutations of random jobs. */
#include "format/layout_job.h"

#define LLVMFuzzerTestOneInput fuzz_registration
#include "../../../fuzz/fuzz_registration.c"

static void head_of(const struct job *job, uint32_t rank, struct wbuf *out)
{
	AUTO_WBUF struct wbuf table = {0};
	cr_assert_eq(registration_encode(&job->regs[rank], &table), 0);
	wbuf_u32(out, (uint32_t)table.len);
	wbuf_put(out, table.data, table.len);
	cr_assert_eq(layout_encode(&job->layouts[rank], out), 0);
}

/* Flips a few bits, now and then cuts; the copy has exactly the input's length. */
static void mutate_and_run(const struct wbuf *good, uint64_t *seed)
{
	size_t size = random_below(seed, 4) ? good->len : random_below(seed, good->len);
	uint8_t *data = malloc(size + 1);
	memcpy(data + 1, good->data, size);
	for (uint64_t n = random_below(seed, 4); size && n > 0; n--)
		data[1 + random_below(seed, size)] ^= (uint8_t)(1u << random_below(seed, 8));
	cr_assert_eq(fuzz_registration(data + 1, size), 0);
	free(data);
}

Test(fuzz, registrations_and_layouts)
{
	uint64_t seed = 21;
	for (int round = 0; round < 60; round++) {
		struct job job;
		AUTO_WBUF struct wbuf head = {0};
		random_job(&seed, &job);
		cr_assert_eq(job_make(&job, true, 1 << 18, NULL), 0);
		head_of(&job, 0, &head);
		for (int k = 0; k < 200; k++)
			mutate_and_run(&head, &seed);
		job_free(&job);
	}
}
