/* Two links that meet over TCP of loopback, of nodes a, b and c of a roster. */
#ifndef CKPT_TEST_PAIR_H
#define CKPT_TEST_PAIR_H

#include "cluster/link/link.h"
#include "cluster/roster.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define KEY_B "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

enum { A, B, C };

struct pair {
	struct credentials *caller, *callee;
	struct link *call, *answer;
};

void pair_setup(void);
void pair_teardown(void);

struct credentials *with_key(unsigned self, const char *key);
/* Who waits at an address of its own, and who has connected there. */
int listening(union address *at);
int accepted(int door);
/* The caller believes to call node `to`. */
struct pair connect_pair(struct credentials *caller, unsigned to, struct credentials *callee);
void end_pair(struct pair *p);
/* 1: it is open, 0: not yet, -errno. */
int shake(struct link *l, struct credentials *c);
/* Until one of them has something to do, for a moment. */
void settle(const struct link *a, const struct link *b);
/* Both results: of the call, and of the answer. An end that has failed is closed, so that the other one hears of it. */
void shake_hands(struct pair *p, int rc[2]);
/* Nodes a and b, with one key. */
struct pair open_pair(void);

#endif
