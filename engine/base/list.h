/* SPDX-License-Identifier: MIT */
/* Intrusive doubly linked list with a sentinel head. A node on no list points to itself. */
#ifndef ENGINE_BASE_LIST_H
#define ENGINE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Inserts @n right behind @at. Behind the head, @n becomes the first. */
static inline void list_push(struct list *at, struct list *n)
{
	n->next = at->next;
	n->prev = at;
	at->next->prev = n;
	at->next = n;
}

static inline void list_append(struct list *head, struct list *n)
{
	list_push(head->prev, n);
}

/* Removes @n from its list. Harmless if @n is on none. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_safe(pos, tmp, head) \
	for (pos = (head)->next, tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

#endif
