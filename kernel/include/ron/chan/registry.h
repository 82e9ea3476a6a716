/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the list of every channel, bus, watch, task and worker that exists.
 *
 * Nothing that queues or runs can be created without a name, a capacity, a policy and a sentence
 * that says what happens to what does not fit: the creating functions refuse it. What the registry
 * shows is therefore complete, and the tables in docs/concurrency, `GET /debug/topology` and the
 * queue and task metrics are all written from it.
 *
 * Threads: any. Reading takes the registry's lock briefly and copies rows out; the counters in a
 * row are relaxed and may be a moment apart from each other. Ownership: an entry is embedded in the
 * object that it describes; the object registers itself when it is made and leaves before it is
 * freed. Texts are string constants. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/list.h"
#include "ron/base/rc.h"
#include "ron/sync/sync.h"

enum ron_reg_kind {
    RON_REG_QUEUE,
    RON_REG_BUS,
    RON_REG_WATCH,
    RON_REG_TASK,
    RON_REG_WORKER,
    RON_REG_KIND_COUNT
};

enum {
    RON_REG_ENTRIES_MAX = 1024, /* five services with some dozens of objects each, tenfold */
    RON_REG_SAMPLES_MAX = 24,   /* an HTTP server has the most, half of that */
    RON_REG_NAME_MAX = 47,
    RON_REG_TEXT_MAX = 119,
};

/* One number of a row, under the metric name of the specification. */
struct ron_sample {
    const char *metric;      /* "queue_depth" */
    const char *label;       /* "queue", the label whose value is `label_value` */
    const char *label_value; /* NULL: the name of the row */
    const char *name_label;  /* a second label, whose value is the name of the row; NULL: none */
    bool gauge;              /* else a counter */
    uint64_t value;
};

/* What a creator states; all texts are required and are plain printable ASCII without " \ or |. */
struct ron_reg_desc {
    const char *name;      /* [a-z0-9_.-], unique among its kind */
    const char *policy;    /* what happens when it is full, or how it is restarted */
    const char *producers; /* who writes, or who owns it */
    const char *consumers; /* who reads */
    const char *drop;      /* drop semantics in a few words */
    uint64_t capacity;
};

struct ron_reg_row {
    enum ron_reg_kind kind;
    char name[RON_REG_NAME_MAX + 1];
    char policy[RON_REG_TEXT_MAX + 1];
    char producers[RON_REG_TEXT_MAX + 1];
    char consumers[RON_REG_TEXT_MAX + 1];
    char drop[RON_REG_TEXT_MAX + 1];
    const char *state; /* "open", "closed", "running", ... */
    uint64_t capacity;
    uint64_t depth;
    size_t sample_count;
    struct ron_sample samples[RON_REG_SAMPLES_MAX];
};

struct ron_reg_entry {
    struct ron_list_node _link;
    enum ron_reg_kind _kind;
    struct ron_reg_desc _desc;
    /* Adds state, depth and samples to the row. Reads relaxed counters only: takes no lock. */
    void (*_fill)(struct ron_reg_entry *e, struct ron_reg_row *row);
};

struct ron_registry;

RON_MUST_USE enum ron_rc ron_registry_new(struct ron_registry **ret_reg, struct ron_err *err);
/* All entries must have left: an entry that stays is a leak and asserts. */
void ron_registry_free(struct ron_registry *reg);

/* RON_INVALID for a missing or malformed text, RON_EXISTS for a name taken, RON_LIMIT when full. */
RON_MUST_USE enum ron_rc ron_registry_add(struct ron_registry *reg, struct ron_reg_entry *e,
                                          enum ron_reg_kind kind, const struct ron_reg_desc *desc,
                                          void (*fill)(struct ron_reg_entry *,
                                                       struct ron_reg_row *),
                                          struct ron_err *err);
void ron_registry_remove(struct ron_registry *reg, struct ron_reg_entry *e);

/* Copies up to `max` rows in the order of creation, skipping `skip`; returns how many. */
size_t ron_registry_rows(struct ron_registry *reg, size_t skip, struct ron_reg_row *rows,
                         size_t max);
size_t ron_registry_count(struct ron_registry *reg);

void ron_reg_row_sample(struct ron_reg_row *row, const char *metric, const char *label, bool gauge,
                        uint64_t value);

/* ---- writers --------------------------------------------------------------------------------- */

/* JSON object with one array per kind, all counters included: the body of /debug/topology. */
RON_MUST_USE enum ron_rc ron_registry_write_json(struct ron_registry *reg, struct ron_buf *out);
/* Markdown tables of what does not change at run time: channels, tasks and lock ranks. */
RON_MUST_USE enum ron_rc ron_registry_write_md(struct ron_registry *reg, struct ron_buf *out);
