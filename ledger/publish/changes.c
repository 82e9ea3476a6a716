/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/changes.c - names of the accounts of a commit; the contract is in changes.h. */
#include "ledger/publish/changes.h"

#include <string.h>

#include "ron/base/bytes.h"
#include "ron/base/str.h"

struct telling {
    struct led_changes *c;
    uint64_t seq;
    void (*tell)(void *arg, const void *event, size_t len);
    void *arg;
};

static void flush(struct telling *t, bool last)
{
    struct led_changes *c = t->c;

    (void)ron_put_be64(c->event, t->seq);
    c->event[8] = last;
    (void)ron_put_be16(c->event + 9, (uint16_t)c->count);
    t->tell(t->arg, c->event, c->len);
    c->len = LED_CHANGES_HEAD;
    c->count = 0;
}

static void add(struct telling *t, struct ron_str name)
{
    struct led_changes *c = t->c;

    if (c->len + 2 + name.len > sizeof c->event) {
        flush(t, false);
    }
    (void)ron_put_be16(c->event + c->len, (uint16_t)name.len);
    memcpy(c->event + c->len + 2, name.ptr, name.len);
    c->len += 2 + name.len;
    c->count++;
}

/* N3: names are compared, so two that share a place cost a repetition and nothing else. */
static void add_once(struct telling *t, struct ron_str name, struct led_key key)
{
    struct ron_str *seen = &t->c->seen[key.a % LED_CHANGES_SEEN];

    if (seen->ptr == NULL || !ron_str_equal(*seen, name)) {
        *seen = name;
        add(t, name);
    }
}

static void add_work(struct telling *t, const struct led_work *w)
{
    for (size_t i = 0; i < w->batch.count; i++) {
        const struct led_entry *e = &w->batch.entries[i];

        add_once(t, e->account, w->preps[i].account);
        if (e->to.len > 0) {
            add_once(t, e->to, w->preps[i].to);
        } else if (e->kind == LED_KIND_REVERSE && w->originals != NULL && w->originals[i] != NULL &&
                   w->originals[i]->to.len > 0) {
            /* Without one the original is in the same batch, and named there. */
            add(t, w->originals[i]->to);
        }
    }
}

void led_changes_tell(struct led_changes *c, struct led_work *const *works, size_t count,
                      uint64_t seq, void (*tell)(void *arg, const void *event, size_t len),
                      void *arg)
{
    struct telling t = {.c = c, .seq = seq, .tell = tell, .arg = arg};

    memset(c->seen, 0, sizeof c->seen);
    c->len = LED_CHANGES_HEAD;
    c->count = 0;
    for (size_t i = 0; i < count; i++) {
        add_work(&t, works[i]);
    }
    flush(&t, true);
}
