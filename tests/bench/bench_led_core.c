/* SPDX-License-Identifier: Apache-2.0 */
/* bench_led_core.c - what an entry costs in the core of the ledger, stage by stage, and how long
 * recovery takes.
 *
 * Batches of 1,000 transfers between random accounts go through sequencer, committer and indexer on
 * one thread over a folder of the disk. Figures are nanoseconds of processor time per entry; the
 * time that the disk takes to sync is not part of them. Then the journal is recovered, without
 * derived files and with an image near its end.
 *
 * `bench_led_core [entries [accounts]]`: 1,000,000 and 100,000 unless told. */
#include <dirent.h>
#include <ftw.h>
#include <inttypes.h>

#include "bench/bench.h"
#include "ledger/index/follow.h"
#include "ledger/pipeline/preval.h"
#include "ledger/recover/recover.h"
#include "ron/base/alloc.h"
#include "ron/io/linux_env.h"

enum { BATCH = 1000, ARENA = 1 << 20, GROUP = 4 };

#define NOW UINT64_C(1700000000000)

static char (*names)[40];
static uint64_t accounts = 100000;
static uint64_t total = 1000000;
static char dir[] = "/tmp/ron-bench-XXXXXX";
static struct led_work works[GROUP];
static char ids[GROUP][BATCH][32];
static struct led_recovered ledger;
static struct led_work *out[2 * LED_WINDOW_MAX];
static uint64_t serial;
static uint64_t state = 88172645463325252u;

static struct {
    uint64_t prepare;
    uint64_t window;
    uint64_t commit;
    uint64_t committed;
    uint64_t index;
    uint64_t sync_wall;
    uint64_t bytes;
} spent;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t cpu_ns(void)
{
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void done(struct led_work *w)
{
    ron_arena_clear(&w->arena);
}

static struct led_work *no_own_work(void *arg)
{
    (void)arg;
    return NULL;
}

static void fill_entry(struct led_entry *e, char *id, bool mint, uint64_t n)
{
    uint64_t from = mint ? n : next_random() % accounts;
    uint64_t to = (from + 1 + next_random() % (accounts - 1)) % accounts;

    serial++;
    (void)snprintf(id, 32, "01HF%022" PRIu64, serial);
    *e = (struct led_entry){.id = {id, 26},
                            .account = str(names[from]),
                            .asset = {"roc", 3},
                            .kid = {"k1", 2},
                            .capability_ref = {"c1", 2},
                            .amount = ron_money_of(mint ? 1000000 : 1),
                            .ts_ms = NOW,
                            .kind = mint ? LED_KIND_MINT : LED_KIND_TRANSFER,
                            .v = 1};
    if (!mint) {
        e->to = str(names[to]);
    }
    memcpy(e->nonce, &serial, sizeof serial);
}

/* What a prevalidator does, the parsing aside. */
static void fill_work(struct led_work *w, char (*id)[32], uint64_t mint_from)
{
    struct led_entry *entries;

    ron_arena_clear(&w->arena);
    entries = ron_arena_alloc_array(&w->arena, BATCH, sizeof *entries, 16);
    w->leaves = ron_arena_alloc_array(&w->arena, BATCH, sizeof *w->leaves, 8);
    w->hashes = ron_arena_alloc_array(&w->arena, BATCH, sizeof *w->hashes, 8);
    w->preps = ron_arena_alloc_array(&w->arena, BATCH, sizeof *w->preps, 8);
    w->links = ron_arena_alloc_array(&w->arena, BATCH, sizeof *w->links, 16);
    BENCH_TRUE(!ron_arena_overflowed(&w->arena));
    for (size_t i = 0; i < BATCH; i++) {
        size_t size;
        uint8_t *leaf;

        fill_entry(&entries[i], id[i], mint_from != UINT64_MAX, mint_from + i);
        size = led_entry_size(&entries[i]);
        leaf = ron_arena_alloc(&w->arena, size, 1);
        BENCH_TRUE(leaf != NULL);
        (void)led_entry_encode(&entries[i], leaf);
        w->leaves[i] = (struct ron_str){(const char *)leaf, size};
        ron_tree_hash_leaf(leaf, size, &w->hashes[i]);
        led_book_prepare(ledger.hash_key, &entries[i], &w->preps[i]);
    }
    w->batch = (struct led_batch){.entries = entries, .count = BATCH};
    w->kind = LED_WORK_INGEST;
    w->result = LED_RESULT_NONE;
    w->checked_seq = led_index_applied(ledger.index);
}

static void follow(struct led_work **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct led_work *w = list[i];

        for (size_t n = 0; n < w->batch.count; n++) {
            BENCH_OK(led_follow_entry(ledger.index, &w->batch.entries[n], &w->preps[n],
                                      w->seq_first + n, NULL));
        }
    }
}

static void run_group(uint64_t mint_from)
{
    struct led_work *list[GROUP];
    struct led_commit_done d;
    uint64_t t[6];
    size_t count;

    if (led_log_wants_segment(ledger.log)) { /* another task's work */
        BENCH_OK(led_log_prepare(ledger.log, NULL));
    }
    t[0] = cpu_ns();
    for (size_t i = 0; i < GROUP; i++) {
        list[i] = &works[i];
        fill_work(list[i], ids[i], mint_from == UINT64_MAX ? mint_from : mint_from + i * BATCH);
    }
    t[1] = cpu_ns();
    count = led_seq_window(ledger.seq, list, GROUP, NOW, 1000, out);
    t[2] = cpu_ns();
    BENCH_TRUE(count == GROUP && out[0]->fate == LED_FATE_COMMIT);
    BENCH_OK(led_commit_group(ledger.commit, out, count, &d, NULL));
    t[3] = cpu_ns();
    led_seq_committed(ledger.seq, count);
    t[4] = cpu_ns();
    follow(out, count);
    if (d.seq_last % 65536 < GROUP * BATCH) {
        BENCH_OK(led_index_commit(ledger.index, d.seq_last, &d.root, NULL));
        led_seq_indexed(ledger.seq, d.seq_last);
    }
    t[5] = cpu_ns();
    spent.prepare += t[1] - t[0];
    spent.window += t[2] - t[1];
    spent.commit += t[3] - t[2];
    spent.committed += t[4] - t[3];
    spent.index += t[5] - t[4];
    spent.sync_wall += d.sync_ns;
    spent.bytes += d.bytes;
}

