/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no body and no key breaks the parser of writes; what it accepts is named and sent right.
 * Method: the first byte chooses the operation and how many bytes that follow are the header's key.
 * What is accepted is written again from the call alone and read again: the same names.
 * The ledger's own decoder takes its bytes and finds the same members; the answer is JSON and keeps
 * to its bound. What is refused names a member. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/entry/entry.h"
#include "ron/base/assert.h"
#include "wallet/call/call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char led_memory[1 << 21];

static const struct wlt_call_rules rules = {.amount_max = {.v = RON_U128_MAX}};

static bool same(struct ron_str a, struct ron_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* In memory of its exact size, so that the sanitizer sees a byte too many. */
static bool parse(const char *body, size_t len, enum wlt_op op, struct ron_str header, char **text,
                  char **memory, struct wlt_call *ret, struct wlt_fault *fault)
{
    size_t room = wlt_call_arena_size(len, op == WLT_OP_COUNT);
    struct ron_arena arena;

    *text = malloc(len + 1);
    *memory = malloc(room);
    RON_ASSERT(*text != NULL && *memory != NULL);
    memcpy(*text, body, len);
    ron_arena_init_over(&arena, *memory, room);
    return wlt_call_parse(*text, len, op, header, &rules, &arena, ret, fault);
}

static void member(struct ron_json_writer *w, const char *name, struct ron_str text)
{
    if (text.len != 0) {
        ron_json_str(w, name, text);
    }
}

/* Members in another order than VALUE has them, absent ones left out. */
static void write_operation(struct ron_json_writer *w, const struct wlt_operation *o)
{
    member(w, "memo", o->memo);
    member(w, "hold", o->hold);
    if (o->expires_ms != 0) {
        ron_json_u64(w, "expires_at", o->expires_ms);
    }
    if (o->nonce != 0) {
        ron_json_u64(w, "nonce", o->nonce);
    }
    ron_json_money(w, "amount_minor", o->amount);
    member(w, "asset", o->asset);
    member(w, "to", o->to);
    member(w, "from", o->from);
}

static void write_again(const struct wlt_call *call, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_str(&w, "idempotency_key", call->key);
    if (!call->batch) {
        write_operation(&w, &call->ops[0]);
    } else {
        ron_json_open(&w, "operations", '[');
        for (uint32_t i = 0; i < call->count; i++) {
            ron_json_open(&w, NULL, '{');
            ron_json_text(&w, "op", wlt_op_info(call->ops[i].op)->name);
            write_operation(&w, &call->ops[i]);
            ron_json_close(&w, '}');
        }
        ron_json_close(&w, ']');
    }
    ron_json_close(&w, '}');
    RON_ASSERT(ron_buf_error(out) == RON_OK);
}

static void check_names(const struct wlt_call *call)
{
    struct ron_buf body;
    struct wlt_call again;
    struct wlt_fault fault;
    char *text;
    char *memory;

    ron_buf_init(&body, (size_t)8 << 20);
    write_again(call, &body);
    RON_ASSERT(parse(ron_buf_text(&body), ron_buf_len(&body),
                     call->batch ? WLT_OP_COUNT : call->ops[0].op, (struct ron_str){"", 0}, &text,
                     &memory, &again, &fault));
    RON_ASSERT(again.count == call->count);
    RON_ASSERT(memcmp(again.fingerprint, call->fingerprint, sizeof call->fingerprint) == 0);
    RON_ASSERT(strcmp(again.idem_id, call->idem_id) == 0);
    for (uint32_t i = 0; i < call->count; i++) {
        RON_ASSERT(strcmp(again.ops[i].txid, call->ops[i].txid) == 0);
        RON_ASSERT(memcmp(again.ops[i].entry_nonce, call->ops[i].entry_nonce, LC_NONCE_BYTES) == 0);
    }
    free(text);
    free(memory);
    ron_buf_done(&body);
}

static void check_entry(const struct wlt_operation *o, const struct led_entry *e)
{
    RON_ASSERT(e->kind == (uint8_t)wlt_op_info(o->op)->kind);
    RON_ASSERT(same(e->account, wlt_operation_subject(o)));
    RON_ASSERT(same(e->to, o->op == WLT_ISSUE ? (struct ron_str){"", 0} : o->to));
    RON_ASSERT(same(e->asset, o->asset) && same(e->memo, o->memo) && same(e->ref, o->hold));
    RON_ASSERT(e->amount.v == o->amount.v && e->account_nonce == o->nonce);
    RON_ASSERT(e->expires_ms == o->expires_ms);
    RON_ASSERT(memcmp(e->nonce, o->entry_nonce, LC_NONCE_BYTES) == 0);
    RON_ASSERT(ron_str_is(e->id, o->txid));
}

static void check_bytes(struct wlt_call *call)
{
    struct wlt_seal seal = {.ts_ms = 1, .kid = {"k", 1}, .capability_ref = {"c", 1}};
    struct led_refusals refusals;
    struct led_batch batch;
    struct ron_arena arena;
    struct ron_buf out;

    for (uint32_t i = 0; i < call->count; i++) {
        /* An expiry lies after the time of the entry; which time that is, only the clock knows. */
        if (call->ops[i].expires_ms == seal.ts_ms) {
            call->ops[i].expires_ms++;
        }
    }
    ron_buf_init(&out, WLT_ENCODED_MAX);
    wlt_call_encode(call, &seal, &out);
    RON_ASSERT(ron_buf_error(&out) == RON_OK);
    RON_ASSERT(ron_buf_len(&out) <= wlt_call_encoded_max(call));
    ron_arena_init_over(&arena, led_memory, sizeof led_memory);
    RON_ASSERT(led_batch_decode(ron_buf_data(&out), ron_buf_len(&out), LED_ORIGIN_CALLER, &arena,
                                &batch, NULL, &refusals));
    RON_ASSERT(batch.count == call->count && ron_str_is(batch.idem_id, call->idem_id));
    for (uint32_t i = 0; i < call->count; i++) {
        check_entry(&call->ops[i], &batch.entries[i]);
    }
    ron_buf_done(&out);
}

static void check_answer(struct wlt_call *call)
{
    struct lc_done done = {.seq_first = UINT64_MAX - call->count, .seq_last = UINT64_MAX};
    size_t max = (size_t)WLT_RECEIPT_MAX * (call->count + 1);
    struct ron_buf out;

    ron_buf_init(&out, max);
    for (int dry_run = 0; dry_run < 2; dry_run++) {
        call->dry_run = dry_run != 0;
        ron_buf_clear(&out);
        wlt_call_answer(call, &done, &out);
        RON_ASSERT(ron_buf_error(&out) == RON_OK);
        RON_ASSERT(ron_json_check(ron_buf_text(&out), ron_buf_len(&out), NULL) == RON_OK);
    }
    ron_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t header_len = size > 0 ? data[0] / (WLT_OP_COUNT + 1) * 2U : 0;
    enum wlt_op op = (enum wlt_op)(size > 0 ? data[0] % (WLT_OP_COUNT + 1) : 0);
    struct ron_str header;
    struct wlt_call call;
    struct wlt_fault fault = {0};
    char *text;
    char *memory;

    if (size == 0 || header_len > size - 1) {
        return 0;
    }
    header = (struct ron_str){(const char *)data + 1, header_len};
    data += 1 + header_len;
    size -= 1 + header_len;
    if (parse((const char *)data, size, op, header, &text, &memory, &call, &fault)) {
        check_names(&call);
        check_answer(&call);
        check_bytes(&call);
    } else {
        RON_ASSERT(fault.reason == WLT_REASON_BAD_REQUEST);
        RON_ASSERT(strstr(fault.detail, ": ") != NULL);
    }
    free(text);
    free(memory);
    return 0;
}
