/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: jobs of a few accounts in any interleaving, over a network that loses, delays, doubles and
 * reorders, with a wallet that loses its tables, never pay twice and always tell the truth.
 * Method: unit/wallet/traffic.h around a ledger of a few hundred lines that keeps what the real one
 * promises (idempotent by key, nonces, balances, holds) and also fails as it may: busy, or safe
 * mode after it has committed. A failing seed is printed and runs alone with RON_SEED. */
#include "unit/wallet/traffic.h"

#include "ledger/entry/entry.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 40 };
#else
enum { SEEDS = 300 };
#endif
enum { STEPS = 1500, LOG_MAX = 256, HOLDS_MAX = 64 };

struct commit {
    char idem_id[WLT_IDEM_ID_MAX + 1];
    char first_id[WLT_TXID_LEN + 1];
    char *bytes;
    size_t len;
    uint64_t seq_first;
    uint64_t seq_last;
    uint64_t ts;
};

struct state {
    int64_t available[TRAFFIC_ACCOUNTS];
    int64_t held[TRAFFIC_ACCOUNTS];
    uint64_t nonce[TRAFFIC_ACCOUNTS];
    uint64_t last_seq[TRAFFIC_ACCOUNTS];
    int64_t supply;
    struct {
        char id[WLT_TXID_LEN + 1];
        size_t account;
        int64_t left;
    } holds[HOLDS_MAX];
    size_t hold_count;
};

static struct {
    struct state s;
    struct commit log[LOG_MAX];
    size_t count;
    uint64_t seq;
    uint32_t trouble; /* of 1000 */
} model;

static uint64_t current_seed;

static void report_failure(const char *what, int line)
{
    fail_msg("RON_SEED=%llu, line %d: %s", (unsigned long long)current_seed, line, what);
}

/* ---- the model of a ledger ------------------------------------------------------------------- */

/* The reason, or NULL. */
static const char *use_hold(struct state *s, const struct led_entry *e, size_t a, int64_t n)
{
    for (size_t i = 0; i < s->hold_count; i++) {
        if (ron_str_is(e->ref, s->holds[i].id) && s->holds[i].left > 0) {
            if (s->holds[i].account != a) {
                return "conflict";
            }
            if (s->holds[i].left < n) {
                return "insufficient_funds";
            }
            s->holds[i].left -= n;
            s->held[a] -= n;
            return NULL;
        }
    }
    return "not_found";
}

static const char *move(struct state *s, const struct led_entry *e, size_t a)
{
    size_t to = e->to.len > 0 ? (size_t)(e->to.ptr[0] - 'a') : 0;
    int64_t n = (int64_t)e->amount.v;
    const char *no = NULL;

    switch ((int)e->kind) {
    case LED_KIND_MINT:
        s->available[a] += n;
        s->supply += n;
        return NULL;
    case LED_KIND_CAPTURE:
        no = use_hold(s, e, a, n);
        s->available[to] += no == NULL ? n : 0;
        return no;
    case LED_KIND_RELEASE:
        no = use_hold(s, e, a, n);
        s->available[a] += no == NULL ? n : 0;
        return no;
    default:
        break;
    }
    if (s->available[a] < n) {
        return "insufficient_funds";
    }
    s->available[a] -= n;
    if (e->kind == LED_KIND_TRANSFER) {
        s->available[to] += n;
    } else if (e->kind == LED_KIND_BURN) {
        s->supply -= n;
    } else {
        assert_int_equal(e->kind, LED_KIND_HOLD);
        assert_true(s->hold_count < HOLDS_MAX);
        s->held[a] += n;
        (void)snprintf(s->holds[s->hold_count].id, WLT_TXID_LEN + 1, "%.*s", (int)e->id.len,
                       e->id.ptr);
        s->holds[s->hold_count].account = a;
        s->holds[s->hold_count++].left = n;
    }
    return NULL;
}

static const char *apply(struct state *s, const struct led_batch *b, uint64_t seq, uint32_t *idx)
{
    for (*idx = 0; *idx < b->count; (*idx)++) {
        const struct led_entry *e = &b->entries[*idx];
        size_t a = (size_t)(e->account.ptr[0] - 'a');
        const char *no;

        if (e->account_nonce != 0 && e->account_nonce != s->nonce[a] + 1) {
            return "nonce_conflict";
        }
        s->nonce[a] += e->account_nonce != 0;
        no = move(s, e, a);
        if (no != NULL) {
            return no;
        }
        s->last_seq[a] = seq + *idx;
        if (e->to.len > 0) {
            s->last_seq[e->to.ptr[0] - 'a'] = seq + *idx;
        }
    }
    return NULL;
}

