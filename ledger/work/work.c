/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/work/work.c - how a work ends; the contract is in work.h. */
#include "ledger/work/work.h"

#include "ron/base/assert.h"

struct led_work **led_works_of(void **items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)RON_OBJ(items[i], struct led_work, LED_WORK_MAGIC);
    }
    return (struct led_work **)items;
}

void led_work_refuse_with(struct led_work *w, const struct led_refusal *refusal)
{
    RON_CHECK_MAGIC(w, LED_WORK_MAGIC);
    w->result = LED_RESULT_REFUSED;
    w->replayed = false;
    w->seq_first = 0;
    w->seq_last = 0;
    w->refusals.count = 0;
    led_refusals_add(&w->refusals, refusal, refusal->idx);
}

void led_work_refuse(struct led_work *w, enum led_reason reason, const char *member,
                     const char *detail)
{
    struct led_refusal refusal = {0};

    led_refuse(&refusal, reason, member, detail);
    led_work_refuse_with(w, &refusal);
}

void led_work_done(struct led_work *w)
{
    RON_CHECK_MAGIC(w, LED_WORK_MAGIC);
    RON_ASSERT_MSG(w->result != LED_RESULT_NONE, "a work ends with an outcome");
    w->done(w);
}
