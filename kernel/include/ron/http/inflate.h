/* SPDX-License-Identifier: Apache-2.0 */
/* inflate.h - content codings gzip and zstd, decoded piece by piece under hard caps.
 *
 * Place: http; pure code without I/O, used by the server for request bodies and by the client for
 * responses.
 *
 * Rules a caller may count on:
 *   Z1. At every moment output <= max(floor, ratio x input consumed) and output <= out_max. The
 *       byte that would break it is not delivered; the answer is RON_LIMIT. A bomb therefore costs
 *       its cap, however long it is.
 *   Z2. Verdict and output do not depend on how the input is cut or how large `out` is; only how
 *       much comes out before the fault of a malformed body does.
 *   Z3. Memory is taken when the context is made and never again: about 64 KiB for gzip; for zstd
 *       the window (8 MiB by default, of which only touched pages become resident) and 400 KiB.
 *   Z4. Input ends at the end of a gzip member or zstd frame, several of them may stand one behind
 *       the other (RFC 1952 2.2, RFC 8878 3.1); anything else behind one, padding with zeros
 *       included, is RON_INVALID. So is no input at all.
 *   Z5. A failure is final until reset: every later call returns the same code.
 *
 * Not offered: "deflate" (two meanings on the wire), "br", lists of codings, dictionaries.
 *
 * Threads: a context belongs to one thread at a time. Failure: RON_LIMIT as in Z1 and for a zstd
 * window above the limit; RON_INVALID for everything the formats do not allow.
 *
 * Use:
 *     do {
 *         RON_TRY(ron_inflate_feed(z, in, len, &used, out, sizeof out, &got));
 *         in += used, len -= used;
 *         ... take got bytes of out ...
 *     } while (len > 0 || got == sizeof out);
 *     at the end of the body: RON_TRY(ron_inflate_end(z)); */
#pragma once

#include "ron/base/json.h"

enum ron_inflate_coding { RON_INFLATE_GZIP, RON_INFLATE_ZSTD };

enum {
    RON_INFLATE_RATIO_DEFAULT = 10,
    /* One piece of a body: it is buffered anyway, and short texts do compress better than 10x. */
    RON_INFLATE_FLOOR_DEFAULT = 64 * 1024,
    RON_INFLATE_OUT_DEFAULT = 10 * 1024 * 1024,
    /* 8 MiB: what RFC 9659 makes senders keep within for the coding "zstd". */
    RON_INFLATE_WINDOW_LOG_DEFAULT = 23,
    RON_INFLATE_WINDOW_LOG_MIN = 10, /* of the format */
    RON_INFLATE_WINDOW_LOG_MAX = 27, /* of zstd's own default */
};

/* 0 anywhere means the default above. */
struct ron_inflate_opts {
    uint64_t out_max;     /* bytes of one body */
    uint32_t ratio_max;   /* output per input consumed */
    uint32_t floor_bytes; /* output below this is not measured by its ratio */
    uint32_t window_log_max;
};

struct ron_inflate;

/* The coding named by a Content-Encoding value, in any case; "x-gzip" is gzip. RON_NOTFOUND for
 * "identity" and an empty value: nothing to decode. RON_UNSUPPORTED for all others (415). */
RON_MUST_USE enum ron_rc ron_inflate_coding_parse(struct ron_str value,
                                                  enum ron_inflate_coding *ret_coding);
/* "gzip", "zstd". */
const char *ron_inflate_coding_name(enum ron_inflate_coding coding);

/* opts may be NULL. RON_NOMEM; RON_INVALID for a window outside its range. */
RON_MUST_USE enum ron_rc ron_inflate_new(enum ron_inflate_coding coding,
                                         const struct ron_inflate_opts *opts,
                                         struct ron_inflate **ret_z, struct ron_err *err);
void ron_inflate_free(struct ron_inflate *z);

/* Consumes *ret_used of `in`, writes *ret_len of at most `size` bytes to `out`; size > 0. While
 * *ret_len == size there may be more without further input. On failure the outputs are written
 * too: what was decoded before the fault is good. */
RON_MUST_USE enum ron_rc ron_inflate_feed(struct ron_inflate *z, const void *in, size_t len,
                                          size_t *ret_used, void *out, size_t size,
                                          size_t *ret_len);

/* Whether the body may end here: RON_OK or RON_INVALID (cut short), or the earlier failure. */
RON_MUST_USE enum ron_rc ron_inflate_end(const struct ron_inflate *z);
