#include "base/cleanup.h"
#include "ckptd/job_maker.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct step_id id = {.step = 7, .epoch = 2};

static struct maker m;

static void setup(void)
{
	maker_new(&m, id);
}

static void teardown(void)
{
	maker_free(&m);
}

TestSuite(memory, .init = setup, .fini = teardown);

/* A copy of rank 0's arena in a memfd of its own, as somebody who holds it could have changed it. */
static int copy_of(uint64_t bytes, int seals)
{
	const struct memory *mem = m.mem[0];
	int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, mem->base, bytes < mem->size ? bytes : mem->size, 0),
		     (ssize_t)(bytes < mem->size ? bytes : mem->size));
	cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int whole_copy(void)
{
	return copy_of(m.mem[0]->size, F_SEAL_SHRINK | F_SEAL_GROW);
}

static void poke(int fd, uint64_t at, const void *data, size_t len)
{
	cr_assert_eq(pwrite(fd, data, len, (off_t)at), (ssize_t)len);
}

static int adopt(int fd, struct err *err)
{
	struct memory *mem = NULL;
	int rc = memory_adopt(fd, "main", &mem, err);
	if (!rc)
		memory_put(mem);
	return rc;
}

static void expect_refused(int fd, const char *word)
{
	struct err err = {{0}};
	unsigned before = open_descriptors();
	int rc = adopt(fd, &err);
	cr_assert_eq(rc, -EBADMSG, "%d: %s", rc, err.text);
	cr_assert(strstr(err.text, word), "'%s' is not in: %s", word, err.text);
	cr_assert_eq(open_descriptors(), before - 1, "the descriptor that was taken over stays open");
}

Test(memory, an_arena_is_sealed_against_a_change_of_its_size)
{
	int seals = fcntl(m.mem[0]->fd, F_GET_SEALS);
	cr_assert_eq(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	cr_assert_lt(ftruncate(m.mem[0]->fd, 4096), 0);
}

Test(memory, the_neighbours_descriptor_cannot_be_mapped_for_writing)
{
	const struct memory *mem = m.mem[0];
	cr_assert_eq(mmap(NULL, mem->size, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd_read, 0), MAP_FAILED);
	void *p = mmap(NULL, mem->size, PROT_READ, MAP_SHARED, mem->fd_read, 0);
	cr_assert_neq(p, MAP_FAILED);
	munmap(p, mem->size);
}

Test(memory, what_comes_back_is_what_was_handed_out)
{
	struct memory *back = NULL;
	struct err err = {{0}};
	cr_assert_eq(memory_adopt(dup(m.mem[1]->fd), "main", &back, &err), 0, "%s", err.text);
	cr_assert(back->adopted);
	cr_assert_eq(back->table->reg.rank, 1u);
	cr_assert(digest_equal(back->sum, m.mem[1]->sum));
	cr_assert_eq(back->slots_at, m.mem[1]->slots_at);
	cr_assert_eq(back->layout.nleaves, m.mem[1]->layout.nleaves);
	cr_assert_eq(memcmp(memory_slot(back, 0), memory_slot(m.mem[1], 0), back->slot_size), 0);
	memory_put(back);
}

Test(memory, every_life_of_the_daemon_raises_the_generation)
{
	struct err err = {{0}};
	uint32_t before = m.mem[0]->head->generation;
	cr_assert_eq(adopt(dup(m.mem[0]->fd), &err), 0, "%s", err.text);
	cr_assert_eq(m.mem[0]->head->generation, before + 1);
}

Test(memory, a_descriptor_that_is_no_memory_is_refused)
{
	int pipe_fds[2];
	cr_assert_eq(pipe(pipe_fds), 0);
	expect_refused(pipe_fds[0], "not shared memory");
	close(pipe_fds[1]);
	expect_refused(open("/dev/null", O_RDWR), "not");
}

Test(memory, without_the_seals_it_is_refused)
{
	expect_refused(copy_of(m.mem[0]->size, 0), "not a sealed arena");
	expect_refused(copy_of(m.mem[0]->size, F_SEAL_SHRINK), "not a sealed arena");
	expect_refused(copy_of(m.mem[0]->size, F_SEAL_GROW), "not a sealed arena");
}

Test(memory, an_arena_of_another_job_is_refused)
{
	struct memory *mem = NULL;
	struct err err = {{0}};
	cr_assert_eq(memory_adopt(dup(m.mem[0]->fd), "other", &mem, &err), -EBADMSG);
	cr_assert(strstr(err.text, "\"main\"") && strstr(err.text, "\"other\""), "%s", err.text);
}

Test(memory, a_cut_arena_is_refused)
{
	expect_refused(copy_of(100, F_SEAL_SHRINK | F_SEAL_GROW), "smaller than its head");
	expect_refused(copy_of(m.mem[0]->size - 4096, F_SEAL_SHRINK | F_SEAL_GROW), "arena");
	expect_refused(copy_of(m.mem[0]->size + 4096, F_SEAL_SHRINK | F_SEAL_GROW), "arena");
}

/* The padding behind small slots has room for one more: that contradicts nothing. */
static bool fits_as_well(size_t at, uint64_t value)
{
	const struct arena_head *head = m.mem[0]->head;
	struct arena_plan plan;
	return at == offsetof(struct arena_head, nslots) &&
	       !arena_plan(head->table_len, head->nleaves, head->slot_size, (uint32_t)value, &plan) &&
	       plan.size == head->size && plan.slots_at == head->slots_at;
}

/* Every field that the daemon reads, with values around its own and the worst ones. */
Test(memory, a_scribbled_head_is_refused_field_by_field)
{
#define FIELD(name)                                                                                                    \
	{                                                                                                              \
#name, offsetof(struct arena_head, name), sizeof(((struct arena_head *)0)->name)                       \
	}
	static const struct {
		const char *name;
		size_t at, len;
	} fields[] = {FIELD(magic),     FIELD(version),    FIELD(nslots),   FIELD(size),      FIELD(table_at),
		      FIELD(table_len), FIELD(leaves_at),  FIELD(slots_at), FIELD(slot_size), FIELD(nleaves),
		      FIELD(table_low), FIELD(table_high), FIELD(rank),     FIELD(world)};
#undef FIELD
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t now = 0;
		memcpy(&now, m.mem[0]->base + fields[i].at, fields[i].len);
		const uint64_t values[] = {now + 1,   now - 1, now ^ 0x8000, 0, UINT64_MAX, (uint64_t)INT64_MAX,
					   1ull << 31};
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			uint64_t value = fields[i].len == 4 ? values[v] & UINT32_MAX : values[v];
			if (value == now || fits_as_well(fields[i].at, value))
				continue;
			struct err err = {{0}};
			int fd = whole_copy();
			poke(fd, fields[i].at, &value, fields[i].len);
			cr_assert_eq(adopt(fd, &err), -EBADMSG, "%s = %lx is taken", fields[i].name,
				     (unsigned long)value);
		}
	}
}

