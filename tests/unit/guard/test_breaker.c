/* SPDX-License-Identifier: Apache-2.0 */
/* test_breaker.c - when a breaker opens, how it probes, and when it closes.
 *
 * Goal: every edge between the three states happens at exactly the call and nanosecond that the
 *   rules say, and results from another round change nothing.
 * Method: each edge by hand; then random histories against a model that keeps the whole list of
 *   results and counts it anew each time.
 */
#include "unit/guard/fixture.h"

#include "ron/guard/breaker.h"

static enum ron_breaker_state state_of(const struct ron_breaker *b)
{
    struct ron_breaker_stats stats;

    ron_breaker_get_stats(b, &stats);
    return stats.state;
}

static struct ron_breaker_ticket admit(struct ron_breaker *b)
{
    struct ron_breaker_ticket t = {0};

    assert_int_equal(ron_breaker_admit(b, &t, NULL), RON_OK);
    return t;
}

static void call(struct ron_breaker *b, enum ron_call_result result)
{
    ron_breaker_report(b, admit(b), result);
}

static void call_many(struct ron_breaker *b, int n, enum ron_call_result result)
{
    for (int i = 0; i < n; i++) {
        call(b, result);
    }
}

static void assert_refused(struct ron_breaker *b, uint64_t wait_ns)
{
    struct ron_breaker_ticket t = {77};
    uint64_t told_ns = 0;

    assert_int_equal(ron_breaker_admit(b, &t, &told_ns), RON_AGAIN);
    assert_int_equal(told_ns, wait_ns);
    assert_int_equal(t.round, 77);
}

static void breaker_make(struct ron_breaker *b, struct virtual_time *v,
                         enum ron_breaker_preset preset)
{
    virtual_init(v);
    ron_breaker_init(b, ron_breaker_preset(preset), &v->env.clock);
}

static void test_breaker__failures_in_a_row__opens_at_the_fifth(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_DEFAULT);
    call_many(&b, 4, RON_CALL_FAILURE);
    call(&b, RON_CALL_SUCCESS); /* breaks the row */
    call_many(&b, 4, RON_CALL_FAILURE);
    call(&b, RON_CALL_VOID); /* does not */
    assert_int_equal(state_of(&b), RON_BREAKER_IS_CLOSED);
    call(&b, RON_CALL_FAILURE);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_OPEN);
    assert_refused(&b, 5 * RON_NS_PER_S);
    v.now_ns += 5 * RON_NS_PER_S - 1;
    assert_refused(&b, 1);
    v.now_ns++;
    admit(&b);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_HALF_OPEN);
    ron_breaker_done(&b);
}

static void test_breaker__half_of_twenty__opens_and_of_nineteen_does_not(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_DEFAULT);
    for (int i = 0; i < 9; i++) {
        call(&b, RON_CALL_SUCCESS);
        call(&b, RON_CALL_FAILURE);
    }
    call(&b, RON_CALL_FAILURE); /* 10 of 19, and two in a row only */
    assert_int_equal(state_of(&b), RON_BREAKER_IS_CLOSED);
    call(&b, RON_CALL_SUCCESS); /* 10 of 20 */
    assert_int_equal(state_of(&b), RON_BREAKER_IS_OPEN);
    ron_breaker_done(&b);
}

static void test_breaker__failures_outside_the_window__do_not_count(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_WALLET);
    v.now_ns = 20 * RON_NS_PER_S;
    call_many(&b, 19, RON_CALL_FAILURE);
    v.now_ns += 10 * RON_NS_PER_S; /* ten slots later */
    call(&b, RON_CALL_FAILURE);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_CLOSED);
    call_many(&b, 18, RON_CALL_FAILURE);
    v.now_ns += 10 * RON_NS_PER_S - 1; /* the last nanosecond of the ninth slot after */
    call(&b, RON_CALL_FAILURE);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_OPEN);
    ron_breaker_done(&b);
}

static void open_now(struct ron_breaker *b)
{
    while (state_of(b) == RON_BREAKER_IS_CLOSED) {
        call(b, RON_CALL_FAILURE);
    }
}

