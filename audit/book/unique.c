/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/unique.c - fingerprints, suspicions and their second reading; see unique.h. */
#include "audit/book/unique.h"

#include <inttypes.h>
#include <string.h>

#include "ron/base/assert.h"

void aud_unique_init(struct aud_unique *u, const struct aud_seed *seed, uint64_t horizon_ms)
{
    *u = (struct aud_unique){.seed = seed, .horizon_ms = horizon_ms};
}

void aud_unique_done(struct aud_unique *u)
{
    aud_set_done(&u->ids);
    aud_set_done(&u->idems);
    for (size_t i = 0; i < RON_ARRAY_LEN(u->nonces); i++) {
        aud_set_done(&u->nonces[i]);
    }
    for (size_t i = 0; i < AUD_WHAT_COUNT; i++) {
        aud_set_done(&u->suspects[i]);
    }
}

static enum ron_rc suspect(struct aud_unique *u, enum aud_what what, uint64_t print)
{
    bool known;

    if (u->suspect_count == AUD_SUSPECTS_MAX) {
        return RON_LIMIT;
    }
    RON_TRY(aud_set_add(&u->suspects[what], print, &known));
    u->suspect_count += !known;
    return RON_OK;
}

enum ron_rc aud_unique_idem(struct aud_unique *u, struct ron_str idem_id)
{
    uint64_t print = aud_print(u->seed, idem_id.ptr, idem_id.len);
    bool known;

    RON_TRY(aud_set_add(&u->idems, print, &known));
    return known ? suspect(u, AUD_WHAT_IDEM, print) : RON_OK;
}

/* A nonce of `ts` matters until ts + horizon, and it was seen when ts was at most AUD_FUTURE_MS
 * ahead. So what is older than the generation before cannot matter. */
static void turn_generation(struct aud_unique *u, uint64_t now_ms)
{
    if (now_ms - u->generation_ms <= u->horizon_ms + AUD_FUTURE_MS) {
        return;
    }
    aud_set_done(&u->nonces[1]);
    u->nonces[1] = u->nonces[0];
    u->nonces[0] = (struct aud_set){0};
    u->generation_ms = now_ms;
}

enum ron_rc aud_unique_entry(struct aud_unique *u, uint64_t id_print, uint64_t nonce_print,
                             uint64_t now_ms)
{
    bool known;

    RON_TRY(aud_set_add(&u->ids, id_print, &known));
    if (RON_UNLIKELY(known)) {
        RON_TRY(suspect(u, AUD_WHAT_ID, id_print));
    }
    turn_generation(u, now_ms);
    RON_TRY(aud_set_add(&u->nonces[0], nonce_print, &known));
    if (RON_UNLIKELY(known || aud_set_has(&u->nonces[1], nonce_print))) {
        RON_TRY(suspect(u, AUD_WHAT_NONCE, nonce_print));
    }
    return RON_OK;
}

uint64_t aud_unique_bytes(const struct aud_unique *u)
{
    return aud_set_bytes(&u->ids) + aud_set_bytes(&u->idems) + aud_set_bytes(&u->nonces[0]) +
           aud_set_bytes(&u->nonces[1]);
}

/* ---- the second reading ---------------------------------------------------------------------- */

struct seen {
    struct aud_key key;
    uint64_t seq;
    uint64_t ts_ms; /* the latest; of a nonce */
    char text[];
};

void aud_seen_init(struct aud_seen *seen, const struct aud_unique *u, struct aud_findings *findings)
{
    *seen = (struct aud_seen){.unique = u, .findings = findings};
    for (size_t i = 0; i < AUD_WHAT_COUNT; i++) {
        seen->texts[i].store = &seen->store;
    }
}

void aud_seen_done(struct aud_seen *seen)
{
    for (size_t i = 0; i < AUD_WHAT_COUNT; i++) {
        aud_map_done(&seen->texts[i]);
    }
    aud_store_done(&seen->store);
}

