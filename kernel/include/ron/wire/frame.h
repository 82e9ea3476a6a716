/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - OAP/1 frames: a 38-byte big-endian header, a capability, a payload.
 *
 *     off  size  field
 *       0     4  len       whole frame, this field included; 38 + cap_len .. frame_max
 *       4     2  ver       1
 *       6     2  flags     enum ron_oap_flags; exactly one of REQ, RESP, EVENT; no other bits
 *       8     2  code      status of a RESP, operation of a REQ or EVENT
 *      10     2  app       protocol that code and payload belong to; 0 = the connection itself
 *      12    16  tenant
 *      28     2  cap_len   above 0 only with START
 *      30     8  corr_id   chosen by the asker, repeated in the answer
 *      38        capability, then payload
 *
 * Pieces: a message is one frame (neither START nor END, or both), or START, then any number of
 * frames with neither, then END, all with one kind, tenant and corr_id. docs/formats/oap.md has it
 * at length, with control messages and examples.
 *
 * Rules of the codec:
 *   F1. A verdict depends on the bytes alone, not on how they were cut: each rule is judged as soon
 *       as its field is there, in the order of the fields.
 *   F2. Nothing is copied: slices point into the given bytes.
 *   F3. What encode writes, decode reads back the same.
 *
 * Threads: pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/rc.h"
#include "ron/base/wide.h"
#include "ron/obs/trace.h"
#include "ron/wire/reason.h"

enum {
    RON_OAP_HEADER_BYTES = 38,
    RON_OAP_VERSION = 1,
    RON_OAP_FRAME_MAX = 1 << 20,
    RON_OAP_FRAME_MIN = 4096,    /* the least that a HELLO may ask for: an envelope always fits */
    RON_OAP_CHUNK_BYTES = 65536, /* payload of one piece of a message that is sent in pieces */
    RON_OAP_TRACE_BYTES = 25,    /* payload of TRACE: trace id, span id, flags */
};

/* X(NAME, bit, offered, "meaning") */
#define RON_OAP_FLAGS(X)                                                                           \
    X(REQ, 0x01, true, "a request")                                                                \
    X(RESP, 0x02, true, "an answer")                                                               \
    X(EVENT, 0x04, true, "neither: nobody answers it")                                             \
    X(START, 0x08, true, "first piece; may carry a capability")                                    \
    X(END, 0x10, true, "last piece")                                                               \
    X(ACK_REQ, 0x20, false, "wants an acknowledgement")                                            \
    X(COMP, 0x40, false, "payload is compressed with zstd")                                        \
    X(APP_E2E, 0x80, true, "payload is sealed end to end: never logged")

enum ron_oap_flags {
#define X(name, bit, offered, doc) RON_OAP_##name = (bit),
    RON_OAP_FLAGS(X)
#undef X
        RON_OAP_FLAGS_KNOWN = 0
#define X(name, bit, offered, doc) | (bit)
    RON_OAP_FLAGS(X)
#undef X
        ,
    RON_OAP_FLAGS_OFFERED = 0
#define X(name, bit, offered, doc) | ((offered) ? (bit) : 0)
    RON_OAP_FLAGS(X)
#undef X
        ,
    RON_OAP_KIND_MASK = RON_OAP_REQ | RON_OAP_RESP | RON_OAP_EVENT,
    RON_OAP_PIECE_MASK = RON_OAP_START | RON_OAP_END,
};

/* Codes of app 0. */
enum ron_oap_control {
    RON_OAP_CTL_HELLO = 0,       /* REQ; first frame, or never */
    RON_OAP_CTL_PING = 1,        /* REQ; answered with its own payload */
    RON_OAP_CTL_CANCEL = 2,      /* EVENT with the corr_id of a request: nobody waits any more */
    RON_OAP_CTL_SUBSCRIBE = 3,   /* REQ {"app":n}: events of that app follow */
    RON_OAP_CTL_UNSUBSCRIBE = 4, /* REQ {"app":n} */
    RON_OAP_CTL_DRAINING = 5,    /* EVENT of the server: send nothing more here */
    RON_OAP_CTL_LAGGED = 6,      /* EVENT of the server {"app":n,"missed":m} */
    RON_OAP_CTL_TRACE = 7,       /* EVENT: the trace of the request that comes next */
};

/* The header without len, which follows from the rest. */
struct ron_oap_head {
    uint16_t flags;
    uint16_t code;
    uint16_t app;
    uint16_t cap_len;
    uint64_t corr_id;
    ron_u128 tenant;
};

struct ron_oap_frame {
    struct ron_oap_head head;
    const uint8_t *cap; /* cap_len bytes */
    const uint8_t *payload;
    size_t payload_len;
    size_t frame_len;
};

enum ron_oap_step {
    RON_OAP_STEP_MORE,    /* *ret_need bytes are needed, counted from the start of the frame */
    RON_OAP_STEP_FRAME,   /* *ret_frame is set */
    RON_OAP_STEP_REFUSED, /* *ret_reason is set */
};
