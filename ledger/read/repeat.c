/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/repeat.c - keys that may be in the journal: repetitions, originals, outcomes.
 *
 * What a key leads to is decided by the journal alone. An idem_id belongs to one record for ever: a
 * batch, or the tombstone that cancelled it. An id belongs to one entry, and through it to its
 * batch. A work is a repetition when its entries are those of that batch, byte for byte and in the
 * same order, under the same idem_id. */
#include "ledger/read/priv.h"

#include <string.h>

#include "ron/base/str.h"

/* What the journal holds for an idem_id. */
struct keyed {
    struct ron_str idem_id;
    const struct led_work *work; /* to compare with; NULL: only asked for */
    enum led_key_state state;
    uint64_t seq_first;
    uint64_t seq_last;
    uint64_t time_ms;
    bool same; /* the work has the entries of the record */
};

static bool same_entries(const struct led_record *record, const struct led_work *w)
{
    struct led_cursor cursor;
    struct led_stored stored;
    bool bad = false;
    size_t i = 0;

    if (record->count != w->batch.count) {
        return false;
    }
    led_entries(record, &cursor);
    while (led_entries_next(&cursor, &stored, &bad)) {
        if (!ron_str_equal(stored.leaf, w->leaves[i++])) {
            return false;
        }
    }
    return !bad && i == record->count;
}

/* True when the record is the one of the key; then `k` is filled in. */
static bool take_record(struct keyed *k, const struct led_record *record, uint64_t time_ms)
{
    if (!ron_str_equal(record->idem_id, k->idem_id)) {
        return false;
    }
    k->time_ms = time_ms;
    if (record->kind == LED_RECORD_CANCEL) {
        k->state = LED_KEY_CANCELLED;
        return true;
    }
    k->state = LED_KEY_COMMITTED;
    k->seq_first = record->seq_first;
    k->seq_last = record->seq_first + record->count - 1;
    k->same = k->work != NULL && same_entries(record, k->work);
    return true;
}

static enum ron_rc see_frame(void *arg, const struct led_frame *frame, const char *where,
                             struct ron_err *err)
{
    struct led_cursor records;
    struct led_record record;
    bool bad = false;

    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        if (take_record(arg, &record, frame->time_ms)) {
            return ron_err_set(err, RON_CANCELLED, "found");
        }
    }
    if (bad) {
        return ron_err_set(err, RON_CORRUPT, "%s: a record is not well formed", where);
    }
    return RON_OK;
}

/* Looks for the key around `seq`. A batch stands at its first entry. A tombstone has no entry: it
 * is
 * known by the one that follows, and lies somewhere between that and the one before, maybe in a
 * frame without any. */
static enum ron_rc look_around(struct led_reader *r, uint64_t seq, struct keyed *k,
                               struct ron_err *err)
{
    struct led_found found;
    struct ron_err scan_err = {0};
    enum ron_rc rc;

    if (seq > 0 && seq <= r->last_seq) {
        RON_TRY(led__read_stored(r, seq, &found, err));
        if (take_record(k, &found.record, found.frame.time_ms)) {
            return RON_OK;
        }
    }
    rc = led_log_scan(r->opts.log, seq > 1 ? seq - 1 : 1, seq, see_frame, k, &scan_err);
    if (k->state != LED_KEY_UNKNOWN || rc == RON_NOTFOUND) {
        return RON_OK;
    }
    if (rc != RON_OK) {
        *err = scan_err;
    }
    return led__read_checked(r, rc, err);
}

static enum ron_rc find_idem(struct led_reader *r, struct led_candidates candidates,
                             struct keyed *k, struct ron_err *err)
{
    uint64_t seqs[LED_INDEX_FOUND_MAX];
    size_t count = 0;

    for (size_t i = 0; i < candidates.count && k->state == LED_KEY_UNKNOWN; i++) {
        RON_TRY(look_around(r, candidates.seqs[i], k, err));
    }
    if (k->state != LED_KEY_UNKNOWN) {
        return RON_OK;
    }
    RON_TRY(led__read_indexed(r, LED_INDEX_IDEM, k->idem_id, seqs, &count, err));
    for (size_t i = 0; i < count && k->state == LED_KEY_UNKNOWN; i++) {
        RON_TRY(look_around(r, seqs[i], k, err));
    }
    return RON_OK;
}

/* ---- repetitions ----------------------------------------------------------------------------- */

static void refuse(struct led_work *w, enum led_reason reason, uint32_t idx, const char *member,
                   const char *detail)
{
    struct led_refusal refusal;

    led_refuse(&refusal, reason, member, detail);
    w->refusals.count = 0;
    led_refusals_add(&w->refusals, &refusal, idx);
    w->result = LED_RESULT_REFUSED;
}

