/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the whole ledger keeps its promises on a disk that tears, loses, garbles, fills up and
 * rots, under a process that dies anywhere.
 * Method: one seed, one world. Each life opens the journal by recovery and runs random batches
 * through the real stages (lookup, sequencer, committer, readers, indexer) until power is lost, a
 * commit fails or the life is long enough; then the next. Callers send again what they have no
 * answer for, and now and then what they have. After every recovery the checkers below look at the
 * journal with code of their own:
 *   K1 what was acknowledged is there, at its seqs, byte for byte, with the same root;
 *   K2 seqs have no gap, no id is there twice, every entry was sent by somebody;
 *   K3 a fold of the journal never goes below zero, supply = mint - burn, and the book agrees;
 *   K4 the same key gets the same answer.
 * When the disk has spoiled synced bytes, recovery may say "damaged" instead: then what lies before
 * the damage must still obey K2 and K3.
 * RON_SIM_SEEDS runs another number of seeds; a failing seed is printed and runs alone again with
 * RON_SEED. */
#include "sim/simtest.h"

#include "ledger/read/reader.h"
#include "unit/ledger/core.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 150 };
#else
enum { SEEDS = 2000 }; /* of each of the two tests */
#endif
enum { LIVES = 5, WINDOWS = 14, ACKED_MAX = 1024, IDS_MAX = 4096, ACCOUNTS = 8, ASSETS = 2 };

static const char *const assets[ASSETS] = {"roc", "pts"};

struct acked {
    const struct led_work *w; /* kept until the world ends */
    uint64_t seq_first;
    uint64_t seq_last;
    struct ron_tree_hash root;
};

struct world {
    struct sim *sim;
    struct sim_host *host;
    struct led_reader *reader;
    struct acked acked[ACKED_MAX];
    size_t acked_count;
    struct led_work *open[64]; /* sent, no answer: their callers send again */
    size_t open_count;
    bool damaged;
    bool misdirects; /* its crashes do */
    bool broken;     /* this life cannot commit any more */
};

static struct {
    uint64_t acked, replayed, refused, recovered, damaged, unsure, expired;
    uint64_t hidden;
    uint64_t captures, debits, others; /* in journals: of another asset than the first */
} total;

/* ---- the checkers: nothing of the book, the sequencer or the committer ----------------------- */

struct seen {
    struct ron_str id; /* in `text` */
    struct led_entry entry;
    int64_t remaining; /* of a hold */
};

struct sums {
    int64_t available[ACCOUNTS];
    int64_t held[ACCOUNTS];
    int64_t supply;
};

struct fold {
    struct world *w;
    struct sums of[ASSETS];
    uint64_t next_seq;
    size_t acked_found; /* entries of acknowledged batches */
    struct seen seen[IDS_MAX];
    size_t count;
    struct ron_arena text;
};

static size_t index_of(const struct fold *f, struct ron_str name)
{
    SIM_CHECK(f->w->sim, name.len == 1 && name.ptr[0] >= 'a' && name.ptr[0] < 'a' + ACCOUNTS);
    return (size_t)(name.ptr[0] - 'a');
}

static struct sums *sums_of(struct fold *f, struct ron_str asset)
{
    size_t i = ron_str_is(asset, assets[1]);

    SIM_CHECK(f->w->sim, ron_str_is(asset, assets[i]));
    return &f->of[i];
}

static struct seen *find(struct fold *f, struct ron_str id)
{
    for (size_t i = f->count; i > 0; i--) {
        struct seen *s = &f->seen[i - 1];

        if (s->id.len == id.len && memcmp(s->id.ptr, id.ptr, id.len) == 0) {
            return s;
        }
    }
    return NULL;
}

static void release(struct fold *f, const struct led_entry *e, size_t a)
{
    struct seen *hold = find(f, e->ref);

    SIM_CHECK(f->w->sim, hold != NULL && hold->entry.kind == LED_KIND_HOLD);
    hold->remaining -= (int64_t)e->amount.v;
    SIM_CHECK(f->w->sim, hold->remaining >= 0);
    sums_of(f, e->asset)->held[a] -= (int64_t)e->amount.v;
}