Test(memory, a_job_name_without_an_end_is_refused)
{
	char name[NAME_JOB_MAX];
	memset(name, 'a', sizeof(name));
	int fd = whole_copy();
	poke(fd, offsetof(struct arena_head, job), name, sizeof(name));
	expect_refused(fd, "job name");
}

Test(memory, a_flipped_bit_anywhere_in_the_table_is_refused)
{
	const struct arena_head *head = m.mem[0]->head;
	for (uint64_t at = head->table_at; at < head->table_at + head->table_len; at++) {
		uint8_t byte = m.mem[0]->base[at] ^ 0x10;
		struct err err = {{0}};
		int fd = whole_copy();
		poke(fd, at, &byte, 1);
		cr_assert_eq(adopt(fd, &err), -EBADMSG, "byte %lu", (unsigned long)(at - head->table_at));
	}
}

/* A table whose digest was made to fit: what it says is checked all the same. */
Test(memory, a_truncated_table_is_refused_with_a_fitting_digest)
{
	const struct arena_head *head = m.mem[0]->head;
	for (uint64_t len = 0; len < head->table_len; len += 7) {
		struct arena_plan plan;
		cr_assert_eq(arena_plan(len, head->nleaves, head->slot_size, head->nslots, &plan), 0);
		struct digest digest = digest_bytes(m.mem[0]->base + head->table_at, len);
		struct err err = {{0}};
		int fd = copy_of(plan.size, F_SEAL_SHRINK | F_SEAL_GROW);
		poke(fd, offsetof(struct arena_head, table_len), &len, sizeof(len));
		poke(fd, offsetof(struct arena_head, leaves_at), &plan.leaves_at, sizeof(plan.leaves_at));
		poke(fd, offsetof(struct arena_head, slots_at), &plan.slots_at, sizeof(plan.slots_at));
		poke(fd, offsetof(struct arena_head, size), &plan.size, sizeof(plan.size));
		poke(fd, offsetof(struct arena_head, table_low), &digest.low, sizeof(digest.low));
		poke(fd, offsetof(struct arena_head, table_high), &digest.high, sizeof(digest.high));
		int rc = adopt(fd, &err);
		cr_assert_lt(rc, 0, "a table of %lu bytes is taken", (unsigned long)len);
	}
}