/* The original outcome, of which the root is the one at the batch's last entry. */
static enum ron_rc replay(struct led_reader *r, struct led_work *w, uint64_t seq_first,
                          uint64_t seq_last, uint64_t time_ms, struct ron_err *err)
{
    struct ron_tree_hash root;

    RON_TRY(led_read_root(r, seq_last, &root, err));
    w->result = LED_RESULT_COMMITTED;
    w->replayed = true;
    w->seq_first = seq_first;
    w->seq_last = seq_last;
    w->commit_ms = time_ms;
    w->root = root;
    return RON_OK;
}

static enum ron_rc decide_idem(struct led_reader *r, struct led_work *w, const struct keyed *k,
                               struct ron_err *err)
{
    w->root = r->root;
    if (k->state == LED_KEY_CANCELLED) {
        if (w->kind == LED_WORK_CANCEL) {
            w->result = LED_RESULT_CANCELLED;
            w->replayed = true;
            w->commit_ms = k->time_ms;
        } else {
            refuse(w, LED_REASON_CONFLICT, 0, "idem_id", "the key was cancelled");
        }
    } else if (w->kind == LED_WORK_CANCEL) {
        refuse(w, LED_REASON_CONFLICT, 0, "idem_id", "the key is committed");
    } else if (!k->same) {
        refuse(w, LED_REASON_IDEM_MISMATCH, 0, "idem_id", "the key was used with another body");
    } else {
        return replay(r, w, k->seq_first, k->seq_last, k->time_ms, err);
    }
    return RON_OK;
}

/* An id of the work is that of entry `seq`. */
static enum ron_rc decide_id(struct led_reader *r, struct led_work *w, uint32_t idx, uint64_t seq,
                             struct ron_err *err)
{
    struct led_found found;

    RON_TRY(led__read_stored(r, seq, &found, err));
    w->root = r->root;
    if (!same_entries(&found.record, w)) {
        refuse(w, LED_REASON_IDEM_MISMATCH, idx, "id", "the id was used with another body");
        return RON_OK;
    }
    if (!ron_str_equal(found.record.idem_id, w->batch.idem_id)) {
        refuse(w, LED_REASON_IDEM_MISMATCH, idx, "idem_id", "the batch has another idem_id");
        return RON_OK;
    }
    return replay(r, w, found.record.seq_first, found.record.seq_first + found.record.count - 1,
                  found.frame.time_ms, err);
}

/* The sequencer says where one of the keys was seen. The journal knows whether that is so. */
static enum ron_rc check_found(struct led_reader *r, struct led_work *w, enum led_repeat *ret,
                               struct ron_err *err)
{
    struct keyed k = {.idem_id = w->batch.idem_id, .work = w};
    struct led_found found;

    *ret = LED_REPEAT_DONE;
    if (k.idem_id.len != 0) {
        RON_TRY(look_around(r, w->found_seq, &k, err));
        if (k.state != LED_KEY_UNKNOWN) {
            return decide_idem(r, w, &k, err);
        }
    }
    if (w->found_seq > r->last_seq) {
        return ron_err_set(err, RON_AGAIN, "the head is not yet at entry %llu",
                           (unsigned long long)w->found_seq);
    }
    RON_TRY(led__read_stored(r, w->found_seq, &found, err));
    for (size_t i = 0; i < w->batch.count; i++) {
        if (ron_str_equal(found.entry.id, w->batch.entries[i].id)) {
            return decide_id(r, w, (uint32_t)i, w->found_seq, err);
        }
    }
    w->checked_seq = w->found_seq;
    *ret = LED_REPEAT_NEW;
    return RON_OK;
}

enum ron_rc led_read_repeat(struct led_reader *r, struct led_work *w, enum led_repeat *ret,
                            struct ron_err *err)
{
    /* Before the first lookup: what is added behind our back does not count. */
    uint64_t applied = r->opts.index != NULL ? led_index_applied(r->opts.index) : 0;
    const struct led_candidates none = {0};
    struct keyed k = {.idem_id = w->batch.idem_id, .work = w};
    struct ron_err find_err;
    uint64_t seq = 0;
    enum ron_rc rc;

    err = led__read_err(r, err);
    if (w->found_seq != 0) {
        return check_found(r, w, ret, err);
    }
    if (k.idem_id.len != 0) {
        RON_TRY(find_idem(r, none, &k, err));
        if (k.state != LED_KEY_UNKNOWN) {
            RON_TRY(decide_idem(r, w, &k, err));
            *ret = LED_REPEAT_DONE;
            return RON_OK;
        }
    }
    for (size_t i = 0; i < w->batch.count; i++) {
        find_err = (struct ron_err){0};
        rc = led_read_find(r, w->batch.entries[i].id, none, &seq, &find_err);
        if (rc == RON_NOTFOUND) {
            continue;
        }
        if (rc != RON_OK) {
            *err = find_err;
            return rc;
        }
        RON_TRY(decide_id(r, w, (uint32_t)i, seq, err));
        *ret = LED_REPEAT_DONE;
        return RON_OK;
    }
    w->checked_seq = RON_MAX(w->checked_seq, RON_MIN(applied, r->last_seq));
    *ret = LED_REPEAT_NEW;
    return RON_OK;
}

