/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - writes the registry for people (Markdown) and programs (JSON).
 *
 * The Markdown tables hold only what is decided in the source (names, capacities, policies), so
 * that they can be kept in docs/concurrency and compared; the JSON also holds the counters. Texts
 * need no escaping: the registry accepts only plain ones. */
#include <inttypes.h>

#include "chan/chan_priv.h"
#include "ron/base/assert.h"
#include "ron/chan/registry.h"
#include "ron/sync/ranks.h"

/* Calls `each` for the rows of one kind, a page at a time so that no large block is needed. */
static size_t for_kind(struct ron_registry *reg, enum ron_reg_kind kind, struct ron_buf *out,
                       void (*each)(struct ron_buf *, const struct ron_reg_row *, size_t index))
{
    struct ron_reg_row rows[8];
    size_t skip = 0;
    size_t index = 0;
    size_t n;

    while ((n = ron_registry_rows(reg, skip, rows, RON_ARRAY_LEN(rows))) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (rows[i].kind == kind) {
                each(out, &rows[i], index++);
            }
        }
        skip += n;
    }
    return index;
}

static void json_row(struct ron_buf *out, const struct ron_reg_row *row, size_t index)
{
    (void)ron_buf_append_fmt(
        out,
        "%s{\"name\":\"%s\",\"state\":\"%s\",\"capacity\":%" PRIu64 ",\"depth\":%" PRIu64
        ",\"policy\":\"%s\",\"producers\":\"%s\",\"consumers\":\"%s\",\"drop\":\"%s\","
        "\"samples\":{",
        index == 0 ? "" : ",", row->name, row->state, row->capacity, row->depth, row->policy,
        row->producers, row->consumers, row->drop);
    for (size_t i = 0; i < row->sample_count; i++) {
        (void)ron_buf_append_fmt(out, "%s\"%s\":%" PRIu64, i == 0 ? "" : ",",
                                 row->samples[i].metric, row->samples[i].value);
    }
    (void)ron_buf_append_text(out, "}}");
}

enum ron_rc ron_registry_write_json(struct ron_registry *reg, struct ron_buf *out)
{
    static const char *const keys[RON_REG_KIND_COUNT] = {"queues", "buses", "watches", "tasks",
                                                         "workers"};

    /* Appending to a buffer that has failed does nothing: one look at the end is enough. */
    (void)ron_buf_append_text(out, "{");
    for (int kind = 0; kind < RON_REG_KIND_COUNT; kind++) {
        (void)ron_buf_append_fmt(out, "%s\"%s\":[", kind == 0 ? "" : ",", keys[kind]);
        (void)for_kind(reg, (enum ron_reg_kind)kind, out, json_row);
        (void)ron_buf_append_text(out, "]");
    }
    (void)ron_buf_append_text(out, ",\"lock_breaches\":{");
    for (int b = 0; b < RON_BREACH_COUNT; b++) {
        (void)ron_buf_append_fmt(out, "%s\"%s\":%" PRIu64, b == 0 ? "" : ",",
                                 ron_sync_breach_label((enum ron_sync_breach)b),
                                 ron_sync_violations((enum ron_sync_breach)b));
    }
    (void)ron_buf_append_text(out, "}}\n");
    return ron_buf_error(out);
}

static void md_channel(struct ron_buf *out, const struct ron_reg_row *row, size_t index)
{
    (void)index;
    (void)ron_buf_append_fmt(out, "| `%s` | %s | %" PRIu64 " | %s -> %s | %s | %s |\n", row->name,
                             ron_reg_kind_name(row->kind), row->capacity, row->producers,
                             row->consumers, row->policy, row->drop);
}

static void md_task(struct ron_buf *out, const struct ron_reg_row *row, size_t index)
{
    (void)index;
    (void)ron_buf_append_fmt(out, "| `%s` | %s | %s | %s | %s |\n", row->name, row->consumers,
                             row->producers, row->policy, row->drop);
}

enum ron_rc ron_registry_write_md(struct ron_registry *reg, struct ron_buf *out)
{
    (void)ron_buf_append_text(
        out,
        "### Channels\n\n"
        "| name | kind | capacity | producers -> consumers | policy when full | drop semantics |\n"
        "|---|---|---:|---|---|---|\n");
    (void)for_kind(reg, RON_REG_QUEUE, out, md_channel);
    (void)for_kind(reg, RON_REG_BUS, out, md_channel);
    (void)for_kind(reg, RON_REG_WATCH, out, md_channel);
    (void)ron_buf_append_text(
        out, "\n### Tasks\n\n| name | kind and mode | owner | restart policy | drain |\n"
             "|---|---|---|---|---|\n");
    (void)for_kind(reg, RON_REG_TASK, out, md_task);
    (void)ron_buf_append_text(out,
                              "\n### Lock ranks\n\n| rank | name | guards |\n|---:|---|---|\n");
#define X(name, number, text, doc)                                                                 \
    (void)ron_buf_append_fmt(out, "| %d | `%s` | %s |\n", number, text, doc);
    RON_LOCK_RANKS(X)
#undef X
    return ron_buf_error(out);
}
