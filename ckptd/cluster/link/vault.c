#include "cluster/link/vault.h"

#include "base/cleanup.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

void *vault_pages(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return NULL;
	(void)madvise(pages, size, MADV_DONTDUMP);
	(void)mlock(pages, size); /* beyond the limit of locked memory it is not */
	return pages;
}

void vault_give_back(void *pages, size_t size)
{
	explicit_bzero(pages, size);
	munmap(pages, size);
}

#ifdef SANITIZED

bool vault_open(void)
{
	return true;
}

#else

/* Blocks of 32, 48, 64, 96, 128, … bytes: of those of a connection that is being set up, two are a little larger than a power of two. What is
 * larger than all has pages of its own. A block that was given back serves the next of its size. */
enum { SIZES = 23, CHUNK = 256 << 10, OWN_PAGES = SIZES, KEPT_BYTES = 4 << 10 /* of each size */ };

struct block {
	_Alignas(16) uint32_t size; /* which, with this head; OWN_PAGES */
	uint64_t used;              /* bytes of it that the owner asked for */
};

struct spare {
	struct spare *next;
};

static struct {
	pthread_mutex_t lock;
	bool open;
	pthread_key_t key;
	uint8_t *chunk, *end; /* what is left of the newest */
	struct spare *spare[SIZES];
} vault = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t bytes_of(uint32_t size)
{
	return (uint64_t)(2 + size % 2) << (4 + size / 2);
}

/* The least that has so many. */
static uint32_t size_for(uint64_t bytes)
{
	if (bytes <= bytes_of(0))
		return 0;
	uint32_t top = 63 - (uint32_t)__builtin_clzll(bytes - 1), half = (bytes - 1) >> (top - 1) & 1;
	uint32_t size = 2 * (top - 5) + half + 1;
	return size < SIZES ? size : OWN_PAGES;
}

/* What is left of the former chunk is lost: less than a block, once in a chunk. */
static struct block *carve(uint64_t bytes)
{
	if ((uint64_t)(vault.end - vault.chunk) < bytes) {
		uint8_t *chunk = vault_pages(CHUNK);
		if (!chunk)
			return NULL;
		vault.chunk = chunk;
		vault.end = chunk + CHUNK;
	}
	struct block *block = (struct block *)vault.chunk;
	vault.chunk += bytes;
	return block;
}

static struct block *take_shared(uint32_t size)
{
	LOCK_SCOPE(&vault.lock);
	struct spare *spare = vault.spare[size];
	if (!spare)
		return carve(bytes_of(size));
	vault.spare[size] = spare->next;
	return (struct block *)spare;
}

static void give_shared(struct spare *spare, uint32_t size)
{
	LOCK_SCOPE(&vault.lock);
	spare->next = vault.spare[size];
	vault.spare[size] = spare;
}

/* ---- what a thread keeps ----------------------------------------------------------------------------------------- */

/* A handshake takes and gives back more than a thousand blocks, nearly all of them at once: without the lock that is cheaper. */
static _Thread_local struct kept {
	struct spare *spare[SIZES];
	unsigned n[SIZES];
	bool noted;
} kept;

/* At the end of the thread. */
static void give_up(void *arg)
{
	struct kept *k = arg;
	for (uint32_t size = 0; size < SIZES; size++)
		for (struct spare *spare; (spare = k->spare[size]);) {
			k->spare[size] = spare->next;
			give_shared(spare, size);
		}
	*k = (struct kept){.noted = false};
}

static struct block *take(uint32_t size)
{
	struct spare *spare = kept.spare[size];
	if (!spare)
		return take_shared(size);
	kept.spare[size] = spare->next;
	kept.n[size]--;
	return (struct block *)spare;
}

static void put(struct spare *spare, uint32_t size)
{
	if (kept.n[size] * bytes_of(size) >= KEPT_BYTES || (!kept.noted && pthread_setspecific(vault.key, &kept))) {
		give_shared(spare, size);
		return;
	}
	kept.noted = true;
	spare->next = kept.spare[size];
	kept.spare[size] = spare;
	kept.n[size]++;
}

static void *allocate(size_t bytes, const char *file, int line)
{
	(void)file, (void)line;
	if (!bytes || bytes > SIZE_MAX / 2)
		return NULL;
	uint32_t size = size_for(bytes + sizeof(struct block));
	struct block *block = size == OWN_PAGES ? vault_pages(bytes + sizeof(*block)) : take(size);
	if (!block)
		return NULL;
	*block = (struct block){.size = size, .used = bytes};
	return block + 1;
}

static void give_back(void *at, const char *file, int line)
{
	(void)file, (void)line;
	if (!at)
		return;
	struct block *block = (struct block *)at - 1;
	uint32_t size = block->size;
	if (size == OWN_PAGES) {
		vault_give_back(block, block->used + sizeof(*block));
		return;
	}
	explicit_bzero(at, block->used); /* OPENSSL_cleanse() writes 8 bytes at a time */
	put((struct spare *)block, size);
}

static void *allocate_again(void *at, size_t size, const char *file, int line)
{
	if (!at)
		return allocate(size, file, line);
	uint64_t used = ((struct block *)at - 1)->used;
	void *anew = allocate(size, file, line);
	if (!anew && size)
		return NULL;
	if (anew)
		memcpy(anew, at, used < size ? used : size);
	give_back(at, file, line);
	return anew;
}

bool vault_open(void)
{
	LOCK_SCOPE(&vault.lock);
	if (!vault.open && !pthread_key_create(&vault.key, give_up))
		vault.open = CRYPTO_set_mem_functions(allocate, allocate_again, give_back) == 1;
	return vault.open;
}

#endif
