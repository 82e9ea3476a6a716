/* SPDX-License-Identifier: Apache-2.0 */
/* bench_audit.c - what an entry costs the auditor, and how much memory an account and an id take.
 *
 * A journal of a million accounts with a Mint each, then transfers between random accounts, in
 * batches of 1,000, a frame a batch, in segments of 64 MiB, made with the ledger's encoders in a
 * folder that is removed at the end. Each repetition audits all of it on one thread; the files are
 * in the system's cache. Figures: entries a second by the wall clock, nanoseconds of processor time
 * per entry; median (min..max). `bench_audit N` makes N million entries, 3 by default. */
#include <inttypes.h>
#include <unistd.h>

#include "audit/run.h"
#include "bench/bench.h"
#include "ledger/log/frame.h"
#include "ron/base/alloc.h"
#include "ron/io/linux_env.h"
#include "ron/merkle/tree.h"

enum { ACCOUNTS = 1000000, BATCH = 1000, SEGMENT = 64 << 20, MILLIONS = 3, MILLIONS_MAX = 100 };

#define NOW UINT64_C(1700000000000)

static char names[ACCOUNTS][24];
static uint64_t balances[ACCOUNTS];
static uint64_t last_seqs[ACCOUNTS];
static struct ron_tree tree;
static struct ron_buf frame;
static char dir[] = "/tmp/ron-bench-audit-XXXXXX";
static char path[RON_FILE_PATH_SIZE];
static uint64_t segment_no;
static uint64_t used;
static uint64_t seq = 1;
static int fd = -1;
static uint64_t state = 88172645463325252u;
static const uint8_t uuid[LED_UUID_SIZE] = {1};

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static struct led_side touch(size_t account)
{
    struct led_side side = {.prev_seq = last_seqs[account],
                            .available = ron_money_of(balances[account])};

    last_seqs[account] = seq;
    return side;
}

static void add_entry(uint8_t kind, size_t from, size_t to)
{
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    struct led_links links = {.has_to = kind == LED_KIND_TRANSFER};
    struct ron_tree_hash hash;
    char id[32];
    struct led_entry e = {.account = {names[from], strlen(names[from])},
                          .asset = {"roc", 3},
                          .kid = {"k1", 2},
                          .capability_ref = {"c1", 2},
                          .amount = ron_money_of(kind == LED_KIND_MINT ? 1000000 : 1),
                          .ts_ms = NOW,
                          .kind = kind,
                          .v = 1};
    size_t len;

    (void)snprintf(id, sizeof id, "01HF%022" PRIu64, seq);
    e.id = (struct ron_str){id, 26};
    memcpy(e.nonce, &seq, sizeof seq);
    if (kind == LED_KIND_MINT) {
        balances[from] += 1000000;
    } else {
        e.to = (struct ron_str){names[to], strlen(names[to])};
        balances[from]--;
        balances[to]++;
        links.to = touch(to);
    }
    links.account = touch(from);
    len = (size_t)(led_entry_encode(&e, leaf) - leaf);
    ron_tree_hash_leaf(leaf, len, &hash);
    BENCH_OK(ron_tree_extend(&tree, &hash, 1, NULL));
    BENCH_OK(led_frame_add_entry(&frame, (struct ron_str){(const char *)leaf, len}, &links));
    seq++;
}

static void end_segment(void)
{
    if (fd >= 0) {
        BENCH_TRUE(ftruncate(fd, SEGMENT) == 0);
        ron_env_linux()->disk->close(ron_env_linux(), fd);
    }
}

static void put(const void *bytes, size_t len)
{
    BENCH_OK(ron_env_linux()->disk->pwrite(ron_env_linux(), fd, bytes, len, used, NULL));
    used += len;
}

static void begin_segment(uint64_t seq_first, const struct ron_tree_hash *root)
{
    struct led_segment_head head = {.number = ++segment_no,
                                    .seq_first = seq_first,
                                    .prev_root = *root,
                                    .segment_bytes = SEGMENT};
    uint8_t bytes[LED_SEGMENT_HEAD];

    end_segment();
    memcpy(head.uuid, uuid, sizeof uuid);
    led_segment_head_write(&head, bytes);
    (void)snprintf(path, sizeof path, "%s/log/%08" PRIu64 "-%020" PRIu64 ".seg", dir, segment_no,
                   seq_first);
    BENCH_OK(ron_env_linux()->disk->open(ron_env_linux(), path, RON_OPEN_WRITE | RON_OPEN_CREATE,
                                         0600, &fd, NULL));
    used = 0;
    put(bytes, sizeof bytes);
}

