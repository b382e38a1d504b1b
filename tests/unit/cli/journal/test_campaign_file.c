#include "journal/campaign_file.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char folder[SCRATCH_MAX], path[SCRATCH_MAX + 16], table[SCRATCH_MAX + 16];
static struct campaign_file file;
static struct err err;

static void setup(void)
{
	scratch_new(folder);
	snprintf(path, sizeof(path), "%s/c", folder);
	snprintf(table, sizeof(table), "%s/t.csv", folder);
}

static void teardown(void)
{
	campaign_file_free(&file);
	scratch_remove(folder);
}

TestSuite(campaign_file, .init = setup, .fini = teardown);

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");
	cr_assert(f);
	fputs(text, f);
	fclose(f);
}

static int read(const char *text)
{
	campaign_file_free(&file);
	put(path, text);
	return campaign_file_read(path, &file, &err);
}

Test(campaign_file, what_it_repeats_lasted_so_long_and_comes_in_so_long)
{
	cr_assert_eq(read("over 30m\nlasted 54d\nrate kill 3\n"), 0, "%s", err.text);
	cr_expect_eq(file.lasted_ms, 54 * 86400000ull);
	cr_expect_eq(campaign_file_span(&file), 1800000);
	cr_assert_eq(read("over 30m\nat 40m kill\nat 3s kill\n"), 0, "%s", err.text);
	cr_expect_eq(file.lasted_ms, 0);
	cr_expect_eq(campaign_file_span(&file), 2400000, "no time was drawn");
	cr_assert_eq(read("over 30m\nat 3s kill\n"), 0, "%s", err.text);
	cr_expect_eq(campaign_file_span(&file), 3000);
	cr_expect_eq(read("lasted 54\nrate kill 3\n"), -EINVAL);
	cr_expect_eq(read("lasted 10001d\nrate kill 3\n"), -EINVAL);
}

Test(campaign_file, reads_faults_in_the_order_of_their_times)
{
	cr_assert_eq(read("# nothing\nseed 7\nranks 4\nover 10s\n\nat 9s kill rank=3\nat 1s slow rank=any for=20ms # "
			  "soon\nrate nan 5\n"),
		     0, "%s", err.text);
	cr_assert_eq(file.n, 7);
	for (size_t i = 1; i < file.n; i++)
		cr_expect_geq(file.faults[i].at_ms, file.faults[i - 1].at_ms);
	unsigned kills = 0, slows = 0;
	for (size_t i = 0; i < file.n; i++) {
		const struct campaign_fault *f = &file.faults[i];
		cr_expect_lt(f->rank, 4);
		kills += f->entry->kind == FAULT_KILL && f->at_ms == 9000 && f->rank == 3;
		slows += f->entry->kind == FAULT_SLOW && f->at_ms == 1000 && f->for_ms == 20;
		cr_expect(f->entry->kind != FAULT_NAN || f->at_ms < 10000);
	}
	cr_expect_eq(kills, 1);
	cr_expect_eq(slows, 1);
}

Test(campaign_file, is_a_function_of_its_seed)
{
	struct campaign_fault first[20];
	cr_assert_eq(read("seed 7\nranks 8\nrate kill 20\n"), 0);
	memcpy(first, file.faults, sizeof(first));
	cr_assert_eq(read("seed 7\nranks 8\nrate kill 20\n"), 0);
	cr_expect_eq(memcmp(first, file.faults, sizeof(first)), 0);
	cr_assert_eq(read("seed 8\nranks 8\nrate kill 20\n"), 0);
	cr_expect_neq(memcmp(first, file.faults, sizeof(first)), 0);
}

Test(campaign_file, tables_give_counts_or_percents_and_say_what_is_left_out)
{
	put(table, "# where from\ncause,category,count,fault\nFaulty "
		   "GPU,GPU,3,device-lost\nSSD,Host,2,disk-eio\nCable,Network,4,-\n");
	cr_assert_eq(read("table t.csv\n"), 0, "%s", err.text);
	cr_expect_eq(file.n, 5);
	cr_expect_eq(file.left_out, 4);
	for (size_t i = 0; i < file.n; i++)
		cr_expect(strcmp(file.faults[i].cause, "SSD") != 0 || file.faults[i].for_ms);
	put(table, "cause,percent,fault\nECC,38.9,trap\nUnreachable,6.0,kill\n");
	cr_assert_eq(read("table t.csv total=1000\n"), 0, "%s", err.text);
	cr_expect_eq(file.n, 449);
	put(table, "cause,count,fault\nSSD,many,kill\n");
	cr_expect_eq(read("table t.csv\n"), -EINVAL);
	put(table, "cause,count,fault\nSSD,1,murder\n");
	cr_expect_eq(read("table t.csv\n"), -EINVAL);
	put(table, "cause,fault\nSSD,kill\n");
	cr_expect_eq(read("table t.csv\n"), -EINVAL);
	put(table, "");
	cr_expect_eq(read("table t.csv\n"), -EINVAL);
	cr_expect_eq(read("table none.csv\n"), -ENOENT);
}

