/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: wallet and ledger together keep their promises whatever network, disk and processes do.
 * Method: one seed, one world. Clients, the wallet's jobs and tables, and the network between them
 * and the ledger are those of unit/wallet/traffic.h: messages lost, late, doubled, reordered; and a
 * wallet that dies with its tables. The ledger is made of its real stages on a simulated disk: the
 * parser, lookup, sequencer, committer, log, index, readers; it is killed, loses power inside any
 * disk operation, and recovers. Checked at every answer, at every recovery and at the end:
 *   S1 every receipt given is in the journal: its entries at their seqs under its key, the root at
 *      its last entry and the time of its commit;
 *   S2 no key and no (account, nonce) is committed twice; the journal has only what clients wanted;
 *   S3 the same request gets the same bytes, after crashes of either side too;
 *   S4 who is refused for good was not committed when the ledger said so;
 *   S5 balances are what the committed requests add up to, and supply = issued - burned.
 * RON_SIM_SEEDS runs another number of seeds; a failing seed is printed and runs alone again with
 * RON_SEED. */
#include "sim/simtest.h"

#include "ledger/read/reader.h"
#include "unit/ledger/core.h"
#include "unit/wallet/traffic.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 60 };
#else
enum { SEEDS = 500 };
#endif
enum { STEPS = 700, LOOKS_MAX = 4 };

static struct {
    struct sim *sim;
    struct sim_host *host;
    struct led_reader *reader;
    bool up;       /* the process lives */
    bool broken;   /* it cannot commit in this life */
    bool damaged;  /* and never will: the disk has lost what a failed sync left behind */
    uint64_t told; /* the journal up to here was told to the traffic */
} world;

static struct {
    uint64_t recoveries, commits, found, power, damaged;
} total;

static void wrong(const char *what, int line)
{
    sim_fail(world.sim, "traffic.h", line, what);
}

/* ---- the journal ----------------------------------------------------------------------------- */

/* A batch that the traffic has not heard of: the answer to it was lost with a life. */
static enum ron_rc tell_frame(void *arg, const struct led_frame *frame, const char *where,
                              struct ron_err *err)
{
    struct led_cursor records;
    struct led_record record;
    bool bad = false;

    (void)arg;
    (void)where;
    (void)err;
    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        struct led_cursor entries;
        struct led_stored stored;
        struct led_entry e;
        struct led_refusal refusal;

        led_entries(&record, &entries);
        SIM_CHECK(world.sim, led_entries_next(&entries, &stored, &bad));
        SIM_CHECK(world.sim, led_entry_decode((const uint8_t *)stored.leaf.ptr, stored.leaf.len,
                                              LED_ORIGIN_LEDGER, &e, &refusal));
        if (record.seq_first > world.told) {
            total.found++;
            traffic_committed(e.id, record.seq_first); /* S2 */
            world.told = record.seq_first + record.count - 1;
        }
    }
    SIM_CHECK(world.sim, !bad);
    return RON_OK;
}

static void tell_journal(void)
{
    enum { TRIES_MAX = 100 };
    struct led_log_head head;
    int tries = 0;

    led_log_head(core.r.log, &head);
    SIM_CHECK(world.sim, head.last_seq >= world.told); /* what was acknowledged stays */
    while (head.last_seq > world.told) {
        enum ron_rc rc =
            led_log_scan(core.r.log, world.told + 1, head.last_seq, tell_frame, NULL, NULL);

        /* The weather is on while we look: a file may not open now, and does the next time. */
        SIM_CHECK(world.sim, rc == RON_OK || (rc == RON_IO && tries++ < TRIES_MAX));
        if (rc == RON_OK) {
            world.told = head.last_seq;
        }
    }
}

