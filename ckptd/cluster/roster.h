/* Roster: who is in the cluster, the same file on all nodes. A line per node:
 *
 *	# name   address             labels
 *	node-0   10.0.0.1:7470       rack=r1 switch=s1
 *	node-1   [fd00::2]:7470      rack=r1 switch=s1
 *	node-2   node-2.example:7470 rack=r2 switch=s1
 *
 * Without a registry the first node coordinates all jobs that are spread over nodes. Labels name what fails together.
 *
 * Or it is open: then nodes stand in the registry (cluster/member.h), and come and go while the daemon runs. Each has the
 * number that the registry gave it, which no other node ever gets. Of one that is gone its name is left. */
#ifndef CKPTD_CLUSTER_ROSTER_H
#define CKPTD_CLUSTER_ROSTER_H

#include "base/err.h"
#include "format/tensor/names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ROSTER_NODES_MAX = 65536,
	ROSTER_HOST_MAX = 254, /* with the NUL: a host name, or an address without brackets */
	ROSTER_LABEL_MAX = 64, /* with the NUL */
	ROSTER_FILE_MAX = 32 << 20,
	ROSTER_MEMBERS_MAX = 16384, /* of an open one, those that are gone among them */
	ROSTER_ROOM_MIN = 64,
	ROSTER_TEXT_MAX = 448, /* with the NUL: address and labels */
};

enum { FIRST_NODE = 0 }; /* of the roster: without a registry, it coordinates */
#define NO_NODE UINT32_MAX

struct roster_node {
	char name[NAME_NODE_MAX];
	char host[ROSTER_HOST_MAX];
	uint16_t port;                                              /* 0: it is gone, or was never there */
	char rack[ROSTER_LABEL_MAX], switch_name[ROSTER_LABEL_MAX]; /* "": none */
	unsigned line;                                              /* in the file, from 1 */
	uint64_t incarnation;                                       /* of its daemon; 0: any */
};

struct roster {
	struct roster_node *nodes;
	unsigned n;   /* all have lower indices than this */
	unsigned max; /* what n can become */
	bool open;
};

/* path is for messages, which name the line. -EINVAL, -E2BIG (too many nodes), -ENOMEM. */
int roster_parse(const char *path, const char *text, size_t len, struct roster **out, struct err *err);
/* -EFBIG, and what opening and reading can say. */
int roster_read(const char *path, struct roster **out, struct err *err);
/* An open one without nodes; NULL: no memory. */
struct roster *roster_new(void);
struct roster *roster_copy(const struct roster *roster); /* NULL: no memory */
void roster_free(struct roster *roster);

/* Of an open one: the node of that number, or, where its port is 0, that it is gone. */
void roster_put(struct roster *roster, unsigned number, const struct roster_node *node);
bool roster_has(const struct roster *roster, unsigned node);
/* The lowest that is there: it keeps the catalog of a store that all share, and scrubs it. NO_NODE: none is. */
unsigned roster_first(const struct roster *roster);
/* For how many nodes there should be room in what is begun now, and is to know nodes by their index. */
unsigned roster_room(const struct roster *roster);
/* Address and labels, as in the file. Returns dst. */
char *roster_print(const struct roster_node *node, char *dst, size_t size);

/* The index of the node of that name, which is there; -ENOENT. */
int roster_find(const struct roster *roster, const char *name);

#endif