static void undo(struct fold *f, const struct led_entry *e, size_t a)
{
    const struct seen *of = find(f, e->ref);
    struct sums *t = sums_of(f, e->asset);
    int64_t n = (int64_t)e->amount.v;

    SIM_CHECK(f->w->sim, of != NULL);
    switch ((int)of->entry.kind) {
    case LED_KIND_MINT:
        t->available[a] -= n;
        t->supply -= n;
        break;
    case LED_KIND_BURN:
        t->available[a] += n;
        t->supply += n;
        break;
    case LED_KIND_TRANSFER:
        t->available[index_of(f, of->entry.to)] -= n;
        t->available[a] += n;
        break;
    default:
        SIM_CHECK(f->w->sim, false);
    }
}

static void apply(struct fold *f, const struct led_entry *e)
{
    size_t a = index_of(f, e->account);
    struct sums *t = sums_of(f, e->asset);
    int64_t n = (int64_t)e->amount.v;

    switch ((int)e->kind) {
    case LED_KIND_MINT:
        t->available[a] += n;
        t->supply += n;
        break;
    case LED_KIND_BURN:
        t->available[a] -= n;
        t->supply -= n;
        break;
    case LED_KIND_TRANSFER:
        t->available[a] -= n;
        t->available[index_of(f, e->to)] += n;
        break;
    case LED_KIND_HOLD:
        t->available[a] -= n;
        t->held[a] += n;
        break;
    case LED_KIND_EXPIRE:
    case LED_KIND_RELEASE:
        release(f, e, a);
        t->available[a] += n;
        break;
    case LED_KIND_CAPTURE:
        total.captures++;
        release(f, e, a);
        t->available[index_of(f, e->to)] += n;
        break;
    case LED_KIND_DEBIT:
        total.debits++;
        t->available[a] -= n;
        break;
    case LED_KIND_CREDIT:
        t->available[a] += n;
        break;
    case LED_KIND_REVERSE:
        undo(f, e, a);
        break;
    default:
        SIM_CHECK(f->w->sim, false);
    }
    for (size_t i = 0; i < ACCOUNTS; i++) {
        SIM_CHECK(f->w->sim, t->available[i] >= 0 && t->held[i] >= 0); /* K3 */
    }
}

static void note(struct fold *f, const struct led_entry *e)
{
    struct seen *s = &f->seen[f->count++];

    SIM_CHECK(f->w->sim, f->count < IDS_MAX);
    *s = (struct seen){.entry = *e, .remaining = (int64_t)e->amount.v};
    s->id = (struct ron_str){ron_arena_dup(&f->text, e->id.ptr, e->id.len), e->id.len};
    if (e->to.len > 0) {
        s->entry.to = (struct ron_str){ron_arena_dup(&f->text, e->to.ptr, e->to.len), e->to.len};
    }
}

static void fold_entry(struct fold *f, const struct led_stored *stored)
{
    struct led_entry e;
    struct led_refusal refusal;

    SIM_CHECK(f->w->sim, stored->seq == f->next_seq); /* K2 */
    f->next_seq++;
    SIM_CHECK(f->w->sim, led_entry_decode((const uint8_t *)stored->leaf.ptr, stored->leaf.len,
                                          LED_ORIGIN_LEDGER, &e, &refusal));
    SIM_CHECK(f->w->sim, find(f, e.id) == NULL); /* K2 */
    note(f, &e);
    apply(f, &e);
    total.others += sums_of(f, e.asset) != &f->of[0];
    for (size_t i = 0; i < f->w->acked_count; i++) {
        const struct acked *k = &f->w->acked[i];

        if (stored->seq >= k->seq_first && stored->seq <= k->seq_last) {
            struct ron_str leaf = k->w->leaves[stored->seq - k->seq_first];

            SIM_CHECK(f->w->sim, leaf.len == stored->leaf.len &&
                                     memcmp(leaf.ptr, stored->leaf.ptr, leaf.len) == 0); /* K1 */
            f->acked_found++;
        }
    }
}

static enum ron_rc fold_frame(void *arg, const struct led_frame *frame, const char *where,
                              struct ron_err *err)
{
    struct fold *f = arg;
    struct led_cursor records;
    struct led_record record;
    bool bad = false;

    (void)where;
    (void)err;
    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        struct led_cursor entries;
        struct led_stored stored;

        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            fold_entry(f, &stored);
        }
    }
    SIM_CHECK(f->w->sim, !bad);
    return RON_OK;
}