static void check_receipt(const struct wish *w)
{
    const struct wlt_call *call = &w->probe.call;
    struct ron_tree_hash root;

    SIM_CHECK(world.sim, w->done.seq_last == w->done.seq_first + call->count - 1);
    for (uint32_t i = 0; i < call->count; i++) {
        struct led_found found;

        SIM_CHECK(world.sim,
                  led_read_at(world.reader, w->done.seq_first + i, &found, NULL) == RON_OK);
        SIM_CHECK(world.sim, ron_str_is(found.entry.id, call->ops[i].txid)); /* S1 */
        SIM_CHECK(world.sim, ron_str_is(found.record.idem_id, call->idem_id));
        SIM_CHECK(world.sim, found.frame.time_ms == w->done.commit_ms);
    }
    SIM_CHECK(world.sim, ron_tree_root_at(led_hashes_store(core.r.hashes), w->done.seq_last, &root,
                                          NULL) == RON_OK);
    SIM_CHECK(world.sim, memcmp(root.bytes, w->done.root, sizeof root.bytes) == 0);
}

static void check_balances(void)
{
    const struct led_book *book = led_seq_book(core.r.seq);
    int64_t sum = 0;

    for (size_t i = 0; i < TRAFFIC_ACCOUNTS; i++) {
        struct led_balance b = {0};

        (void)led_book_balance(book, works_str(core_names[i]), works_str("roc"), LED_COMMITTED, &b);
        traffic_check_balance(i, (int64_t)b.available.v, (int64_t)b.held.v); /* S5 */
        sum += (int64_t)b.available.v + (int64_t)b.held.v;
    }
    SIM_CHECK(world.sim, (int64_t)led_book_supply(book, works_str("roc"), LED_COMMITTED).v == sum);
}

static void set_head(void)
{
    struct led_log_head head;

    led_log_head(core.r.log, &head);
    led_reader_set_head(world.reader, head.last_seq, &head.root);
}

/* ---- lives of the ledger --------------------------------------------------------------------- */

static void stop(void)
{
    if (core.open) {
        led_reader_free(world.reader);
        world.reader = NULL;
        core_close();
    }
    world.up = false;
}

static void start(void)
{
    struct led_reader_opts ro;

    if (sim_env_is_dead(sim_host_env(world.host))) {
        (void)sim_host_boot(world.host);
    }
    if (traffic_below(3) == 0) {
        sim_host_power_loss_in(world.host, 1 + traffic_below(200));
    }
    core_begin(sim_host_env(world.host), "/data");
    core.opts.index_in_memory = true;
    if (led_recover(&core.opts, &core.r, NULL) != RON_OK) {
        return;
    }
    core.open = true;
    ro = (struct led_reader_opts){
        .log = core.r.log, .index = core.r.index, .hashes = led_hashes_store(core.r.hashes)};
    memcpy(ro.hash_key, core.r.hash_key, sizeof ro.hash_key);
    SIM_CHECK(world.sim, led_reader_new(&ro, &world.reader) == RON_OK);
    if (sim_env_is_dead(core.opts.env)) {
        stop();
        return;
    }
    total.recoveries++;
    if (core.r.report.damage != LED_DAMAGE_NONE) {
        stop();
        world.damaged = true;
        return;
    }
    memcpy(works.hash_key, core.r.hash_key, sizeof works.hash_key);
    world.up = true;
    world.broken = core.r.commit == NULL;
    set_head();
    traffic.event++;
    tell_journal();
    check_balances();
}

static void die(void)
{
    stop();
    sim_host_power_loss_in(world.host, 0);
    if (sim_env_is_dead(sim_host_env(world.host))) {
        return;
    }
    if (traffic_below(3) == 0) {
        sim_host_kill(world.host);
    } else {
        sim_host_power_loss(world.host);
        total.power++;
    }
}

/* ---- its stages ------------------------------------------------------------------------------ */

/* True: the outcome is filled in. */
static bool look_up(struct led_work *w)
{
    enum led_repeat repeat = LED_REPEAT_NEW;

    set_head();
    if (led_read_repeat(world.reader, w, &repeat, NULL) != RON_OK) {
        led_work_refuse(w, LED_REASON_SAFE_MODE, "", "");
        return true;
    }
    w->fate = LED_FATE_NONE;
    w->look_up = 0;
    return repeat == LED_REPEAT_DONE;
}

