/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/remote_text.c - questions and answers of remote guards as JSON;
 * docs/formats/ledger-guards.md shows them. Answers are documents of others: unknown members are
 * skipped, and what is not there or of another type makes the answer unreadable, which is a refusal
 * (R1 of remote.h). */
#include <string.h>

#include "ledger/guard/remote_priv.h"

void led__remote_write(const struct led__question *q, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "v", 1);
    ron_json_text(&w, "op", q->op);
    ron_json_str(&w, "corr_id", q->corr_id);
    ron_json_u64(&w, "now_ms", q->now_ms);
    if (q->token.len != 0) {
        ron_json_text(&w, "audience", "ledger");
        ron_json_str(&w, "token", q->token);
    } else {
        ron_json_text(&w, "capability", q->auth->info.log_id);
        ron_json_text(&w, "key_id", q->auth->info.key_id);
        ron_json_bool(&w, "dry_run", q->dry_run);
        ron_json_open(&w, "entries", '[');
        for (size_t i = 0; i < q->batch->count && ron_buf_error(out) == RON_OK; i++) {
            led_entry_to_json(&w, NULL, &q->batch->entries[i], 0);
        }
        ron_json_close(&w, ']');
    }
    ron_json_close(&w, '}');
}

struct reason {
    uint64_t idx;
    struct ron_str reason;
    struct ron_str detail;
    uint64_t present;
};

static const struct ron_json_field reason_fields[] = {
    RON_JSON_FIELD(struct reason, idx, U64, .max = LED_BATCH_BIN_MAX),
    RON_JSON_FIELD(struct reason, reason, STRING, .max = 64),
    RON_JSON_FIELD(struct reason, detail, STRING, .max = 256),
};
static const struct ron_json_shape reason_shape = {
    .fields = reason_fields,
    .count = RON_ARRAY_LEN(reason_fields),
    .present_offset = offsetof(struct reason, present),
    .allow_unknown = true,
};

struct answer {
    bool ok;
    struct ron_json_items reasons;
    uint64_t present;
};

static const struct ron_json_field answer_fields[] = {
    RON_JSON_FIELD(struct answer, ok, BOOL, .required = true),
    RON_JSON_FIELD(struct answer, reasons, ARRAY, .item_size = sizeof(struct reason),
                   .max = LED_REFUSALS_MAX, .shape = &reason_shape),
};
static const struct ron_json_shape answer_shape = {
    .fields = answer_fields,
    .count = RON_ARRAY_LEN(answer_fields),
    .present_offset = offsetof(struct answer, present),
    .allow_unknown = true,
};

/* What a double-spend guard may call it; a service never decides about our other reasons. */
static enum led_reason reason_of(struct ron_str name, enum led_reason fallback)
{
    static const enum led_reason known[] = {LED_REASON_CONFLICT, LED_REASON_INSUFFICIENT_FUNDS,
                                            LED_REASON_NONCE_CONFLICT, LED_REASON_POLICY_DENIED};

    for (size_t i = 0; fallback == LED_REASON_CONFLICT && i < RON_ARRAY_LEN(known); i++) {
        if (ron_str_is(name, led_reason_name(known[i]))) {
            return known[i];
        }
    }
    return fallback;
}

static void take_reason(const struct reason *from, enum led_reason fallback, size_t entry_count,
                        struct led_refusals *ret)
{
    struct led_refusal refusal;
    char detail[sizeof refusal.detail] = "the remote guard refuses";

    if (from->detail.len != 0) {
        size_t len = RON_MIN(from->detail.len, sizeof detail - 1);

        memcpy(detail, from->detail.ptr, len);
        detail[len] = '\0';
    }
    led_refuse(&refusal, reason_of(from->reason, fallback), "", detail);
    led_refusals_add(ret, &refusal, from->idx < entry_count ? (uint32_t)from->idx : 0);
}

bool led__remote_read(char *text, size_t len, enum led_reason fallback, size_t entry_count,
                      struct led_refusals *ret_refusals)
{
    uint8_t room[LED_REFUSALS_MAX * sizeof(struct reason) + 64];
    struct answer answer = {0};
    struct ron_json_error error;
    struct ron_arena arena;

    ret_refusals->count = 0;
    ron_arena_init_over(&arena, room, sizeof room);
    if (ron_json_scan(text, len, &answer_shape, &arena, &answer, &error) != RON_OK) {
        return false;
    }
    if (answer.ok) {
        return true;
    }
    for (size_t i = 0; i < answer.reasons.count; i++) {
        take_reason((const struct reason *)answer.reasons.items + i, fallback, entry_count,
                    ret_refusals);
    }
    if (ret_refusals->count == 0) {
        take_reason(&(struct reason){0}, fallback, entry_count, ret_refusals);
    }
    return true;
}
