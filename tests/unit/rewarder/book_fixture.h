/* SPDX-License-Identifier: Apache-2.0 */
/* book_fixture.h - books in a folder of their own, and epochs brought into any state. */
#pragma once

#include "support/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "rew_book_priv.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"

enum { BOOK_PATH_SIZE = 256 };
static struct ron_err book_err;

#define ok(call)                                                                                   \
    do {                                                                                           \
        enum ron_rc ok_rc_ = (call);                                                               \
        if (ok_rc_ != RON_OK) {                                                                    \
            fail_msg("%s: %s: %s", #call, ron_rc_name(ok_rc_), book_err.msg);                      \
        }                                                                                          \
    } while (0)

#define gives(expected, call) assert_string_equal(ron_rc_name(call), ron_rc_name(RON_##expected))

static inline struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* In memory when the system has such a folder: these tests end processes, not machines, and a sync
 * for each of thousands of steps would only wait. */
static inline void book_folder(char ret_dir[BOOK_PATH_SIZE])
{
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

    RON_ASSERT((size_t)snprintf(ret_dir, BOOK_PATH_SIZE, "%s/ron-book.XXXXXX",
                                tmp != NULL ? tmp : "/tmp") < BOOK_PATH_SIZE);
    RON_ASSERT(mkdtemp(ret_dir) != NULL);
}

static inline void book_path(const char *dir, char ret_path[BOOK_PATH_SIZE])
{
    RON_ASSERT((size_t)snprintf(ret_path, BOOK_PATH_SIZE, "%.200s/book.db", dir) < BOOK_PATH_SIZE);
}

static inline void book_remove(const char *dir)
{
    static const char *const names[] = {"book.db",         "book.db-wal", "book.db-shm",
                                        "book.db-journal", "copy.db",     "copy.db-wal"};
    char path[BOOK_PATH_SIZE];

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%.200s/%s", dir, names[i]);
        (void)unlink(path);
    }
    RON_ASSERT(rmdir(dir) == 0);
}

static inline struct rew_request request_of(const char *epoch, uint8_t run)
{
    struct rew_request r = {.policy_id = "policy:v1"};

    (void)snprintf(r.epoch, sizeof r.epoch, "%s", epoch);
    memset(r.run_key.bytes, run, sizeof r.run_key.bytes);
    memset(r.inputs_cid.bytes, 2, sizeof r.inputs_cid.bytes);
    memset(r.policy_hash.bytes, 3, sizeof r.policy_hash.bytes);
    return r;
}

static inline struct rew_manifest manifest_of(const char *epoch, uint8_t run, uint64_t payouts)
{
    struct rew_manifest m = {.epoch = str(epoch), .residual = REW_RESIDUAL_CARRY};

    memset(m.run_key.bytes, run, sizeof m.run_key.bytes);
    memset(m.commitment.bytes, 7, sizeof m.commitment.bytes);
    m.totals.paid = RON_MONEY_MAX;
    m.totals.residual = ron_money_of(5);
    m.payouts.count = payouts;
    return m;
}

/* A new epoch in that state; `payouts` in batches of 10. Returns the first failure. */
static inline void book_ignore(void *arg, const char *epoch)
{
    (void)arg;
    (void)epoch;
}

static inline enum ron_rc book_bring(struct rew_book *b, const char *epoch, enum rew_state state,
                                     uint64_t payouts, struct ron_err *err)
{
    struct rew_request r = request_of(epoch, 1);
    struct rew_manifest m = manifest_of(epoch, 1, payouts);
    struct rew_batch all[64];
    struct rew_epoch e;
    size_t count = 0;
    bool whole = false;

    RON_TRY(rew_book_reserve(b, &r, 100, &e, err));
    if (state == REW_RESERVED) {
        return RON_OK;
    }
    if (state == REW_QUARANTINED) {
        return rew_book_quarantine(b, str(epoch), REW_BREACH_CAP, "too much", 101, err);
    }
    RON_TRY(rew_book_move(b, str(epoch), REW_RESERVED, REW_COMPUTING, NULL, 102, err));
    if (state == REW_COMPUTING) {
        return RON_OK;
    }
    RON_TRY(rew_book_seal(b, &m, 103, err));
    if (state == REW_SEALED) {
        return RON_OK;
    }
    RON_TRY(rew_book_emit(b, str(epoch), 10, 104, &whole, err));
    if (state == REW_WITHHELD) {
        return rew_book_move(b, str(epoch), REW_EMITTING, REW_WITHHELD, "no answer", 105, err);
    }
    if (state == REW_EMITTED || state == REW_RETIRED) {
        RON_TRY(rew_book_batches(b, str(epoch), 0, all, RON_ARRAY_LEN(all), &count, err));
        RON_TRY(rew_book_done(b, str(epoch), all, count, 106, &whole, err));
    }
    if (state == REW_RETIRED) { /* its residual has to go somewhere first */
        char into[REW_EPOCH_MAX + 1];

        (void)snprintf(into, sizeof into, "%.100s-next", epoch);
        r = request_of(into, 1);
        (void)snprintf(r.carry_epoch, sizeof r.carry_epoch, "%s", epoch);
        RON_TRY(rew_book_reserve(b, &r, 107, &e, err));
        return rew_book_retire(b, INT64_MAX, book_ignore, NULL, err);
    }
    return RON_OK;
}

static inline enum rew_state state_of(struct rew_book *b, const char *epoch)
{
    struct rew_epoch e;

    ok(rew_book_get(b, str(epoch), &e, &book_err));
    return e.state;
}
