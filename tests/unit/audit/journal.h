/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - journals for tests of the auditor, made with the ledger's own code.
 *
 * Entries go through the ledger's book, which gives their links; led_frame builds the bytes. Before
 * a journal is written a test may change anything in it, so that exactly one rule is broken and all
 * the rest (roots, checksums, links) is as a ledger would have it. The files lie on a disk in
 * memory. */
#pragma once

#include "support/support.h"

#include <inttypes.h>

#include "audit/run.h"
#include "ledger/book/book.h"
#include "ledger/log/frame.h"
#include "ledger/proof/checkpoint.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "ron/io/memdisk.h"
#include "ron/merkle/tree.h"

enum {
    JOURNAL_ENTRIES = 4096,
    JOURNAL_RECORDS = 4096,
    JOURNAL_TEXTS = 1 << 18,
    JOURNAL_SEGMENT = 64 << 10, /* least size; a longer one grows to what its frames need */
};

#define JOURNAL_NOW UINT64_C(1700000000000)

struct journal_record {
    struct led_record r;
    size_t first; /* index of its first entry */
    bool ends_frame;
};

/* What is wrong with one frame, although its checksums are right. */
enum journal_lie {
    LIE_NONE,
    LIE_ROOT,
    LIE_PREV_ROOT,
    LIE_UUID,
    LIE_EPOCH,
    LIE_SEQ,
    LIE_ENTRIES,
    LIE_RECORDS,
    LIE_LEAF, /* a byte of the first entry */
    LIE_IDEM, /* a byte of the idem_id */
    LIE_SEGMENT_ROOT,
    LIE_SEGMENT_SEQ,
};

struct journal {
    struct led_book *book;
    struct ron_tree tree;
    struct ron_memdisk *disk;
    const struct ron_env *env;
    struct led_entry *entries;
    struct led_links *links;
    size_t entry_count;
    struct journal_record *records;
    size_t record_count;
    size_t open_from; /* entries from here on belong to no record yet */
    char *texts;
    size_t text_used;
    uint64_t now_ms;
    uint64_t next_nonce;
    enum journal_lie lie;
    size_t lie_frame;
    uint64_t file_bytes;   /* of the segment that was written last */
    uint64_t frames_bytes; /* of that: head and frames */
    uint64_t last_frame_at;
};

static inline void journal_init(struct journal *j)
{
    struct led_book_opts opts = {.undo_max = 1 << 17};

    *j = (struct journal){.now_ms = JOURNAL_NOW};
    assert_int_equal(led_book_new(&opts, &j->book), RON_OK);
    assert_int_equal(ron_memdisk_new(ron_env_linux(), 64 << 20, &j->disk, NULL), RON_OK);
    j->env = ron_memdisk_env(j->disk);
    j->entries = ron_alloc_array(JOURNAL_ENTRIES, sizeof *j->entries);
    j->links = ron_alloc_array(JOURNAL_ENTRIES, sizeof *j->links);
    j->records = ron_alloc_array(JOURNAL_RECORDS, sizeof *j->records);
    j->texts = ron_alloc(JOURNAL_TEXTS);
    assert_true(j->entries != NULL && j->links != NULL && j->records != NULL && j->texts != NULL);
    ron_tree_init(&j->tree);
}

static inline void journal_done(struct journal *j)
{
    led_book_free(j->book);
    ron_memdisk_free(j->disk);
    ron_free(j->entries);
    ron_free(j->links);
    ron_free(j->records);
    ron_free(j->texts);
}

