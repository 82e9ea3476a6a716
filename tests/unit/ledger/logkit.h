/* SPDX-License-Identifier: Apache-2.0 */
/* logkit.h - frames for tests of the log: unit, fault, simulator.
 *
 * A kit is where a writer stands. Frames come from a number: the same number at the same place
 * gives the same bytes, so an oracle keeps numbers and not bytes. Roots are no Merkle roots here:
 * the log compares them and knows no tree. */
#pragma once

#include "support/support.h"

#include "ledger/log/log.h"
#include "ron/base/assert.h"
#include "ron/io/memdisk.h"

/* ---- frames ---------------------------------------------------------------------------------- */

struct kit {
    struct ron_buf buf; /* the frame that was built last */
    struct led_frame frame;
};

static inline void kit_init(struct kit *kit)
{
    *kit = (struct kit){0};
    ron_buf_init(&kit->buf, LED_FRAME_MAX);
}

static inline void kit_done(struct kit *kit)
{
    ron_buf_done(&kit->buf);
}

/* A random entry, sometimes as long as can be. */
static inline size_t kit_leaf(struct ron_rand *rand, uint8_t leaf[LED_ENTRY_BYTES_MAX])
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz0123456789-abcdefghijklmnopqrstuvwxyz"
                               "abcdefghijklmnopqrstuvwxyz0123456789-abcdefghijklmnopqrstuvwxyz";
    bool large = ron_rand_chance(rand, 1, 20);
    struct led_entry e = {
        .v = LED_VERSION,
        .kind = LED_KIND_TRANSFER,
        .ts_ms = UINT64_C(1700000000000) + ron_rand_below(rand, 1000000),
        .amount = ron_money_of(1 + ron_rand_below(rand, 1000000)),
        .id = {text, 1 + (size_t)ron_rand_below(rand, large ? sizeof text - 1 : 30)},
        .account = {text, 1 + (size_t)ron_rand_below(rand, 20)},
        .to = {text + 30, 1 + (size_t)ron_rand_below(rand, 20)},
        .asset = {"roc", 3},
        .kid = {"k", 1},
        .capability_ref = {"c", 1},
        .memo = {text, large ? 100 : 0},
    };

    if (ron_rand_chance(rand, 3, 4)) { /* else zeros */
        ron_rand_bytes(rand, e.nonce, sizeof e.nonce);
    }
    return (size_t)(led_entry_encode(&e, leaf) - leaf);
}

static inline struct led_side kit_side(struct ron_rand *rand)
{
    return (struct led_side){
        .prev_seq = ron_rand_chance(rand, 1, 2) ? 0 : support_rand_edgy_u64(rand),
        .available.v = support_rand_edgy_u128(rand),
        .held.v = ron_rand_chance(rand, 1, 2) ? 0 : support_rand_edgy_u128(rand),
    };
}

static inline void kit_add_record(struct kit *kit, struct ron_rand *rand, uint32_t count)
{
    struct led_record record = {
        .kind = count == 0 ? LED_RECORD_CANCEL : LED_RECORD_BATCH,
        .flags = (uint16_t)ron_rand_below(rand, 4),
        .count = count,
        .now_ms = support_rand_edgy_u64(rand),
        .idem_id = {"idem-0123456789", count == 0 ? 15 : (size_t)ron_rand_below(rand, 16)},
    };
    size_t at = ron_buf_len(&kit->buf);

    RON_ASSERT(led_frame_add_record(&kit->buf, &record) == RON_OK);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        struct led_links links = {.account = kit_side(rand)};
        size_t len = kit_leaf(rand, leaf);

        links.has_to = ron_rand_chance(rand, 1, 2);
        if (links.has_to) {
            links.to = kit_side(rand);
        }
        RON_ASSERT(led_frame_add_entry(&kit->buf, (struct ron_str){(const char *)leaf, len},
                                       &links) == RON_OK);
    }
    led_frame_end_record(&kit->buf, at);
    kit->frame.records++;
    kit->frame.entries += count;
}

/* Builds frame `number` to stand behind `head`, of at most `entries_max` entries, maybe none. */
static inline void kit_build(struct kit *kit, const struct led_log_head *head, uint64_t number,
                             uint32_t entries_max)
{
    struct ron_rand rand;
    uint64_t records;

    ron_rand_seed(&rand, number);
    records = ron_rand_range(&rand, 1, 3);
    kit->frame = (struct led_frame){
        .epoch = head->epoch,
        .seq_first = head->last_seq + 1,
        .time_ms = number,
        .prev_root = head->root,
        .new_root = head->root,
    };
    memcpy(kit->frame.uuid, head->uuid, LED_UUID_SIZE);
    ron_buf_clear(&kit->buf);
    RON_ASSERT(led_frame_begin(&kit->buf) == RON_OK);
    for (uint64_t i = 0; i < records; i++) {
        uint64_t left = entries_max - kit->frame.entries;

        kit_add_record(kit, &rand,
                       ron_rand_chance(&rand, 1, 8) ? 0
                                                    : (uint32_t)ron_rand_below(&rand, left + 1));
    }
    if (kit->frame.entries > 0) {
        ron_rand_bytes(&rand, kit->frame.new_root.bytes, RON_TREE_HASH_BYTES);
    }
    RON_ASSERT(led_frame_end(&kit->buf, &kit->frame) == RON_OK);
}

/* Builds and appends. */
static inline enum ron_rc kit_append(struct kit *kit, struct led_log *log, uint64_t number,
                                     uint32_t entries_max)
{
    struct led_log_head head;

    led_log_head(log, &head);
    kit_build(kit, &head, number, entries_max);
    return led_log_append(log, &kit->frame, ron_buf_data(&kit->buf), ron_buf_len(&kit->buf), NULL);
}

/* ---- a log in memory ------------------------------------------------------------------------- */

enum { KIT_SEGMENT = 64 << 10 };

/* Opens, and tells what was found. */
static inline struct led_log *kit_open(const struct led_log_opts *opts, uint64_t from_seq,
                                       led_log_visit *visit, void *arg,
                                       struct led_log_report *ret_report)
{
    struct led_log *log = NULL;

    assert_int_equal(led_log_open(opts, from_seq, visit, arg, &log, ret_report, NULL), RON_OK);
    return log;
}

/* Every seq is found, of long logs every thirteenth; beyond the end nothing is. */
static inline void kit_check_reads(struct led_log *log, uint64_t first, uint64_t last)
{
    struct ron_buf room;
    struct led_frame frame = {0};

    ron_buf_init(&room, LED_FRAME_MAX);
    for (uint64_t seq = first; seq <= last; seq += last - first < 1000 ? 1 : 13) {
        assert_int_equal(led_log_read(log, seq, &room, &frame, NULL), RON_OK);
        assert_in_range(seq, frame.seq_first, frame.seq_first + frame.entries - 1);
    }
    assert_int_equal(led_log_read(log, last + 1, &room, &frame, NULL), RON_NOTFOUND);
    assert_int_equal(led_log_read(log, 0, &room, &frame, NULL), RON_NOTFOUND);
    ron_buf_done(&room);
}