Test(campaign_file, places_faults_on_nodes)
{
	unsigned at[3] = {0}, lost = 0;
	cr_assert_eq(read("seed 7\nnodes 3\nranks 6\nrate kill 20\nrate kill-daemon 60\nat 1s disk-full node=2\n"
			  "at 2s stop-daemon node=any\nat 3s flip-file\nrate flip-replica 5\n"
			  "at 4s kill-node node=1 for=3s\n"),
		     0, "%s", err.text);
	cr_assert_eq(file.n, 89);
	for (size_t i = 0; i < file.n; i++) {
		const struct campaign_fault *f = &file.faults[i];
		cr_assert_lt(f->node, 3);
		cr_expect(f->entry->target != FAULT_AT_RANK || f->node == f->rank / 2, "where the rank is");
		cr_expect(f->entry->kind != FAULT_DISK_FULL || f->node == 2);
		cr_expect(f->entry->kind != FAULT_FLIP_FILE || f->node == 0);
		lost += f->entry->kind == FAULT_KILL_NODE && f->node == 1 && f->for_ms == 3000;
		at[f->node] += f->entry->kind == FAULT_KILL_DAEMON;
	}
	cr_expect_eq(lost, 1);
	cr_expect(at[0] && at[1] && at[2], "each node is drawn");
}

Test(campaign_file, has_faults_of_the_network_and_leaves_them_out_without_another_draw)
{
	struct campaign_fault kills[20];
	size_t n = 0;
	cr_assert_eq(read("seed 7\nnodes 3\nranks 3\nrate link-down 9\nrate kill 20\n"
			  "at 1s one-way node=1 to=0,2 for=3s\nat 2s partition sides=0/1,2\nat 3s link-slow mbit=5\n"),
		     0, "%s", err.text);
	cr_assert_eq(file.n, 32);
	for (size_t i = 0; i < file.n; i++) {
		const struct campaign_fault *f = &file.faults[i];
		cr_expect(f->entry->kind != FAULT_LINK_DOWN || (f->node < 3 && f->for_ms));
		cr_expect(f->entry->kind != FAULT_ONE_WAY || (f->node == 1 && f->to == 5 && f->for_ms == 3000));
		cr_expect(f->entry->kind != FAULT_PARTITION || (f->side[0] == 1 && f->side[2] == 2));
		cr_expect(f->entry->kind != FAULT_LINK_SLOW || f->mbit == 5);
		if (f->entry->kind == FAULT_KILL)
			kills[n++] = *f;
	}
	cr_expect_eq(campaign_file_leave_out_network(&file, FAULT_LINK_SLOW), 1);
	cr_expect_eq(campaign_file_leave_out_network(&file, 0), 11);
	cr_expect_eq(file.left_out, 12);
	cr_assert_eq(file.n, 20);
	cr_expect_eq(memcmp(file.faults, kills, sizeof(kills)), 0);
	cr_expect_eq(campaign_file_leave_out_network(&file, 0), 0);
}

Test(campaign_file, draws_on_one_node_what_it_drew_before_there_were_several)
{
	uint64_t times[3] = {0};
	cr_assert_eq(read("seed 7\nranks 4\nrate kill 3\n"), 0);
	for (size_t i = 0; i < 3; i++)
		times[i] = file.faults[i].at_ms;
	cr_assert_eq(read("seed 7\nranks 4\nnodes 1\nrate kill 3\n"), 0);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(file.faults[i].at_ms, times[i]);
	cr_expect_eq(file.faults[0].node, 0);
}

Test(campaign_file, ranks_move_where_there_are_spares_or_fewer_ranks_are_enough)
{
	cr_assert_eq(read("nodes 4\nspares 1\nranks 6\nat 1s drain node=3 for=2s\nat 2s kill rank=5\n"), 0, "%s",
		     err.text);
	cr_expect_eq(file.min_ranks, 6, "all");
	cr_expect_eq(campaign_file_each(&file), 2);
	cr_expect(file.faults[0].entry->kind == FAULT_DRAIN && file.faults[0].node == 3 &&
		  file.faults[0].for_ms == 2000);
	cr_expect_eq(file.faults[1].node, 2, "at the start");
	cr_assert_eq(read("nodes 2\nranks 4\nmin-ranks 2\nat 1s drain\n"), 0, "%s", err.text);
	cr_expect_eq(file.min_ranks, 2);
	cr_assert_eq(read("nodes 2\nranks 4\nat 1s kill\n"), 0, "%s", err.text);
	cr_expect_eq(file.min_ranks, 0, "each stays where it is");
}

