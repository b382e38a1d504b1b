#include "journal/ways.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct campaign_fault fault;
static struct campaign_ways ways;
static char text[128];

static void make(const char *kind, uint32_t node, uint32_t nodes)
{
	fault.entry = fault_find(kind, strlen(kind));
	fault.node = node;
	campaign_ways_of(&fault, nodes, &ways);
	campaign_ways_text(&fault, &ways, text, sizeof(text));
}

static void setup(void)
{
	fault = (struct campaign_fault){.for_ms = 1};
}

TestSuite(campaign_ways, .init = setup);

/* Each way that is lost, "01" from 0 to 1, in order. */
static const char *lost(void)
{
	static char list[256];
	size_t len = 0;
	*list = '\0';
	for (uint32_t from = 0; from < ways.nodes; from++)
		for (uint32_t to = 0; to < ways.nodes; to++)
			if (campaign_ways_is_lost(&ways, from, to))
				len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u%u", len ? " " : "", from,
							to);
	return list;
}

Test(campaign_ways, a_pulled_cable_cuts_a_node_both_ways)
{
	make("link-down", 1, 3);
	cr_expect_str_eq(lost(), "01 10 12 21");
	cr_expect_str_eq(text, "the cable of node-1 was pulled");
}

Test(campaign_ways, one_way_is_from_the_node_alone)
{
	make("one-way", 2, 3);
	cr_expect_str_eq(lost(), "20 21");
	fault.to = 1;
	make("one-way", 2, 3);
	cr_expect_str_eq(lost(), "20");
	cr_expect_str_eq(text, "what node-2 sent did not reach node-0");
}

Test(campaign_ways, a_partition_has_any_sides_and_a_node_on_none_reaches_all)
{
	make("partition", 0, 3);
	cr_expect_str_eq(lost(), "01 02 10 20");
	cr_expect_str_eq(text, "sides were apart: node-0 / all others");
	cr_assert(campaign_ways_parse_sides("0,3/1", 4, fault.side));
	make("partition", 0, 4);
	cr_expect_str_eq(lost(), "01 10 13 31");
	cr_expect_str_eq(text, "sides were apart: node-0, node-3 / node-1");
	cr_assert(campaign_ways_parse_sides("0/1/2", 3, fault.side));
	make("partition", 0, 3);
	cr_expect_str_eq(lost(), "01 02 10 12 20 21");
}

Test(campaign_ways, what_is_no_list_of_nodes_is_refused)
{
	static const char *const nodes[] = {"", "3", "0,", "0,0", "a", "-1", "0 1"};
	static const char *const sides[] = {"", "0,1", "0/", "/0", "0/0", "0,1/1", "0/1/1", "0//1"};
	uint32_t bits;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		cr_expect_not(campaign_ways_parse_nodes(nodes[i], 3, &bits), "%s", nodes[i]);
	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		cr_expect_not(campaign_ways_parse_sides(sides[i], 3, fault.side), "%s", sides[i]);
	cr_expect(campaign_ways_parse_nodes("2,0", 3, &bits));
	cr_expect_eq(bits, 5);
}

Test(campaign_ways, text_ends_where_its_room_does)
{
	char small[12];
	fault.entry = fault_find("one-way", 7);
	campaign_ways_of(&fault, 16, &ways);
	cr_expect_str_eq(campaign_ways_text(&fault, &ways, small, sizeof(small)), "what node-0");
}