static void check_roots(const struct world *w)
{
    for (size_t i = 0; i < w->acked_count; i++) {
        const struct acked *k = &w->acked[i];
        struct ron_tree_hash root;
        enum ron_rc rc =
            ron_tree_root_at(led_hashes_store(core.r.hashes), k->seq_last, &root, NULL);

        SIM_CHECK(w->sim, rc != RON_OK || ron_tree_hash_equal(&root, &k->root)); /* K1 */
    }
}

static void check_asset(const struct fold *f, size_t asset)
{
    const struct led_book *book = led_seq_book(core.r.seq);
    const struct sums *t = &f->of[asset];
    int64_t sum = 0;

    for (size_t i = 0; i < ACCOUNTS; i++) {
        struct led_balance b = {0};

        (void)led_book_balance(book, works_str(core_names[i]), works_str(assets[asset]),
                               LED_COMMITTED, &b);
        SIM_CHECK(f->w->sim, (int64_t)b.available.v == t->available[i]); /* K3 */
        SIM_CHECK(f->w->sim, (int64_t)b.held.v == t->held[i]);
        sum += t->available[i] + t->held[i];
    }
    SIM_CHECK(f->w->sim, sum == t->supply);
    SIM_CHECK(f->w->sim,
              (int64_t)led_book_supply(book, works_str(assets[asset]), LED_COMMITTED).v ==
                  t->supply);
}

static void check_book(const struct fold *f)
{
    for (size_t i = 0; i < ASSETS; i++) {
        check_asset(f, i);
    }
    SIM_CHECK(f->w->sim, led_book_audit(led_seq_book(core.r.seq)) == NULL);
}

/* Acknowledged entries behind the end of the journal: of its last frame, when a power loss put a
 * sector of the one in flight over its head. That cannot be told from a torn tail. */
static size_t behind(const struct world *w, uint64_t last_seq)
{
    size_t count = 0;

    for (size_t i = 0; i < w->acked_count; i++) {
        count += w->acked[i].seq_first > last_seq ? w->acked[i].w->batch.count : 0;
    }
    return count;
}

/* With the disk as it is: what cannot be read now is looked at after the next recovery. */
static void check_journal(struct world *w)
{
    static struct fold f;
    struct led_log_head head;
    enum ron_rc rc = RON_OK;
    size_t wanted = 0;

    f = (struct fold){.w = w, .next_seq = 1};
    RON_ASSERT(ron_arena_init(&f.text, 1 << 20) == RON_OK);
    led_log_head(core.r.log, &head);
    if (head.last_seq > 0) {
        rc = led_log_scan(core.r.log, 1, head.last_seq, fold_frame, &f, NULL);
    }
    for (size_t i = 0; i < w->acked_count; i++) {
        wanted += w->acked[i].w->batch.count;
    }
    if (rc == RON_OK) {
        SIM_CHECK(w->sim, f.next_seq == head.last_seq + 1);
        if (!w->damaged && w->misdirects && f.acked_found < wanted) {
            SIM_CHECK(w->sim, f.acked_found + behind(w, head.last_seq) == wanted);
            w->damaged = true;
            total.hidden++;
        }
        if (!w->damaged) {
            SIM_CHECK(w->sim, f.acked_found == wanted); /* K1 */
            check_roots(w);
        }
        check_book(&f);
    }
    ron_arena_done(&f.text);
}

/* ---- callers --------------------------------------------------------------------------------- */

static void answered(struct world *w, struct led_work *work)
{
    if (work->result == LED_RESULT_REFUSED) {
        total.refused++;
        return;
    }
    if (work->result != LED_RESULT_COMMITTED || work->batch.count == 0) {
        return;
    }
    for (size_t i = 0; i < w->acked_count; i++) {
        const struct acked *k = &w->acked[i];

        if (k->w->leaves[0].len == work->leaves[0].len &&
            memcmp(k->w->leaves[0].ptr, work->leaves[0].ptr, work->leaves[0].len) == 0) {
            SIM_CHECK(w->sim, k->seq_first == work->seq_first && k->seq_last == work->seq_last &&
                                  ron_tree_hash_equal(&k->root, &work->root)); /* K4 */
            total.replayed++;
            return;
        }
    }
    SIM_CHECK(w->sim, w->acked_count < ACKED_MAX);
    w->acked[w->acked_count++] = (struct acked){
        .w = work, .seq_first = work->seq_first, .seq_last = work->seq_last, .root = work->root};
    total.acked++;
    total.expired += work->kind == LED_WORK_EXPIRE;
}