Test(memory, a_table_of_gigabytes_is_refused_before_it_is_read)
{
	const struct arena_head *head = m.mem[0]->head;
	uint64_t len = 64ull << 30;
	struct arena_plan plan;
	cr_assert_eq(arena_plan(len, head->nleaves, head->slot_size, head->nslots, &plan), 0);
	int fd = copy_of(plan.size, F_SEAL_SHRINK | F_SEAL_GROW);
	poke(fd, offsetof(struct arena_head, table_len), &len, sizeof(len));
	poke(fd, offsetof(struct arena_head, leaves_at), &plan.leaves_at, sizeof(plan.leaves_at));
	poke(fd, offsetof(struct arena_head, slots_at), &plan.slots_at, sizeof(plan.slots_at));
	poke(fd, offsetof(struct arena_head, size), &plan.size, sizeof(plan.size));
	expect_refused(fd, "larger than any can be");
}

Test(memory, a_claimed_slot_is_not_the_ranks)
{
	int slot = memory_claim(m.mem[0], id);
	cr_assert_eq(slot, 1);
	cr_assert_eq(m.mem[0]->head->slots[1].state, SLOT_CAPTURING);
	cr_assert_eq(memory_claim(m.mem[0], id), 2);
	cr_assert_eq(memory_claim(m.mem[0], id), -EBUSY);
	memory_release(m.mem[0], 1, false);
	cr_assert_eq(m.mem[0]->head->slots[1].state, SLOT_FREE);
	cr_assert_eq(memory_claim(m.mem[0], id), 1);
}

Test(memory, a_slot_that_the_daemon_claims_is_no_longer_intact)
{
	const _Atomic uint32_t *intact = &m.mem[0]->head->slots[0].intact;
	memory_release(m.mem[0], 0, true);
	cr_assert_eq(atomic_load(intact), 1u);
	cr_assert_eq(memory_claim(m.mem[0], id), 0);
	cr_assert_eq(atomic_load(intact), 0u);
	memory_release(m.mem[0], 0, false);
	cr_assert_eq(atomic_load(intact), 0u);
}

Test(memory, digests_of_ranges_are_those_of_the_whole)
{
	const struct memory *mem = m.mem[0];
	uint64_t n = mem->layout.nleaves;
	for (uint64_t first = 0; first < n; first++) {
		for (uint64_t count = 1; first + count <= n; count++) {
			uint64_t out[64];
			cr_assert_leq(count, 64u);
			memory_digest(mem, 0, first, count, out);
			cr_assert_eq(memcmp(out, m.leaves[0] + first, count * sizeof(*out)), 0);
		}
	}
}

Test(memory, every_leaf_has_a_name)
{
	const struct memory *mem = m.mem[1];
	bool seen[4] = {false};
	for (uint64_t leaf = 0; leaf < mem->layout.nleaves; leaf++) {
		char name[512];
		memory_name_leaf(mem, leaf, name, sizeof(name));
		cr_assert(strstr(name, "of rank 1"), "%s", name);
		seen[0] |= strstr(name, "'w'") != NULL;
		seen[1] |= strstr(name, "'shared'") != NULL;
		seen[2] |= strstr(name, "'rng@00001'") != NULL;
	}
	cr_assert(seen[0] && seen[1] && seen[2]);
}

static const struct arena_status *shown(const struct memory *mem, struct step_id which)
{
	for (int i = 0; i < ARENA_STATUS; i++)
		if (mem->head->status[i].step == which.step && mem->head->status[i].epoch == which.epoch)
			return &mem->head->status[i];
	return NULL;
}

Test(memory, a_level_replaces_the_one_before_in_its_entry)
{
	struct level level = {.id = id, .level = LEVEL_CAPTURED};
	memory_publish(m.mem[0], &level);
	const struct arena_status *s = shown(m.mem[0], id);
	cr_assert_eq(s->level, LEVEL_CAPTURED);
	level.level = LEVEL_DURABLE;
	memory_publish(m.mem[0], &level);
	cr_assert_eq(shown(m.mem[0], id), s);
	cr_assert_eq(s->level, LEVEL_DURABLE);
	cr_assert_eq(s->seq % 2, 0u);
}

