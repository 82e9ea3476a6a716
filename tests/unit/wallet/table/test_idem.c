/* SPDX-License-Identifier: Apache-2.0 */
/* test_idem.c - answers by idempotency key.
 *
 * Goal: rules I1 to I5 of wallet/table/idem.h: one job a key, the same bytes again, other requests
 * refused,
 *   bounds by bytes, jobs and time.
 * Method: each rule alone; random steps against a plain reference in three worlds: small answers
 *   and no end of time (exact, by last use), few keys and short lives (exact, by time), answers of
 *   all sizes (what comes back is right, bounds hold); threads that want one key.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/base/macros.h"
#include "ron/sync/sync.h"
#include "wallet/table/idem.h"

enum { SMALLEST = 4096, TTL = 1000, OUT = 1 << 16 };

static struct wlt_idem *table_of(uint32_t shards, uint64_t bytes, uint32_t pending)
{
    const struct wlt_idem_opts opts = {shards, bytes, pending, TTL};
    struct wlt_idem *i = NULL;

    assert_int_equal(wlt_idem_new(&opts, &i, NULL), RON_OK);
    return i;
}

static struct wlt_idem *table(void)
{
    return table_of(1, SMALLEST, 100);
}

static struct wlt_key key(uint64_t i)
{
    return (struct wlt_key){i, i};
}

/* They differ in their last byte alone. */
static const uint8_t *print(uint8_t which)
{
    static const uint8_t prints[3][32] = {{0}, {[31] = 1}, {[31] = 2}};

    return prints[which];
}

static enum wlt_idem_verdict begin_at(struct wlt_idem *i, uint64_t k, uint8_t which, uint64_t now,
                                      const char *answer)
{
    uint8_t room[OUT];
    struct ron_buf out;
    enum wlt_idem_verdict v;

    ron_buf_init_over(&out, room, sizeof room);
    assert_int_equal(ron_buf_append_text(&out, "before "), RON_OK);
    v = wlt_idem_begin(i, key(k), print(which), now, &out);
    if (v == WLT_IDEM_REPLAY) {
        assert_int_equal(ron_buf_error(&out), RON_OK);
        assert_non_null(answer);
        assert_string_equal(ron_buf_text(&out) + 7, answer);
    } else {
        assert_int_equal(ron_buf_len(&out), 7);
    }
    return v;
}

static enum wlt_idem_verdict begin(struct wlt_idem *i, uint64_t k, const char *answer)
{
    return begin_at(i, k, 1, 0, answer);
}

static void finish(struct wlt_idem *i, uint64_t k, const char *answer)
{
    wlt_idem_finish(i, key(k), answer, strlen(answer), 0);
}

static void test_wlt_idem__running__rivals_are_told_so(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_PENDING);
    assert_int_equal(begin_at(i, 1, 2, 0, NULL), WLT_IDEM_CONFLICT);
    assert_int_equal(begin(i, 2, NULL), WLT_IDEM_FIRST);
    /* However long it takes. */
    assert_int_equal(begin_at(i, 1, 1, UINT64_MAX, NULL), WLT_IDEM_PENDING);
    wlt_idem_free(i);
}

static void test_wlt_idem__finished__same_bytes_again(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    assert_int_equal(begin(i, 2, NULL), WLT_IDEM_FIRST);
    finish(i, 1, "one");
    finish(i, 2, "");
    for (int k = 0; k < 3; k++) {
        assert_int_equal(begin(i, 1, "one"), WLT_IDEM_REPLAY);
        assert_int_equal(begin(i, 2, ""), WLT_IDEM_REPLAY);
        assert_int_equal(begin_at(i, 1, 2, 0, NULL), WLT_IDEM_CONFLICT);
    }
    wlt_idem_free(i);
}