/* The caller of this work will send it again. */
static void unanswered(struct world *w, struct led_work *work)
{
    total.unsure++;
    if (work->kind == LED_WORK_INGEST && w->open_count < RON_ARRAY_LEN(w->open)) {
        w->open[w->open_count++] = work;
    }
}

/* What core_random_work does not make: captures, debits with their credits, several entries, a
 * second asset. */
static struct led_work *batch_of_several(struct ron_rand *rand)
{
    size_t from = ron_rand_below(rand, ACCOUNTS);
    const char *name = core_names[from];
    const char *other = core_names[(from + 1 + ron_rand_below(rand, ACCOUNTS - 1)) % ACCOUNTS];
    const struct led_work *hold = core_past.holds[ron_rand_below(rand, 16)];
    struct ron_str asset = works_str(assets[ron_rand_below(rand, ASSETS)]);
    uint64_t amount = 1 + ron_rand_below(rand, 50);
    struct led_entry e[3];
    size_t count = 2;

    e[0] = works_entry(LED_KIND_TRANSFER, name, other, amount);
    e[1] = works_entry(LED_KIND_TRANSFER, other, name, amount + 1);
    e[2] = works_entry(LED_KIND_TRANSFER, name, other, 2);
    switch (ron_rand_below(rand, 4)) {
    case 0: /* lives on for the others */
        e[0] = works_entry(LED_KIND_MINT, name, "", amount * 20);
        count = 1;
        break;
    case 1:
        e[0] = works_entry(LED_KIND_DEBIT, name, "", amount);
        e[1] = works_entry(LED_KIND_CREDIT, other, "", amount);
        break;
    case 2:
        if (hold != NULL && !ron_str_is(hold->batch.entries[0].account, other)) {
            e[0] = works_entry(LED_KIND_CAPTURE, "a", other, 1 + amount / 10);
            e[0].account = hold->batch.entries[0].account;
            e[0].ref = hold->batch.entries[0].id;
            return works_batch(NULL, e, 1);
        }
        break;
    default:
        count = 3;
    }
    for (size_t i = 0; i < count; i++) {
        e[i].asset = asset;
    }
    return works_batch(NULL, e, count);
}

static struct led_work *next_work(struct world *w)
{
    struct ron_rand *rand = sim_rand(w->sim);

    if (w->open_count > 0 && ron_rand_chance(rand, 1, 2)) {
        return works_again(w->open[--w->open_count], NULL);
    }
    if (w->acked_count > 0 && ron_rand_chance(rand, 1, 6)) {
        const struct led_work *old = w->acked[ron_rand_below(rand, w->acked_count)].w;

        if (old->kind == LED_WORK_INGEST && old->originals == NULL) {
            return works_again(old, NULL);
        }
    }
    return ron_rand_chance(rand, 1, 4) ? batch_of_several(rand) : core_random_work(rand);
}

/* ---- the stages, by hand --------------------------------------------------------------------- */

static void set_head(struct world *w)
{
    struct led_log_head head;

    led_log_head(core.r.log, &head);
    led_reader_set_head(w->reader, head.last_seq, &head.root);
}

/* A reader compares it with the journal: true when it goes back to the sequencer. */
static bool look_up(struct world *w, struct led_work *work)
{
    enum led_repeat repeat = LED_REPEAT_NEW;

    set_head(w);
    if (led_read_repeat(w->reader, work, &repeat, NULL) != RON_OK) {
        led_work_refuse(work, LED_REASON_SAFE_MODE, "", "");
        led_work_done(work);
        unanswered(w, work);
        return false;
    }
    if (repeat == LED_REPEAT_DONE) {
        led_work_done(work);
        answered(w, work);
        return false;
    }
    work->fate = LED_FATE_NONE;
    work->look_up = 0;
    return true;
}

static void commit(struct world *w, struct led_work **group, size_t count)
{
    while (count > 0) {
        size_t n = led_commit_gather(core.r.commit, group, count);
        struct led_commit_done done;
        enum ron_rc rc =
            w->broken ? RON_CLOSED : led_commit_group(core.r.commit, group, n, &done, NULL);

        w->broken = w->broken || rc != RON_OK;
        if (rc == RON_OK) {
            led_seq_committed(core.r.seq, n);
            w->broken = done.hashes_lost;
        }
        for (size_t i = 0; i < n; i++) {
            if (rc == RON_OK) {
                led_work_done(group[i]);
                answered(w, group[i]);
            } else {
                led_work_refuse(group[i], LED_REASON_SAFE_MODE, "", "");
                led_work_done(group[i]);
                unanswered(w, group[i]);
            }
        }
        group += n;
        count -= n;
    }
}

