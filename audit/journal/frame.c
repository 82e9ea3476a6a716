/* SPDX-License-Identifier: Apache-2.0 */
/* audit/journal/frame.c - reading segment heads, frames, records and links; see frame.h. */
#include "audit/journal/frame.h"

#include "audit/journal/entry.h"
#include "ron/base/crc32c.h"

/* Offsets in the head of a frame. */
enum {
    FRAME_VERSION = 4,
    FRAME_ZERO = 6,
    FRAME_SIZE = 8,
    FRAME_PAYLOAD_LEN = 12,
    FRAME_UUID = 16,
    FRAME_EPOCH = 32,
    FRAME_SEQ = 40,
    FRAME_ENTRIES = 48,
    FRAME_RECORDS = 52,
    FRAME_TIME = 56,
    FRAME_PREV_ROOT = 64,
    FRAME_NEW_ROOT = 96,
    FRAME_BODY_CRC = 128,
    FRAME_HEAD_CRC = 132,
};

/* Offsets in the head of a segment. */
enum {
    SEGMENT_VERSION = 4,
    SEGMENT_ZERO = 6,
    SEGMENT_UUID = 8,
    SEGMENT_NUMBER = 24,
    SEGMENT_SEQ = 32,
    SEGMENT_PREV_ROOT = 40,
    SEGMENT_CREATED = 72,
    SEGMENT_BYTES = 80,
    SEGMENT_CRC = 88,
    SEGMENT_REST = 92,
};

/* Offsets in the head of a record. */
enum {
    RECORD_KIND = 0,
    RECORD_IDEM_LEN = 1,
    RECORD_FLAGS = 2,
    RECORD_COUNT = 4,
    RECORD_NOW = 8,
    RECORD_LEN = 16,
    RECORD_ZERO = 20,
    RECORD_HEAD = 24,
};

enum {
    VERSION = 1,
    RECORD_FLAGS_ALL = AUD_RECORD_IMPORT | AUD_RECORD_OWN,
    LINKS_TO = 1,
    LINKS_HELD = 2,
    LINKS_TO_HELD = 4,
    LINKS_ALL = 7,
};

static const char frame_magic[] = "RONF";
static const char tail_magic[] = "RONe";
static const char segment_magic[] = "RONS";

/* A seq fits a tree of 2^63 - 1 leaves. */
#define SEQ_MAX ((uint64_t)INT64_MAX)

/* ---- segments -------------------------------------------------------------------------------- */

const char *aud_segment_read(const uint8_t bytes[AUD_SEGMENT_HEAD],
                             struct aud_segment_head *ret_head)
{
    struct aud_segment_head h;

    if (memcmp(bytes, segment_magic, 4) != 0) {
        return "no segment: the magic is wrong";
    }
    if (aud_u32(bytes + SEGMENT_CRC) != ron_crc32c(0, bytes, SEGMENT_CRC)) {
        return "the head's checksum is wrong";
    }
    if (aud_u16(bytes + SEGMENT_VERSION) != VERSION || aud_u16(bytes + SEGMENT_ZERO) != 0) {
        return "unknown version";
    }
    if (!aud_all_zero(bytes + SEGMENT_REST, AUD_SEGMENT_HEAD - SEGMENT_REST)) {
        return "bytes behind the head are not zero";
    }
    memcpy(h.uuid, bytes + SEGMENT_UUID, AUD_UUID_SIZE);
    h.number = aud_u64(bytes + SEGMENT_NUMBER);
    h.seq_first = aud_u64(bytes + SEGMENT_SEQ);
    memcpy(h.prev_root.bytes, bytes + SEGMENT_PREV_ROOT, AUD_HASH_BYTES);
    h.created_ms = aud_u64(bytes + SEGMENT_CREATED);
    h.segment_bytes = aud_u64(bytes + SEGMENT_BYTES);
    *ret_head = h;
    return NULL;
}

/* ---- frames ---------------------------------------------------------------------------------- */

const char *aud_frame_peek(const uint8_t *bytes, struct aud_frame *ret_frame)
{
    struct aud_frame f = {.uuid = bytes + FRAME_UUID, .payload = bytes + AUD_FRAME_HEAD};
    size_t whole;

    if (memcmp(bytes, frame_magic, 4) != 0) {
        return "no frame: the magic is wrong";
    }
    if (aud_u32(bytes + FRAME_HEAD_CRC) != ron_crc32c(0, bytes, FRAME_HEAD_CRC)) {
        return "the head's checksum is wrong";
    }
    if (aud_u16(bytes + FRAME_VERSION) != VERSION || aud_u16(bytes + FRAME_ZERO) != 0) {
        return "unknown version";
    }
    f.size = aud_u32(bytes + FRAME_SIZE);
    f.payload_len = aud_u32(bytes + FRAME_PAYLOAD_LEN);
    whole = AUD_FRAME_HEAD + f.payload_len + AUD_FRAME_TAIL;
    if (f.size > AUD_FRAME_MAX || f.size % AUD_SECTOR != 0 || f.size < whole ||
        f.size - whole >= AUD_SECTOR) {
        return "size and length of the payload do not agree";
    }
    f.epoch = aud_u64(bytes + FRAME_EPOCH);
    f.seq_first = aud_u64(bytes + FRAME_SEQ);
    f.entries = aud_u32(bytes + FRAME_ENTRIES);
    f.records = aud_u32(bytes + FRAME_RECORDS);
    f.time_ms = aud_u64(bytes + FRAME_TIME);
    if (f.seq_first == 0 || f.seq_first > SEQ_MAX - f.entries) {
        return "seq is out of range";
    }
    memcpy(f.prev_root.bytes, bytes + FRAME_PREV_ROOT, AUD_HASH_BYTES);
    memcpy(f.new_root.bytes, bytes + FRAME_NEW_ROOT, AUD_HASH_BYTES);
    *ret_frame = f;
    return NULL;
}

