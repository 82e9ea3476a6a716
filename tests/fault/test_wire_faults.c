/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an OAP server or client that cannot be made leaves nothing behind; running ones survive
 * failing reads, writes, accepts, connects and allocations: every call ends once, and afterwards
 * all is well.
 * Method: a sweep over making and freeing both; and both on one executor while system calls and
 * allocations fail at random. */
#include "unit/wire/asks.h"

static void handler(struct ron_oap_call *call, void *arg)
{
    (void)arg;
    ron_oap_answer(call, 200, "hi", 2);
}

static enum ron_rc make_server_and_free(void *arg)
{
    static const struct ron_oap_app app = {.app = 1, .handle = handler};
    struct ron_registry *reg = NULL;
    struct ron_oap_server *s = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = ron_oap_server_new(&(struct ron_oap_opts){.name = "oap",
                                                   .env = ron_env_linux(),
                                                   .registry = reg,
                                                   .workers = 2,
                                                   .addr = "127.0.0.1:0",
                                                   .apps = &app,
                                                   .app_count = 1},
                            &s, NULL);
    RON_ASSERT(rc == RON_OK || s == NULL);
    RON_ASSERT(ron_oap_server_free(s));
    RON_ASSERT(ron_registry_count(reg) == 0);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_wire__each_step_of_making_a_server_fails__nothing_left,
                    make_server_and_free)

static enum ron_rc make_client_and_free(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_oap_client *c = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = ron_oap_client_new(
        &(struct ron_oap_client_opts){
            .name = "client", .env = ron_env_linux(), .registry = reg, .addr = "127.0.0.1:1"},
        &c, NULL);
    RON_ASSERT(rc == RON_OK || c == NULL);
    ron_oap_client_free(c);
    RON_ASSERT(ron_registry_count(reg) == 0);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_wire__each_step_of_making_a_client_fails__nothing_left,
                    make_client_and_free)

static bool fail_some(enum ron_fault_kind kind, const char *site)
{
    (void)kind;
    return fx_fails_here(site, 16);
}

static void test_wire__calls_fail_at_random__every_ask_ends_once(void **state)
{
    static const struct ron_retry_curve quick = {
        .tries_max = 1, .first_ms = 1, .factor = 1, .base_max_ms = 1};
    struct wire *wire =
        wire_build(2, (struct ron_oap_opts){.addr = "unix", .message_max = 2 << 20});
    uint64_t outcomes[RON_OAP_OUTCOME_COUNT] = {0};
    struct probe p;

    (void)state;
    (void)wire_client(wire, (struct ron_oap_client_opts){
                                .worker = 1, .backoff = &quick, .call_timeout_ms = 1000});
    fx_start(wire->fx);
    ron_fault_hook = fail_some;
    for (int i = 0; i < 300; i++) {
        static const size_t sizes[] = {1, 100, 5000, 70000, 300000};
        size_t size = sizes[i % 5];

        probe_init(&p, WIRE_ECHO, wire->big, size);
        assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
        assert_true(fx_gate_reached(&p.done, 1));
        outcomes[p.ask.outcome]++;
        if (p.ask.outcome == RON_OAP_ANSWERED && p.ask.rc == RON_OK) {
            assert_int_equal(p.ask.answer_len, size);
            assert_memory_equal(p.ask.answer, wire->big, size);
        }
        assert_int_equal(fx_gate_count(&p.done), 1);
        probe_free(&p);
    }
    ron_fault_hook = NULL;
    assert_true(outcomes[RON_OAP_ANSWERED] > 50);
    assert_true(outcomes[RON_OAP_UNKNOWN] > 0);
    probe_text(&p, WIRE_ECHO, "well again");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    probe_answered(&p, "well again");
    probe_free(&p);
    wire_close(wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__each_step_of_making_a_server_fails__nothing_left),
        cmocka_unit_test(test_wire__each_step_of_making_a_client_fails__nothing_left),
        cmocka_unit_test(test_wire__calls_fail_at_random__every_ask_ends_once),
    };
    return cmocka_run_group_tests_name("fault.wire", tests, NULL, NULL);
}