Test(campaign_file, tables_may_have_another_fault_for_several_nodes)
{
	put(table, "cause,count,fault,fault-of-nodes\nPower,3,-,kill-node\nCable,4,-,-\nGPU,2,trap,trap\n");
	cr_assert_eq(read("table t.csv\n"), 0, "%s", err.text);
	cr_expect_eq(file.n, 2);
	cr_expect_eq(file.left_out, 7);
	cr_assert_eq(read("nodes 2\ntable t.csv\n"), 0, "%s", err.text);
	cr_expect_eq(file.n, 5);
	cr_expect_eq(file.left_out, 4);
	put(table, "cause,count,fault\nPower,3,-\nGPU,2,trap\n");
	cr_assert_eq(read("nodes 2\ntable t.csv\n"), 0, "a table without that column: %s", err.text);
	cr_expect_eq(file.n, 2);
	put(table, "cause,count,fault\nPower,3,kill-node\n");
	cr_expect_eq(read("table t.csv\n"), -EINVAL);
}

Test(campaign_file, faults_that_come_together_stay_together)
{
	cr_assert_eq(read("seed 7\nnodes 3\nranks 3\nover 2s\nrate nan 30\nat 1s kill rank=1\nwith kill-daemon node=2\n"
			  "with stop rank=0\nat 1s abort\nat 500ms link-down node=1\nwith kill rank=0\n"),
		     0, "%s", err.text);
	size_t groups = 0;
	for (size_t i = 0; i < file.n; i += campaign_file_together(&file, i)) {
		const struct campaign_fault *f = &file.faults[i];
		size_t n = campaign_file_together(&file, i);
		groups++;
		cr_expect_not(f->with);
		cr_expect_eq(n, f->entry->kind == FAULT_KILL ? 3 : f->entry->kind == FAULT_LINK_DOWN ? 2 : 1);
		for (size_t k = 1; k < n; k++)
			cr_expect_eq(f[k].at_ms, f->at_ms);
		if (f->entry->kind == FAULT_KILL)
			cr_expect(f[1].entry->kind == FAULT_KILL_DAEMON && f[1].node == 2 &&
				  f[2].entry->kind == FAULT_STOP);
	}
	cr_expect_eq(groups, 33);
	campaign_file_leave_out_network(&file, 0);
	for (size_t i = 0; i < file.n; i++)
		cr_expect(file.faults[i].entry->kind != FAULT_KILL || !file.faults[i].with,
			  "what came with the cable is there");
}

Test(campaign_file, faults_of_the_network_come_together_and_what_came_with_them_stays_together_without_them)
{
	static const char text[] = "nodes 3\nranks 3\nat 1s link-slow node=1\nwith link-down node=2\nwith kill rank=0\n"
				   "with nan rank=1\n";
	cr_assert_eq(read(text), 0, "%s", err.text);
	cr_expect_eq(campaign_file_together(&file, 0), 4);
	cr_expect_eq(campaign_file_leave_out_network(&file, FAULT_LINK_SLOW), 1);
	cr_expect(file.faults[0].entry->kind == FAULT_LINK_DOWN && !file.faults[0].with);
	cr_expect_eq(campaign_file_together(&file, 0), 3);
	cr_expect_eq(campaign_file_leave_out_network(&file, 0), 1);
	cr_expect(file.faults[0].entry->kind == FAULT_KILL && !file.faults[0].with);
	cr_expect_eq(campaign_file_together(&file, 0), 2);
	cr_assert_eq(read(text), 0, "%s", err.text);
	cr_expect_eq(campaign_file_leave_out_network(&file, FAULT_LINK_DOWN), 1);
	cr_expect_eq(campaign_file_together(&file, 0), 3, "the first one stays");
}

Test(campaign_file, what_comes_after_steps_comes_in_the_order_of_the_lines)
{
	cr_assert_eq(
		read("nodes 2\nranks 4\nafter 40 nan\nafter 7 link-down node=1\nwith abort\nat 1s kill\nafter 9 ecc\n"),
		0, "%s", err.text);
	static const struct {
		enum fault_kind kind;
		uint64_t at_ms, steps;
	} due[] = {{FAULT_NAN, 0, 40},
		   {FAULT_LINK_DOWN, 0, 7},
		   {FAULT_ABORT, 0, 7},
		   {FAULT_KILL, 1000, 0},
		   {FAULT_ECC, 1000, 9}};
	cr_assert_eq(file.n, 5);
	for (size_t i = 0; i < file.n; i++) {
		cr_expect_eq(file.faults[i].entry->kind, due[i].kind);
		cr_expect_eq(file.faults[i].at_ms, due[i].at_ms);
		cr_expect_eq(file.faults[i].steps, due[i].steps, "%zu", i);
	}
	cr_expect_eq(campaign_file_together(&file, 1), 2);
	cr_expect_eq(campaign_file_steps(&file), 56, "those of a group count once");
	cr_expect_eq(campaign_file_leave_out_network(&file, 0), 1);
	cr_expect_eq(campaign_file_steps(&file), 56, "what came with the cable comes at its time");
}

