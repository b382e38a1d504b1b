/* A table that does not fit the node's memory limit is refused, and costs nothing; one that fits is charged until the job ends. */
#include "base/log.h"
#include "node.h"

#include <errno.h>
#include <stdio.h>

/* The encoding of the table here has about 200 bytes. */
static void too_large(void)
{
	struct node node;
	struct wire_error e = {0};
	const void *body;
	uint64_t len;
	uint32_t seq;
	world_reset(1);
	node_init(&node, 1);
	node_start(&node);
	node.daemon.runtime.config.memory_limit = 1000;
	rank_connect(&node, &node.ranks[0]);
	SIM_CHECK(client_take(node.ranks[0].client, WIRE_ERROR, &seq, &body, &len), "no answer");
	SIM_CHECK(!wire_error_decode(body, len, &e, NULL) && e.rc == -ENOMEM, "%d %s", e.rc, e.text);
	SIM_CHECK(!node.daemon.runtime.memory.tables, "%lu bytes are charged",
		  (unsigned long)node.daemon.runtime.memory.tables);
	node_end(&node);
	world_end();
}

static void one_that_fits(void)
{
	struct node node;
	world_reset(2);
	node_init(&node, 1);
	node_start(&node);
	rank_connect(&node, &node.ranks[0]);
	uint64_t charged = node.daemon.runtime.memory.tables;
	SIM_CHECK(charged > 1000, "%lu bytes are charged", (unsigned long)charged);
	node_end(&node);
	SIM_CHECK(!node.daemon.runtime.memory.tables, "%lu bytes stay charged",
		  (unsigned long)node.daemon.runtime.memory.tables);
	world_end();
}

int main(void)
{
	log_init("sim");
	log_set_level(LOG_ERROR);
	too_large();
	one_that_fits();
	printf("tables are counted\n");
	return 0;
}
