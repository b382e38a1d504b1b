#include "cluster/roster.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct roster *roster;
static struct err err;

static int parse(const char *text)
{
	err = (struct err){{0}};
	roster_free(roster);
	roster = NULL;
	return roster_parse("nodes", text, strlen(text), &roster, &err);
}

static void teardown(void)
{
	roster_free(roster);
}

TestSuite(roster, .fini = teardown);

Test(roster, nodes_are_taken_in_order_with_their_labels)
{
	cr_assert_eq(parse("# the cluster\n\n"
			   "a 10.0.0.1:7470 rack=r1 switch=s1 # first\n"
			   "\tb  [FD00:0::2]:1  switch=s2\r\n"
			   "c Node-3.example:65535"),
		     0, "%s", err.text);
	cr_assert_eq(roster->n, 3u);
	cr_assert_str_eq(roster->nodes[0].name, "a");
	cr_assert_str_eq(roster->nodes[0].host, "10.0.0.1");
	cr_assert_eq(roster->nodes[0].port, 7470);
	cr_assert_str_eq(roster->nodes[0].rack, "r1");
	cr_assert_str_eq(roster->nodes[0].switch_name, "s1");
	cr_assert_eq(roster->nodes[0].line, 3u);
	cr_assert_str_eq(roster->nodes[1].host, "fd00::2");
	cr_assert_str_eq(roster->nodes[1].rack, "");
	cr_assert_str_eq(roster->nodes[1].switch_name, "s2");
	cr_assert_str_eq(roster->nodes[2].host, "Node-3.example");
	cr_assert_eq(roster->nodes[2].port, 65535);
	cr_assert_eq(roster_find(roster, "c"), 2);
	cr_assert_eq(roster_find(roster, "d"), -ENOENT);
}

Test(roster, mistakes_are_named_with_their_line)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{"", "nodes: names no node"},
		{"# none\n", "nodes: names no node"},
		{"a 1.2.3.4:1\nb\n", "nodes:2: node b has no address: expected NAME HOST:PORT"},
		{"a 1.2.3.4\n", "nodes:1: \"1.2.3.4\" is not HOST:PORT, with a port from 1 to 65535"},
		{"a 1.2.3.4:0\n", "nodes:1: \"1.2.3.4:0\" is not HOST:PORT, with a port from 1 to 65535"},
		{"a 1.2.3.4:65536\n", "nodes:1: \"1.2.3.4:65536\" is not HOST:PORT, with a port from 1 to 65535"},
		{"a 1.2.3.4:+1\n", "nodes:1: \"1.2.3.4:+1\" is not HOST:PORT, with a port from 1 to 65535"},
		{"a 1.2.3.4:1x\n", "nodes:1: \"1.2.3.4:1x\" is not HOST:PORT, with a port from 1 to 65535"},
		{"a []:1\n", "nodes:1: \"[]:1\" is neither"},
		{"a 1.2.3.400:1\n", "nodes:1: \"1.2.3.400:1\" is neither"},
		{"a fd00::1:1\n", "nodes:1: \"fd00::1:1\" is neither"},
		{"a [fd00::x]:1\n", "nodes:1: \"[fd00::x]:1\" is neither"},
		{"a no_host:1\n", "nodes:1: \"no_host:1\" is neither"},
		{"a/b h:1\n", "nodes:1: node"},
		{"a h:1 rack=\n", "nodes:1: rack"},
		{"a h:1 rack=x rack=y\n", "nodes:1: rack stands twice"},
		{"a h:1 spare\n",
		 "nodes:1: spare is no word of a roster: take it out, and start ckpt run with --spare on node a"},
		{"a h:1 switch=x switch=y\n", "nodes:1: switch stands twice"},
		{"a h:1 row=7\n", "nodes:1: \"row=7\" is not known"},
		{"a h:1\n\nb h:2\na h:3\n", "nodes:4: node a stands on line 1, too"},
		{"a h:1\nb [::1]:7\nc H:1\n", "nodes:3: node c has the address of node a on line 1"},
		{"a [::1]:7\nb [0:0::1]:7\n", "nodes:2: node b has the address of node a on line 1"},
	};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(parse(wrong[i].text), -EINVAL, "%s", wrong[i].text);
		cr_assert_eq(strncmp(err.text, wrong[i].says, strlen(wrong[i].says)), 0, "%s", err.text);
	}
	cr_assert_eq(roster_parse("nodes", "a h:1\n\0b h:2", 12, &roster, &err), -EINVAL);
}

static char *many(unsigned n)
{
	char *text;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	for (unsigned i = 0; i < n; i++)
		fprintf(file, "n%u h:%u\n", i, i % UINT16_MAX + 1);
	fclose(file);
	return text;
}

Test(roster, the_number_of_nodes_is_bounded)
{
	char *text = many(UINT16_MAX);
	cr_assert_eq(parse(text), 0, "%s", err.text);
	cr_assert_eq(roster->n, (unsigned)UINT16_MAX);
	cr_assert_eq(roster_find(roster, "n65534"), 65534);
	free(text);
	text = many(ROSTER_NODES_MAX + 1);
	cr_assert_eq(parse(text), -E2BIG);
	cr_assert_str_eq(err.text, "nodes:65537: more than 65536 nodes");
	free(text);
}

Test(roster, a_file_is_read_and_what_is_none_is_refused)
{
	char dir[SCRATCH_MAX], path[SCRATCH_MAX + 8];
	scratch_new(dir);
	snprintf(path, sizeof(path), "%s/nodes", dir);
	cr_assert_eq(roster_read(path, &roster, &err), -ENOENT);
	cr_assert(strstr(err.text, path), "%s", err.text);
	cr_assert_eq(roster_read(dir, &roster, &err), -EINVAL);
	scratch_write(dir, "nodes", "a h:1\n", 6);
	cr_assert_eq(roster_read(path, &roster, &err), 0, "%s", err.text);
	cr_assert_eq(roster->n, 1u);
	cr_assert_eq(truncate(path, ROSTER_FILE_MAX + 1), 0);
	struct roster *none = NULL;
	cr_assert_eq(roster_read(path, &none, &err), -EFBIG);
	scratch_remove(dir);
}