static const char *check_body(const uint8_t *bytes, const struct aud_frame *f)
{
    size_t body = f->size - AUD_FRAME_HEAD - AUD_FRAME_TAIL;

    if (ron_crc32c(0, f->payload, body) != aud_u32(bytes + FRAME_BODY_CRC)) {
        return "the checksum of the records is wrong";
    }
    if (!aud_all_zero(f->payload + f->payload_len, body - f->payload_len)) {
        return "bytes between records and tail are not zero";
    }
    return NULL;
}

/* The head's checksum once more, and a magic: `right` of its bytes stand, and zeros follow. */
static bool tail_is(const uint8_t *bytes, const struct aud_frame *f, size_t right)
{
    const uint8_t *tail = bytes + f->size - AUD_FRAME_TAIL;
    uint8_t wanted[AUD_FRAME_TAIL];

    memcpy(wanted, bytes + FRAME_HEAD_CRC, 4);
    memcpy(wanted + 4, tail_magic, 4);
    return memcmp(tail, wanted, right) == 0 && aud_all_zero(tail + right, AUD_FRAME_TAIL - right);
}

/* A write that did not end: a sector, or the end of the last one, was never written. */
static bool is_torn(const uint8_t *bytes, const struct aud_frame *f, bool body_checks)
{
    if (body_checks) { /* then only the end can be missing */
        size_t right = 0;

        while (right < AUD_FRAME_TAIL && !tail_is(bytes, f, right)) {
            right++;
        }
        return right < AUD_FRAME_TAIL;
    }
    for (size_t at = AUD_SECTOR; at < f->size; at += AUD_SECTOR) {
        if (aud_all_zero(bytes + at, AUD_SECTOR)) {
            return true;
        }
    }
    return aud_all_zero(bytes + f->size - 4, 4);
}

