/* SPDX-License-Identifier: Apache-2.0 */
/* call_fixture.h - calls out of texts, for the tests of wlt_call. */
#pragma once

#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/cas/b3.h"
#include "wallet/call/call.h"

static char call_text[3 << 20];
static char call_memory[1 << 20];
static struct ron_arena call_arena;
static struct wlt_call call;
static struct wlt_fault fault;
static struct wlt_call_rules rules = {.amount_max = {.v = RON_U128_MAX}};

static inline struct ron_str str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

/* In an arena that is just as large as wlt_call_arena_size says. */
static inline bool parse(enum wlt_op op, const char *body, const char *header_key)
{
    size_t len = strlen(body);
    size_t size = wlt_call_arena_size(len, op == WLT_OP_COUNT);

    RON_ASSERT(len < sizeof call_text && size <= sizeof call_memory);
    memcpy(call_text, body, len);
    ron_arena_init_over(&call_arena, call_memory, size);
    fault.detail[0] = '\0';
    return wlt_call_parse(call_text, len, op, str(header_key), &rules, &call_arena, &call, &fault);
}

static inline void good(enum wlt_op op, const char *body, const char *header_key)
{
    if (!parse(op, body, header_key)) {
        fail_msg("refused: %s\n  %s", body, fault.detail);
    }
}

/* Refused with that reason, and the detail begins with the member. */
static inline void bad(enum wlt_op op, const char *body, const char *header_key,
                       enum wlt_reason reason, const char *member)
{
    size_t len = strlen(member);

    if (parse(op, body, header_key)) {
        fail_msg("accepted: %s", body);
    }
    if (fault.reason != reason || strncmp(fault.detail, member, len) != 0 ||
        strncmp(fault.detail + len, ": ", 2) != 0) {
        fail_msg("%s\n  gave %s: %s", body, wlt_reason_label(fault.reason), fault.detail);
    }
}

static inline void fingerprint_of(const struct wlt_call *c, char ret[RON_B3_ID_SIZE])
{
    struct ron_b3 hash;

    memcpy(hash.bytes, c->fingerprint, sizeof hash.bytes);
    ron_b3_format(&hash, ret);
}
