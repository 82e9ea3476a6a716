/* SPDX-License-Identifier: Apache-2.0 */
/* bench_led_book.c - what a transfer costs in the book: hashes, apply, commit, memory per account.
 *
 * A million accounts; batches of 1,000 transfers between random accounts, or all out of one hot
 * account. Per repetition each variant runs ROUNDS batches on one thread; figures are nanoseconds
 * of processor time per transfer, median (min..max). `prepare` is the part that other threads can
 * do. An image is made, a step after each batch, and loaded into a second book.
 * `bench_led_book random|hot N` applies N batches after the setup and nothing else; run it with two
 * values of N under a counter of instructions and take the difference. */
#include <inttypes.h>

#include "bench/bench.h"
#include "ledger/book/book.h"
#include "ron/base/alloc.h"

enum { ACCOUNTS = 1000000, BATCH = 1000, ROUNDS = 100 };

#define NOW UINT64_C(1700000000000)

static char names[ACCOUNTS][24];
static struct led_entry entries[BATCH];
static struct led_prep preps[BATCH];
static struct led_links links[BATCH];
static char ids[BATCH][32];
static struct led_book *book;
static const uint8_t key[16] = "0123456789abcde";
static struct led_book_opts opts = {.batch_max = 4096};
static uint64_t seq = 1;
static uint64_t serial;
static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void fill(uint8_t kind, size_t i, const char *account, const char *to, uint64_t amount)
{
    struct led_entry *e = &entries[i];

    serial++;
    (void)snprintf(ids[i], sizeof ids[i], "01HF%022" PRIu64, serial);
    *e = (struct led_entry){.id = {ids[i], 26},
                            .account = str(account),
                            .asset = {"roc", 3},
                            .kid = {"k1", 2},
                            .capability_ref = {"c1", 2},
                            .amount = ron_money_of(amount),
                            .ts_ms = NOW,
                            .kind = kind,
                            .v = 1};
    if (to != NULL) {
        e->to = str(to);
    }
    memcpy(e->nonce, &serial, sizeof serial);
}

static void fill_batch(bool hot)
{
    for (size_t i = 0; i < BATCH; i++) {
        size_t from = hot ? 0 : next_random() % ACCOUNTS;
        size_t to = (from + 1 + next_random() % (ACCOUNTS - 1)) % ACCOUNTS;

        fill(LED_KIND_TRANSFER, i, names[from], names[to], 1);
    }
}

static void prepare(void)
{
    for (size_t i = 0; i < BATCH; i++) {
        led_book_prepare(key, &entries[i], &preps[i]);
    }
}

/* What another thread does in the service, ahead of need; not counted. */
static void give_blocks(void)
{
    while (led_book_blocks_wanted(book) > 0) {
        void *block = led_book_make_block();

        BENCH_TRUE(block != NULL);
        led_book_give_block(book, block);
    }
}

static void apply(void)
{
    struct led_outcome outcome;
    struct led_apply in = {.entries = entries,
                           .preps = preps,
                           .count = BATCH,
                           .now_ms = NOW,
                           .seq_first = seq,
                           .ret_links = links};

    BENCH_OK(led_book_apply(book, &in, &outcome));
    BENCH_TRUE(outcome.accepted);
    seq += BATCH;
}

/* Returns the longest single batch in nanoseconds. */
static uint64_t set_up(void)
{
    uint64_t longest = 0;

    memcpy(opts.hash_key, key, sizeof key);
    BENCH_OK(led_book_new(&opts, &book));
    for (size_t i = 0; i < ACCOUNTS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t:demo/u:%07zu/w", i);
    }
    for (size_t at = 0; at < ACCOUNTS; at += BATCH) {
        uint64_t before;

        for (size_t i = 0; i < BATCH; i++) {
            fill(LED_KIND_MINT, i, names[at + i], NULL, at + i == 0 ? UINT64_MAX : 1000000);
        }
        prepare();
        give_blocks();
        before = bench_cpu_ns();
        apply();
        longest = RON_MAX(longest, bench_cpu_ns() - before);
        (void)led_book_commit(book);
    }
    return longest;
}

struct variant {
    const char *name;
    bool hot;
    struct bench_series prepare_ns, apply_ns, commit_ns;
};

static void run(struct variant *v, bool keep)
{
    uint64_t spent[3] = {0};

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t[4];

        fill_batch(v->hot);
        give_blocks();
        t[0] = bench_cpu_ns();
        prepare();
        t[1] = bench_cpu_ns();
        apply();
        t[2] = bench_cpu_ns();
        (void)led_book_commit(book);
        t[3] = bench_cpu_ns();
        for (int k = 0; k < 3; k++) {
            spent[k] += t[k + 1] - t[k];
        }
    }
    if (keep) {
        bench_add(&v->prepare_ns, (double)spent[0] / (ROUNDS * BATCH));
        bench_add(&v->apply_ns, (double)spent[1] / (ROUNDS * BATCH));
        bench_add(&v->commit_ns, (double)spent[2] / (ROUNDS * BATCH));
    }
}