static void commit(struct led_work *w)
{
    struct led_commit_done done;

    SIM_CHECK(world.sim, led_commit_gather(core.r.commit, &w, 1) == 1);
    if (led_commit_group(core.r.commit, &w, 1, &done, NULL) != RON_OK) {
        world.broken = true; /* on disk or not: the next recovery knows */
        led_seq_abort(core.r.seq);
        led_work_refuse(w, LED_REASON_SAFE_MODE, "", "writes are stopped");
        return;
    }
    led_seq_committed(core.r.seq, 1);
    world.broken = done.hashes_lost;
    total.commits++;
    traffic_committed(w->batch.entries[0].id, w->seq_first);
    world.told = w->seq_last;
}

static void sequence(struct led_work *w)
{
    led_preval_look_up(core.r.index, w);
    if ((w->look_up & (LED_LOOK_ID | LED_LOOK_IDEM)) != 0 && look_up(w)) {
        return;
    }
    w->look_up = 0;
    for (int i = 0; i < LOOKS_MAX; i++) {
        SIM_CHECK(world.sim, led_seq_window(core.r.seq, &w, 1, desk.wall_ms, 64, core.out) == 1);
        if (w->fate == LED_FATE_DONE) {
            return;
        }
        if (w->fate == LED_FATE_COMMIT) {
            commit(w);
            return;
        }
        if (look_up(w)) {
            return;
        }
    }
    led_work_refuse(w, LED_REASON_BUSY, "", "");
}

static bool say(struct ron_buf *answer, uint16_t *status, enum led_reason reason,
                const char *detail, uint32_t idx)
{
    char text[512];

    (void)desk_refusal_text(text, sizeof text, led_reason_name(reason), detail, idx);
    (void)ron_buf_append_text(answer, text);
    *status = (uint16_t)led_reason_http_status(reason);
    return true;
}

static bool ingest(const char *payload, size_t len, struct ron_buf *answer, uint16_t *status)
{
    uint8_t bytes[LC_DONE_BYTES] = {1};
    struct led_work *w = works_new(NULL);

    w->kind = LED_WORK_INGEST;
    w->form = LED_FORM_BINARY;
    w->in = (struct ron_str){ron_arena_dup(&w->arena, payload, len), len};
    SIM_CHECK(world.sim, led_preval_parse(core.r.hash_key, w)); /* the wallet sends no nonsense */
    sequence(w);
    if (sim_env_is_dead(core.opts.env)) {
        return false;
    }
    if (w->result == LED_RESULT_REFUSED) {
        const struct led_refusal *r = &w->refusals.items[0];

        return say(answer, status, r->reason, r->detail, r->idx);
    }
    bytes[1] = w->replayed;
    desk_put(bytes + 2, w->seq_first);
    desk_put(bytes + 10, w->seq_last);
    memcpy(bytes + 18, w->root.bytes, LC_HASH_BYTES);
    desk_put(bytes + 50, w->commit_ms);
    (void)ron_buf_append(answer, bytes, sizeof bytes);
    *status = 200;
    return true;
}

static bool read_account(struct ron_str name, struct ron_buf *answer, uint16_t *status)
{
    const struct led_book *book = led_seq_book(core.r.seq);
    struct led_account account;
    struct led_balance b = {0};
    struct led_log_head head;

    led_log_head(core.r.log, &head);
    if (!led_book_account(book, name, LED_COMMITTED, &account) || account.last_seq == 0) {
        return say(answer, status, LED_REASON_NOT_FOUND, "", 0);
    }
    (void)led_book_balance(book, name, works_str("roc"), LED_COMMITTED, &b);
    (void)ron_buf_append_fmt(
        answer,
        "{\"account\":\"x\",\"balances\":[{\"asset\":\"roc\",\"available\":\"%llu\",\"held\":"
        "\"%llu\"}],\"account_nonce\":%llu,\"frozen\":false,\"last_seq\":%llu,\"seq\":%llu}",
        (unsigned long long)b.available.v, (unsigned long long)b.held.v,
        (unsigned long long)account.account_nonce, (unsigned long long)account.last_seq,
        (unsigned long long)head.last_seq);
    return true;
}