/* Whoever waits for that save to be on storage would wait for ever. */
Test(memory, what_has_failed_stays_so_when_a_restore_brings_it_back)
{
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_CAPTURED, .error = -ECANCELED});
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_CAPTURED});
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_REPLICATED});
	const struct arena_status *s = shown(m.mem[0], id);
	cr_expect(s->level == LEVEL_REPLICATED && s->error == -ECANCELED);
	memory_publish(m.mem[0], &(struct level){.id = {id.step + 1, id.epoch}, .level = LEVEL_CAPTURED});
	cr_expect_eq(shown(m.mem[0], (struct step_id){id.step + 1, id.epoch})->error, 0);
}

/* Ranks sleep on this word until it changes. */
Test(memory, whatever_ranks_wait_for_wakes_them)
{
	_Atomic uint32_t *wake = &m.mem[0]->head->wake;
	uint32_t before = *wake;
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_CAPTURED});
	cr_assert_eq(*wake, before + 1, "a level");
	memory_set_epoch(m.mem[0], 3);
	cr_assert_eq(*wake, before + 2, "an epoch");
	memory_set_stop(m.mem[0], true);
	cr_assert_eq(*wake, before + 3, "a stop");
}

Test(memory, the_ring_forgets_the_oldest_also_after_a_restart)
{
	for (uint64_t step = 1; step <= 20; step++)
		memory_publish(m.mem[0], &(struct level){.id = {step, 2}, .level = LEVEL_CAPTURED});
	struct memory *back = NULL;
	struct err err = {{0}};
	cr_assert_eq(memory_adopt(dup(m.mem[0]->fd), "main", &back, &err), 0, "%s", err.text);
	for (uint64_t step = 21; step <= ARENA_STATUS + 3; step++)
		memory_publish(back, &(struct level){.id = {step, 2}, .level = LEVEL_CAPTURED});
	for (uint64_t step = 1; step <= ARENA_STATUS + 3; step++)
		cr_assert_eq(shown(back, (struct step_id){step, 2}) != NULL, step > 3, "step %lu", (unsigned long)step);
	memory_put(back);
}

static void publish_some(uint64_t from, unsigned n)
{
	for (uint64_t step = from; step < from + n; step++)
		memory_publish(m.mem[0], &(struct level){.id = {step, 2}, .level = LEVEL_CAPTURED});
}

/* Its slots may be given back by then, and ranks that wait for it took its outcome for lost. */
Test(memory, the_ring_keeps_what_is_on_its_way_to_storage_until_it_is_there)
{
	struct step_id slow = {.step = 1, .epoch = 2};
	for (enum late_phase phase = LATE_WRITE; phase <= LATE_COMMIT; phase++) {
		memory_publish(m.mem[0], &(struct level){.id = slow, .level = LEVEL_CAPTURED, .late_phase = phase});
		publish_some(2, 2 * ARENA_STATUS);
		cr_assert_not_null(shown(m.mem[0], slow), "phase %d", (int)phase);
	}
	memory_publish(m.mem[0], &(struct level){.id = slow, .level = LEVEL_DURABLE});
	publish_some(100, ARENA_STATUS - 1);
	cr_assert_eq(shown(m.mem[0], slow)->level, LEVEL_DURABLE);
	publish_some(200, 1);
	cr_assert_null(shown(m.mem[0], slow));
}

/* Ranks that look once a step would otherwise have one step to see it. */
Test(memory, the_ring_keeps_an_end_that_comes_late_as_long_as_any_other)
{
	struct step_id late = {.step = 1, .epoch = 2};
	memory_publish(m.mem[0], &(struct level){.id = late, .level = LEVEL_CAPTURED});
	publish_some(2, ARENA_STATUS);
	cr_assert_null(shown(m.mem[0], late));
	memory_publish(m.mem[0], &(struct level){.id = late, .level = LEVEL_DURABLE});
	publish_some(100, ARENA_STATUS - 1);
	cr_assert_not_null(shown(m.mem[0], late));
	publish_some(200, 1);
	cr_assert_null(shown(m.mem[0], late));
}

