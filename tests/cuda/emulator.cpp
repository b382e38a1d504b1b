/* The threads of a block as fibers. Invariants: all state is under `launching`, held for a whole launch; one fiber or the scheduler
 * runs at a time; `ready` holds exactly the fibers in state READY. A fiber is made once and runs a thread of one block after
 * another. Fibers are switched with the compiler's own setjmp, which makes no system call. */
#include "cuda_runtime.h"

#include "weak.h"

#include <mutex>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
const emulated_device *emulator_current;

namespace
{

enum { LANES = 32, THREADS_MAX = 1024, STACK = 256 << 10, JUMP_WORDS = 5 };

enum fiber_state { READY, AT_BARRIER, AT_MEETING, ENDED };

/* Where something that was switched away from goes on. */
struct place {
	void *jump[JUMP_WORDS];
	void *fake_stack; /* of the address sanitizer */
	const void *stack;
	size_t stack_bytes;
};

struct fiber {
	place at;
	bool begun;
	fiber_state state;
	unsigned thread; /* in the block */
	uint3 index;
	/* its meeting */
	emulator_meeting kind;
	unsigned mask, source;
	uint64_t value, result;
	ucontext_t first;
};

struct block {
	unsigned threads, ended, waiting;
	void (*body)(void *arg);
	void *arg;
};

std::mutex launching;
fiber *fibers[THREADS_MAX]; /* as many as the largest block so far had threads */
unsigned nfibers, ready[THREADS_MAX], nready;
place scheduler;
block current;
fiber *running;
uint64_t seed = 1, draws, launches;

[[noreturn]] __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("cuda emulator: ", stderr);
	vfprintf(stderr, format, args);
	fputs("\n", stderr);
	va_end(args);
	abort();
}

uint64_t draw(uint64_t n)
{
	draws ^= draws << 13;
	draws ^= draws >> 7;
	draws ^= draws << 17;
	return draws % n;
}

/* ---- switching ---- */

void leaving(place *from, const place *to, bool for_ever)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(for_ever ? nullptr : &from->fake_stack, to->stack, to->stack_bytes);
#else
	(void)from, (void)to, (void)for_ever;
#endif
}

/* former: where it was left from, whose stack is learnt here. */
void arrived(place *here, place *former)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(here->fake_stack, &former->stack, &former->stack_bytes);
#else
	(void)here, (void)former;
#endif
}

/* No frame is left for ever by a switch. The address sanitizer would clear its notes of the whole stack in front of each, with a system call. */
#define NO_FRAME_ENDS __attribute__((noinline, no_sanitize("address")))

[[noreturn]] NO_FRAME_ENDS void leap(place *to)
{
	__builtin_longjmp(to->jump, 1);
}

NO_FRAME_ENDS void switch_over(place *from, place *to)
{
	leaving(from, to, false);
	if (!__builtin_setjmp(from->jump))
		leap(to);
	arrived(from, to);
}

void run_threads()
{
	arrived(&running->at, &scheduler);
	for (;;) {
		current.body(current.arg);
		running->state = ENDED;
		current.ended++;
		switch_over(&running->at, &scheduler);
	}
}

NO_FRAME_ENDS void begin_fiber(fiber *f)
{
	leaving(&scheduler, &f->at, false);
	if (!__builtin_setjmp(scheduler.jump))
		setcontext(&f->first);
	arrived(&scheduler, &f->at);
}

fiber *fiber_new()
{
	fiber *f = new fiber();
	void *stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED || getcontext(&f->first))
		give_up("no memory for the stack of a thread");
	f->at.stack = stack;
	f->at.stack_bytes = STACK;
	f->first.uc_stack.ss_sp = stack;
	f->first.uc_stack.ss_size = STACK;
	makecontext(&f->first, run_threads, 0);
	return f;
}

/* ---- one block ---- */

void set_ready(fiber *f)
{
	f->state = READY;
	ready[nready++] = f->thread;
}

void resume(fiber *f)
{
	running = f;
	threadIdx = f->index;
	if (f->begun) {
		switch_over(&scheduler, &f->at);
	} else {
		f->begun = true;
		begin_fiber(f);
	}
	running = nullptr;
}

void wait_for_others(fiber_state state)
{
	fiber *self = running;
	self->state = state;
	switch_over(&self->at, &scheduler);
}

