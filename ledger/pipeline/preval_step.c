/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/preval_step.c - the way of a work through prevalidation; the contract is in
 * preval.h. */
#include <stdio.h>

#include "ledger/guard/guard.h"
#include "ledger/index/index.h"
#include "ledger/pipeline/preval.h"

/* ---- lookups --------------------------------------------------------------------------------- */

void led_preval_look_up(const struct led_index *index, struct led_work *w)
{
    if (index == NULL) {
        w->checked_seq = 0;
        return;
    }
    w->checked_seq = led_index_applied(index); /* V3 */
    if (w->batch.idem_id.len != 0 &&
        led_index_maybe(index, LED_INDEX_IDEM, w->idem, w->batch.idem_id)) {
        w->look_up |= LED_LOOK_IDEM;
    }
    if (led_index_maybe_ids(index, w->batch.entries, w->preps, w->batch.count)) {
        w->look_up |= LED_LOOK_ID; /* the readers look at all of them */
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum led_next answer_or_ask(enum led_verdict verdict)
{
    return verdict == LED_VERDICT_ASK ? LED_NEXT_REMOTE : LED_NEXT_ANSWER;
}

/* Which remote service is next after this step; LED_STEP_LOOK_UP when none is. */
static enum led_step next_remote(const struct led_guard *g, enum led_step after)
{
    if (after < LED_STEP_POLICY && led_guard_asks_policy(g)) {
        return LED_STEP_POLICY;
    }
    if (after < LED_STEP_WALLET && led_guard_asks_wallet(g)) {
        return LED_STEP_WALLET;
    }
    return LED_STEP_LOOK_UP;
}

/* Parses, and looks whether there are more entries than the operator allows. */
static bool parse(const struct led_preval *p, struct led_work *w)
{
    char text[40];

    if (!led_preval_parse(p->hash_key, w)) {
        return false;
    }
    if (w->form == LED_FORM_JSON && p->json_max != 0 && w->batch.count > p->json_max) {
        (void)snprintf(text, sizeof text, "at most %u entries", (unsigned)p->json_max);
        led_work_refuse(w, LED_REASON_TOO_LARGE, "batch", text);
        return false;
    }
    return true;
}

enum led_next led_preval_step(const struct led_preval *p, struct led_work *w, uint64_t now_ms)
{
    enum led_verdict verdict;

    if (w->result == LED_RESULT_REFUSED) {
        return LED_NEXT_ANSWER; /* by the remote service that was asked */
    }
    if (w->step <= LED_STEP_KMS) {
        verdict = led_guard_admit(p->guard, w, now_ms);
        w->step = verdict == LED_VERDICT_ASK ? LED_STEP_KMS : LED_STEP_PARSE;
        if (verdict != LED_VERDICT_OK) {
            return answer_or_ask(verdict);
        }
    }
    if (w->step == LED_STEP_PARSE) {
        if (!parse(p, w)) {
            return LED_NEXT_ANSWER;
        }
        w->step = LED_STEP_CHECK;
    }
    if (w->step == LED_STEP_CHECK && led_guard_check(p->guard, w) != LED_VERDICT_OK) {
        return LED_NEXT_ANSWER;
    }
    if (w->step < LED_STEP_LOOK_UP) {
        w->step = (uint8_t)next_remote(p->guard, w->step);
        if (w->step != LED_STEP_LOOK_UP) {
            return LED_NEXT_REMOTE;
        }
    }
    led_preval_look_up(p->index, w);
    w->step = LED_STEP_DONE;
    return w->look_up != 0 ? LED_NEXT_READERS : LED_NEXT_SEQUENCER;
}