struct image_figures {
    uint64_t longest_ns; /* of a step */
    uint64_t all_ns;     /* of all steps */
    uint64_t apply_ns;   /* of the batches meanwhile, and their commits */
    uint64_t batches;
    uint64_t bytes;
    uint64_t load_ns;
};

/* One step; true after the last. */
static bool image_step(struct led_book *loaded, struct image_figures *f)
{
    struct led_image_chunk chunk;
    uint64_t before = bench_cpu_ns();
    bool done = false;

    BENCH_OK(led_book_image_step(book, &chunk));
    f->longest_ns = RON_MAX(f->longest_ns, bench_cpu_ns() - before);
    f->all_ns += bench_cpu_ns() - before;
    if (chunk.take_bytes != NULL) {
        f->bytes += chunk.len;
        before = bench_cpu_ns();
        BENCH_OK(led_book_load(loaded, chunk.take_bytes, chunk.len, &done, NULL));
        f->load_ns += bench_cpu_ns() - before;
        ron_free(chunk.take_bytes);
    }
    return done;
}

static void run_image(void)
{
    struct image_figures f = {0};
    struct led_book *loaded;
    uint64_t ignored;
    bool done = false;

    BENCH_OK(led_book_new(&opts, &loaded));
    led_book_may_stall(loaded, true);
    BENCH_OK(led_book_image_begin(book, &ignored));
    while (!done) {
        uint64_t before;

        fill_batch(false);
        prepare();
        give_blocks();
        before = bench_cpu_ns();
        apply();
        (void)led_book_commit(book);
        f.apply_ns += bench_cpu_ns() - before;
        f.batches++;
        do {
            done = image_step(loaded, &f);
        } while (!done && led_book_image_waiting(book) > 0);
    }
    led_book_image_end(book);
    led_book_free(loaded);
    printf("\nImage: %.0f MiB in %" PRIu64 " batches, longest step %" PRIu64
           " us, all steps %.0f ms; apply and commit meanwhile %.0f ns; load %.0f ms.\n",
           (double)f.bytes / (1 << 20), f.batches, f.longest_ns / 1000, (double)f.all_ns / 1e6,
           (double)f.apply_ns / (double)(f.batches * BATCH), (double)f.load_ns / 1e6);
}

/* For a counter of instructions: filling costs the same in both variants and is counted too, so a
 * run that only fills is the third. */
static int count(const char *what, unsigned long batches)
{
    (void)set_up();
    for (unsigned long i = 0; i < batches; i++) {
        fill_batch(strcmp(what, "hot") == 0);
        if (strcmp(what, "fill") == 0) {
            continue;
        }
        prepare();
        if (strcmp(what, "prepare") == 0) {
            continue;
        }
        apply();
        (void)led_book_commit(book);
    }
    led_book_free(book);
    return 0;
}

int main(int argc, char **argv)
{
    struct variant variants[] = {{.name = "random accounts"}, {.name = "hot account", .hot = true}};
    struct bench_noise noise = bench_noise_now();
    struct led_book_stats before;
    struct led_book_stats stats;
    uint64_t longest;
    size_t reps = bench_reps();

    if (argc == 3) {
        return count(argv[1], strtoul(argv[2], NULL, 10));
    }
    longest = set_up();
    led_book_stats(book, &before);
    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            run(&variants[i], rep > 0);
        }
    }
    printf("Book of %d accounts, batches of %d transfers, ns per transfer\n\n", ACCOUNTS, BATCH);
    printf("| | prepare | apply | commit |\n|---|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        printf("| %s | %s | %s | %s |\n", variants[i].name,
               bench_span(&variants[i].prepare_ns, 0).s, bench_span(&variants[i].apply_ns, 0).s,
               bench_span(&variants[i].commit_ns, 0).s);
    }
    led_book_stats(book, &stats);
    printf("\nLongest batch while growing: %" PRIu64 " us. Memory per account, fingerprints not "
           "counted: %.0f bytes. Fingerprints: %" PRIu64 ".\n",
           longest / 1000,
           (double)(before.memory_bytes - before.fingerprint_bytes) / (double)before.accounts,
           stats.fingerprints);
    run_image();
    BENCH_TRUE(led_book_audit(book) == NULL);
    led_book_free(book);
    bench_noise_print(noise);
    return 0;
}
