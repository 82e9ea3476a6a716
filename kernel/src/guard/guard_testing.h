/* SPDX-License-Identifier: Apache-2.0 */
/* guard_testing.h - what tests ask of the guards; the product calls none of it. */
#pragma once

#include "ron/guard/flight.h"

struct ron_flights_stats {
    uint64_t led;       /* joins that made a flight */
    uint64_t coalesced; /* joins that followed one */
    uint64_t busy_rejections_total;
    uint64_t finished;
    uint64_t failed;    /* by their leader */
    uint64_t handovers; /* to a follower */
    uint64_t abandoned; /* ended because the leader left, for want of a follower or of leave */
    uint64_t running;   /* now */
};
void ron_flights_get_stats(const struct ron_flights *f, struct ron_flights_stats *ret_stats);

/* RON_OK with news; or RON_AGAIN, and the waker is woken when there are some. */
RON_MUST_USE enum ron_rc ron_flight_poll(struct ron_flight_ticket *t, struct ron_waker *waker,
                                         struct ron_flight_news *ret_news);