Test(memory, what_is_durable_is_not_shown_as_less_when_a_restore_has_brought_it)
{
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_DURABLE, .late_phase = LATE_VERIFY});
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_CAPTURED});
	cr_expect_eq(shown(m.mem[0], id)->level, LEVEL_DURABLE);
	cr_expect_eq(shown(m.mem[0], id)->late_phase, LATE_VERIFY, "it may still be read back");
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_DURABLE, .error = -EBADMSG});
	cr_expect_eq(shown(m.mem[0], id)->error, -EBADMSG, "damage that is found later is told");
}

Test(memory, the_order_of_changes_outlives_the_end_of_their_numbers)
{
	struct step_id first = {.step = 1, .epoch = 2};
	for (int i = 0; i < ARENA_STATUS; i++)
		m.mem[0]->head->status[i].seq = UINT32_MAX - 2 * (unsigned)ARENA_STATUS - 1 + 2 * (unsigned)i;
	memory_publish(m.mem[0], &(struct level){.id = first, .level = LEVEL_CAPTURED});
	publish_some(2, ARENA_STATUS - 1);
	cr_assert_not_null(shown(m.mem[0], first));
	publish_some(200, 1);
	cr_assert_null(shown(m.mem[0], first));
	cr_assert_not_null(shown(m.mem[0], (struct step_id){.step = 2, .epoch = 2}));
}

Test(memory, a_restart_closes_the_levels_of_slots_that_were_given_back)
{
	struct step_id freed = {.step = 6, .epoch = 2};
	memory_publish(m.mem[0], &(struct level){.id = freed, .level = LEVEL_CAPTURED});
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_CAPTURED});
	struct err err = {{0}};
	cr_assert_eq(adopt(dup(m.mem[0]->fd), &err), 0, "%s", err.text);
	memory_close_levels(m.mem[0], NULL, NULL);
	cr_assert_eq(shown(m.mem[0], freed)->late_phase, LATE_GONE);
	cr_assert_eq(shown(m.mem[0], id)->late_phase, LATE_NOBODY);
}

/* A rank that looked at that moment would tell the training that the save is lost. */
static bool stands_and_is_not_given_up_meanwhile(void *arg, struct step_id which)
{
	(*(unsigned *)arg)++;
	cr_expect_eq(shown(m.mem[0], which)->late_phase, LATE_NOBODY);
	return which.step == 5;
}

Test(memory, what_stands_is_never_shown_as_given_up)
{
	unsigned asked = 0;
	for (uint64_t step = 4; step <= 6; step++)
		memory_publish(m.mem[0],
			       &(struct level){.id = {step, 2}, .level = step == 6 ? LEVEL_VERIFIED : LEVEL_CAPTURED});
	memory_close_levels(m.mem[0], stands_and_is_not_given_up_meanwhile, &asked);
	cr_expect_eq(asked, 2u, "of what is durable nobody need ask");
	static const uint32_t levels[] = {LEVEL_CAPTURED, LEVEL_DURABLE, LEVEL_VERIFIED};
	for (uint64_t step = 4; step <= 6; step++) {
		cr_expect_eq(shown(m.mem[0], (struct step_id){step, 2})->level, levels[step - 4]);
		cr_expect_eq(shown(m.mem[0], (struct step_id){step, 2})->late_phase, LATE_GONE);
	}
}

/* The daemon was killed between the identity and the level of an entry: the level is that of another snapshot. */
Test(memory, a_half_written_entry_promises_nothing)
{
	memory_publish(m.mem[0], &(struct level){.id = id, .level = LEVEL_VERIFIED});
	struct arena_status *s = (struct arena_status *)shown(m.mem[0], id);
	s->seq++;
	s->step = 8;
	struct err err = {{0}};
	cr_assert_eq(adopt(dup(m.mem[0]->fd), &err), 0, "%s", err.text);
	memory_close_levels(m.mem[0], NULL, NULL);
	cr_assert_eq(s->seq % 2, 0u);
	cr_assert_eq(s->level, LEVEL_PENDING);
}

Test(memory, the_cost_is_the_size)
{
	cr_assert_eq(memory_cost(m.mem[0]->table, &m.mem[0]->layout, ARENA_SLOTS_MIN), m.mem[0]->size);
	cr_assert_eq(memory_cost(m.mem[0]->table, &m.mem[0]->layout, ARENA_SLOTS_MAX + 1), 0u);
}

Test(memory, nothing_is_left_of_an_arena_that_is_put)
{
	struct maker other;
	unsigned before = open_descriptors();
	maker_new(&other, id);
	cr_assert_gt(open_descriptors(), before);
	maker_free(&other);
	cr_assert_eq(open_descriptors(), before);
}
