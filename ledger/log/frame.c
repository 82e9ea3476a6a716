/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/frame.c - building frames of the log and taking them apart; docs/formats/ledger-log.md
 * draws the bytes, frame.h holds the contract. */
#include "ledger/log/frame.h"

#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "ron/base/crc32c.h"

/* Offsets of a frame's head. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_ZERO = 6,
    AT_SIZE = 8,
    AT_PAYLOAD_LEN = 12,
    AT_UUID = 16,
    AT_EPOCH = 32,
    AT_SEQ = 40,
    AT_ENTRIES = 48,
    AT_RECORDS = 52,
    AT_TIME = 56,
    AT_PREV_ROOT = 64,
    AT_NEW_ROOT = 96,
    AT_BODY_CRC = 128,
    AT_HEAD_CRC = 132,
};

/* Offsets of a record's head. */
enum {
    AT_RECORD_KIND = 0,
    AT_RECORD_IDEM_LEN = 1,
    AT_RECORD_FLAGS = 2,
    AT_RECORD_COUNT = 4,
    AT_RECORD_NOW = 8,
    AT_RECORD_LEN = 16,
    AT_RECORD_ZERO = 20,
};

/* Offsets of a segment's head. */
enum {
    AT_SEGMENT_UUID = 8,
    AT_SEGMENT_NUMBER = 24,
    AT_SEGMENT_SEQ = 32,
    AT_SEGMENT_ROOT = 40,
    AT_SEGMENT_CREATED = 72,
    AT_SEGMENT_BYTES = 80,
    AT_SEGMENT_CRC = 88,
    AT_SEGMENT_REST = 92,
};

enum {
    FORMAT_VERSION = 1,
    LEAF_PREFIX = 2, /* u16 length before each leaf */
    LINKS_HAS_TO = 1,
    LINKS_HELD = 2,
    LINKS_TO_HELD = 4,
    RECORD_FLAGS = LED_RECORD_IMPORT | LED_RECORD_OWN,
};

#define FRAME_MAGIC UINT32_C(0x524f4e46)   /* "RONF" */
#define TAIL_MAGIC UINT32_C(0x524f4e65)    /* "RONe" */
#define SEGMENT_MAGIC UINT32_C(0x524f4e53) /* "RONS" */

_Static_assert(AT_HEAD_CRC + 4 == LED_FRAME_HEAD, "the head's checksum ends it");
_Static_assert(AT_RECORD_ZERO + 4 == LED_RECORD_HEAD, "four zeros end a record's head");
_Static_assert(LED_ID_MAX <= UINT8_MAX, "idem_len is a byte");
_Static_assert(LED_ENTRY_BYTES_MAX <= UINT16_MAX, "so is the prefix of a leaf wide enough");

/* ---- numbers --------------------------------------------------------------------------------- */

/* LEB128: seven bits a byte, lowest first, the high bit says that more follow. */
static uint8_t *put_varint(uint8_t *to, uint64_t v)
{
    while (v >= 0x80) {
        *to++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *to++ = (uint8_t)v;
    return to;
}

static uint8_t *put_varint_wide(uint8_t *to, ron_u128 v)
{
    while (v > UINT64_MAX) {
        *to++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    return put_varint(to, (uint64_t)v);
}

/* A failed read sticks: `at` turns NULL. Most numbers end within nine bytes, which needs no wide
 * shifts. */
static ron_u128 get_varint(const uint8_t **at, const uint8_t *end, unsigned bits)
{
    const uint8_t *p = *at;
    uint64_t low = 0;
    ron_u128 v;
    unsigned shift = 0;

    *at = NULL;
    for (; p != NULL && p < end && shift < 63; shift += 7) {
        uint8_t byte = *p++;

        low |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *at = byte == 0 && shift > 0 ? NULL : p; /* one form: no empty last byte */
            return low;
        }
    }
    for (v = low; p != NULL && p < end && shift < bits; shift += 7) {
        uint8_t byte = *p++;
        unsigned left = bits - shift;

        if (left < 7 && (byte & 0x7f) >> left != 0) {
            return 0; /* above the largest */
        }
        v |= (ron_u128)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *at = byte == 0 ? NULL : p;
            return v;
        }
    }
    return 0;
}

