/* The memory of OpenSSL: blocks that one thread takes, another one gives back, and threads that end with blocks in their lists. For the thread
 * sanitizer; builds with the address sanitizer do without these lists. */
#include "check.h"

#include "cluster/link/vault.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 20000, DESK = 64, LARGEST = 80 << 10, FEW = 10, SHORT_LIVES = 200 };

struct parcel {
	uint8_t *at;
	size_t size;
	uint8_t is; /* all of its bytes */
};

/* Who puts a parcel down takes the one that lies there. */
static struct {
	pthread_mutex_t lock;
	struct parcel lies[DESK];
} desk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t draw(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Most are small, as those of a handshake. */
static size_t draw_size(uint32_t *state)
{
	uint32_t most = 1u << (4 + draw(state) % 8);
	return draw(state) % 500 ? 1 + draw(state) % most : LARGEST;
}

static void check_all(const struct parcel *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		CHECK(p->at[i] == p->is);
}

static struct parcel take(uint32_t *state)
{
	struct parcel p = {.size = draw_size(state), .is = (uint8_t)draw(state)};
	p.at = OPENSSL_malloc(p.size);
	CHECK(p.at && (uintptr_t)p.at % 16 == 0);
	memset(p.at, p.is, p.size);
	return p;
}

static void resize(struct parcel *p, uint32_t *state)
{
	size_t size = draw_size(state);
	p->at = OPENSSL_realloc(p->at, size);
	CHECK(p->at && (uintptr_t)p->at % 16 == 0);
	check_all(p, size < p->size ? size : p->size);
	memset(p->at, p->is, size);
	p->size = size;
}

static void give_back(struct parcel *p)
{
	if (!p->at)
		return;
	check_all(p, p->size);
	OPENSSL_free(p->at);
}

static struct parcel swap(struct parcel mine, uint32_t at)
{
	pthread_mutex_lock(&desk.lock);
	struct parcel other = desk.lies[at];
	desk.lies[at] = mine;
	pthread_mutex_unlock(&desk.lock);
	return other;
}

static void *swap_many(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct parcel other = swap(take(&state), draw(&state) % DESK);
		if (other.at && draw(&state) % 4 == 0)
			resize(&other, &state);
		give_back(&other);
	}
	return NULL;
}

static void blocks_go_from_thread_to_thread(void)
{
	pthread_t threads[THREADS];
	for (uintptr_t t = 0; t < THREADS; t++)
		CHECK(!pthread_create(&threads[t], NULL, swap_many, (void *)(t + 1)));
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	for (unsigned i = 0; i < DESK; i++)
		give_back(&desk.lies[i]);
}

static void what_is_given_back_is_wiped(void)
{
	static const uint8_t zero[1000];
	for (size_t size = 1; size <= sizeof(zero); size++) {
		uint8_t *at = OPENSSL_malloc(size);
		CHECK(at);
		memset(at, 0xa5, size);
		OPENSSL_free(at);
		CHECK(!memcmp(at, zero, size)); /* its pages stay */
	}
}

static void none_is_of_no_size(void)
{
	CHECK(!OPENSSL_malloc(0));
	CHECK(!OPENSSL_malloc(SIZE_MAX));
	void *at = OPENSSL_realloc(NULL, 10);
	CHECK(at && !OPENSSL_realloc(at, 0));
	OPENSSL_free(NULL);
}

/* ---- threads that end -------------------------------------------------------------------------------------------- */

static void *take_and_give_back(void *arg)
{
	void **few = arg;
	for (unsigned i = 0; i < FEW; i++)
		CHECK((few[i] = OPENSSL_malloc(100)));
	for (unsigned i = 0; i < FEW; i++)
		OPENSSL_free(few[i]);
	return NULL;
}

static void live(void **few)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, take_and_give_back, few));
	pthread_join(thread, NULL);
}

static bool is_among(void *at, void *const *few)
{
	for (unsigned i = 0; i < FEW; i++)
		if (few[i] == at)
			return true;
	return false;
}

/* Each has the blocks of the one before. */
static void who_ends_leaves_its_blocks_to_others(void)
{
	void *before[FEW], *now[FEW];
	live(before);
	for (unsigned n = 0; n < SHORT_LIVES; n++) {
		live(now);
		for (unsigned i = 0; i < FEW; i++)
			CHECK(is_among(now[i], before));
		memcpy(before, now, sizeof(before));
	}
}

int main(void)
{
	CHECK(vault_open());
	CHECK(vault_open());
	none_is_of_no_size();
	what_is_given_back_is_wiped();
	who_ends_leaves_its_blocks_to_others();
	blocks_go_from_thread_to_thread();
	return 0;
}
