#include "coordinator/restore/node_ranks.h"

#include <criterion/criterion.h>

enum { NOBODY = UINT32_MAX };

static void expect(const struct node_ranks *of, uint32_t node, uint32_t n, const uint32_t *ranks)
{
	cr_assert_eq(of->first[node + 1] - of->first[node], n, "node %u", node);
	for (uint32_t i = 0; i < n; i++)
		cr_expect_eq(of->ranks[of->first[node] + i], ranks[i], "node %u", node);
}

Test(node_ranks, each_node_has_its_ranks_in_order)
{
	struct node_ranks of;
	cr_assert_eq(node_ranks_make(&of, 4, 7, (uint32_t[]){2, 0, 2, NOBODY, 3, 0, 2}), 0);
	expect(&of, 0, 2, (uint32_t[]){1, 5});
	expect(&of, 1, 0, NULL);
	expect(&of, 2, 3, (uint32_t[]){0, 2, 6});
	expect(&of, 3, 1, (uint32_t[]){4});
	node_ranks_free(&of);
}

Test(node_ranks, of_nobody_nobody_has_any)
{
	struct node_ranks of;
	cr_assert_eq(node_ranks_make(&of, 2, 2, (uint32_t[]){NOBODY, 2}), 0);
	expect(&of, 0, 0, NULL);
	expect(&of, 1, 0, NULL);
	node_ranks_free(&of);
}