static void window(struct world *w, struct led_work **list, size_t count)
{
    struct led_work *group[2 * LED_WINDOW_MAX];
    struct led_work *again[2 * LED_WINDOW_MAX];
    size_t given = 0;
    size_t back = 0;
    size_t made = led_seq_window(core.r.seq, list, count, works.now_ms, 64, core.out);

    for (size_t i = 0; i < made; i++) {
        struct led_work *work = core.out[i];

        if (work->fate == LED_FATE_COMMIT) {
            group[given++] = work;
        } else if (work->fate == LED_FATE_DONE) {
            led_work_done(work);
            answered(w, work);
        } else if (look_up(w, work)) {
            again[back++] = work;
        }
    }
    commit(w, group, given);
    if (w->broken) {
        led_seq_abort(core.r.seq);
    }
    for (size_t i = 0; i < back; i++) {
        led_work_refuse(again[i], LED_REASON_BUSY, "", "");
        led_work_done(again[i]);
        unanswered(w, again[i]);
    }
}

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

static void run_windows(struct world *w)
{
    struct ron_rand *rand = sim_rand(w->sim);

    for (int i = 0; i < WINDOWS && !w->broken; i++) {
        struct led_work *list[8];
        size_t count = 0;

        works.now_ms += ron_rand_below(rand, 6);
        for (size_t n = ron_rand_below(rand, 7); n > 0 && works.count < WORKS_MAX - 200; n--) {
            struct led_work *work = next_work(w);

            led_preval_look_up(core.r.index, work);
            if ((work->look_up & (LED_LOOK_ID | LED_LOOK_IDEM)) == 0 || look_up(w, work)) {
                work->look_up = 0;
                list[count++] = work;
            }
        }
        window(w, list, count);
        if (ron_rand_chance(rand, 1, 5)) {
            index_some();
        }
        if (ron_rand_chance(rand, 1, 6) && led_log_wants_segment(core.r.log)) {
            RON_IGNORE(led_log_prepare(core.r.log, NULL));
        }
    }
}

/* ---- lives ----------------------------------------------------------------------------------- */

static bool start(struct world *w)
{
    struct led_reader_opts ro;
    enum ron_rc rc;

    core_begin(sim_host_env(w->host), "/data");
    rc = led_recover(&core.opts, &core.r, NULL);
    if (rc == RON_OK && sim_env_is_dead(core.opts.env)) {
        led_recovered_done(&core.r);
        return false;
    }
    if (rc != RON_OK) {
        return false;
    }
    core.open = true;
    total.recovered++;
    memcpy(works.hash_key, core.r.hash_key, sizeof works.hash_key);
    w->broken = core.r.commit == NULL;
    w->damaged = core.r.report.damage != LED_DAMAGE_NONE;
    ro = (struct led_reader_opts){
        .log = core.r.log, .index = core.r.index, .hashes = led_hashes_store(core.r.hashes)};
    memcpy(ro.hash_key, core.r.hash_key, sizeof ro.hash_key);
    SIM_CHECK(w->sim, led_reader_new(&ro, &w->reader) == RON_OK);
    check_journal(w);
    return true;
}

static void stop(struct world *w)
{
    led_reader_free(w->reader);
    w->reader = NULL;
    core_close();
}

/* Works hash their keys for one index; after a recovery with another key they are made anew. */
static void rehash_open(struct world *w)
{
    for (size_t i = 0; i < w->open_count; i++) {
        for (size_t n = 0; n < w->open[i]->batch.count; n++) {
            led_book_prepare(works.hash_key, &w->open[i]->batch.entries[n], &w->open[i]->preps[n]);
        }
    }
}

/* Nothing in this world changes bytes that were synced. */
static bool keeps_what_is_synced(const struct sim_opts *opts)
{
    return opts->crash_misdirect_weight == 0 && opts->crash_garble_weight == 0 &&
           opts->disk_rot_ppm == 0 && opts->disk_bad_sector_ppm == 0;
}

