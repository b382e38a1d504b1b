/* Happens-before by vector clocks: each thread of the grid counts the points at which it was ordered with others, and knows how far it has
 * seen each of them. A word of memory remembers who touched which of its bytes, and when. Invariants: all of it is touched by one fiber at
 * a time, under the emulator's lock; clocks are as long as the grid has threads. */
#include "weak.h"

#include "emulator.h"

#include <memory>
#include <stdio.h>
#include <unordered_map>
#include <vector>

extern "C" char __executable_start, end; /* of the program's image, by the linker */

namespace
{

enum { THREADS_MAX = 1 << 14, WORD = 8, YIELD_ONE_IN = 24 };

typedef std::vector<uint32_t> clock_vector;

/* What one thread knew at some point. Those who have met know the same of all others, and share it: a grid has thousands of threads. */
struct view {
	std::shared_ptr<const clock_vector> others; /* NULL: nothing yet */
	uint32_t turn;                              /* its own */
};

struct knowledge {
	view seen;
	clock_vector taken; /* by atomics, in force from the next fence on */
	view given;         /* at its last fence: what its atomics hand on */
	bool fenced;        /* for the host, since the launch began */
};

struct touch {
	uint32_t thread, turn;
	uint8_t bytes; /* of the word */
	bool write, atomic;
};

struct word {
	std::vector<touch> writes;                   /* and reads of other bytes than the thread's last one */
	std::unordered_map<uint32_t, touch> readers; /* the last read of each thread */
};

std::unordered_map<uintptr_t, word> words;
std::unordered_map<uintptr_t, clock_vector> handed; /* by atomics */
std::vector<knowledge> threads;                     /* of the grid */
std::shared_ptr<const clock_vector> nothing;        /* is known of any of them */
uint64_t first_of_block, faults;
unsigned per_block;
const char *host_from, *host_to;
char fault_text[200];

void join(clock_vector *into, const clock_vector &from)
{
	if (into->size() < from.size())
		into->resize(from.size());
	for (size_t i = 0; i < from.size(); i++)
		if ((*into)[i] < from[i])
			(*into)[i] = from[i];
}

/* All that the thread of that view knew. */
void join_view(clock_vector *into, const view &from, uint64_t thread)
{
	if (!from.others)
		return;
	join(into, *from.others);
	if ((*into)[thread] < from.turn)
		(*into)[thread] = from.turn;
}

knowledge *of(unsigned thread)
{
	knowledge *k = &threads[first_of_block + thread];
	if (!k->seen.others)
		k->seen = {nothing, 1};
	return k;
}

/* What it does from now on is not known to whoever has seen it up to here. */
void next_turn(unsigned thread)
{
	of(thread)->seen.turn++;
}

bool in_image(uintptr_t at)
{
	return at >= (uintptr_t)&__executable_start && at < (uintptr_t)&end;
}

void race(const char *what, unsigned thread, uint32_t other)
{
	if (!faults++)
		snprintf(fault_text, sizeof(fault_text), "thread %u of block %lu %s by thread %lu of block %lu", thread,
			 (unsigned long)(first_of_block / per_block), what, (unsigned long)(other % per_block),
			 (unsigned long)(other / per_block));
}

/* What a thread tells the host, without a fence in front of it. */
void told_early(unsigned thread)
{
	if (!faults++)
		snprintf(fault_text, sizeof(fault_text),
			 "thread %u of block %lu tells the host without a fence for the system", thread,
			 (unsigned long)(first_of_block / per_block));
}

void check_touch(const touch &t, const touch &now, const knowledge *k)
{
	bool ordered = t.thread == now.thread || t.turn <= (*k->seen.others)[t.thread];
	if (!ordered && (t.bytes & now.bytes) && (t.write || now.write) && !(t.atomic && now.atomic))
		race(!now.write ? "reads what is written"
		     : t.write  ? "writes over what is written"
				: "writes over what is read",
		     (unsigned)(now.thread - first_of_block), t.thread);
}

/* Needs no look any more: whoever is ordered behind the one is so behind the other. */
bool is_covered(const touch &t, const touch &now, const knowledge *k)
{
	bool ordered = t.thread == now.thread || t.turn <= (*k->seen.others)[t.thread];
	return ordered && !(t.bytes & ~now.bytes) && (now.write || !t.write) && t.atomic >= now.atomic;
}

void write_word(word *w, const touch &now, const knowledge *k)
{
	for (auto it = w->readers.begin(); it != w->readers.end();) {
		check_touch(it->second, now, k);
		it = is_covered(it->second, now, k) ? w->readers.erase(it) : std::next(it);
	}
	w->writes.push_back(now);
}

void read_word(word *w, const touch &now)
{
	auto found = w->readers.emplace(now.thread, now);
	touch &last = found.first->second;
	if (!found.second && (last.bytes != now.bytes || last.atomic != now.atomic))
		w->writes.push_back(last);
	last = now;
}

void check_word(uintptr_t at, uint8_t bytes, bool write, bool atomic, unsigned thread)
{
	uint32_t me = (uint32_t)(first_of_block + thread);
	const knowledge *k = of(thread);
	touch now = {me, k->seen.turn, bytes, write, atomic};
	word *w = &words[at];
	size_t kept = 0;
	for (const touch &t : w->writes) {
		check_touch(t, now, k);
		if (!is_covered(t, now, k))
			w->writes[kept++] = t;
	}
	w->writes.resize(kept);
	if (write)
		write_word(w, now, k);
	else
		read_word(w, now);
}

void check(const void *at, size_t n, bool write, bool atomic)
{
	int thread = emulator_thread();
	if (thread < 0 || threads.empty() || emulator_own_stack(at))
		return;
	const char *from = static_cast<const char *>(at);
	if (write && from < host_to && from + n > host_from && !of((unsigned)thread)->fenced)
		told_early((unsigned)thread);
	for (uintptr_t p = (uintptr_t)at, last = p + n; p < last;) {
		uintptr_t begin = p / WORD * WORD, stop = begin + WORD < last ? begin + WORD : last;
		check_word(begin, (uint8_t)(((1u << (stop - p)) - 1) << (p - begin)), write, atomic, (unsigned)thread);
		p = stop;
	}
	if (!emulator_draw(YIELD_ONE_IN))
		emulator_yield();
}

/* A volatile store hands on, as an atomic does, and a volatile load takes. */
void check_volatile(const void *at, size_t n, bool write)
{
	int thread = emulator_thread();
	if (thread < 0 || threads.empty() || emulator_own_stack(at))
		return;
	check(at, n, write, true);
	knowledge *k = of((unsigned)thread);
	if (write) {
		clock_vector &there = handed[(uintptr_t)at];
		there.clear();
		join_view(&there, k->given, first_of_block + (unsigned)thread);
		next_turn((unsigned)thread);
	} else {
		join(&k->taken, handed[(uintptr_t)at]);
	}
}

} // namespace

