/* SPDX-License-Identifier: Apache-2.0 */
/* oneshot.h - a reply slot: one answer, from one asker's point of view.
 *
 * The asker makes a slot, sends the answering side along with a request, and waits with a deadline.
 * Either side may leave first, and neither needs to know: the slot is freed when both have left.
 *
 *   answerer: ron_oneshot_answer   RON_OK: the value now belongs to the slot. RON_CANCELLED: the
 *                                  asker has left; the value stays with the answerer, who
 *                                  disposes of it.
 *             ron_oneshot_drop     leaves without an answer: the asker gets RON_CLOSED.
 *   asker:    ron_oneshot_wait     RON_OK, RON_CLOSED, RON_TIMEOUT, RON_CANCELLED. After the last
 *                                  two the asker may wait again or leave.
 *             ron_oneshot_leave    ends the wait for good. An answer that comes too late is
 *                                  disposed of by `drop_value`.
 * Each side calls exactly one of its leaving functions once: answer or drop; leave. */
#pragma once

#include "ron/chan/wait.h"

struct ron_oneshot;

/* `drop_value` disposes of an answer nobody took. */
RON_MUST_USE enum ron_rc ron_oneshot_new(void (*drop_value)(void *value),
                                         struct ron_oneshot **ret_slot);

RON_MUST_USE enum ron_rc ron_oneshot_answer(struct ron_oneshot *s, void *value);
void ron_oneshot_drop(struct ron_oneshot *s);

RON_MUST_USE enum ron_rc ron_oneshot_wait(struct ron_oneshot *s, struct ron_deadline deadline,
                                          void **ret_value);
void ron_oneshot_leave(struct ron_oneshot *s);
