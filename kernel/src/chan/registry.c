/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the list of everything that queues or runs.
 *
 * Place: lowest of chan/, used by task/ too. Entries are embedded in their objects and linked in
 * the order of creation.
 *
 * Invariants:
 *   I1 no two entries of one kind have the same name.
 *   I2 every text of an entry was checked on entry, so the writers need not escape anything.
 * Guards: list and count by mu; an entry's description is immutable while it is linked. */
#include "ron/chan/registry.h"

#include <string.h>

#include "chan/chan_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

struct ron_registry {
    struct ron_mutex mu;
    struct ron_list entries;
    size_t count;
};

const char *ron_reg_kind_name(enum ron_reg_kind kind)
{
    static const char *const names[RON_REG_KIND_COUNT] = {"queue", "bus", "watch", "task",
                                                          "worker"};

    RON_ASSERT((unsigned)kind < RON_REG_KIND_COUNT);
    return names[kind];
}

enum ron_rc ron_registry_new(struct ron_registry **ret_reg, struct ron_err *err)
{
    struct ron_registry *reg = ron_alloc_zero(sizeof *reg);

    if (reg == NULL) {
        return ron_err_set(err, RON_NOMEM, "registry: no memory");
    }
    ron_mutex_init(&reg->mu, RON_RANK_REGISTRY, "registry");
    ron_list_init(&reg->entries);
    *ret_reg = reg;
    return RON_OK;
}

void ron_registry_free(struct ron_registry *reg)
{
    if (reg == NULL) {
        return;
    }
    RON_ASSERT_MSG(reg->count == 0, "registry freed with %zu entries", reg->count);
    ron_mutex_done(&reg->mu);
    ron_free(reg);
}

static bool name_ok(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= RON_REG_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == len;
}

static bool text_ok(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || len > RON_REG_TEXT_MAX) {
        return false;
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\' || *p == '|') {
            return false;
        }
    }
    return true;
}

static enum ron_rc check_desc(enum ron_reg_kind kind, const struct ron_reg_desc *d,
                              struct ron_err *err)
{
    const struct {
        const char *what;
        const char *text;
    } texts[] = {{"policy", d->policy},
                 {"producers", d->producers},
                 {"consumers", d->consumers},
                 {"drop", d->drop}};

    if (d->name == NULL || !name_ok(d->name)) {
        return ron_err_set(
            err, RON_INVALID, "%s: the name '%.60s' is not 1-%d characters of [a-z0-9_.-]",
            ron_reg_kind_name(kind), d->name != NULL ? d->name : "", (int)RON_REG_NAME_MAX);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        if (texts[i].text == NULL || !text_ok(texts[i].text)) {
            return ron_err_set(
                err, RON_INVALID, "%s '%s': '%s' must be stated in 1-%d plain characters",
                ron_reg_kind_name(kind), d->name, texts[i].what, (int)RON_REG_TEXT_MAX);
        }
    }
    return RON_OK;
}

enum ron_rc ron_registry_add(struct ron_registry *reg, struct ron_reg_entry *e,
                             enum ron_reg_kind kind, const struct ron_reg_desc *desc,
                             void (*fill)(struct ron_reg_entry *, struct ron_reg_row *),
                             struct ron_err *err)
{
    enum ron_rc rc = RON_OK;

    RON_ASSERT(fill != NULL);
    RON_TRY(check_desc(kind, desc, err)); /* I2 */
    *e = (struct ron_reg_entry){._kind = kind, ._desc = *desc, ._fill = fill};
    ron_mutex_lock(&reg->mu);
    RON_LIST_FOREACH(node, &reg->entries)
    {
        struct ron_reg_entry *other = RON_LIST_ENTRY(node, struct ron_reg_entry, _link);
        if (other->_kind == kind && strcmp(other->_desc.name, desc->name) == 0) {
            rc = RON_EXISTS; /* I1 */
        }
    }
    if (rc == RON_OK && reg->count == RON_REG_ENTRIES_MAX) {
        rc = RON_LIMIT;
    }
    if (rc == RON_OK) {
        ron_list_push_back(&reg->entries, &e->_link);
        reg->count++;
    }
    ron_mutex_unlock(&reg->mu);
    if (rc != RON_OK) {
        return ron_err_set(
            err, rc, rc == RON_EXISTS ? "%s '%s' exists already" : "%s '%s': the registry is full",
            ron_reg_kind_name(kind), desc->name);
    }
    return RON_OK;
}

void ron_registry_remove(struct ron_registry *reg, struct ron_reg_entry *e)
{
    ron_mutex_lock(&reg->mu);
    ron_list_remove(&e->_link);
    RON_ASSERT(reg->count > 0);
    reg->count--;
    ron_mutex_unlock(&reg->mu);
}

size_t ron_registry_count(struct ron_registry *reg)
{
    size_t count;

    ron_mutex_lock(&reg->mu);
    count = reg->count;
    ron_mutex_unlock(&reg->mu);
    return count;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = strlen(from);

    RON_ASSERT(len < size);
    memcpy(to, from, len + 1);
}

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    memset(row, 0, sizeof *row);
    row->kind = e->_kind;
    copy_text(row->name, sizeof row->name, e->_desc.name);
    copy_text(row->policy, sizeof row->policy, e->_desc.policy);
    copy_text(row->producers, sizeof row->producers, e->_desc.producers);
    copy_text(row->consumers, sizeof row->consumers, e->_desc.consumers);
    copy_text(row->drop, sizeof row->drop, e->_desc.drop);
    row->capacity = e->_desc.capacity;
    row->state = "";
    e->_fill(e, row);
}

size_t ron_registry_rows(struct ron_registry *reg, size_t skip, struct ron_reg_row *rows,
                         size_t max)
{
    size_t at = 0;
    size_t n = 0;

    ron_mutex_lock(&reg->mu);
    RON_LIST_FOREACH(node, &reg->entries)
    {
        if (n == max) {
            break;
        }
        if (at++ >= skip) {
            fill_row(RON_LIST_ENTRY(node, struct ron_reg_entry, _link), &rows[n++]);
        }
    }
    ron_mutex_unlock(&reg->mu);
    return n;
}

void ron_reg_row_sample(struct ron_reg_row *row, const char *metric, const char *label, bool gauge,
                        uint64_t value)
{
    RON_ASSERT(row->sample_count < RON_REG_SAMPLES_MAX);
    row->samples[row->sample_count++] =
        (struct ron_sample){.metric = metric, .label = label, .gauge = gauge, .value = value};
}