static bool read_key(struct ron_str name, bool by_id, struct ron_buf *answer, uint16_t *status)
{
    struct led_key key = led_idem_key(core.r.hash_key, name);
    struct led_key_outcome outcome;
    uint64_t seqs[8];
    struct led_candidates at = {seqs, led_seq_candidates(core.r.seq, key, seqs, 8)};
    enum ron_rc rc;

    set_head();
    if (by_id) {
        rc = led_read_entry_by_id(world.reader, name, at, answer, NULL);
    } else {
        rc = led_read_outcome(world.reader, name, at, &outcome, NULL);
        if (rc == RON_OK) {
            led_key_outcome_to_json(answer, name, &outcome);
        }
    }
    if (rc != RON_OK) {
        return say(answer, status, rc == RON_NOTFOUND ? LED_REASON_NOT_FOUND : LED_REASON_SAFE_MODE,
                   "", 0);
    }
    return true;
}

static bool read_target(const char *target, size_t len, struct ron_buf *answer, uint16_t *status)
{
    static const char *const heads[] = {"/accounts/", "/outcome/", "/entries/by-id/"};
    char plain[256];
    size_t n = 0;

    *status = 200;
    for (size_t i = 0; i < len; i++, n++) {
        plain[n] = target[i];
        if (target[i] == '%') {
            plain[n] = (char)strtoul((char[]){target[i + 1], target[i + 2], '\0'}, NULL, 16);
            i += 2;
        }
    }
    plain[n] = '\0';
    for (size_t i = 0; i < RON_ARRAY_LEN(heads); i++) {
        size_t skip = strlen(heads[i]);

        if (strncmp(plain, heads[i], skip) == 0) {
            struct ron_str name = {plain + skip, i == 0 ? 1 : n - skip};

            return i == 0 ? read_account(name, answer, status)
                          : read_key(name, i == 2, answer, status);
        }
    }
    SIM_CHECK(world.sim, false);
    return false;
}

static bool ledger(uint16_t code, const char *payload, size_t len, struct ron_buf *answer,
                   uint16_t *status)
{
    if (!world.up) {
        return false;
    }
    if (sim_env_is_dead(core.opts.env)) {
        stop();
        return false;
    }
    if (code == LC_CODE_READ) {
        bool answered = read_target(payload, len, answer, status);

        return answered && !sim_env_is_dead(core.opts.env);
    }
    if (world.broken) {
        return say(answer, status, LED_REASON_SAFE_MODE, "", 0);
    }
    return ingest(payload, len, answer, status);
}

static uint64_t last_nonce(char account)
{
    struct led_account a = {0};

    if (core.open) {
        (void)led_book_account(led_seq_book(core.r.seq), (struct ron_str){&account, 1},
                               LED_COMMITTED, &a);
    }
    return a.account_nonce;
}

/* ---- what goes on beside --------------------------------------------------------------------- */

static enum ron_rc follow(void *arg, const struct led_frame *frame, const char *where,
                          struct ron_err *err)
{
    return core_follow(arg, frame, where, err);
}

static void index_some(void)
{
    struct led_log_head head;

    led_log_head(core.r.log, &head);
    if (head.last_seq > led_index_applied(core.r.index) &&
        led_log_scan(core.r.log, led_index_applied(core.r.index) + 1, head.last_seq, follow, NULL,
                     NULL) == RON_OK &&
        led_index_commit(core.r.index, head.last_seq, &head.root, NULL) == RON_OK) {
        led_seq_indexed(core.r.seq, head.last_seq);
    }
}

static void beside(void)
{
    if (!world.up) {
        if (traffic_below(12) == 0) {
            start();
        }
        return;
    }
    if (sim_env_is_dead(core.opts.env) || traffic_below(world.broken ? 40 : 400) == 0) {
        die();
        return;
    }
    if (traffic_below(20) == 0) {
        index_some();
    }
    if (traffic_below(30) == 0 && led_log_wants_segment(core.r.log)) {
        RON_IGNORE(led_log_prepare(core.r.log, NULL));
    }
}

