/* SPDX-License-Identifier: Apache-2.0 */
/* bench_iop_box.c - the embedded mailbox by itself, without HTTP: durable operations in a second.
 *
 *   bench_iop_box DIR [SECONDS]
 *
 * Rows, a line "name<TAB>per second" each, in a fresh file in DIR:
 *   put-64       messages of 4 KiB with keys, in groups of 64: what 64 connections have under way
 *   put-512      the same in groups of 512
 *   cycle-100    send, receive and acknowledge of 100 messages of 1 KiB at a time; a message counts
 *                once
 *   duplicate    keys that were taken already, in groups of 64
 * One thread; every group is synced before it counts. */
#include "bench/bench.h"

#include <unistd.h>

#include "interop/mailbox/store.h"
#include "ron/io/linux_env.h"

enum { GROUP_MAX = 512, BODY = 4096, CYCLE = 100, CYCLE_BODY = 1024 };

static uint8_t body[BODY];
static struct iop_op ops[GROUP_MAX];
static struct iop_op *all[GROUP_MAX];
static struct iop_msg msg;
static uint64_t answered;
static uint64_t keys;

static void on_done(struct iop_op *op)
{
    BENCH_TRUE(op->rc == RON_OK);
    answered++;
}

static void open_store(struct iop_store *s, const char *path)
{
    struct ron_err err = {0};
    struct iop_box_limits limits = iop_box_limits_default();
    enum ron_rc rc;

    limits.total_max_bytes = UINT64_MAX / 2;
    limits.topic_max_bytes = UINT64_MAX / 2;
    (void)unlink(path);
    rc = iop_store_open(s,
                        &(struct iop_store_opts){.env = ron_env_linux(),
                                                 .path = path,
                                                 .limits = limits,
                                                 .seen_max = 4 << 20,
                                                 .seen_ttl_ms = 86400000,
                                                 .seen_keep_ms = 0},
                        &err);
    if (rc != RON_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
    }
    BENCH_TRUE(rc == RON_OK);
}

static void put_group(struct iop_store *s, uint32_t count, bool fresh)
{
    for (uint32_t i = 0; i < count; i++) {
        char id[24];
        int len = snprintf(id, sizeof id, "%llu", (unsigned long long)(fresh ? keys++ : i));

        all[i] = &ops[i];
        ops[i] = (struct iop_op){.kind = IOP_OP_PUT,
                                 .done = on_done,
                                 .put = {.msgs = &msg, .count = 1, .has_key = true}};
        iop_seen_key(s->seen, (struct ron_str){"github", 6}, (struct ron_str){id, (size_t)len},
                     NULL, &ops[i].put.key);
    }
    iop_store_apply(s, all, count);
}

static void cycle(struct iop_store *s)
{
    struct iop_receipt receipts[CYCLE];
    struct iop_op recv = {
        .kind = IOP_OP_RECV,
        .done = on_done,
        .recv = {.topic = {"t", 1}, .max = CYCLE, .max_bytes = 1 << 20, .visibility_ms = 60000}};
    struct iop_op ack = {.kind = IOP_OP_ACK, .done = on_done};
    struct iop_op *one = &recv;

    for (uint32_t i = 0; i < CYCLE; i++) {
        all[i] = &ops[i];
        ops[i] =
            (struct iop_op){.kind = IOP_OP_PUT, .done = on_done, .put = {.msgs = &msg, .count = 1}};
    }
    iop_store_apply(s, all, CYCLE);
    iop_store_apply(s, &one, 1);
    BENCH_TRUE(recv.recv.count == CYCLE);
    for (uint32_t i = 0; i < CYCLE; i++) {
        receipts[i] = recv.recv.got[i].receipt;
    }
    ack.ack.topic = (struct ron_str){"t", 1};
    ack.ack.receipts = receipts;
    ack.ack.count = CYCLE;
    one = &ack;
    iop_store_apply(s, &one, 1);
    BENCH_TRUE(ack.ack.ret_done == CYCLE);
    iop_op_done(&recv);
}

static void row(const char *path, const char *name, uint64_t seconds, uint32_t group)
{
    struct iop_store s;
    uint64_t began;
    uint64_t took;
    uint64_t count = 0;

    open_store(&s, path);
    msg = (struct iop_msg){.topic = {"t", 1},
                           .body = {(const char *)body, group == 0 ? CYCLE_BODY : BODY}};
    if (strcmp(name, "duplicate") == 0) {
        keys = 0;
        put_group(&s, group, true);
    }
    began = ron_mono_ns();
    do {
        if (group == 0) {
            cycle(&s);
            count += CYCLE;
        } else {
            put_group(&s, group, strcmp(name, "duplicate") != 0);
            count += group;
        }
        iop_store_tick(&s);
        took = ron_mono_ns() - began;
    } while (took < seconds * RON_NS_PER_S && s.queue.messages < 900000);
    (void)printf("%s\t%llu\n", name, (unsigned long long)(count * RON_NS_PER_S / took));
    iop_store_close(&s);
    (void)unlink(path);
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 3;
    char path[512];

    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_iop_box DIR [SECONDS]\n");
        return 2;
    }
    (void)snprintf(path, sizeof path, "%s/bench-mailbox.db", argv[1]);
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (uint8_t)(i * 7);
    }
    row(path, "put-64", seconds, 64);
    row(path, "put-512", seconds, 512);
    row(path, "cycle-100", seconds, 0);
    row(path, "duplicate", seconds, 64);
    return 0;
}