/* Around the ends of blocks, whatever their size is. */
static void test_wlt_idem__answers_of_all_sizes__come_back_whole(void **state)
{
    struct wlt_idem *i = table();
    char text[2001];

    (void)state;
    for (size_t len = 0; len < sizeof text; len++) {
        for (size_t k = 0; k < len; k++) {
            text[k] = (char)('!' + (k * 7 + len) % 90);
        }
        text[len] = '\0';
        assert_int_equal(begin(i, len, NULL), WLT_IDEM_FIRST);
        finish(i, len, text);
        assert_int_equal(begin(i, len, text), WLT_IDEM_REPLAY);
        assert_in_range(wlt_idem_stats(i).bytes, len, SMALLEST);
    }
    wlt_idem_free(i);
}

/* I3 */
static void test_wlt_idem__abandoned__key_is_free(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    wlt_idem_abandon(i, key(1));
    assert_int_equal(wlt_idem_stats(i).entries, 0);
    assert_int_equal(wlt_idem_stats(i).bytes, 0);
    assert_int_equal(begin_at(i, 1, 2, 0, NULL), WLT_IDEM_FIRST);
    finish(i, 1, "corrected");
    assert_int_equal(begin_at(i, 1, 2, 0, "corrected"), WLT_IDEM_REPLAY);
    wlt_idem_free(i);
}

/* I5, and the key is as good as new. */
static void test_wlt_idem__forget_all__answers_go_and_jobs_stay(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    wlt_idem_finish(i, key(1), "one", 3, 0);
    assert_int_equal(begin(i, 2, NULL), WLT_IDEM_FIRST);
    wlt_idem_forget_all(i);
    assert_int_equal(wlt_idem_stats(i).entries, 1);
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    assert_int_equal(begin(i, 2, NULL), WLT_IDEM_PENDING);
    wlt_idem_abandon(i, key(1));
    wlt_idem_finish(i, key(2), "two", 3, 0);
    assert_int_equal(begin(i, 2, "two"), WLT_IDEM_REPLAY);
    wlt_idem_free(i);
}

static void test_wlt_idem__time_over__gone_at_that_moment(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    assert_int_equal(begin_at(i, 1, 1, 50, NULL), WLT_IDEM_FIRST);
    wlt_idem_finish(i, key(1), "one", 3, 100);
    assert_int_equal(begin_at(i, 1, 1, 100 + TTL - 1, "one"), WLT_IDEM_REPLAY);
    assert_int_equal(begin_at(i, 1, 2, 100 + TTL - 1, NULL), WLT_IDEM_CONFLICT);
    assert_int_equal(begin_at(i, 1, 2, 100 + TTL, NULL), WLT_IDEM_FIRST);
    assert_int_equal(wlt_idem_stats(i).expired_total, 1);
    assert_int_equal(wlt_idem_stats(i).entries, 1);
    /* A replay does not make it live longer; a reload is for the answers after it. */
    wlt_idem_set_ttl(i, 5);
    wlt_idem_finish(i, key(1), "two", 3, 2000);
    wlt_idem_set_ttl(i, TTL);
    assert_int_equal(begin_at(i, 1, 2, 2004, "two"), WLT_IDEM_REPLAY);
    assert_int_equal(begin_at(i, 1, 2, 2005, NULL), WLT_IDEM_FIRST);
    wlt_idem_finish(i, key(1), "three", 5, UINT64_MAX - 10); /* the sum does not wrap */
    assert_int_equal(begin_at(i, 1, 2, UINT64_MAX - 1, "three"), WLT_IDEM_REPLAY);
    wlt_idem_free(i);
}

static void test_wlt_idem__expired_ones__are_removed_as_new_ones_come(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    for (uint64_t k = 0; k < 6; k++) {
        assert_int_equal(begin(i, k, NULL), WLT_IDEM_FIRST);
        finish(i, k, "x");
    }
    assert_int_equal(begin_at(i, 100, 1, TTL - 1, NULL), WLT_IDEM_FIRST);
    assert_int_equal(wlt_idem_stats(i).entries, 7);
    for (uint64_t k = 0; k < 3; k++) {
        assert_int_equal(begin_at(i, 101 + k, 1, TTL, NULL), WLT_IDEM_FIRST);
        assert_int_equal(wlt_idem_stats(i).expired_total, 2 * (k + 1));
    }
    assert_int_equal(wlt_idem_stats(i).entries, 4);
    assert_int_equal(begin_at(i, 104, 1, TTL, NULL), WLT_IDEM_FIRST);
    assert_int_equal(wlt_idem_stats(i).evicted_total, 0);
    wlt_idem_free(i);
}