void weak_launch(uint64_t blocks, unsigned in_each)
{
	words.clear();
	handed.clear();
	threads.clear();
	first_of_block = 0;
	per_block = in_each;
	if (blocks * in_each <= THREADS_MAX)
		threads.resize(blocks * in_each);
	nothing = std::make_shared<clock_vector>(threads.size());
}

void weak_block(uint64_t number)
{
	first_of_block = number * per_block;
	/* Shared memory stands in the program's image, and is another for each block. */
	for (auto it = words.begin(); it != words.end();)
		it = in_image(it->first) ? words.erase(it) : std::next(it);
}

void weak_meet(const unsigned *met, unsigned n)
{
	const clock_vector *last = NULL;
	if (threads.empty())
		return;
	auto all = std::make_shared<clock_vector>(threads.size());
	for (unsigned i = 0; i < n; i++) {
		const clock_vector *others = of(met[i])->seen.others.get();
		if (others != last)
			join(all.get(), *others);
		last = others;
	}
	for (unsigned i = 0; i < n; i++)
		(*all)[first_of_block + met[i]] = of(met[i])->seen.turn;
	for (unsigned i = 0; i < n; i++) {
		of(met[i])->seen.others = all;
		next_turn(met[i]);
	}
}

void weak_fence(unsigned thread, bool system)
{
	if (threads.empty())
		return;
	knowledge *k = of(thread);
	if (!k->taken.empty()) {
		auto all = std::make_shared<clock_vector>(*k->seen.others);
		join(all.get(), k->taken);
		k->seen.others = all;
		k->taken.clear();
	}
	k->given = k->seen;
	k->fenced |= system;
	next_turn(thread);
}

void weak_atomic(unsigned thread, const void *at, size_t n)
{
	if (threads.empty())
		return;
	check(at, n, true, true);
	knowledge *k = of(thread);
	clock_vector &there = handed[(uintptr_t)at];
	join(&k->taken, there);
	join_view(&there, k->given, first_of_block + thread);
	next_turn(thread);
}

extern "C" {

uint64_t emulator_faults(void)
{
	return faults;
}

const char *emulator_fault(void)
{
	return fault_text;
}

void emulator_forget_faults(void)
{
	faults = 0;
	fault_text[0] = '\0';
}

void emulator_host_reads(const void *at, size_t n)
{
	host_from = static_cast<const char *>(at);
	host_to = host_from + n;
}

/* ---- what instrumented code calls ---- */

#define ACCESS(n)                                                                                                      \
	void __tsan_read##n(void *at)                                                                                  \
	{                                                                                                              \
		check(at, n, false, false);                                                                            \
	}                                                                                                              \
	void __tsan_write##n(void *at)                                                                                 \
	{                                                                                                              \
		check(at, n, true, false);                                                                             \
	}                                                                                                              \
	void __tsan_unaligned_read##n(void *at)                                                                        \
	{                                                                                                              \
		check(at, n, false, false);                                                                            \
	}                                                                                                              \
	void __tsan_unaligned_write##n(void *at)                                                                       \
	{                                                                                                              \
		check(at, n, true, false);                                                                             \
	}                                                                                                              \
	void __tsan_volatile_read##n(void *at)                                                                         \
	{                                                                                                              \
		check_volatile(at, n, false);                                                                          \
	}                                                                                                              \
	void __tsan_volatile_write##n(void *at)                                                                        \
	{                                                                                                              \
		check_volatile(at, n, true);                                                                           \
	}                                                                                                              \
	void __tsan_unaligned_volatile_read##n(void *at)                                                               \
	{                                                                                                              \
		check_volatile(at, n, false);                                                                          \
	}                                                                                                              \
	void __tsan_unaligned_volatile_write##n(void *at)                                                              \
	{                                                                                                              \
		check_volatile(at, n, true);                                                                           \
	}
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#undef ACCESS

void __tsan_read_range(void *at, long n)
{
	check(at, (size_t)n, false, false);
}

void __tsan_write_range(void *at, long n)
{
	check(at, (size_t)n, true, false);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *)
{
}

void __tsan_func_exit(void *)
{
}
}