static bool all_zero(const uint8_t *bytes, size_t len)
{
    return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

static size_t frame_size(size_t payload_len)
{
    size_t size = LED_FRAME_HEAD + payload_len + LED_FRAME_TAIL;

    return (size + LED_SECTOR - 1) / LED_SECTOR * LED_SECTOR;
}

/* ---- building -------------------------------------------------------------------------------- */

enum ron_rc led_frame_begin(struct ron_buf *out)
{
    uint8_t *room;

    RON_ASSERT(ron_buf_len(out) == 0);
    RON_TRY(ron_buf_reserve(out, LED_FRAME_HEAD, &room));
    memset(room, 0, LED_FRAME_HEAD);
    ron_buf_commit(out, LED_FRAME_HEAD);
    return RON_OK;
}

enum ron_rc led_frame_add_record(struct ron_buf *out, const struct led_record *record)
{
    size_t idem_len = record->idem_id.len;
    uint8_t *room;

    RON_ASSERT(idem_len <= LED_ID_MAX);
    RON_ASSERT((record->flags & ~RECORD_FLAGS) == 0);
    RON_ASSERT(record->kind == LED_RECORD_BATCH ? record->count > 0
                                                : record->count == 0 && idem_len > 0);
    RON_TRY(ron_buf_reserve(out, LED_RECORD_HEAD + idem_len, &room));
    room[AT_RECORD_KIND] = record->kind;
    room[AT_RECORD_IDEM_LEN] = (uint8_t)idem_len;
    (void)ron_put_be16(room + AT_RECORD_FLAGS, record->flags);
    (void)ron_put_be32(room + AT_RECORD_COUNT, record->count);
    (void)ron_put_be64(room + AT_RECORD_NOW, record->now_ms);
    (void)ron_put_be32(room + AT_RECORD_LEN, 0); /* led_frame_end_record knows it */
    (void)ron_put_be32(room + AT_RECORD_ZERO, 0);
    if (idem_len > 0) {
        memcpy(room + LED_RECORD_HEAD, record->idem_id.ptr, idem_len);
    }
    ron_buf_commit(out, LED_RECORD_HEAD + idem_len);
    return RON_OK;
}

static uint8_t *put_side(uint8_t *to, const struct led_side *side)
{
    to = put_varint(to, side->prev_seq);
    to = put_varint_wide(to, side->available.v);
    return ron_money_is_zero(side->held) ? to : put_varint_wide(to, side->held.v);
}

enum ron_rc led_frame_add_entry(struct ron_buf *out, struct ron_str leaf,
                                const struct led_links *links)
{
    uint8_t *room;
    uint8_t *to;

    RON_ASSERT(leaf.len >= LED_ENTRY_BYTES_MIN);
    RON_ASSERT(leaf.len <= LED_ENTRY_BYTES_MAX);
    RON_TRY(ron_buf_reserve(out, LEAF_PREFIX + leaf.len + LED_LINKS_BYTES_MAX, &room));
    (void)ron_put_be16(room, (uint16_t)leaf.len);
    memcpy(room + LEAF_PREFIX, leaf.ptr, leaf.len);
    to = room + LEAF_PREFIX + leaf.len;
    *to++ = (uint8_t)((links->has_to ? LINKS_HAS_TO : 0) |
                      (ron_money_is_zero(links->account.held) ? 0 : LINKS_HELD) |
                      (links->has_to && !ron_money_is_zero(links->to.held) ? LINKS_TO_HELD : 0));
    to = put_side(to, &links->account);
    if (links->has_to) {
        to = put_side(to, &links->to);
    }
    ron_buf_commit(out, (size_t)(to - room));
    return RON_OK;
}

void led_frame_end_record(struct ron_buf *out, size_t record_at)
{
    if (ron_buf_error(out) != RON_OK) {
        return; /* led_frame_end tells it */
    }
    RON_ASSERT(record_at + LED_RECORD_HEAD <= ron_buf_len(out));
    (void)ron_put_be32(out->memory + out->head + record_at + AT_RECORD_LEN,
                       (uint32_t)(ron_buf_len(out) - record_at - LED_RECORD_HEAD));
}

static void write_head(uint8_t *head, const struct led_frame *frame, size_t size,
                       size_t payload_len, uint32_t body_crc)
{
    (void)ron_put_be32(head + AT_MAGIC, FRAME_MAGIC);
    (void)ron_put_be16(head + AT_VERSION, FORMAT_VERSION);
    (void)ron_put_be16(head + AT_ZERO, 0);
    (void)ron_put_be32(head + AT_SIZE, (uint32_t)size);
    (void)ron_put_be32(head + AT_PAYLOAD_LEN, (uint32_t)payload_len);
    memcpy(head + AT_UUID, frame->uuid, LED_UUID_SIZE);
    (void)ron_put_be64(head + AT_EPOCH, frame->epoch);
    (void)ron_put_be64(head + AT_SEQ, frame->seq_first);
    (void)ron_put_be32(head + AT_ENTRIES, frame->entries);
    (void)ron_put_be32(head + AT_RECORDS, frame->records);
    (void)ron_put_be64(head + AT_TIME, frame->time_ms);
    memcpy(head + AT_PREV_ROOT, frame->prev_root.bytes, RON_TREE_HASH_BYTES);
    memcpy(head + AT_NEW_ROOT, frame->new_root.bytes, RON_TREE_HASH_BYTES);
    (void)ron_put_be32(head + AT_BODY_CRC, body_crc);
    (void)ron_put_be32(head + AT_HEAD_CRC, ron_crc32c(0, head, AT_HEAD_CRC));
}

/* The magic comes last: no bit of it flipped alone makes a byte zero, so a tail that was cut inside
 * is told from a spoiled one. */
static void write_tail(const uint8_t *head, uint8_t ret_tail[LED_FRAME_TAIL])
{
    memcpy(ret_tail, head + AT_HEAD_CRC, 4);
    (void)ron_put_be32(ret_tail + 4, TAIL_MAGIC);
}

enum ron_rc led_frame_end(struct ron_buf *out, const struct led_frame *frame)
{
    size_t payload_len;
    size_t size;
    uint8_t *room;
    uint8_t *bytes;
    size_t pad;

    RON_TRY(ron_buf_error(out));
    RON_ASSERT(ron_buf_len(out) >= LED_FRAME_HEAD);
    RON_ASSERT(frame->seq_first > 0);
    payload_len = ron_buf_len(out) - LED_FRAME_HEAD;
    size = frame_size(payload_len);
    if (size > LED_FRAME_MAX) {
        return RON_LIMIT;
    }
    pad = size - ron_buf_len(out);
    RON_TRY(ron_buf_reserve(out, pad, &room));
    memset(room, 0, pad);
    ron_buf_commit(out, pad);
    bytes = out->memory + out->head;
    write_head(bytes, frame, size, payload_len,
               ron_crc32c(0, bytes + LED_FRAME_HEAD, size - LED_FRAME_HEAD - LED_FRAME_TAIL));
    write_tail(bytes, bytes + size - LED_FRAME_TAIL);
    return RON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

bool led_frame_peek(const uint8_t bytes[LED_FRAME_HEAD], struct led_frame *ret_frame,
                    size_t *ret_size)
{
    struct led_frame f = {
        .epoch = ron_get_be64(bytes + AT_EPOCH),
        .seq_first = ron_get_be64(bytes + AT_SEQ),
        .entries = ron_get_be32(bytes + AT_ENTRIES),
        .records = ron_get_be32(bytes + AT_RECORDS),
        .time_ms = ron_get_be64(bytes + AT_TIME),
        .payload_len = ron_get_be32(bytes + AT_PAYLOAD_LEN),
    };
    size_t size = ron_get_be32(bytes + AT_SIZE);

    if (ron_get_be32(bytes + AT_MAGIC) != FRAME_MAGIC ||
        ron_get_be16(bytes + AT_VERSION) != FORMAT_VERSION || ron_get_be16(bytes + AT_ZERO) != 0 ||
        ron_get_be32(bytes + AT_HEAD_CRC) != ron_crc32c(0, bytes, AT_HEAD_CRC)) {
        return false;
    }
    if (size > LED_FRAME_MAX || f.payload_len > size || size != frame_size(f.payload_len) ||
        f.seq_first == 0 || f.seq_first > (uint64_t)INT64_MAX - f.entries) {
        return false;
    }
    memcpy(f.uuid, bytes + AT_UUID, LED_UUID_SIZE);
    memcpy(f.prev_root.bytes, bytes + AT_PREV_ROOT, RON_TREE_HASH_BYTES);
    memcpy(f.new_root.bytes, bytes + AT_NEW_ROOT, RON_TREE_HASH_BYTES);
    *ret_frame = f;
    *ret_size = size;
    return true;
}

static bool body_checks(const uint8_t *bytes, size_t size, size_t payload_len)
{
    size_t body_len = size - LED_FRAME_HEAD - LED_FRAME_TAIL;

    return ron_crc32c(0, bytes + LED_FRAME_HEAD, body_len) == ron_get_be32(bytes + AT_BODY_CRC) &&
           all_zero(bytes + LED_FRAME_HEAD + payload_len, body_len - payload_len);
}

/* F2, of a frame with a good head that does not check. */
static bool never_whole(const uint8_t *bytes, size_t size, bool body_good,
                        const uint8_t tail[LED_FRAME_TAIL])
{
    const uint8_t *end = bytes + size - LED_FRAME_TAIL;
    size_t same = 0;

    if (body_good) { /* then only the end can be missing */
        while (end[same] == tail[same]) {
            same++;
        }
        return all_zero(end + same, LED_FRAME_TAIL - same);
    }
    for (size_t at = LED_SECTOR; at < size; at += LED_SECTOR) {
        if (all_zero(bytes + at, LED_SECTOR)) {
            return true;
        }
    }
    return all_zero(end + 4, 4);
}

enum led_frame_state led_frame_read(const uint8_t *bytes, size_t len, struct led_frame *ret_frame,
                                    size_t *ret_size)
{
    struct led_frame f;
    uint8_t tail[LED_FRAME_TAIL];
    size_t size = LED_SECTOR;
    bool body_good;

    RON_ASSERT(len >= LED_SECTOR);
    *ret_size = LED_SECTOR;
    if (all_zero(bytes, LED_SECTOR)) {
        return LED_FRAME_NONE;
    }
    if (!led_frame_peek(bytes, &f, &size)) {
        return all_zero(bytes + LED_FRAME_HEAD, LED_SECTOR - LED_FRAME_HEAD) ? LED_FRAME_TORN
                                                                             : LED_FRAME_BAD;
    }
    *ret_size = size;
    if (size > len) {
        return LED_FRAME_MORE;
    }
    write_tail(bytes, tail);
    body_good = body_checks(bytes, size, f.payload_len);
    if (!body_good || memcmp(bytes + size - LED_FRAME_TAIL, tail, LED_FRAME_TAIL) != 0) {
        return never_whole(bytes, size, body_good, tail) ? LED_FRAME_TORN : LED_FRAME_BAD;
    }
    f.payload = bytes + LED_FRAME_HEAD;
    *ret_frame = f;
    return LED_FRAME_GOOD;
}

void led_records(const struct led_frame *frame, struct led_cursor *ret_cursor)
{
    *ret_cursor = (struct led_cursor){
        .at = frame->payload,
        .end = frame->payload + frame->payload_len,
        .seq = frame->seq_first,
        .left = frame->records,
    };
}

bool led_records_next(struct led_cursor *cursor, struct led_record *ret_record, bool *ret_bad)
{
    const uint8_t *at = cursor->at;
    size_t room = (size_t)(cursor->end - at);
    struct led_record r;
    size_t len;

    *ret_bad = cursor->left == 0 ? room != 0 : room < LED_RECORD_HEAD;
    if (cursor->left == 0 || *ret_bad) {
        return false;
    }
    r = (struct led_record){
        .kind = at[AT_RECORD_KIND],
        .flags = ron_get_be16(at + AT_RECORD_FLAGS),
        .count = ron_get_be32(at + AT_RECORD_COUNT),
        .now_ms = ron_get_be64(at + AT_RECORD_NOW),
        .seq_first = cursor->seq,
        .idem_id = {(const char *)at + LED_RECORD_HEAD, at[AT_RECORD_IDEM_LEN]},
    };
    len = ron_get_be32(at + AT_RECORD_LEN);
    *ret_bad = ron_get_be32(at + AT_RECORD_ZERO) != 0 || (r.flags & ~RECORD_FLAGS) != 0 ||
               len > room - LED_RECORD_HEAD || r.idem_id.len > RON_MIN(len, (size_t)LED_ID_MAX);
    if (*ret_bad) {
        return false;
    }
    r.entries = at + LED_RECORD_HEAD + r.idem_id.len;
    r.entries_len = len - r.idem_id.len;
    *ret_bad = r.kind == LED_RECORD_BATCH ? r.count == 0
                                          : r.kind != LED_RECORD_CANCEL || r.count != 0 ||
                                                r.idem_id.len == 0 || r.entries_len != 0;
    if (*ret_bad) {
        return false;
    }
    cursor->at = at + LED_RECORD_HEAD + len;
    cursor->seq += r.count;
    cursor->left--;
    *ret_record = r;
    return true;
}

void led_entries(const struct led_record *record, struct led_cursor *ret_cursor)
{
    *ret_cursor = (struct led_cursor){
        .at = record->entries,
        .end = record->entries + record->entries_len,
        .seq = record->seq_first,
        .left = record->count,
    };
}

static void get_side(const uint8_t **at, const uint8_t *end, bool has_held, struct led_side *side)
{
    side->prev_seq = (uint64_t)get_varint(at, end, 64);
    side->available.v = get_varint(at, end, 128);
    side->held.v = has_held ? get_varint(at, end, 128) : 0;
    if (has_held && ron_money_is_zero(side->held)) {
        *at = NULL; /* one form: what is zero is left out */
    }
}

/* NULL unless links begin at `at`. */
static const uint8_t *get_links(const uint8_t *at, const uint8_t *end, struct led_links *links)
{
    uint8_t flags;

    *links = (struct led_links){0};
    if (at == end) {
        return NULL;
    }
    flags = *at++;
    links->has_to = (flags & LINKS_HAS_TO) != 0;
    if ((flags & ~(LINKS_HAS_TO | LINKS_HELD | LINKS_TO_HELD)) != 0 ||
        (flags & (LINKS_HAS_TO | LINKS_TO_HELD)) == LINKS_TO_HELD) {
        return NULL;
    }
    get_side(&at, end, (flags & LINKS_HELD) != 0, &links->account);
    if (links->has_to) {
        get_side(&at, end, (flags & LINKS_TO_HELD) != 0, &links->to);
    }
    return at;
}

bool led_entries_next(struct led_cursor *cursor, struct led_stored *ret_stored, bool *ret_bad)
{
    const uint8_t *at = cursor->at;
    size_t room = (size_t)(cursor->end - at);
    struct led_stored stored;
    size_t len;

    *ret_bad = cursor->left == 0 ? room != 0 : room < LEAF_PREFIX;
    if (cursor->left == 0 || *ret_bad) {
        return false;
    }
    len = ron_get_be16(at);
    *ret_bad = len < LED_ENTRY_BYTES_MIN || len > LED_ENTRY_BYTES_MAX || len > room - LEAF_PREFIX;
    if (*ret_bad) {
        return false;
    }
    at += LEAF_PREFIX;
    stored.leaf = (struct ron_str){(const char *)at, len};
    stored.seq = cursor->seq;
    at = get_links(at + len, cursor->end, &stored.links);
    *ret_bad = at == NULL;
    if (*ret_bad) {
        return false;
    }
    cursor->at = at;
    cursor->seq++;
    cursor->left--;
    *ret_stored = stored;
    return true;
}

/* ---- segments -------------------------------------------------------------------------------- */

void led_segment_head_write(const struct led_segment_head *head, uint8_t ret[LED_SEGMENT_HEAD])
{
    memset(ret, 0, LED_SEGMENT_HEAD);
    (void)ron_put_be32(ret + AT_MAGIC, SEGMENT_MAGIC);
    (void)ron_put_be16(ret + AT_VERSION, FORMAT_VERSION);
    memcpy(ret + AT_SEGMENT_UUID, head->uuid, LED_UUID_SIZE);
    (void)ron_put_be64(ret + AT_SEGMENT_NUMBER, head->number);
    (void)ron_put_be64(ret + AT_SEGMENT_SEQ, head->seq_first);
    memcpy(ret + AT_SEGMENT_ROOT, head->prev_root.bytes, RON_TREE_HASH_BYTES);
    (void)ron_put_be64(ret + AT_SEGMENT_CREATED, head->created_ms);
    (void)ron_put_be64(ret + AT_SEGMENT_BYTES, head->segment_bytes);
    (void)ron_put_be32(ret + AT_SEGMENT_CRC, ron_crc32c(0, ret, AT_SEGMENT_CRC));
}

bool led_segment_head_read(const uint8_t bytes[LED_SEGMENT_HEAD], struct led_segment_head *ret_head)
{
    if (ron_get_be32(bytes + AT_MAGIC) != SEGMENT_MAGIC ||
        ron_get_be16(bytes + AT_VERSION) != FORMAT_VERSION || ron_get_be16(bytes + AT_ZERO) != 0 ||
        ron_get_be32(bytes + AT_SEGMENT_CRC) != ron_crc32c(0, bytes, AT_SEGMENT_CRC) ||
        !all_zero(bytes + AT_SEGMENT_REST, LED_SEGMENT_HEAD - AT_SEGMENT_REST) ||
        ron_get_be64(bytes + AT_SEGMENT_NUMBER) == 0 || ron_get_be64(bytes + AT_SEGMENT_SEQ) == 0) {
        return false;
    }
    memcpy(ret_head->uuid, bytes + AT_SEGMENT_UUID, LED_UUID_SIZE);
    ret_head->number = ron_get_be64(bytes + AT_SEGMENT_NUMBER);
    ret_head->seq_first = ron_get_be64(bytes + AT_SEGMENT_SEQ);
    memcpy(ret_head->prev_root.bytes, bytes + AT_SEGMENT_ROOT, RON_TREE_HASH_BYTES);
    ret_head->created_ms = ron_get_be64(bytes + AT_SEGMENT_CREATED);
    ret_head->segment_bytes = ron_get_be64(bytes + AT_SEGMENT_BYTES);
    return true;
}