bool lane_there(unsigned lane, unsigned first)
{
	return first + lane < current.threads;
}

/* Whether all lanes of the mask that have not ended are at this meeting. */
bool all_here(const fiber *f)
{
	unsigned first = f->thread & ~(unsigned)(LANES - 1);
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (!(f->mask >> lane & 1) || !lane_there(lane, first))
			continue;
		const fiber *other = fibers[first + lane];
		if (other->state == ENDED)
			continue;
		if (other->state != AT_MEETING || other->mask != f->mask || other->kind != f->kind)
			return false;
	}
	return true;
}

uint64_t outcome(const fiber *f)
{
	unsigned first = f->thread & ~(unsigned)(LANES - 1);
	if (f->kind == MEET_SYNC)
		return 0;
	if (f->kind == MEET_SHUFFLE) {
		if (f->source >= LANES || !(f->mask >> f->source & 1) || !lane_there(f->source, first) ||
		    fibers[first + f->source]->state == ENDED)
			give_up("thread %u of block %u shuffles from lane %u, which is not there", f->thread,
				blockIdx.x, f->source);
		return fibers[first + f->source]->value;
	}
	uint64_t ballot = 0;
	for (unsigned lane = 0; lane < LANES; lane++)
		if (f->mask >> lane & 1 && lane_there(lane, first) && fibers[first + lane]->state == AT_MEETING)
			ballot |= (uint64_t)(fibers[first + lane]->value != 0) << lane;
	return ballot;
}

/* Only __syncwarp orders memory: a shuffle or a ballot gives values. */
void order_lanes(const fiber *f, unsigned first)
{
	unsigned met[LANES], n = 0;
	for (unsigned lane = 0; lane < LANES; lane++) {
		const fiber *other = lane_there(lane, first) ? fibers[first + lane] : nullptr;
		if (f->mask >> lane & 1 && other && other->state == AT_MEETING && other->mask == f->mask)
			met[n++] = first + lane;
	}
	weak_meet(met, n);
}

void end_meeting(const fiber *f)
{
	unsigned first = f->thread & ~(unsigned)(LANES - 1), mask = f->mask;
	if (f->kind == MEET_SYNC)
		order_lanes(f, first);
	for (int pass = 0; pass < 2; pass++)
		for (unsigned lane = 0; lane < LANES; lane++) {
			fiber *other = lane_there(lane, first) ? fibers[first + lane] : nullptr;
			if (!(mask >> lane & 1) || !other || other->state != AT_MEETING || other->mask != mask)
				continue;
			if (pass == 0)
				other->result = outcome(other);
			else
				set_ready(other);
		}
}

/* Nobody can go on: the barrier is complete, or a meeting for which others have ended meanwhile; else it is a hang. */
void let_go_on()
{
	if (current.waiting == current.threads) {
		static unsigned all[THREADS_MAX];
		current.waiting = 0;
		for (unsigned i = 0; i < current.threads; i++) {
			set_ready(fibers[i]);
			all[i] = i;
		}
		return weak_meet(all, current.threads);
	}
	for (unsigned i = 0; i < current.threads; i++)
		if (fibers[i]->state == AT_MEETING && all_here(fibers[i]))
			return end_meeting(fibers[i]);
	for (unsigned i = 0; i < current.threads; i++)
		if (fibers[i]->state == AT_BARRIER)
			give_up("the kernel hangs: thread %u of block %u waits at a barrier with %u others of %u; %u "
				"have ended",
				i, blockIdx.x, current.waiting - 1, current.threads - 1, current.ended);
	for (unsigned i = 0; i < current.threads; i++)
		if (fibers[i]->state == AT_MEETING)
			give_up("the kernel hangs: thread %u of block %u waits for lanes %08x of its warp", i,
				blockIdx.x, fibers[i]->mask);
}

void run_block()
{
	current.ended = current.waiting = 0;
	nready = 0;
	for (unsigned i = 0; i < current.threads; i++) {
		fiber *f = fibers[i];
		f->thread = i;
		f->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
		set_ready(f);
	}
	while (current.ended < current.threads) {
		if (!nready)
			let_go_on();
		uint64_t at = draw(nready);
		fiber *f = fibers[ready[at]];
		ready[at] = ready[--nready];
		resume(f);
	}
}

/* ---- a launch ---- */