static void test_wlt_idem__too_many_jobs__full_until_one_ends(void **state)
{
    struct wlt_idem *i = table_of(4, 4ul * SMALLEST, 3);

    (void)state;
    for (uint64_t k = 0; k < 3; k++) {
        assert_int_equal(begin(i, k << 62, NULL), WLT_IDEM_FIRST); /* shards of their own */
    }
    assert_int_equal(begin(i, 9, NULL), WLT_IDEM_FULL);
    assert_int_equal(begin(i, 0, NULL), WLT_IDEM_PENDING); /* not one more */
    wlt_idem_abandon(i, key(UINT64_C(2) << 62));
    assert_int_equal(begin(i, 9, NULL), WLT_IDEM_FIRST);
    assert_int_equal(begin(i, 10, NULL), WLT_IDEM_FULL);
    finish(i, 9, "nine");
    assert_int_equal(begin(i, 10, NULL), WLT_IDEM_FIRST);
    assert_int_equal(begin(i, 9, "nine"), WLT_IDEM_REPLAY);
    wlt_idem_free(i);
}

/* A shard full of jobs; I4: none of them is lost. */
static void test_wlt_idem__shard_full_of_jobs__full_and_answers_not_kept(void **state)
{
    struct wlt_idem *i = table_of(2, 2ul * SMALLEST, 100);
    uint64_t jobs = 0;
    char text[601];

    (void)state;
    memset(text, 'x', sizeof text);
    text[600] = '\0';
    while (begin(i, jobs, NULL) == WLT_IDEM_FIRST) {
        jobs++;
    }
    assert_in_range(jobs, 8, 99);
    assert_int_equal(wlt_idem_stats(i).entries, jobs);
    for (uint64_t k = 0; k < jobs; k++) {
        assert_int_equal(begin(i, k, NULL), WLT_IDEM_PENDING);
    }
    for (int k = 0; k < 200; k++) {
        assert_int_equal(begin(i, 1000, NULL), WLT_IDEM_FULL);
    }
    /* Who is turned away does not count as a job: the other shard takes them. */
    assert_int_equal(begin(i, UINT64_C(1) << 63, NULL), WLT_IDEM_FIRST);
    wlt_idem_abandon(i, key(UINT64_C(1) << 63));
    finish(i, 3, text); /* has no room: not kept */
    assert_int_equal(wlt_idem_stats(i).entries, jobs - 1);
    assert_int_equal(begin(i, 3, NULL), WLT_IDEM_FIRST);
    finish(i, 4, "short"); /* fits into what it has */
    assert_int_equal(begin(i, 4, "short"), WLT_IDEM_REPLAY);
    assert_int_equal(begin(i, jobs, NULL), WLT_IDEM_FIRST); /* instead of 4 */
    assert_int_equal(wlt_idem_stats(i).evicted_total, 1);
    assert_int_equal(begin(i, 4, NULL), WLT_IDEM_FULL);
    wlt_idem_abandon(i, key(5));
    assert_int_equal(begin(i, 4, NULL), WLT_IDEM_FIRST);
    wlt_idem_free(i);
}

static void test_wlt_idem__too_large_for_a_shard__is_not_kept_and_pushes_nobody_out(void **state)
{
    struct wlt_idem *i = table();
    static char text[3 * SMALLEST];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    finish(i, 1, "one");
    for (size_t len = SMALLEST - 10; len <= sizeof text; len += 997) {
        assert_int_equal(begin(i, 2, NULL), WLT_IDEM_FIRST);
        wlt_idem_finish(i, key(2), text, len, 0);
    }
    assert_int_equal(begin(i, 2, NULL), WLT_IDEM_FIRST);
    assert_int_equal(begin(i, 1, "one"), WLT_IDEM_REPLAY);
    assert_int_equal(wlt_idem_stats(i).evicted_total, 0);
    wlt_idem_finish(i, key(2), text, SIZE_MAX, 0); /* nothing of it is read */
    assert_int_equal(wlt_idem_stats(i).entries, 1);
    wlt_idem_free(i);
}

