/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/preval.c - from bytes to entries, leaves and hashes; the contract is in preval.h.
 *
 * Everything that is per entry and needs no state is done here, in parallel, so that the sequencer
 * and the committer have little left: a binary batch costs one decode, one SHA-256, three or four
 * short hashes and one look at a filter per entry. */
#include "ledger/pipeline/preval.h"

#include <string.h>

#include "ledger/guard/remote.h"
#include "ron/base/macros.h"

enum {
    /* The shortest text that the scanner takes for an entry has 98 characters; bounds the count. */
    JSON_ENTRY_MIN = 96,
    /* Each array may need this much more to be aligned. */
    ALIGN = 16,
    ARRAYS = 8,
};

/* ---- parsing --------------------------------------------------------------------------------- */

/* How many entries the bytes can hold at most. */
static size_t count_max(enum led_form form, size_t len)
{
    if (form == LED_FORM_JSON) {
        return RON_MIN(len / JSON_ENTRY_MIN + 1, (size_t)LED_BATCH_JSON_MAX);
    }
    return RON_MIN(len / LED_ENTRY_BYTES_MIN + 1, (size_t)LED_BATCH_BIN_MAX);
}

size_t led_preval_arena_size(enum led_form form, struct ron_str body)
{
    size_t count = count_max(form, body.len);
    size_t per_entry = sizeof(struct ron_str) + sizeof(struct ron_tree_hash) +
                       sizeof(struct led_prep) + sizeof(struct led_links) +
                       sizeof(struct led_entry *);
    size_t entries = form == LED_FORM_JSON
                         ? led_batch_json_arena_size() / LED_BATCH_JSON_MAX * (count + 1)
                         : sizeof(struct led_entry) * count;

    /* Canonical bytes of JSON: never more than its text, but for an asset that it leaves out. */
    return LED_AUTH_BYTES + (size_t)LED_REMOTE_COUNT * LED_REMOTE_BYTES + entries +
           per_entry * count + (size_t)ARRAYS * ALIGN +
           (form == LED_FORM_JSON ? body.len + count * LED_ASSET_MAX : 0);
}

/* The canonical bytes of entries that came as JSON. */
static bool encode_leaves(struct led_work *w)
{
    size_t bytes = 0;
    uint8_t *to;

    w->leaves =
        ron_arena_alloc(&w->arena, w->batch.count * sizeof *w->leaves, _Alignof(struct ron_str));
    for (size_t i = 0; i < w->batch.count; i++) {
        bytes += led_entry_size(&w->batch.entries[i]);
    }
    to = ron_arena_alloc(&w->arena, bytes, 1);
    if (w->leaves == NULL || to == NULL) {
        return false;
    }
    for (size_t i = 0; i < w->batch.count; i++) {
        uint8_t *end = led_entry_encode(&w->batch.entries[i], to);

        w->leaves[i] = (struct ron_str){(const char *)to, (size_t)(end - to)};
        to = end;
    }
    return true;
}

/* From a caller, imports too: who sent the ledger's own entries would take the names of those that
 * it has to make later. A journal that holds some is imported by the tool, into an empty ledger. */
static bool parse_batch(struct led_work *w)
{
    bool parsed;

    if (w->form == LED_FORM_BINARY) {
        parsed = led_batch_decode((const uint8_t *)w->in.ptr, w->in.len, LED_ORIGIN_CALLER,
                                  &w->arena, &w->batch, &w->leaves, &w->refusals);
        if (parsed && w->batch.dry_run) {
            w->flags |= LED_APPLY_DRY_RUN;
        }
        return parsed;
    }
    /* The request's own memory: work/work.h says that JSON is changed in place. */
    return led_batch_from_json((char *)(uintptr_t)w->in.ptr, w->in.len, LED_ORIGIN_CALLER,
                               &w->arena, &w->batch, &w->refusals);
}

/* Arrays that the later stages fill or read. */
static bool make_arrays(struct led_work *w)
{
    size_t count = w->batch.count;
    bool reverses = false;

    w->hashes =
        ron_arena_alloc(&w->arena, count * sizeof *w->hashes, _Alignof(struct ron_tree_hash));
    w->preps = ron_arena_alloc(&w->arena, count * sizeof *w->preps, _Alignof(struct led_prep));
    w->links = ron_arena_alloc(&w->arena, count * sizeof *w->links, _Alignof(struct led_links));
    for (size_t i = 0; i < count && !reverses; i++) {
        reverses = w->batch.entries[i].kind == LED_KIND_REVERSE;
    }
    if (reverses) {
        w->originals = ron_arena_alloc_array(&w->arena, count, sizeof(const struct led_entry *),
                                             _Alignof(const struct led_entry *));
        w->look_up |= LED_LOOK_ORIGINAL;
    }
    return !ron_arena_overflowed(&w->arena);
}

bool led_preval_parse(const uint8_t hash_key[16], struct led_work *w)
{
    uint64_t print = 0;

    w->refusals.count = 0;
    if (w->kind == LED_WORK_CANCEL) {
        w->idem = led_idem_key(hash_key, w->batch.idem_id);
        return true; /* ingress has set idem_id; there is no body */
    }
    if (!parse_batch(w)) {
        w->result = LED_RESULT_REFUSED;
        return false;
    }
    if (w->form == LED_FORM_JSON && !encode_leaves(w)) {
        led_work_refuse(w, LED_REASON_TOO_LARGE, "batch", "too many entries");
        return false;
    }
    if (!make_arrays(w)) {
        led_work_refuse(w, LED_REASON_TOO_LARGE, "batch", "too many entries");
        return false;
    }
    ron_tree_hash_leaves(w->leaves, w->batch.count, w->hashes);
    for (size_t i = 0; i < w->batch.count; i++) {
        uint64_t head;

        led_book_prepare(hash_key, &w->batch.entries[i], &w->preps[i]);
        /* A polynomial over the heads of the hashes: order and number count. */
        memcpy(&head, w->hashes[i].bytes, sizeof head);
        print = print * UINT64_C(0x9e3779b97f4a7c15) + head;
    }
    w->body_print = print;
    w->idem = (struct led_key){0};
    if (w->batch.idem_id.len != 0) {
        w->idem = led_idem_key(hash_key, w->batch.idem_id);
    }
    return true;
}
