/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/follow.c - what the index takes from the journal; the contract is in follow.h. */
#include "ledger/index/follow.h"

/* The key of an account is a keyed hash already: its bits are as good as random. */
bool led_follow_skips(struct led_key account, uint64_t seq)
{
    return ((account.b ^ seq) & (LED_SKIP_EVERY - 1)) == 0;
}

enum ron_rc led_follow_entry(struct led_index *ix, const struct led_entry *entry,
                             const struct led_prep *prep, uint64_t seq, struct ron_err *err)
{
    RON_TRY(led_index_add(ix, LED_INDEX_ID, prep->id, entry->id, seq, err));
    if (led_follow_skips(prep->account, seq)) {
        RON_TRY(led_index_add_skip(ix, prep->account, seq, err));
    }
    if (entry->to.len != 0 && led_follow_skips(prep->to, seq)) {
        RON_TRY(led_index_add_skip(ix, prep->to, seq, err));
    }
    return RON_OK;
}

enum ron_rc led_follow_idem(struct led_index *ix, struct led_key key, struct ron_str idem_id,
                            uint64_t seq_first, struct ron_err *err)
{
    return idem_id.len == 0 ? RON_OK
                            : led_index_add(ix, LED_INDEX_IDEM, key, idem_id, seq_first, err);
}

static enum ron_rc follow_record(struct led_index *ix, const uint8_t hash_key[16],
                                 const struct led_record *record, uint64_t after_seq,
                                 struct ron_err *err)
{
    struct led_cursor cursor;
    struct led_stored stored;
    bool bad = false;

    if (record->seq_first > after_seq) {
        RON_TRY(led_follow_idem(ix, led_idem_key(hash_key, record->idem_id), record->idem_id,
                                record->seq_first, err));
    }
    led_entries(record, &cursor);
    while (led_entries_next(&cursor, &stored, &bad)) {
        struct led_entry entry;
        struct led_refusal refusal;
        struct led_prep prep = {0};

        if (stored.seq <= after_seq) {
            continue;
        }
        if (!led_entry_decode((const uint8_t *)stored.leaf.ptr, stored.leaf.len, LED_ORIGIN_LEDGER,
                              &entry, &refusal)) {
            return ron_err_set(err, RON_CORRUPT, "entry %llu: %s", (unsigned long long)stored.seq,
                               refusal.detail);
        }
        led_book_prepare(hash_key, &entry, &prep);
        RON_TRY(led_follow_entry(ix, &entry, &prep, stored.seq, err));
    }
    return bad ? ron_err_set(err, RON_CORRUPT, "a record that no writer makes") : RON_OK;
}

enum ron_rc led_follow_frame(struct led_index *ix, const uint8_t hash_key[16],
                             const struct led_frame *frame, uint64_t after_seq, struct ron_err *err)
{
    struct led_cursor cursor;
    struct led_record record;
    bool bad = false;

    led_records(frame, &cursor);
    while (led_records_next(&cursor, &record, &bad)) {
        RON_TRY(follow_record(ix, hash_key, &record, after_seq, err));
    }
    return bad ? ron_err_set(err, RON_CORRUPT, "a frame that no writer makes") : RON_OK;
}