static void test_wlt_idem__no_memory_for_a_replay__buffer_says_so(void **state)
{
    struct wlt_idem *i = table();
    uint8_t room[8];
    struct ron_buf out;

    (void)state;
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    finish(i, 1, "a long answer");
    ron_buf_init_over(&out, room, sizeof room);
    assert_int_equal(wlt_idem_begin(i, key(1), print(1), 0, &out), WLT_IDEM_REPLAY);
    assert_int_equal(ron_buf_error(&out), RON_LIMIT);
    assert_int_equal(ron_buf_len(&out), 0);
    wlt_idem_free(i);
}

static void test_wlt_idem__bad_sizes__are_refused(void **state)
{
    const struct wlt_idem_opts bad[] = {
        {0, SMALLEST, 1, 1},     {WLT_SHARDS_MAX + 1, 1 << 30, 1, 1},
        {1, SMALLEST - 1, 1, 1}, {4, 4 * SMALLEST - 1, 1, 1},
        {1, SMALLEST, 0, 1},     {1, UINT64_MAX, 1, 1},
    };
    struct wlt_idem *i = NULL;
    struct ron_err err = {0};

    (void)state;
    for (size_t k = 0; k < RON_ARRAY_LEN(bad); k++) {
        assert_int_equal(wlt_idem_new(&bad[k], &i, &err), RON_INVALID);
    }
    assert_non_null(strstr(err.msg, "1 shards"));
    assert_null(i);
    wlt_idem_free(NULL);
}

static void finish_nothing(void *arg)
{
    struct wlt_idem *i = arg;

    wlt_idem_finish(i, key(1), "x", 1, 0);
}

static void abandon_nothing(void *arg)
{
    struct wlt_idem *i = arg;

    wlt_idem_abandon(i, key(1));
}

static void test_wlt_idem__ended_without_a_job__is_a_mistake(void **state)
{
    struct wlt_idem *i = table();

    (void)state;
    support_death(finish_nothing, i, "I1");
    support_death(abandon_nothing, i, "I1");
    assert_int_equal(begin(i, 1, NULL), WLT_IDEM_FIRST);
    finish(i, 1, "x");
    support_death(finish_nothing, i, "I1");
    support_death(abandon_nothing, i, "I1");
    wlt_idem_free(i);
}

/* ---- against a reference --------------------------------------------------------------------- */

enum { KEYS = 24, TEXT = 3000 };

struct ref {
    bool there, done;
    uint8_t which;
    uint64_t expires;
    uint64_t used;
    char text[TEXT];
};

struct world {
    struct wlt_idem *i;
    struct ron_rand rand;
    struct ref refs[KEYS];
    uint32_t keys;
    uint32_t room; /* entries, all of one block; 0: not exact */
    uint32_t sizes;
    uint32_t jobs_max;
    bool timed;
    uint64_t now;
    uint64_t clock;
    uint64_t verdicts[5];
};

static void text_of(struct world *w, char *text)
{
    size_t len = ron_rand_below(&w->rand, w->sizes);

    for (size_t k = 0; k < len; k++) {
        text[k] = (char)('a' + ron_rand_below(&w->rand, 26));
    }
    text[len] = '\0';
}

static uint32_t count(const struct world *w, bool done)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < w->keys; k++) {
        n += w->refs[k].there && w->refs[k].done == done;
    }
    return n;
}

/* Makes room for one by forgetting the done one that was not used for longest. */
static bool ref_make_room(struct world *w)
{
    struct ref *oldest = NULL;

    if (w->room == 0 || count(w, true) + count(w, false) < w->room) {
        return true;
    }
    for (uint32_t k = 0; k < w->keys; k++) {
        struct ref *r = &w->refs[k];

        if (r->there && r->done && (oldest == NULL || r->used < oldest->used)) {
            oldest = r;
        }
    }
    if (oldest != NULL) {
        oldest->there = false;
    }
    return oldest != NULL;
}

