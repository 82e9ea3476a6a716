/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/front/front.h - the routes of the rewarder, and the body of a compute request. */
#pragma once

#include "rewarder/core/pipes.h"

enum { RWD_LIST_MAX = 1000 }; /* epochs in one page */

struct rwd_front;

/* Registers the routes. `*ret` is freed with ron_free after the listener has stopped. */
RON_MUST_USE enum ron_rc rwd_front_add(struct rwd_pipes *p, struct rwd_front **ret,
                                       struct ron_err *err);

/* The body of POST .../compute into a request; `text` is changed and stays with it. False: the
 * fault names the member. Pure. */
RON_MUST_USE bool rwd_request_read(char *text, size_t len, struct rwd_work_req *w,
                                   struct rwd_fault *ret_fault);