static void test_breaker__half_open__admits_ten_and_closes_after_ten(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;
    struct ron_breaker_ticket probes[10];

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_WALLET);
    open_now(&b);
    v.now_ns += 5 * RON_NS_PER_S;
    for (int i = 0; i < 10; i++) {
        probes[i] = admit(&b);
    }
    assert_refused(&b, 5 * RON_NS_PER_S);
    ron_breaker_report(&b, probes[0], RON_CALL_VOID); /* its place is free again */
    probes[0] = admit(&b);
    assert_refused(&b, 5 * RON_NS_PER_S);
    for (int i = 0; i < 9; i++) {
        ron_breaker_report(&b, probes[i], RON_CALL_SUCCESS);
        assert_int_equal(state_of(&b), RON_BREAKER_IS_HALF_OPEN);
        assert_refused(&b, 5 * RON_NS_PER_S); /* a good probe's place stays taken */
    }
    ron_breaker_report(&b, probes[9], RON_CALL_SUCCESS);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_CLOSED);
    call_many(&b, 19, RON_CALL_FAILURE); /* clean counts */
    assert_int_equal(state_of(&b), RON_BREAKER_IS_CLOSED);
    ron_breaker_done(&b);
}

static void test_breaker__ledger__closes_after_one_success(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_LEDGER);
    open_now(&b);
    v.now_ns += 5 * RON_NS_PER_S;
    call(&b, RON_CALL_SUCCESS);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_CLOSED);
    ron_breaker_done(&b);
}

static void test_breaker__failed_probe__opens_again_at_once(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;
    struct ron_breaker_ticket slow;
    struct ron_breaker_stats stats;

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_DEFAULT);
    open_now(&b);
    v.now_ns += 6 * RON_NS_PER_S;
    slow = admit(&b);
    call(&b, RON_CALL_FAILURE);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_OPEN);
    assert_refused(&b, 5 * RON_NS_PER_S);
    ron_breaker_report(&b, slow, RON_CALL_SUCCESS); /* of another round */
    assert_refused(&b, 5 * RON_NS_PER_S);
    ron_breaker_get_stats(&b, &stats);
    assert_int_equal(stats.entered[RON_BREAKER_IS_OPEN], 2);
    assert_int_equal(stats.entered[RON_BREAKER_IS_HALF_OPEN], 1);
    assert_int_equal(stats.upstream_fail_total, 6);
    ron_breaker_done(&b);
}

static void test_breaker__late_results_of_the_closed_period__change_nothing(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;
    struct ron_breaker_ticket late[2];

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_LEDGER);
    late[0] = admit(&b);
    late[1] = admit(&b);
    open_now(&b);
    v.now_ns += 5 * RON_NS_PER_S;
    admit(&b);
    ron_breaker_report(&b, late[0], RON_CALL_SUCCESS);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_HALF_OPEN);
    ron_breaker_report(&b, late[1], RON_CALL_FAILURE);
    assert_int_equal(state_of(&b), RON_BREAKER_IS_HALF_OPEN);
    ron_breaker_done(&b);
}

static void test_breaker__probes_never_reported__a_new_round_begins(void **state)
{
    struct virtual_time v;
    struct ron_breaker b;
    struct ron_breaker_ticket lost;

    (void)state;
    breaker_make(&b, &v, RON_BREAKER_LEDGER);
    open_now(&b);
    v.now_ns += 5 * RON_NS_PER_S;
    lost = admit(&b);
    v.now_ns += 5 * RON_NS_PER_S - 1;
    assert_refused(&b, 1);
    v.now_ns++;
    (void)admit(&b);
    ron_breaker_report(&b, lost, RON_CALL_SUCCESS); /* too late to count */
    assert_int_equal(state_of(&b), RON_BREAKER_IS_HALF_OPEN);
    ron_breaker_done(&b);
}

static void test_results__codes_and_statuses__are_sorted(void **state)
{
    (void)state;
    assert_int_equal(ron_call_result_of(RON_OK, 0), RON_CALL_SUCCESS);
    assert_int_equal(ron_call_result_of(RON_OK, 204), RON_CALL_SUCCESS);
    assert_int_equal(ron_call_result_of(RON_OK, 304), RON_CALL_SUCCESS);
    assert_int_equal(ron_call_result_of(RON_OK, 401), RON_CALL_VOID);
    assert_int_equal(ron_call_result_of(RON_OK, 500), RON_CALL_FAILURE);
    assert_int_equal(ron_call_result_of(RON_OK, 503), RON_CALL_FAILURE);
    assert_int_equal(ron_call_result_of(RON_TIMEOUT, 0), RON_CALL_FAILURE);
    assert_int_equal(ron_call_result_of(RON_IO, 0), RON_CALL_FAILURE);
    assert_int_equal(ron_call_result_of(RON_CANCELLED, 0), RON_CALL_VOID);
    assert_int_equal(ron_call_result_of(RON_INVALID, 0), RON_CALL_VOID);
    assert_string_equal(ron_breaker_state_label(RON_BREAKER_IS_HALF_OPEN), "half_open");
}

