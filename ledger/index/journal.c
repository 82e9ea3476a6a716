/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/journal.c - the bytes of a record in the index's journal (docs/formats/
 * ledger-index.md).
 *
 * Invariant: the checksum covers the whole record and the head names journal and number. So a
 * record that a crash has cut, one that was written over another, and one that belongs elsewhere
 * are all told from one that a commit has made.
 *
 * Pure code; any thread. */
#include "ledger/index/priv.h"

#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "ron/base/crc32c.h"

static const char record_magic[4] = {'L', 'I', 'J', '1'};

enum {
    AT_SUM = 4,
    AT_LEN = 8,
    AT_JOURNAL = 16,
    AT_NUMBER = 24,
    AT_PIECES = 32,
    AT_TAILS = 36,
    AT_STATE = 40,
    AT_CLEARED = 44,
};

static uint32_t sum_of(const uint8_t *bytes, uint64_t len)
{
    uint32_t crc = ron_crc32c(0, bytes, AT_SUM);

    return ron_crc32c(crc, bytes + AT_LEN, len - AT_LEN);
}

void led__record_seal(uint8_t *bytes, const struct led_record *record)
{
    RON_ASSERT(record->len >= LED_RECORD_HEAD);
    memcpy(bytes, record_magic, sizeof record_magic);
    memcpy(bytes + AT_LEN, &record->len, sizeof record->len);
    memcpy(bytes + AT_JOURNAL, &record->journal, sizeof record->journal);
    memcpy(bytes + AT_NUMBER, &record->number, sizeof record->number);
    (void)ron_put_le32(bytes + AT_PIECES, record->pieces);
    (void)ron_put_le32(bytes + AT_TAILS, record->tails);
    (void)ron_put_le32(bytes + AT_STATE, record->state_len);
    (void)ron_put_le32(bytes + AT_CLEARED, record->cleared);
    (void)ron_put_le32(bytes + AT_SUM, sum_of(bytes, record->len));
}

bool led__record_open(const uint8_t *bytes, size_t len, uint64_t journal, uint64_t number,
                      struct led_record *ret_record)
{
    struct led_record r = {.journal = journal, .number = number};
    uint64_t fixed;

    if (len < LED_RECORD_HEAD || memcmp(bytes, record_magic, sizeof record_magic) != 0 ||
        led__load64(bytes + AT_JOURNAL) != journal || led__load64(bytes + AT_NUMBER) != number) {
        return false;
    }
    r.len = led__load64(bytes + AT_LEN);
    r.pieces = ron_get_le32(bytes + AT_PIECES);
    r.tails = ron_get_le32(bytes + AT_TAILS);
    r.state_len = ron_get_le32(bytes + AT_STATE);
    r.cleared = ron_get_le32(bytes + AT_CLEARED);
    fixed = LED_RECORD_HEAD + (uint64_t)r.pieces * LED_PIECE_BYTES + r.state_len;
    if (r.len > len || r.len < fixed || ron_get_le32(bytes + AT_SUM) != sum_of(bytes, r.len)) {
        return false;
    }
    r.tail = bytes + LED_RECORD_HEAD + (uint64_t)r.pieces * LED_PIECE_BYTES;
    r.state = bytes + r.len - r.state_len;
    *ret_record = r;
    return true;
}

void led__record_tail_head(uint8_t head[LED_TAIL_HEAD], uint32_t tree, uint32_t len)
{
    (void)ron_put_le32(head, tree);
    (void)ron_put_le32(head + 4, len);
}

bool led__record_tail(const struct led_record *record, const uint8_t **at, uint32_t *ret_tree,
                      uint32_t *ret_len)
{
    size_t left = (size_t)(record->state - *at);

    if (left < LED_TAIL_HEAD) {
        return false;
    }
    *ret_tree = ron_get_le32(*at);
    *ret_len = ron_get_le32(*at + 4);
    *at += LED_TAIL_HEAD;
    return *ret_tree < LED_TREES && *ret_len <= left - LED_TAIL_HEAD;
}
