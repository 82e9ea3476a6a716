/* SPDX-License-Identifier: Apache-2.0 */
/* audit/base/find.c - the list of findings; the contract is in find.h. */
#include "audit/base/find.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ron/base/assert.h"

static const struct {
    const char *name;
    const char *doc;
} rules[] = {
#define X(name, text, doc) {text, doc},
    AUD_RULE_TABLE(X)
#undef X
};

const char *aud_rule_name(enum aud_rule rule)
{
    RON_ASSERT((unsigned)rule < AUD_RULE_COUNT);
    return rules[rule].name;
}

const char *aud_rule_doc(enum aud_rule rule)
{
    RON_ASSERT((unsigned)rule < AUD_RULE_COUNT);
    return rules[rule].doc;
}

static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~') {
            *text = '?';
        }
    }
}

struct aud_finding *aud_find(struct aud_findings *all, enum aud_rule rule,
                             const struct aud_place *place)
{
    struct aud_finding *f = &all->_beyond;

    if (place->seq == 0 || place->seq >= all->from_seq) {
        all->total++;
        if (all->kept < AUD_FINDINGS_MAX) {
            f = &all->items[all->kept++];
        }
    }
    *f = (struct aud_finding){.rule = rule, .offset = place->offset, .seq = place->seq};
    (void)snprintf(f->file, sizeof f->file, "%s", place->file != NULL ? place->file : "");
    make_printable(f->file);
    return f;
}

void aud_say(char *to, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(to, AUD_SAY_SIZE, fmt, args);
    va_end(args);
    make_printable(to);
}

static int by_place(const void *x, const void *y)
{
    const struct aud_finding *a = x;
    const struct aud_finding *b = y;
    int files = strcmp(a->file, b->file);

    if (a->seq != b->seq && a->seq != 0 && b->seq != 0) {
        return a->seq < b->seq ? -1 : 1;
    }
    if (files != 0) {
        return files;
    }
    return (a->offset > b->offset) - (a->offset < b->offset);
}

void aud_findings_sort(struct aud_findings *all)
{
    /* Insertion, because it keeps the order of equals: the first finding of an entry is its
     * cause. */
    for (size_t i = 1; i < all->kept; i++) {
        struct aud_finding f = all->items[i];
        size_t at = i;

        while (at > 0 && by_place(&all->items[at - 1], &f) > 0) {
            all->items[at] = all->items[at - 1];
            at--;
        }
        all->items[at] = f;
    }
}
