#include "ckptd/coordinator/restore/restore_maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void ask(uint64_t step)
{
	join_all();
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].looked, 0);
		coord_restoring(coord, from(n), step);
	}
	cr_expect_eq(surveys, 1);
}

void find(uint32_t node, struct step_id memory, unsigned nstored)
{
	static const struct step_id stored[] = {{20, 1}, {10, 1}};
	struct peer_restore_candidates found = {.nmemory = memory.epoch != 0, .memory = {memory}, .nstored = nstored};
	memcpy(found.stored, stored, nstored * sizeof(*stored));
	coord_found(coord, from(node), &found);
}

void survey(const struct coord_held *held, size_t n)
{
	coord_surveyed(coord, &(struct coord_survey){.epoch = from(0).epoch, .found = held, .n = n});
}

void find_all(struct step_id memory, unsigned nstored)
{
	for (uint32_t n = 0; n < NODES; n++)
		find(n, memory, nstored);
	survey(NULL, 0);
}

void bring(uint32_t node, struct step_id id, int rc, enum wire_source source, const char *text)
{
	struct peer_save m = {.id = id, .rc = rc, .level = source};
	snprintf(m.text, sizeof(m.text), "%s", text);
	coord_fetched(coord, from(node), &m);
}

void bring_all(struct step_id id, int rc)
{
	for (uint32_t n = 0; n < NODES; n++)
		bring(n, id, n == 1 ? rc : 0, WIRE_FROM_STORAGE, n == 1 && rc ? "a sentence" : "");
}

void expect_bring(struct step_id id, bool stored)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(step_compare(told[n].bring.id, id), 0, "step %lu", (unsigned long)told[n].bring.id.step);
		cr_expect_eq(told[n].bring.stored, stored);
	}
}

void expect_restored(struct step_id id, enum wire_source source)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].restored, 1);
		cr_expect_eq(step_compare(told[n].choice.id, id), 0);
		cr_expect_eq(told[n].choice.source, source);
	}
}
