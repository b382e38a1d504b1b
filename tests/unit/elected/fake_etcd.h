/* A registry in this process, as etcd is: what stands there, and what this node knows of it, which may be older. Tests decide when a transaction is
 * applied, and when the node hears of what has changed. And a clock that goes when it is told to. */
#ifndef CKPT_TESTS_FAKE_ETCD_H
#define CKPT_TESTS_FAKE_ETCD_H

#include "registry/registry.h"

enum { ETCD_RECORDS = 16 };

extern struct fake_etcd {
	bool synced;
	uint64_t lease_until;
	int commit_rc;   /* what is asked for is not taken */
	unsigned asked;  /* so far */
	bool waits;      /* something was asked for, and is not decided */
	bool own_leased; /* of the last one: its first change goes with our lease */
} fake_etcd;

void etcd_reset(void);
/* Somebody has changed it: value NULL: it is gone. The node knows at once, or when it is shown. ours: it is under our lease. */
void etcd_put(const char *key, const char *value, bool ours);
void etcd_put_unseen(const char *key, const char *value, bool ours);
void etcd_show(void);
/* What was asked for is decided. True: it was applied. Its answer comes before the node knows what has changed. */
bool etcd_decide(void);
/* Nobody knows what has become of it; nothing was applied. */
void etcd_lose(int rc);
/* What stands; NULL, 0: nothing does. */
const char *etcd_value(const char *key);
uint64_t etcd_created(const char *key);
/* It was not followed for a while (synced: false), and is again. */
void etcd_back(void);
void etcd_lapse(void);
void clock_skip(uint64_t ns);

#endif
