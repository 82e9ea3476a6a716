/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/recall.c - used nonces from the log; the contract is in recall.h. */
#include "ledger/recover/recall.h"

#include <inttypes.h>

#include "ron/sync/sync.h"

enum {
    PAIRS = 1024, /* told to the book at once: enough to ask for memory ahead */
    NEAR = 4096,  /* entries: where halving ends, since a frame may hold as many */
};

/* What both threads share. */
struct shared {
    const struct led_recall_opts *opts;
    struct ron_mutex lock; /* of the book */
};

/* One thread's part of the log. */
struct recall {
    struct shared *shared;
    uint64_t from;
    uint64_t to;
    bool tells_progress;
    enum ron_rc rc;
    struct ron_err err;
    size_t count;
    struct led_used used[PAIRS];
};

static enum ron_rc tell(struct recall *r, struct ron_err *err)
{
    enum ron_rc rc;

    ron_mutex_lock(&r->shared->lock);
    rc = led_book_recall(r->shared->opts->book, r->used, r->count);
    ron_mutex_unlock(&r->shared->lock);
    r->count = 0;
    return rc == RON_OK ? RON_OK : ron_err_set(err, rc, "no memory for used nonces");
}

static enum ron_rc add_entry(struct recall *r, const struct led_stored *stored, struct ron_err *err)
{
    struct led_entry entry;
    struct led_refusal refusal;

    if (!led_entry_decode((const uint8_t *)stored->leaf.ptr, stored->leaf.len, LED_ORIGIN_LEDGER,
                          &entry, &refusal)) {
        return ron_err_set(err, RON_CORRUPT, "entry %" PRIu64 ": %s", stored->seq, refusal.detail);
    }
    r->used[r->count++] =
        (struct led_used){.ts_ms = entry.ts_ms,
                          .fingerprint = led_book_fingerprint(r->shared->opts->hash_key, &entry)};
    return r->count == PAIRS ? tell(r, err) : RON_OK;
}

static enum ron_rc add_frame(void *arg, const struct led_frame *frame, const char *where,
                             struct ron_err *err)
{
    struct recall *r = arg;
    struct led_cursor records;
    struct led_record record;
    struct led_cursor entries;
    struct led_stored stored;
    bool bad = false;

    (void)where;
    if (r->tells_progress) {
        r->shared->opts->progress(r->shared->opts->progress_arg, frame->seq_first,
                                  r->shared->opts->last_seq_guess);
    }
    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            if (stored.seq >= r->from && stored.seq <= r->to) {
                RON_TRY(add_entry(r, &stored, err));
            }
        }
    }
    return bad ? ron_err_set(err, RON_CORRUPT, "a frame that no writer makes") : RON_OK;
}

/* What the book was told when the first batch of the frame with that entry was applied. Such times
 * never fall along the log. */
static enum ron_rc time_at(struct led_log *log, uint64_t seq, struct ron_buf *room,
                           uint64_t *ret_ms, struct ron_err *err)
{
    struct led_frame frame;
    struct led_cursor records;
    struct led_record record;
    bool bad = false;

    RON_TRY(led_log_read(log, seq, room, &frame, err));
    led_records(&frame, &records);
    if (!led_records_next(&records, &record, &bad)) {
        return ron_err_set(err, RON_CORRUPT, "a frame that no writer makes");
    }
    *ret_ms = record.now_ms;
    return RON_OK;
}

/* An entry such that nothing in frames before its own is younger than `since_ms`. */
static enum ron_rc find_start(struct led_log *log, uint64_t seq_last, uint64_t since_ms,
                              uint64_t *ret_seq, struct ron_err *err)
{
    struct led_log_head head;
    struct ron_buf room;
    uint64_t low;
    uint64_t high = seq_last;
    uint64_t ms = 0;
    enum ron_rc rc;

    led_log_head(log, &head);
    low = RON_MAX(head.first_seq, (uint64_t)1);
    ron_buf_init(&room, LED_FRAME_MAX);
    rc = time_at(log, low, &room, &ms, err);
    while (rc == RON_OK && ms < since_ms && high > low + NEAR) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t middle_ms = 0;

        rc = time_at(log, middle, &room, &middle_ms, err);
        if (middle_ms < since_ms) {
            low = middle;
        } else {
            high = middle;
        }
    }
    ron_buf_done(&room);
    *ret_seq = low;
    return rc;
}

static void read_part(void *arg)
{
    struct recall *r = arg;

    r->rc = led_log_scan(r->shared->opts->log, r->from, r->to, add_frame, r, &r->err);
    r->rc = r->rc == RON_OK ? tell(r, &r->err) : r->rc;
}

/* The book is touched under the lock alone; reading and decoding, which is most, goes on beside. */
static enum ron_rc read_halves(struct shared *shared, uint64_t from, uint64_t to,
                               struct ron_err *err)
{
    struct recall halves[2] = {
        {.shared = shared, .from = from, .to = from + (to - from) / 2},
        {.shared = shared, .from = from + (to - from) / 2 + 1, .to = to},
    };
    struct ron_thread *thread;

    halves[1].tells_progress = shared->opts->progress != NULL;
    RON_TRY(ron_thread_start(
        &(struct ron_thread_opts){
            .name = "led-recall", .may_block = true, .main = read_part, .arg = &halves[0]},
        &thread, err));
    read_part(&halves[1]);
    ron_thread_join(thread);
    for (int i = 0; i < 2; i++) {
        if (halves[i].rc != RON_OK) {
            return ron_err_set(err, halves[i].rc, "%s", halves[i].err.msg);
        }
    }
    return RON_OK;
}

static enum ron_rc read_whole(struct shared *shared, uint64_t from, uint64_t to,
                              struct ron_err *err)
{
    struct recall whole = {
        .shared = shared, .from = from, .to = to, .tells_progress = shared->opts->progress != NULL};

    read_part(&whole);
    return whole.rc == RON_OK ? RON_OK : ron_err_set(err, whole.rc, "%s", whole.err.msg);
}

enum ron_rc led_recall(const struct led_recall_opts *opts, struct ron_err *err)
{
    struct shared shared = {.opts = opts};
    uint64_t to = led_book_committed_seq(opts->book);
    uint64_t from = 0;
    enum ron_rc rc;

    if (to == 0) {
        return RON_OK;
    }
    RON_TRY(find_start(opts->log, to, led_book_recall_from_ms(opts->book), &from, err));
    ron_mutex_init(&shared.lock, RON_RANK_LEAF, "led-recall");
    rc = opts->parallel && to > from ? read_halves(&shared, from, to, err)
                                     : read_whole(&shared, from, to, err);
    ron_mutex_done(&shared.lock);
    return rc;
}
