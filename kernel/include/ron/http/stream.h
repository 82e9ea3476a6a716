/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - answers and request bodies that pass in pieces, written and read from any thread.
 *
 * Place: beside server.h; both work on a reply that a handler took with ron_http_defer.
 *
 * An answer in pieces: ron_http_reply_begin sends the head, ron_http_reply_write adds bytes, and
 * ron_http_reply_end gives the reply back. Two pieces of RON_HTTP_PIECE_BYTES lie at most between
 * the writer and the socket: one being sent, one being filled. Small writes gather in the latter.
 * When it has no room the writer is told RON_AGAIN and woken once there is: a task by its waker, a
 * thread by using the waiting variant.
 *
 * A request body in pieces: the route carries RON_HTTP_STREAM, its handler is called when the head
 * is there. It answers at once (a refusal, before anything was sent to us if the client waits for
 * 100-continue), or defers; the holder then takes piece after piece with ron_http_reply_read. Two
 * pieces lie at most between the socket and the reader; when both are full the socket is not read,
 * which is what slows the client down. An answer that begins before the body has ended stops the
 * reading and closes the connection behind the answer.
 *
 * Limits: what lies between is counted like other answers (answer_memory_max) and bodies
 * (body_memory_max); a body in a content coding counts with its decoder, 64 KiB for gzip and some
 * 8.5 MiB for zstd. A client must take and bring bytes at the rates of server.h; time in which we
 * do not read does not count against it. A stream that brings nothing for request_timeout_ms is
 * broken off, unless it is marked `quiet` (server-sent events, long polls); so is a body that its
 * reader leaves lying that long. The deadline of a streamed request counts from the end of its
 * body; what the client itself asks for, from its head. body_max of the route may be many GiB.
 *
 * Threads: one thread at a time holds a reply. Ownership as in server.h: every reply that was taken
 * is given back once, by send, fail, end or abort, also after RON_CANCELLED. */
#pragma once

#include "ron/chan/wait.h"
#include "ron/http/server.h"

enum { RON_HTTP_PIECE_BYTES = 65536 };
#define RON_HTTP_UNKNOWN UINT64_MAX

struct ron_http_stream_opts {
    int status;
    const char *content_type; /* a constant */
    uint64_t length;          /* RON_HTTP_UNKNOWN: chunked (HTTP/1.0: ended by the close) */
    bool quiet;               /* may be silent for any time; ends when a drain begins */
    struct ron_waker *waker;  /* of the writing task, may be NULL */
};

/* RON_FULL: there are streams_max already; the reply is as it was, answer with it. Headers were
 * added before with ron_http_reply_add_header. */
RON_MUST_USE enum ron_rc ron_http_reply_begin(struct ron_http_reply *r,
                                              const struct ron_http_stream_opts *opts);
/* All of at most RON_HTTP_PIECE_BYTES or nothing. RON_AGAIN: no room, the waker is called when
 * there is. RON_CANCELLED: nobody will get it (the client is gone, or asked with HEAD). RON_LIMIT:
 * more than the announced length. RON_NOMEM: the memory set aside for answers is in use. */
RON_MUST_USE enum ron_rc ron_http_reply_write(struct ron_http_reply *r, const void *bytes,
                                              size_t len);
/* Waits for room instead; a thread that may block. Also RON_TIMEOUT. */
RON_MUST_USE enum ron_rc ron_http_reply_write_wait(struct ron_http_reply *r, const void *bytes,
                                                   size_t len, struct ron_deadline deadline);
/* The answer is complete. Fewer bytes than announced are an abort. */
void ron_http_reply_end(struct ron_http_reply *take_r);
/* The answer cannot be completed: the connection is broken off, so that the client sees it. */
void ron_http_reply_abort(struct ron_http_reply *take_r);

/* The next piece of the body, at most RON_HTTP_PIECE_BYTES, valid until it is given back or the
 * reply is. RON_AGAIN: nothing now, the waker (may be NULL) is called when there is. RON_CLOSED:
 * the body was whole. RON_CANCELLED: the client is gone. RON_TIMEOUT: it was too slow, or the
 * deadline passed. RON_LIMIT: larger than allowed. RON_INVALID: malformed. RON_NOMEM. After the
 * last four the client has its answer already. */
RON_MUST_USE enum ron_rc ron_http_reply_read(struct ron_http_reply *r, struct ron_waker *waker,
                                             struct ron_str *ret_piece);
/* Waits for the piece; a thread that may block. RON_TIMEOUT also when `deadline` passes. */
RON_MUST_USE enum ron_rc ron_http_reply_read_wait(struct ron_http_reply *r,
                                                  struct ron_deadline deadline,
                                                  struct ron_str *ret_piece);
/* Before the next read. */
void ron_http_reply_give_back(struct ron_http_reply *r);