static struct commit *find_commit(struct ron_str idem_id)
{
    for (size_t i = 0; i < model.count; i++) {
        if (ron_str_is(idem_id, model.log[i].idem_id)) {
            return &model.log[i];
        }
    }
    return NULL;
}

static bool say_no(struct ron_buf *answer, uint16_t *status, uint16_t code, const char *reason,
                   uint32_t idx)
{
    char text[512];

    (void)desk_refusal_text(text, sizeof text, reason, "as the model says", idx);
    (void)ron_buf_append_text(answer, text);
    *status = code;
    return true;
}

static bool say_done(struct ron_buf *answer, uint16_t *status, const struct commit *c,
                     bool replayed)
{
    uint8_t bytes[LC_DONE_BYTES];

    desk_done_bytes(c->seq_first, c->seq_last, c->ts, replayed, false, bytes);
    (void)ron_buf_append(answer, bytes, sizeof bytes);
    *status = 200;
    return true;
}

static bool ingest(const char *payload, size_t len, struct ron_buf *answer, uint16_t *status)
{
    static char room[1 << 16];
    struct ron_arena arena;
    struct led_batch batch;
    struct led_refusals refusals = {0};
    struct state next = model.s;
    struct commit *c;
    const char *no;
    uint32_t idx = 0;

    ron_arena_init_over(&arena, room, sizeof room);
    if (!led_batch_decode((const uint8_t *)payload, len, LED_ORIGIN_CALLER, &arena, &batch, NULL,
                          &refusals)) {
        fail_msg("the batch breaks a rule: %s: %s", refusals.items[0].member,
                 refusals.items[0].detail);
    }
    c = find_commit(batch.idem_id);
    if (c != NULL) {
        return c->len == len && memcmp(c->bytes, payload, len) == 0
                   ? say_done(answer, status, c, true)
                   : say_no(answer, status, 409, "idem_mismatch", 0);
    }
    no = apply(&next, &batch, model.seq + 1, &idx);
    if (no != NULL) {
        return say_no(answer, status, strcmp(no, "not_found") == 0 ? 404 : 409, no, idx);
    }
    assert_true(model.count < LOG_MAX);
    c = &model.log[model.count++];
    *c = (struct commit){.bytes = ron_alloc(len),
                         .len = len,
                         .seq_first = model.seq + 1,
                         .seq_last = model.seq + batch.count,
                         .ts = desk.wall_ms};
    memcpy(c->bytes, payload, len);
    (void)snprintf(c->idem_id, sizeof c->idem_id, "%.*s", (int)batch.idem_id.len,
                   batch.idem_id.ptr);
    (void)snprintf(c->first_id, sizeof c->first_id, "%.*s", (int)batch.entries[0].id.len,
                   batch.entries[0].id.ptr);
    model.s = next;
    model.seq += batch.count;
    traffic_committed(batch.entries[0].id, c->seq_first);
    if (traffic_chance(model.trouble)) { /* its sync failed, and kept it all the same */
        return say_no(answer, status, 503, "safe_mode", 0);
    }
    return say_done(answer, status, c, false);
}

static void read_account(size_t a, struct ron_buf *answer)
{
    (void)ron_buf_append_fmt(
        answer,
        "{\"account\":\"%c\",\"balances\":[{\"asset\":\"roc\",\"available\":\"%lld\",\"held\":"
        "\"%lld\"}],\"account_nonce\":%llu,\"frozen\":false,\"last_seq\":%llu,\"seq\":%llu}",
        (char)('a' + a), (long long)model.s.available[a], (long long)model.s.held[a],
        (unsigned long long)model.s.nonce[a], (unsigned long long)model.s.last_seq[a],
        (unsigned long long)model.seq);
}

static bool read_place(struct ron_str id, struct ron_buf *answer, uint16_t *status)
{
    for (size_t i = 0; i < model.count; i++) {
        const struct commit *c = &model.log[i];

        if (ron_str_is(id, c->first_id)) {
            (void)ron_buf_append_fmt(
                answer,
                "{\"entry\":{\"seq\":%llu},\"batch\":{\"seq_start\":%llu,\"seq_end\":%llu,"
                "\"idem_id\":\"%s\"}}",
                (unsigned long long)c->seq_first, (unsigned long long)c->seq_first,
                (unsigned long long)c->seq_last, c->idem_id);
            return true;
        }
    }
    return say_no(answer, status, 404, "not_found", 0);
}

