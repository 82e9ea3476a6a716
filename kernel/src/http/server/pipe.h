/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/pipe.h - what lies between the holder of a reply and its worker when a
 * body passes in pieces (private to http/).
 *
 * Two threads: the holder and the worker. `mu` guards everything that is not marked as the worker's
 * or the holder's own. Wake-ups are decided under the lock and delivered after it.
 *
 * Invariants:
 *   P1 `told` is true from the moment somebody decides to put the reply on the worker's stack until
 *      the worker has taken it off: so it is there at most once.
 *   P2 outward: `pending` belongs to the holder until the worker swaps it with the empty `sending`.
 *   P3 after `over` was set by the holder it does not touch the reply any more; the worker frees it
 *      when it has sent what there is, or at once when the connection is gone. */
#pragma once

#include "ron/base/buf.h"
#include "ron/chan/wait.h"
#include "ron/http/inflate.h"
#include "ron/http/stream.h"

enum http_over { HTTP_NOT_OVER, HTTP_OVER_SENT, HTTP_OVER_ENDED, HTTP_OVER_ABORTED };
enum http_piece { HTTP_PIECE_EMPTY, HTTP_PIECE_READY, HTTP_PIECE_HELD };
enum http_framing { HTTP_FRAME_CHUNKED, HTTP_FRAME_LENGTH, HTTP_FRAME_BARE };

enum {
    HTTP_CHUNK_HEAD = 10, /* "0000ffff\r\n", written when the piece is closed */
    HTTP_CHUNK_TAIL = 7,  /* "\r\n" and the last chunk */
    HTTP_PIPE_MAX = HTTP_CHUNK_HEAD + RON_HTTP_PIECE_BYTES + HTTP_CHUNK_TAIL,
    HTTP_PIPE_KEEP = 1024, /* an event's usual size; larger memory is given back when idle */
    HTTP_UPLOAD_BYTES = 2 * RON_HTTP_PIECE_BYTES, /* counted for each body in pieces */
};

struct http_pipe {
    struct ron_mutex mu; /* leaf */
    bool used;           /* holder before the first hand-over, then constant */
    bool told;           /* P1 */
    bool gone;           /* the worker takes and gives nothing any more */
    enum http_over over;
    struct ron_waker *waker;   /* of the holder */
    struct ron_thread *parked; /* a holder that waits */
    bool holder_waits;

    /* Outward. */
    bool begun;
    enum http_framing framing; /* set with begun, then constant; so are quiet and length */
    bool quiet;
    uint64_t length;
    uint64_t length_left; /* holder's: still to be written */
    struct ron_buf pending;
    struct ron_buf sending; /* worker's */
    uint64_t charged;       /* of the server's answer memory */

    /* Inward; upload.c has the rules. */
    bool inward; /* the request's body passes here; constant while the reply is held */
    enum http_piece in_state;
    bool worker_waits;
    enum ron_rc in_end; /* RON_AGAIN while it comes, RON_CLOSED when it is whole, else why not */
    struct ron_buf ready;
    /* The worker's. */
    struct ron_buf filling;
    uint64_t in_charged;   /* of the server's body memory: two pieces, and the decoder */
    struct ron_inflate *z; /* NULL: the body is not coded */
    bool z_full;           /* there may be more output without further input */
    struct ron_str raw;    /* bytes of the connection's buffer that wait to be decoded */
    uint64_t in_bytes;     /* decoded so far */
};

/* A wake-up that was decided under the lock. */
struct http_wake {
    struct ron_waker *waker;
    struct ron_thread *parked;
};
