/* Intrusive circular doubly linked list. The head is a node of its own; an entry is in at most one list. */
#ifndef CKPT_BASE_LIST_H
#define CKPT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name) ((struct list){&(name), &(name)})
#define list_entry(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define list_for(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
/* The current entry may be removed in the body. */
#define list_for_safe(it, head)                                                                                        \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head); it = it##_next, it##_next = it->next)

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_push(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;
	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

#endif