static bool run(uint64_t seed, const struct sim_opts *opts)
{
    static struct world w;
    bool spoilt;
    bool up = true;

    w = (struct world){.sim = sim_new(seed, opts), .misdirects = opts->crash_misdirect_weight > 0};
    w.host = sim_host_new(w.sim, "ledger");
    works_begin();
    works.arena_size = 4096;
    core_past = (struct core_past){0};
    for (int life = 0; life < LIVES && !w.damaged; life++) {
        struct ron_rand *rand = sim_rand(w.sim);

        if (!up) {
            (void)sim_host_boot(w.host);
        }
        if (ron_rand_chance(rand, 2, 3)) {
            sim_host_power_loss_in(w.host, ron_rand_range(rand, 1, 150));
        }
        if (start(&w)) {
            rehash_open(&w);
            if (!w.damaged) {
                run_windows(&w);
            }
            stop(&w);
        }
        up = !sim_env_is_dead(sim_host_env(w.host));
        if (up && ron_rand_chance(rand, 1, 2)) {
            sim_host_power_loss_in(w.host, 0);
            if (ron_rand_chance(rand, 1, 3)) {
                sim_host_kill(w.host);
            } else {
                sim_host_power_loss(w.host);
            }
            up = false;
        }
    }
    /* The last word: a start without accidents. */
    *sim_options(w.sim) = sim_opts_calm();
    sim_host_power_loss_in(w.host, 0);
    if (!up) {
        (void)sim_host_boot(w.host);
    }
    total.damaged += w.damaged;
    spoilt = w.damaged && !keeps_what_is_synced(opts);
    if (!spoilt) { /* A read that failed once looks like damage; it is none a start later. */
        w.damaged = false;
        SIM_CHECK(w.sim, start(&w));
        SIM_CHECK(w.sim, !w.damaged || !keeps_what_is_synced(opts));
        stop(&w);
    }
    works_drop();
    sim_free(w.sim);
    return spoilt;
}

static uint64_t seed_count(void)
{
    const char *text = getenv("RON_SIM_SEEDS");

    if (text != NULL) {
        return strtoull(text, NULL, 10);
    }
    return getenv("RON_SOAK") != NULL ? (uint64_t)SEEDS * 200 : SEEDS; /* about an hour */
}

static void report(uint64_t seeds)
{
    print_message("%llu seeds: %llu recoveries, %llu acknowledged, %llu repeated, %llu refused, "
                  "%llu without answer, %llu damaged\n",
                  (unsigned long long)seeds, (unsigned long long)total.recovered,
                  (unsigned long long)total.acked, (unsigned long long)total.replayed,
                  (unsigned long long)total.refused, (unsigned long long)total.unsure,
                  (unsigned long long)total.damaged);
}

static void test_ledger__crash_anywhere__nothing_lost_nothing_twice(void **state)
{
    uint64_t seeds = seed_count();

    (void)state;
    memset(&total, 0, sizeof total);
    for (uint64_t i = 0; i < seeds; i++) {
        struct sim_opts opts = sim_opts_swarm(support_seed() + i);

        /* Nothing that spoils what was synced. */
        opts.crash_misdirect_weight = 0;
        opts.crash_garble_weight = 0;
        opts.disk_rot_ppm = 0;
        opts.disk_bad_sector_ppm = 0;
        (void)run(support_seed() + i, &opts);
    }
    report(seeds);
    assert_true(total.acked > 5 * seeds);
    assert_true(total.replayed > seeds / 4);
    assert_true(total.damaged < seeds / 10);
    assert_true(total.captures > seeds / 4 && total.debits > seeds / 4 && total.others > seeds);
}

static void test_ledger__spoiled_disk__damage_is_told_and_never_served(void **state)
{
    uint64_t seeds = seed_count();

    (void)state;
    memset(&total, 0, sizeof total);
    for (uint64_t i = 0; i < seeds; i++) {
        struct sim_opts opts = sim_opts_swarm(support_seed() + i);

        (void)run(support_seed() + i, &opts);
    }
    report(seeds);
    assert_true(total.damaged > seeds / 100);
    assert_true(total.hidden <= 1 + seeds / 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger__crash_anywhere__nothing_lost_nothing_twice),
        cmocka_unit_test(test_ledger__spoiled_disk__damage_is_told_and_never_served),
    };

    return cmocka_run_group_tests_name("sim.ledger", tests, NULL, NULL);
}