RON_PRINTF(2, 3) static inline struct ron_str journal_text(struct journal *j, const char *fmt, ...)
{
    char *at = j->texts + j->text_used;
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(at, JOURNAL_TEXTS - j->text_used, fmt, args);
    va_end(args);
    RON_ASSERT(len >= 0 && (size_t)len < JOURNAL_TEXTS - j->text_used);
    j->text_used += (size_t)len + 1;
    return (struct ron_str){at, (size_t)len};
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* An entry of the record to come; what it lacks the caller fills in. */
static inline struct led_entry *journal_add(struct journal *j, enum led_kind kind, const char *id,
                                            const char *account, uint64_t amount)
{
    struct led_entry *e = &j->entries[j->entry_count++];

    RON_ASSERT(j->entry_count <= JOURNAL_ENTRIES);
    *e = (struct led_entry){
        .v = LED_VERSION,
        .kind = (uint8_t)kind,
        .id = journal_text(j, "%s", id),
        .account = journal_text(j, "%s", account),
        .asset = {"roc", 3},
        .kid = {"k1", 2},
        .capability_ref = {"c1", 2},
        .amount = ron_money_of(amount),
        .ts_ms = j->now_ms,
    };
    j->next_nonce++;
    memcpy(e->nonce, &j->next_nonce, sizeof j->next_nonce);
    return e;
}

static inline const struct led_entry *journal_find(const struct journal *j, struct ron_str id)
{
    for (size_t i = 0; i < j->open_from; i++) {
        if (j->entries[i].id.len == id.len && memcmp(j->entries[i].id.ptr, id.ptr, id.len) == 0) {
            return &j->entries[i];
        }
    }
    return NULL;
}

/* Ends the record: the book decides. False when it refuses; then the record is forgotten. */
static inline bool journal_end(struct journal *j, uint16_t flags, const char *idem_id)
{
    static const struct led_entry *originals[JOURNAL_ENTRIES];
    size_t first = j->open_from;
    size_t count = j->entry_count - first;
    struct led_outcome outcome;
    struct led_apply in = {
        .entries = j->entries + first,
        .count = count,
        .originals = originals,
        .now_ms = j->now_ms,
        .seq_first = first + 1,
        .flags = LED_APPLY_REVERSIBLE,
        .ret_links = j->links + first,
    };

    for (size_t i = 0; i < count; i++) {
        originals[i] = j->entries[first + i].kind == LED_KIND_REVERSE
                           ? journal_find(j, j->entries[first + i].ref)
                           : NULL;
    }
    RON_ASSERT(led_book_apply(j->book, &in, &outcome) == RON_OK);
    if (!outcome.accepted) {
        j->entry_count = first;
        return false;
    }
    RON_ASSERT(led_book_commit(j->book) == j->entry_count);
    j->records[j->record_count++] = (struct journal_record){
        .r = {.kind = LED_RECORD_BATCH,
              .flags = flags,
              .count = (uint32_t)count,
              .now_ms = j->now_ms,
              .idem_id = journal_text(j, "%s", idem_id)},
        .first = first,
        .ends_frame = true,
    };
    RON_ASSERT(j->record_count <= JOURNAL_RECORDS);
    j->open_from = j->entry_count;
    return true;
}

static inline void journal_cancel(struct journal *j, const char *idem_id)
{
    j->records[j->record_count++] = (struct journal_record){
        .r = {.kind = LED_RECORD_CANCEL,
              .now_ms = j->now_ms,
              .idem_id = journal_text(j, "%s", idem_id)},
        .first = j->entry_count,
        .ends_frame = true,
    };
}

/* Writes the Expire of every hold whose time is over. */
static inline void journal_expire(struct journal *j)
{
    struct led_expiry x;

    while (led_book_next_expiry(j->book, j->now_ms, &x)) {
        struct led_entry *e = &j->entries[j->entry_count++];

        *e = x.entry;
        e->id = journal_text(j, "%.*s", (int)x.entry.id.len, x.entry.id.ptr);
        e->ref = journal_text(j, "%.*s", (int)x.entry.ref.len, x.entry.ref.ptr);
        e->account = journal_text(j, "%.*s", (int)x.entry.account.len, x.entry.account.ptr);
        RON_ASSERT(journal_end(j, LED_RECORD_OWN, ""));
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static const uint8_t journal_uuid[LED_UUID_SIZE] = {1, 2, 3, 4, 5, 6, 0x47, 8, 0x89};

static inline void journal_put_record(struct journal *j, const struct journal_record *record,
                                      bool lies, struct ron_buf *frame)
{
    size_t at = ron_buf_len(frame);

    RON_ASSERT(led_frame_add_record(frame, &record->r) == RON_OK);
    if (lies && j->lie == LIE_IDEM) {
        frame->memory[frame->head + at + LED_RECORD_HEAD] = 7;
    }
    for (size_t i = record->first; i < record->first + record->r.count; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        size_t len = (size_t)(led_entry_encode(&j->entries[i], leaf) - leaf);
        struct ron_tree_hash hash;

        if (lies && j->lie == LIE_LEAF && i == record->first) {
            leaf[3] |= 0x80; /* a presence bit that means nothing */
        }
        ron_tree_hash_leaf(leaf, len, &hash);
        RON_ASSERT(ron_tree_extend(&j->tree, &hash, 1, NULL) == RON_OK);
        RON_ASSERT(led_frame_add_entry(frame, (struct ron_str){(const char *)leaf, len},
                                       &j->links[i]) == RON_OK);
    }
    led_frame_end_record(frame, at);
}

static inline void journal_lie(const struct journal *j, struct led_frame *head)
{
    switch (j->lie) {
    case LIE_ROOT:
        head->new_root.bytes[5] ^= 1;
        break;
    case LIE_PREV_ROOT:
        head->prev_root.bytes[5] ^= 1;
        break;
    case LIE_UUID:
        head->uuid[3] ^= 1;
        break;
    case LIE_EPOCH:
        head->epoch = 1;
        break;
    case LIE_SEQ:
        head->seq_first++;
        break;
    case LIE_ENTRIES:
        head->entries--;
        break;
    case LIE_RECORDS:
        head->records--;
        break;
    case LIE_NONE:
    case LIE_LEAF:
    case LIE_IDEM:
    case LIE_SEGMENT_ROOT:
    case LIE_SEGMENT_SEQ:
        break;
    }
}

/* All records as frames, behind each other. */
static inline void journal_frames(struct journal *j, struct ron_buf *out)
{
    struct ron_buf frame;
    size_t frame_no = 0;

    ron_tree_init(&j->tree);
    ron_buf_init(&frame, LED_FRAME_MAX);
    for (size_t i = 0; i < j->record_count; frame_no++) {
        struct led_frame head = {.epoch = 2, .seq_first = j->records[i].first + 1};
        bool lies = frame_no == j->lie_frame;
        bool ends = false;

        memcpy(head.uuid, journal_uuid, LED_UUID_SIZE);
        ron_tree_root(&j->tree, &head.prev_root);
        ron_buf_clear(&frame);
        RON_ASSERT(led_frame_begin(&frame) == RON_OK);
        for (; i < j->record_count && !ends; i++) {
            journal_put_record(j, &j->records[i], lies, &frame);
            head.records++;
            head.entries += j->records[i].r.count;
            head.time_ms = j->records[i].r.now_ms + 1;
            ends = j->records[i].ends_frame;
        }
        ron_tree_root(&j->tree, &head.new_root);
        if (lies) {
            journal_lie(j, &head);
        }
        RON_ASSERT(led_frame_end(&frame, &head) == RON_OK);
        j->last_frame_at = LED_SEGMENT_HEAD + ron_buf_len(out);
        RON_ASSERT(ron_buf_append(out, ron_buf_data(&frame), ron_buf_len(&frame)) == RON_OK);
    }
    ron_buf_done(&frame);
}

/* Replaces a file of the disk. */
static inline void journal_put_file(struct journal *j, const char *path, const void *bytes,
                                    size_t len)
{
    assert_int_equal(ron_mkdirs(j->env, "/d/log", 0700, NULL), RON_OK);
    assert_int_equal(ron_file_replace(j->env, path, bytes, len, 0600, NULL), RON_OK);
}

#define JOURNAL_FILE "/d/log/00000001-00000000000000000001.seg"

/* Writes all of it as one segment. */
static inline void journal_write(struct journal *j)
{
    struct led_segment_head head = {.number = 1, .seq_first = 1, .created_ms = JOURNAL_NOW};
    uint8_t head_bytes[LED_SEGMENT_HEAD];
    struct ron_buf frames;
    struct ron_buf file;

    ron_buf_init(&frames, 32 << 20);
    ron_buf_init(&file, 32 << 20);
    journal_frames(j, &frames);
    j->frames_bytes = LED_SEGMENT_HEAD + ron_buf_len(&frames);
    j->file_bytes = JOURNAL_SEGMENT;
    while (j->file_bytes < j->frames_bytes) {
        j->file_bytes *= 2;
    }
    memcpy(head.uuid, journal_uuid, LED_UUID_SIZE);
    ron_tree_hash_empty(&head.prev_root);
    head.segment_bytes = j->file_bytes;
    head.prev_root.bytes[0] ^= j->lie == LIE_SEGMENT_ROOT;
    head.seq_first += j->lie == LIE_SEGMENT_SEQ;
    led_segment_head_write(&head, head_bytes);
    RON_ASSERT(ron_buf_append(&file, head_bytes, sizeof head_bytes) == RON_OK);
    RON_ASSERT(ron_buf_append(&file, ron_buf_data(&frames), ron_buf_len(&frames)) == RON_OK);
    while (ron_buf_len(&file) < j->file_bytes) {
        RON_ASSERT(ron_buf_append_byte(&file, 0) == RON_OK);
    }
    journal_put_file(j, JOURNAL_FILE, ron_buf_data(&file), ron_buf_len(&file));
    ron_buf_done(&frames);
    ron_buf_done(&file);
}

/* Changes bytes of the segment that was written. */
static inline void journal_poke(struct journal *j, uint64_t off, const void *bytes, size_t len)
{
    int fd;

    assert_int_equal(
        j->env->disk->open(j->env, JOURNAL_FILE, RON_OPEN_READ | RON_OPEN_WRITE, 0, &fd, NULL),
        RON_OK);
    assert_int_equal(j->env->disk->pwrite(j->env, fd, bytes, len, off, NULL), RON_OK);
    j->env->disk->close(j->env, fd);
}

static inline uint8_t journal_peek(struct journal *j, uint64_t off)
{
    uint8_t byte = 0;
    size_t got;
    int fd;

    assert_int_equal(j->env->disk->open(j->env, JOURNAL_FILE, RON_OPEN_READ, 0, &fd, NULL), RON_OK);
    assert_int_equal(j->env->disk->pread(j->env, fd, &byte, 1, off, &got), RON_OK);
    j->env->disk->close(j->env, fd);
    return byte;
}

/* ---- judging --------------------------------------------------------------------------------- */

static inline struct aud_options journal_options(const struct journal *j)
{
    return (struct aud_options){.env = j->env, .dir = "/d", .horizon_ms = 86400000};
}

/* The result is the caller's to give back with journal_judged. */
static inline struct aud_result *journal_judge_with(const struct aud_options *opts)
{
    struct aud_result *r = ron_alloc_zero(sizeof *r);
    struct ron_err err = {0};

    assert_non_null(r);
    if (aud_run(opts, r, &err) != RON_OK) {
        fail_msg("aud_run: %s", err.msg);
    }
    return r;
}

static inline struct aud_result *journal_judge(const struct journal *j)
{
    struct aud_options opts = journal_options(j);

    return journal_judge_with(&opts);
}

static inline void journal_judged(struct aud_result *r)
{
    aud_result_done(r);
    ron_free(r);
}

static inline void journal_print(const struct aud_findings *all)
{
    for (size_t i = 0; i < all->kept; i++) {
        const struct aud_finding *f = &all->items[i];

        print_message("%s: %s at %" PRIu64 " seq %" PRIu64 ": expected %s, found %s\n",
                      aud_rule_name(f->rule), f->file, f->offset, f->seq, f->expected, f->found);
    }
}

static inline bool journal_found(const struct aud_findings *all, enum aud_rule rule)
{
    for (size_t i = 0; i < all->kept; i++) {
        if (all->items[i].rule == rule) {
            return true;
        }
    }
    return false;
}