static bool read_target(struct ron_str t, struct ron_buf *answer, uint16_t *status)
{
    static const char outcome[] = "/outcome/";
    static const char by_id[] = "/entries/by-id/";
    char plain[256];
    size_t n = 0;

    *status = 200;
    for (size_t i = 0; i < t.len; i++, n++) { /* names hold only %2E and such */
        plain[n] = t.ptr[i];
        if (t.ptr[i] == '%') {
            plain[n] = (char)strtoul((char[]){t.ptr[i + 1], t.ptr[i + 2], '\0'}, NULL, 16);
            i += 2;
        }
    }
    if (strncmp(plain, "/accounts/", 10) == 0) {
        size_t a = (size_t)(plain[10] - 'a');

        if (model.s.last_seq[a] == 0) {
            return say_no(answer, status, 404, "not_found", 0);
        }
        read_account(a, answer);
        return true;
    }
    if (strncmp(plain, outcome, sizeof outcome - 1) == 0) {
        const struct commit *c =
            find_commit((struct ron_str){plain + sizeof outcome - 1, n - sizeof outcome + 1});
        char text[512] = "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}";

        if (c != NULL) {
            (void)desk_outcome_text(text, sizeof text, c->seq_first, c->seq_last, c->ts);
        }
        (void)ron_buf_append_text(answer, text);
        return true;
    }
    assert_memory_equal(plain, by_id, sizeof by_id - 1);
    return read_place((struct ron_str){plain + sizeof by_id - 1, n - sizeof by_id + 1}, answer,
                      status);
}

static bool handle(uint16_t code, const char *payload, size_t len, struct ron_buf *answer,
                   uint16_t *status)
{
    if (traffic_chance(model.trouble)) {
        return traffic_below(2) == 0 && say_no(answer, status, 429, "busy", 0);
    }
    return code == LC_CODE_INGEST ? ingest(payload, len, answer, status)
                                  : read_target((struct ron_str){payload, len}, answer, status);
}

static uint64_t last_nonce(char account)
{
    return model.s.nonce[account - 'a'];
}

/* ---- worlds ---------------------------------------------------------------------------------- */

static void check_balances(void)
{
    int64_t sum = 0;

    for (size_t i = 0; i < TRAFFIC_ACCOUNTS; i++) {
        traffic_check_balance(i, model.s.available[i], model.s.held[i]);
        sum += model.s.available[i] + model.s.held[i];
    }
    TRAFFIC_CHECK(sum == model.s.supply);
    for (size_t i = 0; i < traffic.wish_count; i++) {
        const struct wish *w = &traffic.wishes[i];

        TRAFFIC_CHECK((w->committed != 0) == (w->answer != NULL)); /* all have asked in the end */
    }
}

static void run(uint64_t seed)
{
    current_seed = seed;
    memset(&model, 0, sizeof model);
    traffic_open(seed);
    traffic.ledger = handle;
    traffic.last_nonce = last_nonce;
    traffic.wrong = report_failure;
    model.trouble = (uint32_t)traffic_below(80);
    for (int i = 0; i < STEPS; i++) {
        traffic_step();
    }
    model.trouble = 0;
    traffic_settle();
    check_balances();
    traffic_check_tables();
    traffic_close();
    for (size_t i = 0; i < model.count; i++) {
        ron_free(model.log[i].bytes);
    }
}

static void test_job__any_interleaving_and_any_weather__never_twice_and_never_a_lie(void **state)
{
    uint64_t seeds = getenv("RON_SOAK") != NULL ? 100 * SEEDS : SEEDS;

    (void)state;
    for (uint64_t i = 0; i < seeds; i++) {
        run(support_seed() + i);
    }
    print_message(
        "%llu seeds: %llu answers: %llu receipts (%llu replayed), %llu refusals, %llu "
        "unknown; %llu crashes, %llu messages lost, %llu doubled\n",
        (unsigned long long)seeds, (unsigned long long)traffic_total.answers,
        (unsigned long long)traffic_total.receipts, (unsigned long long)traffic_total.replays,
        (unsigned long long)traffic_total.refusals, (unsigned long long)traffic_total.unknown,
        (unsigned long long)traffic_total.crashes, (unsigned long long)traffic_total.lost,
        (unsigned long long)traffic_total.doubled);
    assert_true(traffic_total.receipts > 20 * seeds);
    assert_true(traffic_total.replays > 5 * seeds);
    assert_true(traffic_total.refusals > 5 * seeds);
    assert_true(traffic_total.unknown > seeds);
    assert_true(traffic_total.crashes > seeds / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job__any_interleaving_and_any_weather__never_twice_and_never_a_lie),
    };

    return cmocka_run_group_tests_name("wallet.wlt_job_random", tests, NULL, NULL);
}