static void add_batch(bool mints)
{
    struct led_frame head = {.epoch = 1, .seq_first = seq, .time_ms = NOW};
    struct led_record record = {.kind = LED_RECORD_BATCH, .count = BATCH, .now_ms = NOW};
    size_t at;

    memcpy(head.uuid, uuid, sizeof uuid);
    ron_tree_root(&tree, &head.prev_root);
    ron_buf_clear(&frame);
    BENCH_OK(led_frame_begin(&frame));
    at = ron_buf_len(&frame);
    BENCH_OK(led_frame_add_record(&frame, &record));
    for (size_t i = 0; i < BATCH; i++) {
        size_t from = mints ? (size_t)(seq - 1) : next_random() % ACCOUNTS;

        add_entry(mints ? LED_KIND_MINT : LED_KIND_TRANSFER, from,
                  (from + 1 + next_random() % (ACCOUNTS - 1)) % ACCOUNTS);
    }
    led_frame_end_record(&frame, at);
    head.entries = BATCH;
    head.records = 1;
    ron_tree_root(&tree, &head.new_root);
    BENCH_OK(led_frame_end(&frame, &head));
    if (fd < 0 || used + ron_buf_len(&frame) > SEGMENT) {
        begin_segment(head.seq_first, &head.prev_root);
    }
    put(ron_buf_data(&frame), ron_buf_len(&frame));
}

static void make_journal(uint64_t entries)
{
    BENCH_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/log", dir);
    BENCH_OK(ron_mkdirs(ron_env_linux(), path, 0700, NULL));
    ron_buf_init(&frame, LED_FRAME_MAX);
    ron_tree_init(&tree);
    for (size_t i = 0; i < ACCOUNTS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t:demo/u:%07zu/w", i);
    }
    while (seq <= entries) {
        add_batch(seq <= ACCOUNTS);
    }
    end_segment();
    ron_buf_done(&frame);
}

static bool remove_file(void *arg, const char *name, bool is_dir)
{
    (void)arg;
    (void)is_dir;
    (void)snprintf(path, sizeof path, "%s/log/%s", dir, name);
    return ron_env_linux()->disk->remove(ron_env_linux(), path, NULL) == RON_OK;
}

static void remove_journal(void)
{
    char log[sizeof dir + 8];

    (void)snprintf(log, sizeof log, "%s/log", dir);
    BENCH_OK(ron_env_linux()->disk->list(ron_env_linux(), log, remove_file, NULL, NULL));
    BENCH_OK(ron_env_linux()->disk->rmdir(ron_env_linux(), log, NULL));
    BENCH_OK(ron_env_linux()->disk->rmdir(ron_env_linux(), dir, NULL));
}

int main(int argc, char **argv)
{
    static struct aud_result r;
    struct aud_options opts = {.env = ron_env_linux(), .dir = dir, .horizon_ms = 86400000};
    struct bench_noise noise = bench_noise_now();
    struct bench_series rate = {0};
    struct bench_series cpu_ns = {0};
    uint64_t millions = argc > 1 ? strtoul(argv[1], NULL, 10) : MILLIONS;
    size_t reps = RON_MIN(bench_reps(), (size_t)5); /* each takes seconds */

    BENCH_TRUE(millions >= 2 && millions <= MILLIONS_MAX);
    make_journal(millions * 1000000);
    for (size_t rep = 0; rep <= reps; rep++) {
        uint64_t cpu = bench_cpu_ns();

        aud_result_done(&r);
        memset(&r, 0, sizeof r);
        BENCH_OK(aud_run(&opts, &r, NULL));
        BENCH_TRUE(r.findings.total == 0 && r.entries == millions * 1000000);
        if (rep > 0) {
            bench_add(&rate, (double)r.entries * 1e3 / (double)r.took_ns);
            bench_add(&cpu_ns, (double)(bench_cpu_ns() - cpu) / (double)r.entries);
        }
    }
    printf("Audit of %" PRIu64 " entries, %d accounts, %.0f bytes of journal per entry\n\n",
           r.entries, ACCOUNTS, (double)r.bytes / (double)r.entries);
    printf("| million entries/s | ns of processor time per entry | bytes per account | per id or "
           "nonce |\n|---|---|---|---|\n");
    printf("| %s | %s | %.0f | %.1f |\n", bench_span(&rate, 2).s, bench_span(&cpu_ns, 0).s,
           (double)(r.memory_bytes - aud_unique_bytes(&r.book.unique)) / ACCOUNTS,
           (double)aud_unique_bytes(&r.book.unique) / (2 * (double)r.entries));
    aud_result_done(&r);
    remove_journal();
    bench_noise_print(noise);
    return 0;
}
