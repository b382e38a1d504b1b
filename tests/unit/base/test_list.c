#include "base/list.h"

#include <criterion/criterion.h>

struct item {
	int value;
	struct list link;
};

static int value_of(struct list *node)
{
	return list_entry(node, struct item, link)->value;
}

Test(list, new_list_is_empty)
{
	struct list head = LIST_INIT(head), other;
	list_init(&other);
	cr_assert(list_empty(&head));
	cr_assert(list_empty(&other));
	cr_assert_null(list_pop(&head));
}

Test(list, pops_in_the_order_of_pushes)
{
	struct list head = LIST_INIT(head);
	struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};
	for (int i = 0; i < 3; i++)
		list_push(&head, &items[i].link);
	for (int i = 1; i <= 3; i++)
		cr_assert_eq(value_of(list_pop(&head)), i);
	cr_assert(list_empty(&head));
}

Test(list, removed_entry_is_in_no_list)
{
	struct list head = LIST_INIT(head);
	struct item a = {.value = 1}, b = {.value = 2};
	list_push(&head, &a.link);
	list_push(&head, &b.link);
	list_remove(&a.link);
	cr_assert(list_empty(&a.link));
	list_remove(&a.link);
	cr_assert_eq(value_of(head.next), 2);
	cr_assert_eq(head.prev, &b.link);
}

Test(list, walk_survives_removal_of_the_current_entry)
{
	struct list head = LIST_INIT(head);
	struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
	for (int i = 0; i < 4; i++)
		list_push(&head, &items[i].link);
	list_for_safe(it, &head)
		if (value_of(it) % 2)
			list_remove(it);
	int sum = 0, n = 0;
	list_for(it, &head) {
		sum += value_of(it);
		n++;
	}
	cr_assert_eq(n, 2);
	cr_assert_eq(sum, 2);
}