/* ---- originals ------------------------------------------------------------------------------- */

/* A copy of a stored entry that lives as long as the work. */
static enum ron_rc copy_entry(struct led_reader *r, struct led_work *w, uint64_t seq,
                              const struct led_entry **ret_entry, struct ron_err *err)
{
    struct led_refusal refusal;
    struct led_found found;
    struct led_entry *entry;
    const char *leaf;

    RON_TRY(led__read_stored(r, seq, &found, err));
    leaf = ron_arena_dup(&w->arena, found.stored.leaf.ptr, found.stored.leaf.len);
    entry = RON_ARENA_NEW(&w->arena, struct led_entry);
    if (leaf == NULL || entry == NULL) {
        return ron_err_set(err, RON_LIMIT, "too many reversals for one batch");
    }
    if (!led_entry_decode((const uint8_t *)leaf, found.stored.leaf.len, LED_ORIGIN_LEDGER, entry,
                          &refusal)) {
        return led__read_damage(r, err, "entry %llu cannot be read twice", (unsigned long long)seq);
    }
    *ret_entry = entry;
    return RON_OK;
}

enum ron_rc led_read_originals(struct led_reader *r, struct led_work *w,
                               struct led_candidates candidates, struct ron_err *err)
{
    const struct led_entry **originals = w->originals;
    struct ron_err find_err;
    uint64_t seq = 0;
    enum ron_rc rc;

    err = led__read_err(r, err);
    for (size_t i = 0; i < w->batch.count; i++) {
        if (w->batch.entries[i].kind != LED_KIND_REVERSE) {
            continue;
        }
        if (originals == NULL) {
            originals =
                ron_arena_alloc_array(&w->arena, w->batch.count, sizeof(void *), _Alignof(void *));
            if (originals == NULL) {
                return ron_err_set(err, RON_LIMIT, "too many reversals for one batch");
            }
        }
        find_err = (struct ron_err){0};
        rc = led_read_find(r, w->batch.entries[i].ref, w->refs != NULL ? w->refs[i] : candidates,
                           &seq, &find_err);
        if (rc == RON_NOTFOUND) {
            continue;
        }
        if (rc != RON_OK) {
            *err = find_err;
            return rc;
        }
        RON_TRY(copy_entry(r, w, seq, &originals[i], err));
    }
    w->originals = originals;
    return RON_OK;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

enum ron_rc led_read_outcome(struct led_reader *r, struct ron_str idem_id,
                             struct led_candidates candidates, struct led_key_outcome *ret,
                             struct ron_err *err)
{
    struct keyed k = {.idem_id = idem_id};
    struct led_key_outcome outcome = {0};

    err = led__read_err(r, err);
    if (!led_token_valid(idem_id)) {
        return ron_err_set(err, RON_INVALID, "an idem_id has 1-128 printable ASCII characters");
    }
    RON_TRY(find_idem(r, candidates, &k, err));
    if (k.state == LED_KEY_COMMITTED && k.seq_last > r->last_seq) {
        k.state = LED_KEY_UNKNOWN; /* D1: the index knows more than is shown */
    }
    outcome.state = k.state;
    outcome.time_ms = k.time_ms;
    if (k.state == LED_KEY_COMMITTED) {
        outcome.seq_first = k.seq_first;
        outcome.seq_last = k.seq_last;
        RON_TRY(led_read_root(r, k.seq_last, &outcome.root, err));
    }
    *ret = outcome;
    return RON_OK;
}

void led_key_outcome_to_json(struct ron_buf *out, struct ron_str idem_id,
                             const struct led_key_outcome *outcome)
{
    static const char *const names[] = {"unknown", "committed", "cancelled"};
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_str(&w, "idem_id", idem_id);
    ron_json_text(&w, "outcome", names[outcome->state]);
    if (outcome->state == LED_KEY_COMMITTED) {
        ron_json_u64(&w, "seq_start", outcome->seq_first);
        ron_json_u64(&w, "seq_end", outcome->seq_last);
        led__read_json_hash(&w, "new_root", &outcome->root);
    }
    if (outcome->state != LED_KEY_UNKNOWN) {
        ron_json_u64(&w, "ts", outcome->time_ms);
    }
    ron_json_close(&w, '}');
}
