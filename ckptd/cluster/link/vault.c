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
	OPENSSL_cleanse(pages, size);
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
enum { SIZES = 23, CHUNK = 256 << 10, OWN_PAGES = SIZES };

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
	uint8_t *chunk, *end; /* what is left of the newest */
	struct spare *spare[SIZES];
} vault = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t bytes_of(uint32_t size)
{
	return (uint64_t)(2 + size % 2) << (4 + size / 2);
}

static uint32_t size_for(uint64_t bytes)
{
	uint32_t size = 0;
	while (size < SIZES && bytes_of(size) < bytes)
		size++;
	return size; /* OWN_PAGES comes after the last */
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

static struct block *take(uint32_t size)
{
	LOCK_SCOPE(&vault.lock);
	struct spare *spare = vault.spare[size];
	if (!spare)
		return carve(bytes_of(size));
	vault.spare[size] = spare->next;
	return (struct block *)spare;
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
	OPENSSL_cleanse(at, block->used);
	LOCK_SCOPE(&vault.lock);
	struct spare *spare = (struct spare *)block;
	spare->next = vault.spare[size];
	vault.spare[size] = spare;
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
	vault.open = vault.open || CRYPTO_set_mem_functions(allocate, allocate_again, give_back) == 1;
	return vault.open;
}

#endif