/* ---- worlds ---------------------------------------------------------------------------------- */

/* Everybody has asked once more, in good weather. */
static void last_word(void)
{
    SIM_CHECK(world.sim, world.up && !world.broken);
    traffic_settle();
    SIM_CHECK(world.sim, world.up && !world.broken);
    traffic_check_tables();
    check_balances();
    set_head();
    for (size_t i = 0; i < traffic.wish_count; i++) {
        const struct wish *w = &traffic.wishes[i];

        SIM_CHECK(world.sim, (w->committed != 0) == (w->answer != NULL));
        if (w->answer != NULL) {
            check_receipt(w);
        }
    }
}

static void run(uint64_t seed)
{
    struct sim_opts opts = sim_opts_swarm(seed);

    /* Nothing that spoils what was synced: test_ledger.c has that. */
    opts.crash_misdirect_weight = 0;
    opts.crash_garble_weight = 0;
    opts.disk_rot_ppm = 0;
    opts.disk_bad_sector_ppm = 0;
    memset(&world, 0, sizeof world);
    world.sim = sim_new(seed, &opts);
    world.host = sim_host_new(world.sim, "ledger");
    works_begin();
    works.arena_size = 16 << 10;
    traffic_open(seed);
    traffic.ledger = ledger;
    traffic.last_nonce = last_nonce;
    traffic.wrong = wrong;
    for (int i = 0; i < STEPS && !world.damaged && works.count < WORKS_MAX - 200; i++) {
        beside();
        traffic_step();
    }
    *sim_options(world.sim) = sim_opts_calm();
    die();
    for (int i = 0; i < 10 && !world.up && !world.damaged; i++) {
        start();
        sim_host_power_loss_in(world.host, 0);
    }
    if (!world.damaged) {
        last_word();
    }
    total.damaged += world.damaged;
    stop();
    traffic_close();
    works_drop();
    sim_free(world.sim);
}

static void test_wallet__any_weather_and_any_crash__every_receipt_is_in_the_journal(void **state)
{
    const char *text = getenv("RON_SIM_SEEDS");
    uint64_t seeds = text != NULL                 ? strtoull(text, NULL, 10)
                     : getenv("RON_SOAK") != NULL ? 100 * SEEDS
                                                  : SEEDS;

    (void)state;
    for (uint64_t i = 0; i < seeds; i++) {
        run(support_seed() + i);
    }
    print_message(
        "%llu seeds: %llu recoveries (%llu after power losses), %llu commits (%llu heard of only "
        "by recovery), %llu disks lost; %llu answers: %llu receipts (%llu replayed), %llu "
        "refusals, %llu unknown; %llu crashes of the wallet, %llu messages lost, %llu doubled\n",
        (unsigned long long)seeds, (unsigned long long)total.recoveries,
        (unsigned long long)total.power, (unsigned long long)total.commits,
        (unsigned long long)total.found, (unsigned long long)total.damaged,
        (unsigned long long)traffic_total.answers, (unsigned long long)traffic_total.receipts,
        (unsigned long long)traffic_total.replays, (unsigned long long)traffic_total.refusals,
        (unsigned long long)traffic_total.unknown, (unsigned long long)traffic_total.crashes,
        (unsigned long long)traffic_total.lost, (unsigned long long)traffic_total.doubled);
    assert_true(traffic_total.receipts > 10 * seeds);
    assert_true(traffic_total.replays > 2 * seeds);
    assert_true(total.recoveries > 2 * seeds);
    assert_true(seeds < 100 || total.found > 0);
    assert_true(total.damaged <= seeds / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wallet__any_weather_and_any_crash__every_receipt_is_in_the_journal),
    };

    return cmocka_run_group_tests_name("sim.wallet", tests, NULL, NULL);
}
