/* SPDX-License-Identifier: Apache-2.0 */
/* reply_stack.h - many threads put, one takes all: how replies travel back to their worker (private
 * to http/).
 *
 * Whoever finds the stack empty wakes the taker, the others need not. Both sides change the top
 * with a locked instruction (compare-and-set, exchange), so no store can be seen late: a put that
 * found the stack not empty comes before the exchange that takes what it found, and is taken by
 * it. */
#pragma once

#include "ron/sync/sync.h"

struct http_node {
    struct http_node *next;
};

/* True when the taker must be woken. From then on the node may be gone. */
static inline bool ron__http_stack_put(struct ron_aptr *stack, struct http_node *node)
{
    void *seen = ron_aptr_load(stack);

    do {
        node->next = seen;
    } while (!ron_aptr_cas(stack, &seen, node));
    return seen == NULL;
}

/* All of them, in the order of putting. */
static inline struct http_node *ron__http_stack_take(struct ron_aptr *stack)
{
    struct http_node *top = ron_aptr_xchg(stack, NULL);
    struct http_node *queue = NULL;

    while (top != NULL) {
        struct http_node *next = top->next;

        top->next = queue;
        queue = top;
        top = next;
    }
    return queue;
}