static void test_rules__out_of_range__are_not_valid(void **state)
{
    struct ron_breaker_rules good = *ron_breaker_preset(RON_BREAKER_DEFAULT);
    struct ron_breaker_rules r;

    (void)state;
    assert_true(ron_breaker_rules_valid(&good));
#define BAD(field, x)                                                                              \
    do {                                                                                           \
        r = good;                                                                                  \
        r.field = (x);                                                                             \
        assert_false(ron_breaker_rules_valid(&r));                                                 \
    } while (0)
    BAD(rate_pct, 101);
    BAD(rate_min_calls, 0);
    BAD(window_ms, RON_BREAKER_SLOTS - 1);
    BAD(open_ms, 0);
    BAD(probes, 0);
    BAD(probes, RON_BREAKER_PROBES_MAX + 1);
#undef BAD
}

/* ---- against a model ------------------------------------------------------------------------ */

enum { STEPS = 3000, TICKETS = 64 };

struct model_call {
    uint64_t at_ns;
    bool failed;
};

struct model {
    struct ron_breaker_rules rules;
    enum ron_breaker_state state;
    uint64_t since_ns;   /* of the opening, or of the last probe */
    uint64_t generation; /* of what a ticket may speak about */
    uint32_t out;
    uint32_t good;
    size_t count; /* results of this closed period, all of them */
    struct model_call calls[STEPS];
};

static void model_enter(struct model *m, enum ron_breaker_state state, uint64_t now_ns)
{
    m->state = state;
    m->since_ns = now_ns;
    m->generation++;
    m->out = 0;
    m->good = 0;
    m->count = 0;
}

static bool model_admit(struct model *m, uint64_t now_ns)
{
    bool waited = now_ns - m->since_ns >= m->rules.open_ms * RON_NS_PER_MS;

    if (m->state == RON_BREAKER_IS_CLOSED) {
        return true;
    }
    if (m->state == RON_BREAKER_IS_OPEN || m->out == m->rules.probes) {
        if (!waited) {
            return false;
        }
        model_enter(m, RON_BREAKER_IS_HALF_OPEN, now_ns);
    }
    m->out++;
    m->since_ns = now_ns;
    return true;
}

static bool model_opens(const struct model *m, uint64_t now_ns)
{
    uint64_t slot_ns = m->rules.window_ms * RON_NS_PER_MS / RON_BREAKER_SLOTS;
    uint64_t calls = 0;
    uint64_t failures = 0;
    uint64_t row = 0;

    for (size_t i = 0; i < m->count; i++) {
        bool inside = m->calls[i].at_ns / slot_ns + RON_BREAKER_SLOTS > now_ns / slot_ns;

        calls += inside;
        failures += inside && m->calls[i].failed;
        row = m->calls[i].failed ? row + 1 : 0;
    }
    return (m->rules.row_max != 0 && row >= m->rules.row_max) ||
           (m->rules.count_max != 0 && failures >= m->rules.count_max) ||
           (m->rules.rate_pct != 0 && calls >= m->rules.rate_min_calls &&
            failures * 100 >= calls * m->rules.rate_pct);
}

static void model_report(struct model *m, uint64_t generation, enum ron_call_result result,
                         uint64_t now_ns)
{
    if (generation != m->generation) {
        return;
    }
    if (m->state == RON_BREAKER_IS_HALF_OPEN) {
        if (result == RON_CALL_FAILURE) {
            model_enter(m, RON_BREAKER_IS_OPEN, now_ns);
        } else if (result == RON_CALL_VOID) {
            m->out--;
        } else if (++m->good == m->rules.probes) {
            model_enter(m, RON_BREAKER_IS_CLOSED, now_ns);
        }
    } else if (result != RON_CALL_VOID) {
        m->calls[m->count++] = (struct model_call){now_ns, result == RON_CALL_FAILURE};
        if (model_opens(m, now_ns)) {
            model_enter(m, RON_BREAKER_IS_OPEN, now_ns);
        }
    }
}

struct held {
    struct ron_breaker_ticket ticket;
    uint64_t generation;
};

