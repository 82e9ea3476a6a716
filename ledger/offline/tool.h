/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/offline/tool.h - tools for the data directory of a ledger that is down.
 *
 * Place: ledger; public, for the command line. Tools block, belong to one thread, and never touch a
 * directory on which a ledger runs (RON_AGAIN), but for reading. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/rc.h"

struct led_tool_opts {
    const char *dir; /* data directory */
    /* How far it is, now and then; may be NULL. */
    void (*progress)(void *arg, uint64_t seq, uint64_t last_seq);
    void *arg;
};

struct led_tool_report {
    uint64_t entries;
    uint64_t segments;
    uint64_t bytes;
    uint64_t checked; /* entries that went through book and tree */
    uint64_t took_ms;
    uint8_t root[32];
};

/* Reads and checks the whole journal, changes nothing. RON_CORRUPT says what is damaged, where. */
RON_MUST_USE enum ron_rc led_tool_verify(const struct led_tool_opts *opts,
                                         struct led_tool_report *ret_report, struct ron_err *err);
/* Makes everything that is derived from the log anew. */
RON_MUST_USE enum ron_rc led_tool_rebuild(const struct led_tool_opts *opts,
                                          struct led_tool_report *ret_report, struct ron_err *err);

/* Pieces of text; anything but RON_OK ends the work. */
typedef enum ron_rc led_tool_write(void *arg, const void *bytes, size_t len, struct ron_err *err);
/* Up to `size` bytes; 0 at the end. */
typedef enum ron_rc led_tool_read(void *arg, void *bytes, size_t size, size_t *ret_len,
                                  struct ron_err *err);

/* The journal as text: "ndjson", "hledger", "ledger" or "beancount" (RON_INVALID otherwise); whole
 * batches that begin from `from` (0: the first) to `to` (0: the end). */
RON_MUST_USE enum ron_rc led_tool_export(const struct led_tool_opts *opts, const char *format,
                                         uint64_t from, uint64_t to, led_tool_write *write,
                                         void *arg, struct ron_err *err);
/* An NDJSON export into an empty directory, to the same root. RON_CONFLICT when it is not empty. */
RON_MUST_USE enum ron_rc led_tool_import(const struct led_tool_opts *opts, led_tool_read *read,
                                         void *arg, struct led_tool_report *ret_report,
                                         struct ron_err *err);
