#include "arena/numa_node.h"

#include "arena/memory.h"
#include "ckptd/job_maker.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A machine with these lists of processors. */
static const char *machine(char root[SCRATCH_MAX], int n, const char *const *lists)
{
	char path[600];
	scratch_new(root);
	for (int i = 0; i < n; i++) {
		if (!lists[i])
			continue;
		snprintf(path, sizeof(path), "%s/node%d", root, i);
		cr_assert_eq(mkdir(path, 0700), 0);
		snprintf(path, sizeof(path), "%s/node%d/cpulist", root, i);
		FILE *f = fopen(path, "w");
		cr_assert(f && fputs(lists[i], f) >= 0 && !fclose(f));
	}
	return root;
}

static cpu_set_t processors(int from, int to)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	for (int i = from; i <= to; i++)
		CPU_SET(i, &set);
	return set;
}

Test(numa_node, processors_of_one_node_of_several_have_that_node)
{
	char top[SCRATCH_MAX];
	const char *const lists[] = {"0-3,8-11\n", NULL, "4-7,12-15\n", "\n"};
	const char *root = machine(top, 4, lists);
	cpu_set_t first = processors(0, 3), one = processors(11, 11), second = processors(4, 7),
		  both = processors(3, 4), none = processors(1, 0), others = processors(16, 20);
	cr_expect_eq(numa_node_of(&first, root), 0);
	cr_expect_eq(numa_node_of(&one, root), 0);
	cr_expect_eq(numa_node_of(&second, root), 2);
	cr_expect_eq(numa_node_of(&both, root), -ENOENT);
	cr_expect_eq(numa_node_of(&none, root), -ENOENT);
	cr_expect_eq(numa_node_of(&others, root), -ENOENT);
	scratch_remove(top);
}

Test(numa_node, a_machine_with_one_node_has_nothing_to_prefer)
{
	char top[SCRATCH_MAX];
	const char *const lists[] = {"0-15\n"};
	const char *root = machine(top, 1, lists);
	cpu_set_t some = processors(0, 3);
	cr_expect_eq(numa_node_of(&some, root), -ENOENT);
	cr_expect_eq(numa_node_of(&some, "/nonexistent"), -ENOENT);
	scratch_remove(top);
}

/* The process's own processors are all on a second node that this machine does not have: node 0 stands in for it. */
Test(numa_node, an_arena_prefers_the_node_of_the_rank_and_is_still_filled)
{
	char top[SCRATCH_MAX];
	const char *const lists[] = {"0-1023\n", "2000\n"};
	const char *root = machine(top, 2, lists);
	struct memory *mem;
	struct table *table;
	struct layout layout;
	struct err err = {{0}};
	maker_tables(0, &table, &layout);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_TRANSPARENT, &mem, &err), 0,
		     "%s", err.text);
	table_put(table);
	int policy = -1, rc = memory_near(mem, getpid(), root);
	unsigned long nodes[16] = {0};
	if (rc == -ENOSYS || rc == -EPERM) {
		memory_put(mem);
		scratch_remove(top);
		cr_skip_test("this kernel, or container, has no mbind");
	}
	cr_assert_eq(rc, 0, "%d", rc);
	cr_assert(mem->near);
	cr_assert_eq(syscall(SYS_get_mempolicy, &policy, nodes, 1025ul, mem->base + mem->size - 4096, MPOL_F_ADDR), 0);
	cr_assert_eq(policy, MPOL_PREFERRED);
	cr_assert_eq(nodes[0], 1ul);
	struct prefaulted there = {0};
	while (memory_prefault(mem, true, &there))
		;
	cr_assert_eq(there.bytes, mem->size);
	cr_assert_eq(memory_near(mem, 0, root), -ENOENT, "no process");
	cr_assert(!mem->near);
	memory_put(mem);
	scratch_remove(top);
}