Test(campaign_file, names_the_line_that_is_wrong)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {{"", "no fault"},
		     {"murder 3\n", ":1: seed"},
		     {"seed 1\nat 3 kill\n", ":2: a time"},
		     {"at 3s murder\n", ":1: a fault"},
		     {"at 3s flip-replica\n", "all but flip-replica"},
		     {"at 3s kill rank=9\n", "0 to 1"},
		     {"at 3s kill for=3s\n", "no for="},
		     {"at 3s kill who=3\n", "may stand here"},
		     {"ranks 65\n", "1 to 64"},
		     {"nodes 17\n", "1 to 16"},
		     {"nodes 2\nranks 3\nat 3s kill\n", ":3: as many ranks"},
		     {"nodes 2\nat 3s kill\nranks 4\n", "before the first fault"},
		     {"at 3s kill\nnodes 2\n", "before the first fault"},
		     {"nodes 2\nat 3s kill node=1\n", "no node="},
		     {"nodes 2\nat 3s kill-daemon node=2\n", "0 to 1"},
		     {"nodes 2\nat 3s drain\n", "drain only with min-ranks or spares"},
		     {"nodes 2\nspares 2\nat 3s kill\n", "fewer than nodes"},
		     {"nodes 3\nspares 1\nranks 3\nat 3s kill\n", "without spares"},
		     {"nodes 2\nmin-ranks 3\nat 3s kill\n", "more than ranks"},
		     {"min-ranks 1\nat 3s kill\n", "on several nodes"},
		     {"nodes 2\nspares x\nat 3s kill\n", "0 to 15"},
		     {"at 3s kill-node\n", "kill-node, drain and what breaks"},
		     {"nodes 2\nat 3s kill-node rank=2\n", "0 to 1"},
		     {"at 3s link-down\n", "what breaks a network"},
		     {"nodes 2\nat 3s link-down to=0 node=1\n", "one-way alone"},
		     {"nodes 2\nat 3s one-way to=2 node=1\n", "one-way alone"},
		     {"nodes 2\nat 3s one-way to=0\n", "the node that they do not hear"},
		     {"nodes 2\nat 3s one-way to=0 node=0\n", "is none of them"},
		     {"nodes 2\nat 3s one-way sides=0/1\n", "partition alone"},
		     {"nodes 2\nat 3s partition sides=0,1\n", "partition alone"},
		     {"nodes 2\nat 3s link-down mbit=1\n", "link-slow alone"},
		     {"nodes 2\nat 3s link-slow mbit=0\n", "from 1"},
		     {"nodes 2\nat 3s link-slow percent=5\n", "link-loss alone"},
		     {"nodes 2\nat 3s link-loss percent=91\n", "from 1 to 90"},
		     {"nodes 2\nat 3s link-loss delay=5ms\n", "link-delay alone"},
		     {"nodes 2\nat 3s link-delay delay=11s\n", "10 s at most"},
		     {"after kill\n", "from 1 to 1000000000"},
		     {"after 0 kill\n", "from 1 to 1000000000"},
		     {"after 5 murder\n", ":1: a fault"},
		     {"with kill\n", "stands behind at"},
		     {"rate nan 1\nwith kill\n", ":2: with stands behind at, after or another with"},
		     {"at 3s nan\nwith 3s kill\n", ":2: a fault is wanted"},
		     {"nodes 2\nat 3s nan\nwith link-down\n", "stand first"},
		     {"nodes 2\nat 3s link-down\nwith nan\nwith reboot\n", ":4: faults of the network stand first"},
		     {"ranks 9\nat 3s kill\nwith kill\nwith kill\nwith kill\nwith kill\nwith kill\nwith kill\nwith "
		      "kill\nwith "
		      "kill\n",
		      ":10: with stands"},
		     {"rate kill 0\n", "from 1"},
		     {"rate kill 20001\n", "to 20000"},
		     {"rate kill 20000\nrate kill 1\n", "more than 20000"},
		     {"at 3s kill\nseed 3\n", "before them"},
		     {"at 3s kill a b c d e f g\n", "too many words"}};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect(read(wrong[i].text) < 0, "%s", wrong[i].text);
		cr_expect(strstr(err.text, wrong[i].says), "%s: %s", wrong[i].text, err.text);
	}
	cr_expect_eq(campaign_file_read("/nowhere/c", &file, &err), -ENOENT);
}
