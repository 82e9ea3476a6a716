/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_audit_log.c - any bytes as what the auditor reads: the journal's and the proofs' parsers.
 *
 * The first byte chooses the door: r records of a frame (the second byte is their number), f a
 * whole frame, s the head of a segment, n a signed note and checkpoint, k a verifier key, p a
 * receipt, j an entry in JSON.
 * Oracle: the ledger's reader takes the same records, frames and heads (an idem_id that is not
 * printable is refused by the auditor alone); whatever the entries are, the book judges all of
 * them, and the sums of the whole can be made. */
#include <stdint.h>
#include <string.h>

#include "audit/book/book.h"
#include "audit/proof/note.h"
#include "audit/proof/offline.h"
#include "ledger/log/frame.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether the ledger's reader goes through all records; idem_ids must be printable, as the auditor
 * wants them. */
static bool ledger_accepts(const uint8_t *payload, size_t len, uint32_t records, uint64_t entries)
{
    struct led_frame frame = {
        .seq_first = 1, .records = records, .payload = payload, .payload_len = len};
    struct led_cursor at;
    struct led_record record;
    uint64_t count = 0;
    bool bad = false;

    led_records(&frame, &at);
    while (led_records_next(&at, &record, &bad)) {
        struct led_cursor inner;
        struct led_stored stored;

        if (record.idem_id.len > 0 && !led_token_valid(record.idem_id)) {
            return false;
        }
        led_entries(&record, &inner);
        while (led_entries_next(&inner, &stored, &bad)) {
            count++;
        }
        if (bad) {
            return false;
        }
    }
    return !bad && count == entries;
}

static void see_nothing(void *arg, struct ron_str account, struct ron_str asset,
                        const struct aud_line *line)
{
    uint64_t *count = arg;

    RON_ASSERT(account.len > 0 && asset.len > 0);
    RON_ASSERT(line->available != 0 || line->held != 0);
    (*count)++;
}

static enum aud_step judge(struct aud_iter *it, struct aud_book *book)
{
    enum aud_step step;

    while ((step = aud_iter_next(it)) <= AUD_STEP_ENTRY) {
        struct aud_item item = {.links = it->links,
                                .place = {"fuzz", 0, it->seq},
                                .now_ms = it->record.now_ms,
                                .flags = it->record.flags,
                                .ends_record = it->entries_left == 0};

        if (step == AUD_STEP_ENTRY &&
            aud_entry_read((const uint8_t *)it->leaf.ptr, it->leaf.len, &item.e) == NULL) {
            aud_book_prepare(book, &item);
            aud_book_prefetch(book, &item);
            RON_ASSERT(aud_book_want(book, item.e.ref.len > 0 ? item.e.ref : item.e.id) == RON_OK);
            RON_ASSERT(aud_book_apply(book, &item) == RON_OK);
        }
    }
    return step;
}

static void try_records(const uint8_t *data, size_t size)
{
    static const struct aud_seed seed = {{12345, 67891}};
    struct aud_findings *findings = ron_alloc_zero(sizeof *findings);
    struct aud_frame frame = {.seq_first = 1};
    struct aud_place place = {.file = "fuzz"};
    struct aud_book book;
    struct aud_iter it;
    uint64_t count = 0;
    enum aud_step step;

    RON_ASSERT(findings != NULL);
    if (size == 0) {
        ron_free(findings);
        return;
    }
    frame.records = data[0];
    frame.payload = data + 1;
    frame.payload_len = size - 1;
    RON_ASSERT(aud_book_init(&book, &seed, 86400000, findings) == RON_OK);
    aud_book_refs_known(&book);
    aud_iter_begin(&it, &frame);
    it.entries_told = UINT64_MAX; /* not known here: END is told as BAD, with all of them met */
    step = judge(&it, &book);
    it.entries_told = it.entries;
    RON_ASSERT(step == AUD_STEP_BAD);
    frame.entries = (uint32_t)it.entries;
    aud_iter_begin(&it, &frame);
    while ((step = aud_iter_next(&it)) <= AUD_STEP_ENTRY) {
    }
    RON_ASSERT((step == AUD_STEP_END) ==
               ledger_accepts(frame.payload, frame.payload_len, frame.records, frame.entries));
    aud_book_finish(&book, &place);
    RON_ASSERT(aud_book_each(&book, see_nothing, &count) == RON_OK);
    RON_ASSERT(count <= book.accounts.live * book.asset_count);
    aud_book_done(&book);
    ron_free(findings);
}

static void try_frame(const uint8_t *data, size_t size)
{
    struct led_frame theirs;
    struct aud_frame ours = {0};
    const char *fault;
    enum aud_state state;
    enum led_frame_state led;
    size_t led_size;

    if (size < AUD_SECTOR) {
        return;
    }
    state = aud_frame_read(data, size, &ours, &fault);
    led = led_frame_read(data, size, &theirs, &led_size);
    RON_ASSERT((state == AUD_STATE_GOOD) == (led == LED_FRAME_GOOD));
    RON_ASSERT((state == AUD_STATE_NONE) == (led == LED_FRAME_NONE));
    RON_ASSERT((state == AUD_STATE_TORN) == (led == LED_FRAME_TORN));
    RON_ASSERT(state != AUD_STATE_GOOD ||
               (ours.size == led_size && fault == NULL && ours.payload_len == theirs.payload_len));
}

static void try_segment(const uint8_t *data, size_t size)
{
    struct led_segment_head theirs;
    struct aud_segment_head ours;

    if (size >= AUD_SEGMENT_HEAD) {
        RON_ASSERT((aud_segment_read(data, &ours) == NULL) == led_segment_head_read(data, &theirs));
    }
}

static void try_json(const uint8_t *data, size_t size)
{
    char *text = ron_alloc(size + 1);
    struct aud_entry entry;
    struct ron_buf out;

    RON_ASSERT(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    ron_buf_init(&out, 65536);
    if (aud_entry_from_json(text, size, &out, NULL) == RON_OK) {
        RON_ASSERT(ron_buf_len(&out) >= 44);
        (void)aud_entry_read(ron_buf_data(&out), ron_buf_len(&out), &entry);
    }
    ron_buf_done(&out);
    ron_free(text);
}

static void try_note(struct ron_str bytes)
{
    struct aud_checkpoint checkpoint;
    struct aud_note note;
    struct aud_vkey key = {.name = "x", .name_len = 1, .type = 4};

    if (aud_note_read(bytes, &note) == NULL) {
        RON_ASSERT(note.text.len + 1 + note.sigs.len == bytes.len);
        RON_ASSERT(aud_note_verify(&note, &key, NULL) != AUD_SIGNED);
        (void)aud_checkpoint_read(note.text, &checkpoint);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_str rest = {(const char *)data + 1, size - 1};
    struct aud_receipt receipt;
    struct aud_vkey key;

    if (size == 0) {
        return 0;
    }
    switch (data[0]) {
    case 'r':
        try_records(data + 1, size - 1);
        break;
    case 'f':
        try_frame(data + 1, size - 1);
        break;
    case 's':
        try_segment(data + 1, size - 1);
        break;
    case 'n':
        try_note(rest);
        break;
    case 'k':
        (void)aud_vkey_read(rest, &key);
        break;
    case 'p':
        if (aud_receipt_read(rest, &receipt) == NULL) {
            try_note(receipt.note);
        }
        break;
    case 'j':
        try_json(data + 1, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
