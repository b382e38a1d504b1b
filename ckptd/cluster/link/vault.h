/* Vault: the memory of OpenSSL: where keys of TLS are, and what they are derived from. It is left out of core dumps,
 * locked as far as the limit of locked memory allows, and wiped when it is given back. For the whole process. Not in
 * builds with the address sanitizer, which is to see what OpenSSL is given. */
#ifndef CKPTD_LINK_VAULT_H
#define CKPTD_LINK_VAULT_H

#include <stdbool.h>
#include <stddef.h>

/* Before OpenSSL has allocated anything; more than once is once. false: it has. */
bool vault_open(void);

/* Pages of their own, of the same kind. NULL: no memory. */
void *vault_pages(size_t size);
void vault_give_back(void *pages, size_t size);

#endif