static enum wlt_idem_verdict ref_begin(struct world *w, struct ref *r, uint8_t which)
{
    if (r->there && r->done && r->expires <= w->now) {
        r->there = false;
    }
    if (r->there && r->which != which) {
        return WLT_IDEM_CONFLICT;
    }
    if (r->there) {
        r->used = ++w->clock;
        return r->done ? WLT_IDEM_REPLAY : WLT_IDEM_PENDING;
    }
    if (count(w, false) >= w->jobs_max || !ref_make_room(w)) {
        return WLT_IDEM_FULL;
    }
    *r = (struct ref){.there = true, .which = which};
    return WLT_IDEM_FIRST;
}

static void begin_some(struct world *w, uint64_t k)
{
    struct ref *r = &w->refs[k];
    uint8_t which = (uint8_t)ron_rand_below(&w->rand, 5) == 0 ? 2 : 1;
    struct ref before = *r;
    enum wlt_idem_verdict expected = ref_begin(w, r, which);
    enum wlt_idem_verdict v = begin_at(w->i, k, which, w->now, before.text);

    /* Not exact: one that is done may have made room. */
    if (w->room == 0 && before.there && before.done &&
        (v == WLT_IDEM_FIRST || v == WLT_IDEM_FULL)) {
        r->there = false;
        expected = ref_begin(w, r, which);
    }
    assert_int_equal(v, expected);
    w->verdicts[v]++;
}

static void end_some(struct world *w, uint64_t k)
{
    struct ref *r = &w->refs[k];

    if (!r->there || r->done) {
        return;
    }
    if (ron_rand_chance(&w->rand, 1, 4)) {
        wlt_idem_abandon(w->i, key(k));
        r->there = false;
        return;
    }
    text_of(w, r->text);
    wlt_idem_finish(w->i, key(k), r->text, strlen(r->text), w->now);
    r->done = true;
    r->expires = w->now + TTL;
    r->used = ++w->clock;
}

static void run_model(struct world *w)
{
    w->rand = support_rand();
    w->i = table_of(1, SMALLEST, w->jobs_max);
    for (int step = 0; step < 100000; step++) {
        uint64_t k = ron_rand_below(&w->rand, w->keys);
        bool busy = step / 50 % 2 != 0; /* for now few ends */
        struct wlt_idem_stats stats;

        w->now += w->timed ? ron_rand_below(&w->rand, 100) : 0;
        if (ron_rand_chance(&w->rand, busy ? 2 : 6, 10)) {
            end_some(w, k);
        } else {
            begin_some(w, k);
        }
        stats = wlt_idem_stats(w->i);
        assert_in_range(stats.bytes, 0, SMALLEST);
        if (w->room != 0 && !w->timed) {
            assert_int_equal(stats.entries, count(w, true) + count(w, false));
        }
    }
    assert_in_range(w->verdicts[WLT_IDEM_FIRST], 1000, UINT64_MAX);
    assert_in_range(w->verdicts[WLT_IDEM_PENDING], 1000, UINT64_MAX);
    assert_in_range(w->verdicts[WLT_IDEM_REPLAY], 1000, UINT64_MAX);
    assert_in_range(w->verdicts[WLT_IDEM_CONFLICT], 1000, UINT64_MAX);
    wlt_idem_free(w->i);
}

/* Entries of one block that fit: as many as there can be jobs. */
static uint32_t room_of_a_shard(void)
{
    struct wlt_idem *i = table();
    uint32_t jobs = 0;

    while (begin(i, jobs, NULL) == WLT_IDEM_FIRST) {
        jobs++;
    }
    wlt_idem_free(i);
    return jobs;
}

static void test_wlt_idem__random_steps_small_answers__longest_unused_makes_room(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.keys = KEYS, .room = room_of_a_shard(), .sizes = 100, .jobs_max = KEYS};
    run_model(&w);
    assert_in_range(w.verdicts[WLT_IDEM_FULL], 100, UINT64_MAX);
}

static void test_wlt_idem__random_steps_short_lives__as_the_reference(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){
        .keys = 12, .room = room_of_a_shard(), .sizes = 100, .jobs_max = 6, .timed = true};
    run_model(&w);
    assert_in_range(w.verdicts[WLT_IDEM_FULL], 100, UINT64_MAX);
}