static struct led_recover_opts opts(void)
{
    return (struct led_recover_opts){.env = ron_env_linux(),
                                     .dir = dir,
                                     .book = {.batch_max = 4096},
                                     .seq = {.own_work = no_own_work}};
}

static void recover(const char *what, bool parallel, bool rebuild)
{
    struct led_recover_opts o = opts();
    struct ron_err err = {0};
    uint64_t start = bench_now_ns();
    uint64_t own = cpu_ns();
    uint64_t all = bench_cpu_ns();
    double seconds;

    o.parallel = parallel;
    o.rebuild = rebuild;
    if (led_recover(&o, &ledger, &err) != RON_OK) {
        bench_fail(__FILE__, __LINE__, "led_recover", err.msg);
    }
    BENCH_TRUE(ledger.report.damage == LED_DAMAGE_NONE);
    seconds = (double)(bench_now_ns() - start) / 1e9;
    own = cpu_ns() - own;
    all = RON_MAX(bench_cpu_ns() - all, own);
    printf("| %s | %" PRIu64 " | %.2f | %.2f | %.2f |\n", what, ledger.replayed, seconds,
           (double)own / 1e9, (double)(all - own) / 1e9);
    (void)fflush(stdout);
    led_recovered_done(&ledger);
}

static void make_image(void)
{
    struct led_recover_opts o = opts();
    struct led_image_chunk chunk = {0};
    struct led_log_head head;
    struct led_book *book;
    uint64_t seq;

    BENCH_OK(led_recover(&o, &ledger, NULL));
    book = led_seq_book_mut(ledger.seq);
    led_log_head(ledger.log, &head);
    BENCH_OK(led_book_image_begin(book, &seq));
    do {
        BENCH_OK(led_book_image_step(book, &chunk));
        if (chunk.take_bytes != NULL) {
            BENCH_OK(led_index_put_image(ledger.index, seq, chunk.number, chunk.take_bytes,
                                         chunk.len, chunk.last, NULL));
            ron_free(chunk.take_bytes);
        }
    } while (chunk.take_bytes == NULL || !chunk.last);
    led_book_image_end(book);
    BENCH_OK(led_hashes_sync(ledger.hashes, NULL));
    BENCH_OK(led_index_commit(ledger.index, head.last_seq, &head.root, NULL));
    led_recovered_done(&ledger);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static double per_entry(uint64_t ns, uint64_t entries)
{
    return (double)ns / (double)entries;
}

static void run_stages(void)
{
    struct led_recover_opts o = opts();
    uint64_t measured;
    uint64_t made = 0;

    BENCH_OK(led_recover(&o, &ledger, NULL));
    for (size_t i = 0; i < GROUP; i++) {
        works[i] = (struct led_work){.magic = LED_WORK_MAGIC, .done = done};
        BENCH_OK(ron_arena_init(&works[i].arena, ARENA));
    }
    for (; made < accounts; made += GROUP * BATCH) {
        run_group(made);
    }
    memset(&spent, 0, sizeof spent);
    for (measured = 0; made < total; made += GROUP * BATCH, measured += GROUP * BATCH) {
        run_group(UINT64_MAX);
    }
    printf("%" PRIu64 " transfers among %" PRIu64 " accounts, batches of %d, groups of %d; "
           "processor ns per entry\n\n",
           measured, accounts, BATCH, GROUP);
    printf("| leaves, hashes | window | commit | book commit | index | frame bytes |\n");
    printf("|---|---|---|---|---|---|\n| %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |\n\n",
           per_entry(spent.prepare, measured), per_entry(spent.window, measured),
           per_entry(spent.commit, measured), per_entry(spent.committed, measured),
           per_entry(spent.index, measured), per_entry(spent.bytes, measured));
    for (size_t i = 0; i < GROUP; i++) {
        ron_arena_done(&works[i].arena);
    }
    led_recovered_done(&ledger);
}

int main(int argc, char **argv)
{
    struct bench_noise noise = bench_noise_now();

    total = argc > 1 ? strtoull(argv[1], NULL, 10) : total;
    accounts = argc > 2 ? strtoull(argv[2], NULL, 10) : accounts;
    accounts -= accounts % (GROUP * BATCH);
    BENCH_TRUE(accounts > 0 && total > accounts && mkdtemp(dir) != NULL);
    names = ron_alloc_array(accounts, sizeof *names);
    BENCH_TRUE(names != NULL);
    for (uint64_t i = 0; i < accounts; i++) {
        (void)snprintf(names[i], sizeof names[i], "t:demo/u:%08" PRIu64 "/w", i);
    }
    run_stages();
    printf("| recovery | entries replayed | s | s of the caller's processor time | of the other "
           "thread's |\n|---|---|---|---|---|\n");
    recover("no derived files, one thread", false, true);
    recover("no derived files, two threads", true, true);
    make_image();
    recover("image at the end", true, false);
    bench_noise_print(noise);
    ron_free(names);
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
