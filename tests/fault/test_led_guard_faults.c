/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a guard, a policy or remote guards that cannot be made leave nothing behind; a reload that
 * fails keeps the policy that held; a request or a question without memory is a refusal.
 * Method: the fault sweep over whole lives, one with a real file. */
#include "unit/ledger/guard_fixture.h"

#include "ledger/guard/remote.h"
#include "ledger/pipeline/preval.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "unit/io/fixture.h"

static struct fixture fix;
static char path[FIXTURE_PATH_SIZE];

static const char text[] = "v = 1\nfreeze = [\"a\", \"b*\"]\n[[limit]]\naccount = \"t:x\"\n"
                           "max_amount = \"5\"\n[[residency]]\naccount = \"t:eu\"\ntag = \"eu\"\n";

static enum ron_rc policy_life(void *arg)
{
    struct led_policy *p = NULL;
    enum ron_rc rc = led_policy_parse("p", text, strlen(text), &p, NULL);

    (void)arg;
    RON_ASSERT((rc == RON_OK) == (p != NULL));
    led_policy_unref(p);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_guard__each_step_of_a_policy_fails__is_reported, policy_life)

static enum ron_rc guard_in(struct ron_metrics *m)
{
    static const char *const names[] = {"dns:a.example", "cn:b"};
    struct led_policy_stats before;
    struct led_policy_stats after;
    struct led_guard *g = NULL;
    struct led_policy *p;
    enum ron_rc rc;

    RON_TRY(led_guard_new(&(struct led_guard_opts){.env = fix.env,
                                                   .metrics = m,
                                                   .bound_scopes = LED_SCOPE_BIT(LED_SCOPE_MINT),
                                                   .bound_names = names,
                                                   .bound_name_count = 2},
                          &g, NULL));
    p = led_guard_policy(g);
    led_policy_stats(p, &before);
    led_policy_unref(p);
    rc = led_guard_reload(g, path, NULL);
    p = led_guard_policy(g);
    led_policy_stats(p, &after);
    led_policy_unref(p);
    RON_ASSERT(rc == RON_OK ? after.frozen == 2 : after.frozen == before.frozen);
    led_guard_free(g);
    return rc;
}

static enum ron_rc guard_life(void *arg)
{
    struct ron_metrics *m = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_metrics_new(NULL, &m, NULL));
    rc = guard_in(m);
    ron_metrics_free(m);
    return rc;
}

/* Series of metrics that cannot be made become "other": no failure of the guard. */
static void test_guard__each_step_of_its_life_fails__the_old_policy_holds(void **state)
{
    (void)state;
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "guard", .run = guard_life, .may_succeed = true});
}

/* ---- prevalidation --------------------------------------------------------------------------- */

static struct ron_cap_ring ring;
static struct ron_cap_verifier *verifier;
static struct led_guard *guard;
static struct cap_text token;

/* Every refusal for want of memory is retryable or says what is too large; none is a yes. */
static enum ron_rc preval_life(void *arg)
{
    static uint8_t room[1 << 16];
    static char body[1024];
    struct led_work w = {.magic = LED_WORK_MAGIC, .form = LED_FORM_JSON};
    struct led_preval p = {.guard = guard, .hash_key = gf_hash_key};

    (void)arg;
    (void)snprintf(body, sizeof body, "{\"batch\":[%s]}",
                   gf_entry("Transfer", "a", "1", ",\"to\":\"b\""));
    w.in = STR(body);
    w.caller = (struct led_caller){.token = STR(token.s), .peer_scopes = LED_SCOPES_ALL};
    ron_arena_init_over(&w.arena, room, sizeof room);
    if (led_preval_step(&p, &w, GF_NOW_MS) == LED_NEXT_SEQUENCER) {
        RON_ASSERT(w.batch.count == 1 && w.leaves != NULL && w.hashes != NULL);
        return RON_OK;
    }
    RON_ASSERT(w.result == LED_RESULT_REFUSED && w.refusals.count == 1);
    return RON_NOMEM;
}

