/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - intrusive doubly linked list.
 *
 * Place: base; used by the timer wheel, run queues and waiter lists. The node lives inside the
 * element, so linking never allocates and never fails.
 *
 * Invariants:
 *   L1. A list is a ring through its head; an empty head points to itself.
 *   L2. A node that is in no list has next == prev == NULL (ron_list_node_init or {0}), so adding
 *       it twice and removing it twice are caught by assertions.
 *
 * Ownership: a list owns nothing. Unlink an element before its memory goes away, and empty or drop
 * the list before the head goes away.
 * Threads: none of its own; the owner's lock or thread guards the whole list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ron/base/assert.h"
#include "ron/base/macros.h"

struct ron_list_node {
    struct ron_list_node *next;
    struct ron_list_node *prev;
};

struct ron_list {
    struct ron_list_node head;
};

/* The element of `type` whose list node `member` is at `node`. */
#define RON_LIST_ENTRY(node, type, member) RON_CONTAINER_OF(node, type, member)

static inline void ron_list_init(struct ron_list *list)
{
    list->head.next = &list->head;
    list->head.prev = &list->head;
}

static inline void ron_list_node_init(struct ron_list_node *node)
{
    node->next = NULL;
    node->prev = NULL;
}

static inline bool ron_list_empty(const struct ron_list *list)
{
    return list->head.next == &list->head;
}

/* Whether the node is in some list. */
static inline bool ron_list_linked(const struct ron_list_node *node)
{
    return node->next != NULL;
}

/* Worker: puts node between two neighbours. */
static inline void ron_list_insert_between(struct ron_list_node *before, struct ron_list_node *node,
                                           struct ron_list_node *after)
{
    RON_ASSERT_MSG(node->next == NULL, "L2: node is already in a list");
    node->prev = before;
    node->next = after;
    before->next = node;
    after->prev = node;
}

static inline void ron_list_push_back(struct ron_list *list, struct ron_list_node *node)
{
    ron_list_insert_between(list->head.prev, node, &list->head);
}

static inline void ron_list_push_front(struct ron_list *list, struct ron_list_node *node)
{
    ron_list_insert_between(&list->head, node, list->head.next);
}

/* Takes the node out of the list it is in. */
static inline void ron_list_remove(struct ron_list_node *node)
{
    RON_ASSERT_MSG(node->next != NULL, "L2: node is in no list");
    RON_ASSERT_SLOW(node->next->prev == node);
    RON_ASSERT_SLOW(node->prev->next == node);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = NULL;
    node->prev = NULL;
}

/* First node or NULL; it stays in the list. */
static inline struct ron_list_node *ron_list_front(const struct ron_list *list)
{
    return ron_list_empty(list) ? NULL : list->head.next;
}

/* First node, taken out, or NULL. */
static inline struct ron_list_node *ron_list_pop_front(struct ron_list *list)
{
    struct ron_list_node *node = ron_list_front(list);

    if (node != NULL) {
        ron_list_remove(node);
    }
    return node;
}

/* Moves all nodes of `from`, in order, to the end of `list`. O(1). The two must differ. */
static inline void ron_list_splice_back(struct ron_list *list, struct ron_list *from)
{
    RON_ASSERT(list != from);
    if (!ron_list_empty(from)) {
        from->head.next->prev = list->head.prev;
        list->head.prev->next = from->head.next;
        from->head.prev->next = &list->head;
        list->head.prev = from->head.prev;
        ron_list_init(from);
    }
}

/* Visits each node. The body must not unlink `node`. */
#define RON_LIST_FOREACH(node, list)                                                               \
    for (struct ron_list_node *node = (list)->head.next; node != &(list)->head; node = node->next)

/* Visits each node; the body may unlink or free `node`, but no other one. */
#define RON_LIST_FOREACH_SAFE(node, list)                                                          \
    for (struct ron_list_node *node = (list)->head.next, *node##_next_ = node->next;               \
         node != &(list)->head; node = node##_next_, node##_next_ = node->next)
