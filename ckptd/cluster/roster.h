/* Roster: who is in the cluster, the same file on all nodes. A line per node:
 *
 *	# name   address             labels
 *	node-0   10.0.0.1:7470       rack=r1 switch=s1
 *	node-1   [fd00::2]:7470      rack=r1 switch=s1
 *	node-2   node-2.example:7470 rack=r2 switch=s1
 *
 * Without a registry the first node coordinates all jobs that are spread over nodes. Labels name what fails together. */
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
};

enum {
	FIRST_NODE = 0
}; /* of the roster: it keeps the catalog of a store that all share, scrubs it, and, without a registry, coordinates */
#define NO_NODE UINT32_MAX

struct roster_node {
	char name[NAME_NODE_MAX];
	char host[ROSTER_HOST_MAX];
	uint16_t port;
	char rack[ROSTER_LABEL_MAX], switch_name[ROSTER_LABEL_MAX]; /* "": none */
	unsigned line;                                              /* in the file, from 1 */
};

struct roster {
	struct roster_node *nodes;
	unsigned n; /* at least 1 */
};

/* path is for messages, which name the line. -EINVAL, -E2BIG (too many nodes), -ENOMEM. */
int roster_parse(const char *path, const char *text, size_t len, struct roster **out, struct err *err);
/* -EFBIG, and what opening and reading can say. */
int roster_read(const char *path, struct roster **out, struct err *err);
void roster_free(struct roster *roster);

/* The index of the node of that name; -ENOENT. */
int roster_find(const struct roster *roster, const char *name);

#endif