static enum ron_call_result draw_result(struct ron_rand *rand, uint64_t fail_pct)
{
    if (ron_rand_chance(rand, 1, 12)) {
        return RON_CALL_VOID;
    }
    return ron_rand_chance(rand, fail_pct, 100) ? RON_CALL_FAILURE : RON_CALL_SUCCESS;
}

static void run_against_model(struct ron_rand *rand, const struct ron_breaker_rules *rules,
                              struct model *m, uint64_t entered[RON_BREAKER_STATE_COUNT])
{
    struct virtual_time v;
    struct ron_breaker b;
    struct ron_breaker_stats stats;
    struct held held[TICKETS];
    size_t held_count = 0;
    uint64_t offered = 0;
    uint64_t fail_pct = 0;

    virtual_init(&v);
    ron_breaker_init(&b, rules, &v.env.clock);
    *m = (struct model){.rules = *rules};
    for (int i = 0; i < STEPS; i++) {
        fail_pct = i % 100 == 0 ? ron_rand_below(rand, 90) : fail_pct; /* weather */
        v.now_ns += ron_rand_below(rand, rules->window_ms * RON_NS_PER_MS / 40);
        if (held_count < TICKETS && ron_rand_chance(rand, 1, 2)) {
            struct held *h = &held[held_count];
            bool expected = model_admit(m, v.now_ns);

            offered++;
            assert_int_equal(ron_breaker_admit(&b, &h->ticket, NULL),
                             expected ? RON_OK : RON_AGAIN);
            h->generation = m->generation;
            held_count += expected;
        } else if (held_count > 0) {
            size_t pick = (size_t)ron_rand_below(rand, held_count);
            struct held h = held[pick];
            enum ron_call_result result = draw_result(rand, fail_pct);

            held[pick] = held[--held_count];
            ron_breaker_report(&b, h.ticket, result);
            model_report(m, h.generation, result, v.now_ns);
        }
        ron_breaker_get_stats(&b, &stats);
        assert_int_equal(stats.state, m->state);
        assert_int_equal(stats.admitted + stats.refused, offered);
    }
    for (size_t i = 0; i < RON_BREAKER_STATE_COUNT; i++) {
        entered[i] += stats.entered[i];
    }
    ron_breaker_done(&b);
}

static void test_breaker__random_histories__as_the_model(void **state)
{
    static struct model m;
    struct ron_rand rand = support_rand();
    uint64_t entered[RON_BREAKER_STATE_COUNT] = {0};

    (void)state;
    for (int preset = 0; preset < RON_BREAKER_PRESET_COUNT; preset++) {
        for (int i = 0; i < 5; i++) {
            run_against_model(&rand, ron_breaker_preset((enum ron_breaker_preset)preset), &m,
                              entered);
        }
    }
    for (int i = 0; i < 40; i++) {
        struct ron_breaker_rules rules = {
            .row_max = (uint32_t)ron_rand_below(&rand, 8),
            .rate_pct = (uint32_t)ron_rand_range(&rand, 0, 100),
            .rate_min_calls = (uint32_t)ron_rand_range(&rand, 1, 30),
            .count_max = (uint32_t)ron_rand_below(&rand, 30),
            .window_ms = (uint32_t)ron_rand_range(&rand, RON_BREAKER_SLOTS, 20000),
            .open_ms = (uint32_t)ron_rand_range(&rand, 1, 5000),
            .probes = (uint32_t)ron_rand_range(&rand, 1, 12)};

        run_against_model(&rand, &rules, &m, entered);
    }
    for (size_t i = 0; i < RON_BREAKER_STATE_COUNT; i++) {
        assert_true(entered[i] > 50); /* The histories have walked every edge. */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_breaker__failures_in_a_row__opens_at_the_fifth),
        cmocka_unit_test(test_breaker__half_of_twenty__opens_and_of_nineteen_does_not),
        cmocka_unit_test(test_breaker__failures_outside_the_window__do_not_count),
        cmocka_unit_test(test_breaker__half_open__admits_ten_and_closes_after_ten),
        cmocka_unit_test(test_breaker__ledger__closes_after_one_success),
        cmocka_unit_test(test_breaker__failed_probe__opens_again_at_once),
        cmocka_unit_test(test_breaker__late_results_of_the_closed_period__change_nothing),
        cmocka_unit_test(test_breaker__probes_never_reported__a_new_round_begins),
        cmocka_unit_test(test_results__codes_and_statuses__are_sorted),
        cmocka_unit_test(test_rules__out_of_range__are_not_valid),
        cmocka_unit_test(test_breaker__random_histories__as_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