static void test_guard__each_step_of_prevalidation_fails__is_a_refusal(void **state)
{
    static const char *const caveats[] = {"aud = ledger", "account = a"};
    struct ron_cap_keys *keys = cap_keys();

    (void)state;
    token = cap_minted(keys, caveats, RON_ARRAY_LEN(caveats));
    ron_cap_ring_init(&ring, keys);
    assert_int_equal(
        ron_cap_verifier_new(
            &(struct ron_cap_verifier_opts){.env = ron_env_linux(), .ring = &ring, .entries = 64},
            &verifier, NULL),
        RON_OK);
    assert_int_equal(
        led_guard_new(&(struct led_guard_opts){.env = ron_env_linux(), .verifier = verifier},
                      &guard, NULL),
        RON_OK);
    support_sweep_expect_clean(&(struct support_sweep){.name = "preval", .run = preval_life});
    led_guard_free(guard);
    ron_cap_verifier_free(verifier);
    ron_cap_ring_done(&ring);
}

/* ---- remote guards --------------------------------------------------------------------------- */

static void never(struct led_work *w, void *arg)
{
    (void)w;
    ++*(int *)arg;
}

static enum ron_rc remote_in(struct ron_registry *reg, struct led_guard *g, struct led_work *w)
{
    struct led_remote_opts o = {.env = ron_env_linux(), .registry = reg, .guard = g};
    struct led_remote *r = NULL;
    enum led_verdict verdict;
    int ends = 0;

    o.targets[LED_REMOTE_KMS] = (struct led_remote_target){.url = "http://127.0.0.1:1/kms"};
    o.targets[LED_REMOTE_POLICY] =
        (struct led_remote_target){.url = "https://policy.example/x", .bearer = "b"};
    RON_TRY(led_remote_new(&o, &r, NULL));
    verdict = led_remote_ask(r, w, ron_deadline_never(), never, &ends);
    RON_ASSERT(verdict == LED_VERDICT_ASK || w->result == LED_RESULT_REFUSED);
    RON_ASSERT(verdict == LED_VERDICT_ASK || w->refusals.count == 1);
    RON_ASSERT(led_remote_free(r));
    RON_ASSERT(ends == (verdict == LED_VERDICT_ASK)); /* ended with its client */
    return verdict == LED_VERDICT_ASK ? RON_OK : RON_NOMEM;
}

static enum ron_rc remote_life(void *arg)
{
    static uint8_t room[LED_REMOTE_BYTES];
    struct led_work w = {.magic = LED_WORK_MAGIC, .step = LED_STEP_POLICY};
    struct led_auth auth = {.vouched = true};
    struct ron_registry *reg = NULL;
    struct led_guard *g = NULL;
    enum ron_rc rc;

    (void)arg;
    w.auth = &auth;
    ron_arena_init_over(&w.arena, room, sizeof room);
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = led_guard_new(&(struct led_guard_opts){.env = ron_env_linux()}, &g, NULL);
    if (rc == RON_OK) {
        rc = remote_in(reg, g, &w);
    }
    led_guard_free(g);
    RON_ASSERT(ron_registry_count(reg) == 0);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_guard__each_step_of_remote_guards_fails__is_a_refusal, remote_life)

static int setup(void **state)
{
    FILE *file;

    if (fixture_setup(state) != 0) {
        return -1;
    }
    fix = *(struct fixture *)*state;
    (void)snprintf(path, sizeof path, "%s", fixture_path(&fix, "policy.toml"));
    file = fopen(path, "w");
    return file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard__each_step_of_a_policy_fails__is_reported),
        cmocka_unit_test(test_guard__each_step_of_its_life_fails__the_old_policy_holds),
        cmocka_unit_test(test_guard__each_step_of_prevalidation_fails__is_a_refusal),
        cmocka_unit_test(test_guard__each_step_of_remote_guards_fails__is_a_refusal),
    };

    return cmocka_run_group_tests_name("ledger.guard.faults", tests, setup, fixture_teardown);
}
