/* SPDX-License-Identifier: Apache-2.0 */
/* scn_bus.c - a broadcast whose publisher never waits, and readers that may be overtaken while they
 * read.
 *
 * Expected in every schedule: a reader sees numbers in rising order, none torn and none twice; what
 * it read and what it was told to have missed add up to everything published since it subscribed;
 * the close ends every reader. */
#include "chan/chan_testing.h"
#include "ron/base/assert.h"
#include "ron/chan/bus.h"
#include "scenario/scn.h"

enum { CAPACITY = 2, BATCH = 2 };

/* Two halves that must agree: a message overwritten while it is copied would not. */
struct note {
    uint64_t number;
    uint64_t inverse;
};

struct station {
    struct ron_registry *registry;
    struct ron_bus *bus;
    uint64_t total;
};

struct listener {
    struct station *station;
    bool late; /* subscribes while messages are being published */
    struct ron_bus_reader reader;
    uint64_t heard;
    uint64_t missed;
    uint64_t first; /* number of the first message that was not before the subscription */
};

static void publish_all(void *arg)
{
    struct station *s = arg;

    for (uint64_t i = 0; i < s->total; i++) {
        struct note note = {.number = i, .inverse = ~i};
        enum ron_rc rc = ron_bus_publish(s->bus, &note);

        SCN_CHECK(rc == RON_OK);
    }
    SCN_CHECK(ron_bus_close(s->bus));
}

static void hear(struct listener *l, const struct note *note)
{
    SCN_CHECK(note->inverse == ~note->number);
    if (l->late && l->heard == 0 && l->missed == 0) {
        l->first = note->number;
    }
    SCN_CHECK(note->number == l->first + l->heard + l->missed); /* No gap that was not told. */
    l->heard++;
}

static void listen(void *arg)
{
    struct listener *l = arg;
    struct note notes[BATCH];
    enum ron_rc rc = RON_OK;

    if (l->late && ron_bus_subscribe(l->station->bus, &l->reader, NULL, NULL) != RON_OK) {
        return; /* Closed before it came. */
    }
    for (;;) {
        size_t n = 0;
        uint64_t missed = 0;

        rc = ron_bus_recv(&l->reader, notes, BATCH, ron_deadline_never(), &n, &missed);
        if (rc == RON_CLOSED) {
            break;
        }
        if (rc == RON_LAGGED) {
            SCN_CHECK(missed > 0);
            /* A late reader does not know where it began; the next number tells. */
            l->missed += l->late && l->heard == 0 ? 0 : missed;
            continue;
        }
        SCN_CHECK(rc == RON_OK);
        SCN_CHECK(n >= 1);
        SCN_CHECK(n <= BATCH);
        for (size_t i = 0; i < n; i++) {
            hear(l, &notes[i]);
        }
    }
    ron_bus_unsubscribe(&l->reader);
}

static void station_init(struct station *s, uint64_t total)
{
    struct ron_bus_opts opts = {.name = "bus",
                                .producers = "scenario",
                                .consumers = "scenario",
                                .capacity = CAPACITY,
                                .message_bytes = sizeof(struct note),
                                .readers_max = 4};
    enum ron_rc rc = ron_registry_new(&s->registry, NULL);

    RON_ASSERT(rc == RON_OK);
    opts.registry = s->registry;
    rc = ron_bus_new(&opts, &s->bus, NULL);
    RON_ASSERT(rc == RON_OK);
    s->total = total;
}

static void station_done(struct station *s)
{
    ron_bus_free(s->bus);
    ron_registry_free(s->registry);
    scn_count(s->total);
}

/* The reader subscribes on its own thread, but the count must start before the first message. */
static void subscribe_first(struct listener *l)
{
    enum ron_rc rc = ron_bus_subscribe(l->station->bus, &l->reader, NULL, NULL);

    SCN_CHECK(rc == RON_OK);
}

static void listen_from_start(void *arg)
{
    struct listener *l = arg;

    ron_wait_node_init(&l->reader._node, NULL); /* The thread that waits is this one. */
    listen(l);
}

static void bus_laggard(void)
{
    struct station s;
    struct listener l[2] = {{.station = &s}, {.station = &s}};

    station_init(&s, scn_scale(4, 1000000));
    subscribe_first(&l[0]);
    subscribe_first(&l[1]);
    scn_spawn("listener", listen_from_start, &l[0]);
    scn_spawn("listener", listen_from_start, &l[1]);
    scn_spawn("publisher", publish_all, &s);
    scn_join_all();
    SCN_CHECK(l[0].heard + l[0].missed == s.total);
    SCN_CHECK(l[1].heard + l[1].missed == s.total);
    scn_saw_if(l[0].missed > 0, 0);
    scn_saw_if(l[0].heard == s.total, 1);
    scn_saw_if(l[0].missed > 0 && l[0].missed < s.total - CAPACITY, 2);
    station_done(&s);
}

static void bus_late_subscriber(void)
{
    struct station s;
    struct listener l = {.station = &s, .late = true};

    station_init(&s, scn_scale(4, 1000000));
    scn_spawn("listener", listen, &l);
    scn_spawn("publisher", publish_all, &s);
    scn_join_all();
    SCN_CHECK(l.heard == 0 || l.first + l.heard + l.missed == s.total);
    scn_saw_if(l.heard > 0 && l.first > 0, 0);
    scn_saw_if(l.heard == 0, 1);
    station_done(&s);
}

const struct scn scn_list[] = {
    {.name = "bus_laggard",
     .body = bus_laggard,
     .must_see = {"a reader that lagged", "a reader that kept up",
                  "a reader overtaken in the middle"},
     .stress_messages = 1000000},
    {.name = "bus_late_subscriber",
     .body = bus_late_subscriber,
     .must_see = {"a reader that began in the middle", "a reader that came too late"},
     .stress_messages = 1000000},
    {0},
};