static void test_wlt_idem__random_steps_all_sizes__what_comes_back_is_right(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.keys = 20, .sizes = TEXT, .jobs_max = 6};
    run_model(&w);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 16, KEYS_WANTED = 300 };

struct shared {
    struct wlt_idem *i;
    struct ron_au32 firsts[KEYS_WANTED];
    bool gives_up; /* the first job of every second key fails */
};

static void want(void *arg)
{
    struct shared *s = arg;
    uint8_t room[64];
    struct ron_buf out;

    ron_buf_init_over(&out, room, sizeof room);
    for (uint32_t k = 0; k < KEYS_WANTED; k++) {
        enum wlt_idem_verdict v;

        do {
            ron_buf_clear(&out);
            v = wlt_idem_begin(s->i, key(k), print(1), 0, &out);
            RON_ASSERT(v != WLT_IDEM_CONFLICT);
            if (v == WLT_IDEM_FIRST) {
                uint32_t before = ron_au32_add(&s->firsts[k], 1);

                if (before == 0 && s->gives_up && k % 2 == 0) {
                    wlt_idem_abandon(s->i, key(k));
                } else {
                    wlt_idem_finish(s->i, key(k), &k, sizeof k, 0);
                }
            }
        } while (v != WLT_IDEM_REPLAY);
        RON_ASSERT(ron_buf_len(&out) == sizeof k);
        RON_ASSERT(memcmp(ron_buf_data(&out), &k, sizeof k) == 0);
    }
}

static void test_wlt_idem__many_threads__one_of_them_is_first(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct shared s = {.i = table_of(4, 1 << 20, THREADS), .gives_up = round == 1};
        struct ron_thread *threads[THREADS];

        for (int t = 0; t < THREADS; t++) {
            assert_int_equal(ron_thread_start(
                                 &(struct ron_thread_opts){
                                     .name = "client", .may_block = true, .main = want, .arg = &s},
                                 &threads[t], NULL),
                             RON_OK);
        }
        for (int t = 0; t < THREADS; t++) {
            ron_thread_join(threads[t]);
        }
        for (uint32_t k = 0; k < KEYS_WANTED; k++) {
            assert_int_equal(ron_au32_load(&s.firsts[k]), s.gives_up && k % 2 == 0 ? 2 : 1);
        }
        wlt_idem_free(s.i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_idem__running__rivals_are_told_so),
        cmocka_unit_test(test_wlt_idem__finished__same_bytes_again),
        cmocka_unit_test(test_wlt_idem__answers_of_all_sizes__come_back_whole),
        cmocka_unit_test(test_wlt_idem__abandoned__key_is_free),
        cmocka_unit_test(test_wlt_idem__forget_all__answers_go_and_jobs_stay),
        cmocka_unit_test(test_wlt_idem__time_over__gone_at_that_moment),
        cmocka_unit_test(test_wlt_idem__expired_ones__are_removed_as_new_ones_come),
        cmocka_unit_test(test_wlt_idem__too_many_jobs__full_until_one_ends),
        cmocka_unit_test(test_wlt_idem__shard_full_of_jobs__full_and_answers_not_kept),
        cmocka_unit_test(test_wlt_idem__too_large_for_a_shard__is_not_kept_and_pushes_nobody_out),
        cmocka_unit_test(test_wlt_idem__no_memory_for_a_replay__buffer_says_so),
        cmocka_unit_test(test_wlt_idem__bad_sizes__are_refused),
        cmocka_unit_test(test_wlt_idem__ended_without_a_job__is_a_mistake),
        cmocka_unit_test(test_wlt_idem__random_steps_small_answers__longest_unused_makes_room),
        cmocka_unit_test(test_wlt_idem__random_steps_short_lives__as_the_reference),
        cmocka_unit_test(test_wlt_idem__random_steps_all_sizes__what_comes_back_is_right),
        cmocka_unit_test(test_wlt_idem__many_threads__one_of_them_is_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