bool fits(const cudaLaunchConfig_t *config)
{
	const dim3 &b = config->blockDim, &g = config->gridDim;
	return b.x && b.y && b.z && g.x && g.y && g.z && b.x <= THREADS_MAX && b.y <= THREADS_MAX && b.z <= 64 &&
	       (uint64_t)b.x * b.y * b.z <= THREADS_MAX && g.x <= INT32_MAX && g.y <= 65535 && g.z <= 65535 &&
	       !config->dynamicSmemBytes;
}

/* Each block once, in an order drawn from the seed: a stride without a common divisor. */
void run_grid()
{
	uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z, at = draw(blocks), stride = 1 + draw(blocks);
	auto common = [](uint64_t a, uint64_t b) {
		while (b) {
			uint64_t rest = a % b;
			a = b;
			b = rest;
		}
		return a;
	};
	while (common(stride, blocks) != 1)
		stride++;
	for (uint64_t i = 0; i < blocks; i++, at = (at + stride) % blocks) {
		blockIdx = {(unsigned)(at % gridDim.x), (unsigned)(at / gridDim.x % gridDim.y),
			    (unsigned)(at / gridDim.x / gridDim.y)};
		weak_block(at);
		run_block();
	}
}

} // namespace

cudaError_t emulator_launch(const cudaLaunchConfig_t *config, void (*body)(void *arg), void *arg)
{
	std::lock_guard<std::mutex> lock(launching);
	if (!fits(config))
		return cudaErrorInvalidConfiguration;
	launches++;
	draws = (seed + launches) * 0x9e3779b97f4a7c15u | 1;
	gridDim = config->gridDim;
	blockDim = config->blockDim;
	current.threads = blockDim.x * blockDim.y * blockDim.z;
	current.body = body;
	current.arg = arg;
	weak_launch((uint64_t)gridDim.x * gridDim.y * gridDim.z, current.threads);
	while (nfibers < current.threads)
		fibers[nfibers++] = fiber_new();
	run_grid();
	return cudaSuccess;
}

bool emulator_waits(const cudaLaunchConfig_t *config)
{
	return emulator_current && config->stream && fits(config);
}

cudaError_t emulator_put(const cudaLaunchConfig_t *config, void (*run)(void *arg), void *arg)
{
	const dim3 &b = config->blockDim, &g = config->gridDim;
	return static_cast<cudaError_t>(
		emulator_current->put(config->stream, g.x * g.y * g.z, b.x * b.y * b.z, run, arg));
}

void emulator_device(const emulated_device *device)
{
	emulator_current = device;
}

void __syncthreads()
{
	if (!running)
		give_up("a barrier outside a kernel");
	current.waiting++;
	wait_for_others(AT_BARRIER);
}

uint64_t emulator_meet(emulator_meeting kind, unsigned mask, uint64_t value, unsigned source)
{
	fiber *self = running;
	if (!self || !(mask >> (self->thread % LANES) & 1))
		give_up("thread %u of block %u calls with the mask %08x, which leaves it out", self ? self->thread : 0,
			blockIdx.x, mask);
	self->kind = kind;
	self->mask = mask;
	self->value = value;
	self->source = source;
	self->state = AT_MEETING;
	if (all_here(self))
		end_meeting(self); /* itself among them */
	wait_for_others(self->state);
	return self->result;
}

void emulator_fence(bool system)
{
	weak_fence(running->thread, system);
}

void emulator_atomic(const void *at, size_t n)
{
	weak_atomic(running->thread, at, n);
}

int emulator_thread()
{
	return running ? (int)running->thread : -1;
}

bool emulator_own_stack(const void *at)
{
	const char *stack = static_cast<const char *>(running->at.stack), *p = static_cast<const char *>(at);
	return p >= stack && p < stack + running->at.stack_bytes;
}

void emulator_yield()
{
	fiber *self = running;
	set_ready(self);
	switch_over(&self->at, &scheduler);
}

uint64_t emulator_draw(uint64_t n)
{
	return draw(n);
}

unsigned emulator_lane()
{
	return running->thread % LANES;
}

void emulator_seed(uint64_t value)
{
	std::lock_guard<std::mutex> lock(launching);
	seed = value;
	launches = 0;
}

uint64_t emulator_launches(void)
{
	std::lock_guard<std::mutex> lock(launching);
	return launches;
}