enum aud_state aud_frame_read(const uint8_t *bytes, size_t len, struct aud_frame *ret_frame,
                              const char **ret_fault)
{
    struct aud_frame f;
    const char *body_fault;

    *ret_fault = NULL;
    if (aud_all_zero(bytes, AUD_SECTOR)) {
        return AUD_STATE_NONE;
    }
    *ret_fault = aud_frame_peek(bytes, &f);
    if (*ret_fault != NULL) {
        /* The head itself may be what was cut. */
        *ret_frame = (struct aud_frame){.size = AUD_SECTOR};
        return aud_all_zero(bytes + AUD_FRAME_HEAD, AUD_SECTOR - AUD_FRAME_HEAD) ? AUD_STATE_TORN
                                                                                 : AUD_STATE_BAD;
    }
    *ret_frame = f;
    if (f.size > len) {
        return AUD_STATE_MORE;
    }
    body_fault = check_body(bytes, &f);
    if (body_fault == NULL && tail_is(bytes, &f, AUD_FRAME_TAIL)) {
        return AUD_STATE_GOOD;
    }
    *ret_fault = body_fault != NULL ? body_fault : "the frame's tail is not that of its head";
    return is_torn(bytes, &f, body_fault == NULL) ? AUD_STATE_TORN : AUD_STATE_BAD;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The next record of a payload; NULL when it is one, else what is wrong. */
static const char *record_next(struct aud_reader *payload, struct aud_record *ret_record)
{
    const uint8_t *head = aud_take(payload, RECORD_HEAD);
    struct aud_record r;
    const uint8_t *body;
    size_t len;
    size_t idem_len;

    if (head == NULL) {
        return "the record's head is cut off";
    }
    len = aud_u32(head + RECORD_LEN);
    body = aud_take(payload, len);
    idem_len = head[RECORD_IDEM_LEN];
    if (body == NULL || idem_len > len) {
        return "the record is longer than the frame";
    }
    r = (struct aud_record){
        .kind = head[RECORD_KIND],
        .flags = aud_u16(head + RECORD_FLAGS),
        .count = aud_u32(head + RECORD_COUNT),
        .now_ms = aud_u64(head + RECORD_NOW),
        .idem_id = {idem_len > 0 ? (const char *)body : NULL, idem_len},
        .entries = {.at = body + idem_len, .end = body + len, .ok = true},
    };
    if ((r.flags & ~RECORD_FLAGS_ALL) != 0 || aud_u32(head + RECORD_ZERO) != 0) {
        return "unknown flags, or bytes that must be zero";
    }
    if (idem_len > 0 && !aud_token_valid(r.idem_id)) {
        return "idem_id is not 1-128 printable characters";
    }
    if (r.kind == AUD_RECORD_BATCH) {
        if (r.count == 0) {
            return "a batch without entries";
        }
    } else if (r.kind != AUD_RECORD_CANCEL) {
        return "unknown kind of record";
    } else if (r.count != 0 || idem_len == 0 || len != idem_len) {
        return "a cancel holds an idem_id and nothing else";
    }
    *ret_record = r;
    return NULL;
}

/* LEB128: seven bits a byte, lowest first; the high bit says that more follow. The last byte is not
 * 0 unless it is the only one, so a number has one form. */
static ron_u128 take_varint(struct aud_reader *r, unsigned bits)
{
    ron_u128 v = 0;

    for (unsigned shift = 0; shift < bits; shift += 7) {
        uint8_t byte = aud_take_u8(r);
        ron_u128 part = byte & 0x7f;

        if (bits - shift < 7 && part >> (bits - shift) != 0) {
            break;
        }
        v |= part << shift;
        if ((byte & 0x80) == 0) {
            r->ok = r->ok && (byte != 0 || shift == 0);
            return v;
        }
    }
    r->ok = false;
    return 0;
}

static void take_side(struct aud_reader *r, bool has_held, struct aud_side *ret)
{
    ret->prev_seq = (uint64_t)take_varint(r, 64);
    ret->available = take_varint(r, 128);
    ret->held = has_held ? take_varint(r, 128) : 0;
    r->ok = r->ok && (!has_held || ret->held != 0);
}

/* The next entry of a record and its links; the same. */
static const char *stored_next(struct aud_reader *entries, struct ron_str *ret_leaf,
                               struct aud_links *ret_links)
{
    struct aud_links links = {0};
    struct ron_str leaf = aud_take_text(entries, aud_take_u16(entries));
    uint8_t flags = aud_take_u8(entries);

    if (!entries->ok) {
        return "the entry is longer than its record";
    }
    if (leaf.len < AUD_ENTRY_MIN || leaf.len > AUD_ENTRY_MAX) {
        return "an entry has 55 to 1383 bytes";
    }
    links.has_to = (flags & LINKS_TO) != 0;
    if ((flags & ~LINKS_ALL) != 0 || (!links.has_to && (flags & LINKS_TO_HELD) != 0)) {
        return "unknown flags of links";
    }
    take_side(entries, (flags & LINKS_HELD) != 0, &links.account);
    if (links.has_to) {
        take_side(entries, (flags & LINKS_TO_HELD) != 0, &links.to);
    }
    if (!entries->ok) {
        return "malformed links";
    }
    *ret_leaf = leaf;
    *ret_links = links;
    return NULL;
}

/* ---- all of a frame -------------------------------------------------------------------------- */

void aud_iter_begin(struct aud_iter *it, const struct aud_frame *frame)
{
    *it = (struct aud_iter){
        .payload = {.at = frame->payload, .end = frame->payload + frame->payload_len, .ok = true},
        .records_left = frame->records,
        .seq = frame->seq_first - 1,
        .entries_told = frame->entries,
    };
}

static enum aud_step bad(struct aud_iter *it, const char *fault)
{
    it->fault = fault;
    return AUD_STEP_BAD;
}

static enum aud_step next_record(struct aud_iter *it)
{
    const char *fault;

    if (it->record.entries.at != it->record.entries.end) {
        return bad(it, "bytes follow the last entry of a record");
    }
    if (it->records_left == 0) {
        if (it->payload.at != it->payload.end) {
            return bad(it, "bytes follow the last record of a frame");
        }
        return it->entries == it->entries_told
                   ? AUD_STEP_END
                   : bad(it, "the records have another number of entries than the frame tells");
    }
    it->records_left--;
    fault = record_next(&it->payload, &it->record);
    if (fault != NULL) {
        return bad(it, fault);
    }
    it->entries_left = it->record.count;
    return AUD_STEP_RECORD;
}

enum aud_step aud_iter_next(struct aud_iter *it)
{
    const char *fault;

    if (it->fault != NULL) {
        return AUD_STEP_BAD;
    }
    if (it->entries_left == 0) {
        return next_record(it);
    }
    fault = stored_next(&it->record.entries, &it->leaf, &it->links);
    if (fault != NULL) {
        return bad(it, fault);
    }
    it->entries_left--;
    it->entries++;
    it->seq++;
    return AUD_STEP_ENTRY;
}
