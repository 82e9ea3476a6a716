/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation or system call of sequencer, committer or recovery fails, the caller
 * gets a code, nothing leaks, and a recovery that says all is well gives exactly what was told
 * durable.
 * Method: the fault sweep over whole lives in a folder: make a ledger, run works of every kind,
 * close, recover. The index lies in memory; the one on disk has tests of its own. */
#include "unit/io/fixture.h"
#include "unit/ledger/works.h"

#include "ledger/pipeline/preval.h"
#include "ledger/recover/recover.h"
#include "ron/base/assert.h"

enum { STEPS = 8 };

static struct fixture *fix;
static char dir[FIXTURE_PATH_SIZE];
static unsigned lives;
static struct led_work *steps[STEPS];
static struct led_work *own;
static bool own_taken;

struct end {
    uint8_t digest[32];
    struct ron_tree_hash root;
    uint64_t last_seq;
};

/* Made before the sweep: the tests' own memory must not fail. */
static void make_steps(void)
{
    struct led_entry e;
    struct led_entry pair[2];
    const struct led_entry **originals;

    works_begin();
    steps[0] = works_mint("a", 100);
    pair[0] = works_entry(LED_KIND_DEBIT, "a", "", 5);
    pair[1] = works_entry(LED_KIND_CREDIT, "b", "", 5);
    steps[1] = works_batch("k", pair, 2);
    e = works_entry(LED_KIND_HOLD, "a", "", 10);
    e.expires_ms = works.now_ms + 1;
    steps[2] = works_batch(NULL, &e, 1);
    steps[3] = works_cancel("dead");
    steps[4] = works_transfer("a", "c", 7);
    e = works_entry(LED_KIND_REVERSE, "a", "", 3);
    e.ref = steps[4]->batch.entries[0].id;
    steps[5] = works_batch(NULL, &e, 1);
    originals = ron_arena_alloc_array(&steps[5]->arena, 1, sizeof *originals, 8);
    originals[0] = &steps[4]->batch.entries[0];
    steps[5]->originals = originals;
    steps[6] = works_transfer("a", "b", 1000); /* refused */
    steps[7] = works_transfer("c", "a", 1);    /* behind the expiry */
    own = works_new(NULL);
}

static struct led_work *own_work(void *arg)
{
    (void)arg;
    if (own_taken) {
        return NULL;
    }
    own_taken = true;
    ron_arena_clear(&own->arena);
    own->result = LED_RESULT_NONE;
    return own;
}

static void rekey(struct led_work *w, const uint8_t hash_key[16])
{
    for (size_t i = 0; i < w->batch.count; i++) {
        led_book_prepare(hash_key, &w->batch.entries[i], &w->preps[i]);
    }
    w->idem =
        w->batch.idem_id.len == 0 ? (struct led_key){0} : led_idem_key(hash_key, w->batch.idem_id);
    w->result = LED_RESULT_NONE;
    w->reply = w;
    w->checked_seq = 0;
}

static void note_end(const struct led_recovered *r, struct end *ret)
{
    struct led_log_head head;

    led_log_head(r->log, &head);
    ret->root = head.root;
    ret->last_seq = head.last_seq;
    led_book_digest(led_seq_book(r->seq), ret->digest);
}

static enum ron_rc run_step(struct led_recovered *r, struct led_work *w, uint64_t now_ms)
{
    static struct led_work *out[2 * LED_WINDOW_MAX];
    static struct led_work *group[2 * LED_WINDOW_MAX];
    size_t made;
    size_t given = 0;
    struct led_commit_done done;
    struct end before;
    struct end after;
    enum ron_rc rc;