/* *ret_before is what was seen of the text before, NULL when this is the first time. */
static enum ron_rc remember(struct aud_seen *seen, enum aud_what what, uint64_t print,
                            struct ron_str text, const struct aud_place *place,
                            struct seen **ret_before)
{
    uint32_t ref = aud_map_find(&seen->texts[what], print, text);
    struct seen *s;

    if (ref != 0) {
        *ret_before = aud_at(&seen->store, ref);
        return RON_OK;
    }
    *ret_before = NULL;
    RON_TRY(aud_store_new(&seen->store, sizeof *s + text.len, &ref));
    s = aud_at(&seen->store, ref);
    s->key = (struct aud_key){
        .hash = print, .text_at = offsetof(struct seen, text), .text_len = (uint32_t)text.len};
    s->seq = place->seq;
    memcpy(s->text, text.ptr, text.len);
    return aud_map_add(&seen->texts[what], ref);
}

enum ron_rc aud_seen_idem(struct aud_seen *seen, struct ron_str idem_id,
                          const struct aud_place *place)
{
    uint64_t print = aud_print(seen->unique->seed, idem_id.ptr, idem_id.len);
    struct aud_finding *f;
    struct seen *before;

    if (!aud_set_has(&seen->unique->suspects[AUD_WHAT_IDEM], print)) {
        return RON_OK;
    }
    RON_TRY(remember(seen, AUD_WHAT_IDEM, print, idem_id, place, &before));
    if (before != NULL) {
        f = aud_find(seen->findings, AUD_RULE_IDEM_ID, place);
        aud_say(f->expected, "an idem_id of its own");
        aud_say(f->found, "\"%.*s\" again, first before seq %" PRIu64, (int)idem_id.len,
                idem_id.ptr, before->seq);
    }
    return RON_OK;
}

static enum ron_rc seen_nonce(struct aud_seen *seen, const struct aud_entry *e, uint64_t print,
                              uint64_t now_ms, const struct aud_place *place)
{
    char pair[AUD_ACCOUNT_MAX + AUD_NONCE_SIZE];
    struct ron_str text = {pair, e->account.len + AUD_NONCE_SIZE};
    struct aud_finding *f;
    struct seen *before;

    RON_ASSERT(text.len <= sizeof pair);
    memcpy(pair, e->account.ptr, e->account.len);
    memcpy(pair + e->account.len, e->nonce, AUD_NONCE_SIZE);
    RON_TRY(remember(seen, AUD_WHAT_NONCE, print, text, place, &before));
    if (before == NULL) {
        before = aud_at(&seen->store, aud_map_find(&seen->texts[AUD_WHAT_NONCE], print, text));
    } else if (before->ts_ms + seen->unique->horizon_ms >= now_ms) {
        f = aud_find(seen->findings, AUD_RULE_NONCE, place);
        aud_say(f->expected, "a nonce that %.*s has not used", (int)e->account.len, e->account.ptr);
        aud_say(f->found, "that of seq %" PRIu64, before->seq);
    }
    before->ts_ms = RON_MAX(before->ts_ms, e->ts_ms);
    return RON_OK;
}

enum ron_rc aud_seen_entry(struct aud_seen *seen, const struct aud_entry *e, uint64_t now_ms,
                           const struct aud_place *place)
{
    const struct aud_unique *u = seen->unique;
    uint64_t print = aud_print(u->seed, e->id.ptr, e->id.len);
    struct aud_finding *f;
    struct seen *before;

    if (aud_set_has(&u->suspects[AUD_WHAT_ID], print)) {
        RON_TRY(remember(seen, AUD_WHAT_ID, print, e->id, place, &before));
        if (before != NULL) {
            f = aud_find(seen->findings, AUD_RULE_ID, place);
            aud_say(f->expected, "an id of its own");
            aud_say(f->found, "\"%.*s\", that of seq %" PRIu64, (int)e->id.len, e->id.ptr,
                    before->seq);
        }
    }
    print = aud_nonce_print(u->seed, e);
    return aud_set_has(&u->suspects[AUD_WHAT_NONCE], print)
               ? seen_nonce(seen, e, print, now_ms, place)
               : RON_OK;
}
