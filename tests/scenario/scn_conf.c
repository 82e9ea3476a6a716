/* SPDX-License-Identifier: Apache-2.0 */
/* scn_conf.c - configuration snapshots swapped while they are read.
 *
 * Expected in every schedule: a reader sees the two keys of one snapshot, versions only rise, the
 * last snapshot is seen in the end, and nothing is released while somebody reads it (a released
 * snapshot is wiped, so its magic would be gone). */
#include "conf/conf_priv.h"
#include "conf/conf_testing.h"
#include "ron/base/assert.h"
#include "scenario/scn.h"

static const struct ron_conf_key keys[] = {
    {"first", RON_CONF_INT, "", 0, INT64_MAX, "0", RON_CONF_RELOAD, "Half of a pair."},
    {"second", RON_CONF_INT, "", 0, INT64_MAX, "0", RON_CONF_RELOAD, "The other half."},
};
static const struct ron_conf_table table = {.service = "scn", .keys = keys, .key_count = 2};

struct desk {
    struct ron_conf_box box;
    int64_t last; /* the number of the last snapshot */
};

/* The two values belong together: n and 2n. */
static struct ron_conf_snap *make(int64_t n)
{
    struct ron_conf_value values[2] = {{.number = n, .set = true}, {.number = 2 * n, .set = true}};
    struct conf_row row = {.values = values};
    struct ron_conf_snap *snap = NULL;
    enum ron_rc rc = conf_freeze(&table, &row, 1, &snap, NULL);

    RON_ASSERT(rc == RON_OK);
    return snap;
}

static int64_t look(const struct ron_conf_snap *snap)
{
    int64_t first = ron_conf_int(snap, 0);

    SCN_CHECK(ron_conf_int(snap, 1) == 2 * first);
    return first;
}

static void swap_all(void *arg)
{
    struct desk *d = arg;

    for (int64_t n = 1; n <= d->last; n++) {
        ron_conf_box_put(&d->box, make(n));
    }
}

/* Takes a reference for each look. */
static void read_each(void *arg)
{
    struct desk *d = arg;
    int64_t before = 0;

    for (uint32_t i = 0; i < scn_scale(2, 100000); i++) {
        struct ron_conf_snap *snap = ron_conf_box_get(&d->box);
        int64_t now = look(snap);

        SCN_CHECK(now >= before);
        scn_saw_if(i > 0 && now > before, 0);
        before = now;
        ron_conf_unref(snap);
    }
}

/* Keeps a reference and brings it up to date; what it holds stays readable in between. */
static void read_kept(void *arg)
{
    struct desk *d = arg;
    struct ron_conf_snap *snap = NULL;
    uint64_t seen = 0;
    int64_t before = 0;

    for (uint32_t i = 0; i < scn_scale(2, 100000); i++) {
        uint64_t seen_before = seen;
        bool changed = ron_conf_box_refresh(&d->box, &snap, &seen);

        SCN_CHECK(changed == (seen != seen_before));
        scn_saw_if(i > 0 && changed, 0);
        SCN_CHECK(seen >= seen_before);
        SCN_CHECK(look(snap) >= before);
        SCN_CHECK(look(snap) == (int64_t)seen - 1);
        before = look(snap);
    }
    ron_conf_unref(snap);
}

static void race(void (*first)(void *), void (*second)(void *))
{
    struct desk d = {.last = scn_scale(2, 100000)};

    ron_conf_box_init(&d.box, make(0));
    scn_spawn("reader", first, &d);
    if (second != NULL) {
        scn_spawn("reader", second, &d);
    }
    scn_spawn("swapper", swap_all, &d);
    scn_join_all();
    struct ron_conf_snap *snap = ron_conf_box_get(&d.box);

    SCN_CHECK(look(snap) == d.last);
    ron_conf_unref(snap);
    scn_count((uint64_t)d.last);
    ron_conf_box_done(&d.box);
}

static void conf_swap_get(void)
{
    race(read_each, read_each);
}

static void conf_swap_refresh(void)
{
    race(read_kept, NULL);
}

static void conf_swap_both(void)
{
    race(read_each, read_kept);
}

#define SEEN "a swap falls between two looks of one reader"

const struct scn scn_list[] = {
    {.name = "conf_swap_get", .body = conf_swap_get, .must_see = {SEEN}, .stress_messages = 100000},
    {.name = "conf_swap_refresh",
     .body = conf_swap_refresh,
     .must_see = {SEEN},
     .stress_messages = 100000},
    {.name = "conf_swap_both",
     .body = conf_swap_both,
     .must_see = {SEEN},
     .stress_messages = 100000},
    {0},
};