    note_end(r, &before);
    made = led_seq_window(r->seq, &w, 1, now_ms, 10, out);
    for (size_t i = 0; i < made; i++) {
        RON_ASSERT(out[i]->fate != LED_FATE_LOOK_UP);
        if (out[i]->fate == LED_FATE_COMMIT) {
            group[given++] = out[i];
        }
    }
    if (given == 0) {
        return RON_OK;
    }
    rc = led_commit_group(r->commit, group, given, &done, NULL);
    if (rc == RON_OK) {
        led_seq_committed(r->seq, given);
        return RON_OK;
    }
    led_seq_abort(r->seq);
    note_end(r, &after);
    RON_ASSERT(memcmp(&before.digest, &after.digest, sizeof before.digest) == 0);
    return rc;
}

/* A system without randomness is not to be survived, so that call is not for the sweep. */
static uint64_t count_up(const struct ron_env *unused)
{
    static uint64_t next;

    (void)unused;
    return ++next;
}

static struct led_recover_opts opts_of_life(void)
{
    static struct ron_env env;

    env = *fix->env;
    env.rand_u64 = count_up;
    return (struct led_recover_opts){
        .env = &env,
        .dir = dir,
        .index_in_memory = true,
        .segment_bytes = 64 << 10,
        .book = {.batch_max = 64, .undo_max = 4096},
        .seq = {.own_work = own_work, .kept_max = 16},
    };
}

static enum ron_rc run_all(struct led_recovered *r)
{
    for (size_t i = 0; i < STEPS; i++) {
        rekey(steps[i], r->hash_key);
        RON_TRY(run_step(r, steps[i], works.now_ms + (i == STEPS - 1 ? 1 : 0)));
    }
    return RON_OK;
}

static enum ron_rc recover_and_compare(const struct led_recover_opts *opts, const struct end *told)
{
    struct led_recovered r = {0};
    struct end now;

    RON_TRY(led_recover(opts, &r, NULL));
    if (r.report.damage != LED_DAMAGE_NONE) {
        led_recovered_done(&r); /* a failed read looks like that */
        return RON_IO;
    }
    note_end(&r, &now);
    RON_ASSERT(now.last_seq == told->last_seq);
    RON_ASSERT(ron_tree_hash_equal(&now.root, &told->root));
    RON_ASSERT(memcmp(now.digest, told->digest, sizeof now.digest) == 0);
    led_recovered_done(&r);
    return RON_OK;
}

static enum ron_rc life(void *arg)
{
    struct led_recover_opts opts = opts_of_life();
    struct led_recovered r = {0};
    size_t fds = fixture_open_fds();
    struct end told;
    enum ron_rc rc;

    (void)arg;
    own_taken = false;
    (void)snprintf(dir, sizeof dir, "%s/%u", fix->dir, lives++);
    rc = led_recover(&opts, &r, NULL);
    if (rc == RON_OK && r.report.damage != LED_DAMAGE_NONE) {
        rc = RON_IO;
    }
    if (rc == RON_OK) {
        rc = run_all(&r);
    }
    if (rc == RON_OK) {
        note_end(&r, &told);
    }
    led_recovered_done(&r);
    if (rc == RON_OK) {
        rc = recover_and_compare(&opts, &told);
    }
    RON_ASSERT(fixture_open_fds() == fds);
    (void)nftw(dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return rc;
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_core__any_fault__code_or_exact_state, life)

static enum ron_rc mark_life(void *arg)
{
    struct led_mark mark = {0};

    (void)arg;
    RON_TRY(led_mark_write(fix->env, fix->dir, "why", NULL));
    RON_TRY(led_mark_read(fix->env, fix->dir, &mark, NULL));
    RON_ASSERT(mark.set);
    return led_mark_remove(fix->env, fix->dir, NULL);
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_mark__any_fault__never_read_as_absent, mark_life)

static int setup(void **state)
{
    int rc = fixture_setup(state);

    fix = *state;
    make_steps();
    return rc;
}

static int teardown(void **state)
{
    works_drop();
    return fixture_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_core__any_fault__code_or_exact_state),
        cmocka_unit_test(test_mark__any_fault__never_read_as_absent),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
