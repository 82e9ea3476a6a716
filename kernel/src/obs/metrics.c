/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - families, series and shards: everything but the scrape.
 *
 * Invariants P1-P3 are in metrics_priv.h. A thread finds its shard through thread-local storage;
 * the key there is the registry's id and not its address, because a later registry may get the same
 * address. The failure policy: recording never fails. No shard: the shared one is used with atomic
 * adds. No series: "other". No memory even for that: the value is counted as overflow only.
 *
 * Why not ron_map: a recording thread reads the chain of a family without a lock (P1). */
#include "obs/metrics_priv.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/json.h"

_Thread_local struct ron_metrics_tls ron_metrics_tls;

static struct ron_au64 last_id;

#define MS(n) ((n)*RON_NS_PER_MS)
static const uint64_t default_bounds[] = {MS(5),   MS(10),  MS(25),   MS(50),   MS(100),
                                          MS(250), MS(500), MS(1000), MS(2000), MS(5000)};

static const struct ron_metric_def names[] = {
#define X(id, type_, unit_, name_, labels_, help_)                                                 \
    {.name = (name_),                                                                              \
     .help = (help_),                                                                              \
     .type = RON_METRIC_##type_,                                                                   \
     .unit = RON_METRIC_##unit_,                                                                   \
     .labels = (labels_),                                                                          \
     .series_max = 512}, /* by queue, task, route and status: bounded by those that create them */
    RON_METRIC_NAMES(X)
#undef X
};

/* ---- names and labels ------------------------------------------------------------------------ */

static bool name_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || c == '_';

        if (!letter && (i == 0 || c < '0' || c > '9')) {
            return false;
        }
    }
    return len > 0;
}

static enum ron_rc take_labels(struct ron_metric *f, struct ron_err *err)
{
    const char *p = f->def.labels == NULL ? "" : f->def.labels;
    size_t used = 0;

    while (*p != '\0') {
        size_t len = strcspn(p, ",");

        if (f->label_count == RON_METRIC_LABELS_MAX || used + len + 1 > sizeof f->label_text) {
            return ron_err_set(err, RON_LIMIT, "metric %s: more than %d labels, or long ones",
                               f->def.name, RON_METRIC_LABELS_MAX);
        }
        if (!name_ok(p, len) || (len == 2 && memcmp(p, "le", 2) == 0)) {
            return ron_err_set(err, RON_INVALID, "metric %s: labels \"%s\"", f->def.name,
                               f->def.labels);
        }
        memcpy(f->label_text + used, p, len); /* the NUL is there already */
        f->labels[f->label_count++] = f->label_text + used;
        used += len + 1;
        p += len + (p[len] == ',');
    }
    return RON_OK;
}

int ron_metric_label_index(const struct ron_metric *f, const char *label)
{
    for (size_t i = 0; i < f->label_count; i++) {
        if (strcmp(f->labels[i], label) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* One value with the three escapes of the format; other controls and bytes that are not UTF-8
 * become '?'. */
static char *put_value(char *out, const char *value, size_t len)
{
    const char *p = value;
    const char *end = value + len;

    while (p < end) {
        unsigned char c = (unsigned char)*p;
        size_t n = c < 0x80 ? 1 : ron_utf8_len(p, end);

        if (c == '\\' || c == '"' || c == '\n') {
            *out++ = '\\';
            *out++ = (char)(c == '\n' ? 'n' : c);
        } else if (n == 0 || c < 0x20 || c == 0x7f) {
            *out++ = '?';
            n = 1;
        } else {
            memcpy(out, p, n);
            out += n;
        }
        p += n == 0 ? 1 : n;
    }
    return out;
}

bool ron__metric_labels(const struct ron_metric *f, const char *const *values, size_t count,
                        char *text, size_t *ret_len)
{
    _Static_assert(METRIC_TEXT_MAX >
                       RON_METRIC_LABELS_MAX * (2 * RON_METRIC_VALUE_MAX + 4) + 64 + 1,
                   "four labels fit");
    char *p = text;

    for (size_t i = 0; i < f->label_count; i++) {
        const char *value = i < count && values[i] != NULL ? values[i] : "";
        size_t len = strlen(value);
        size_t name_len = strlen(f->labels[i]);

        if (len > RON_METRIC_VALUE_MAX) {
            return false;
        }
        if (i > 0) {
            *p++ = ',';
        }
        memcpy(p, f->labels[i], name_len);
        p += name_len;
        *p++ = '=';
        *p++ = '"';
        p = put_value(p, value, len);
        *p++ = '"';
    }
    *p = '\0';
    *ret_len = (size_t)(p - text);
    return true;
}

/* ---- families -------------------------------------------------------------------------------- */

static enum ron_rc check_def(const struct ron_metric_def *def, struct ron_err *err)
{
    if (def->name == NULL || !name_ok(def->name, strlen(def->name))) {
        return ron_err_set(err, RON_INVALID, "metric \"%s\": the name is [a-z_][a-z0-9_]*",
                           def->name == NULL ? "" : def->name);
    }
    if (def->help == NULL || def->help[0] == '\0') {
        return ron_err_set(err, RON_INVALID, "metric %s: has no help", def->name);
    }
    if (def->type != RON_METRIC_HISTOGRAM) {
        return RON_OK;
    }
    if (def->bound_count > RON_METRIC_BOUNDS_MAX ||
        (def->bounds == NULL) != (def->bound_count == 0)) {
        return ron_err_set(err, RON_INVALID, "metric %s: at most %d bounds", def->name,
                           RON_METRIC_BOUNDS_MAX);
    }
    for (size_t i = 1; i < def->bound_count; i++) {
        if (def->bounds[i] <= def->bounds[i - 1]) {
            return ron_err_set(err, RON_INVALID, "metric %s: bounds do not rise", def->name);
        }
    }
    return RON_OK;
}

/* Under the lock. */
static enum ron_rc publish_family(struct ron_metrics *m, struct ron_metric *f, struct ron_err *err)
{
    uint32_t count = ron_au32_load(&m->family_count);

    if (ron_metrics_find(m, f->def.name) != NULL) {
        return ron_err_set(err, RON_EXISTS, "metric %s: declared already", f->def.name);
    }
    if (count == RON_METRIC_FAMILIES_MAX) {
        return ron_err_set(err, RON_LIMIT, "more than %d metrics", RON_METRIC_FAMILIES_MAX);
    }
    f->index = count;
    m->families[count] = f;
    ron_au32_store(&m->family_count, count + 1);
    return RON_OK;
}

enum ron_rc ron_metrics_declare(struct ron_metrics *m, const struct ron_metric_def *def,
                                struct ron_metric **ret_metric, struct ron_err *err)
{
    RON_AUTO_FREE struct ron_metric *f = NULL;
    enum ron_rc rc;

    RON_TRY(check_def(def, err));
    f = ron_alloc_zero(sizeof *f);
    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "metric %s: no memory", def->name);
    }
    f->metrics = m;
    f->def = *def;
    f->cells = 1;
    if (def->series_max == 0) {
        f->def.series_max = RON_METRIC_SERIES_DEFAULT;
    }
    if (def->type == RON_METRIC_HISTOGRAM) {
        if (def->bounds == NULL) {
            f->def.bounds = default_bounds;
            f->def.bound_count = RON_ARRAY_LEN(default_bounds);
        }
        f->cells = (uint32_t)f->def.bound_count + 2; /* +Inf and the sum */
    }
    RON_TRY(take_labels(f, err));
    ron_mutex_lock(&m->mu);
    rc = publish_family(m, f, err);
    ron_mutex_unlock(&m->mu);
    RON_TRY(rc);
    *ret_metric = RON_TAKE(f);
    return RON_OK;
}

enum ron_rc ron_metrics_declare_all(struct ron_metrics *m, const struct ron_metric_def *defs,
                                    size_t count, struct ron_metric **ret_metrics,
                                    struct ron_err *err)
{
    for (size_t i = 0; i < count; i++) {
        RON_TRY(ron_metrics_declare(m, &defs[i], &ret_metrics[i], err));
    }
    return RON_OK;
}

struct ron_metric *ron_metrics_name(struct ron_metrics *m, enum ron_metric_name name)
{
    RON_ASSERT(name < RON_M_COUNT);
    return m->families[name];
}

struct ron_metric *ron_metrics_find(struct ron_metrics *m, const char *name)
{
    uint32_t count = ron_au32_load(&m->family_count);

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(m->families[i]->def.name, name) == 0) {
            return m->families[i];
        }
    }
    return NULL;
}

/* ---- series ---------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return h ^ (h >> 32);
}

static struct ron_series *find_series(struct ron_aptr *chain, const char *labels)
{
    struct ron_series *s = ron_aptr_load(chain);

    while (s != NULL && strcmp(s->_labels, labels) != 0) {
        s = s->_chain;
    }
    return s;
}

/* Under the lock; NULL when there is no cell or no memory. Does not count against series_max. */
static struct ron_series *make_series(struct ron_metric *f, struct ron_aptr *chain,
                                      const char *labels, size_t len)
{
    struct ron_metrics *m = f->metrics;
    struct ron_series *s;

    if (m->cells_max - m->cells_used < f->cells) {
        return NULL;
    }
    s = ron_alloc_zero(sizeof *s + len + 1);
    if (s == NULL) {
        return NULL;
    }
    s->_metrics = m;
    s->_metrics_id = m->id;
    s->_cell = m->cells_used;
    s->_family = f;
    memcpy(s->_labels, labels, len + 1);
    m->cells_used += f->cells;
    s->_chain = ron_aptr_load(chain);
    s->_next = ron_aptr_load(&f->newest);
    ron_aptr_store(chain, s); /* P1: published last */
    ron_aptr_store(&f->newest, s);
    return s;
}

/* Under the lock. */
static struct ron_series *other_series(struct ron_metric *f)
{
    const char *const others[RON_METRIC_LABELS_MAX] = {"other", "other", "other", "other"};
    struct ron_series *s = ron_aptr_load(&f->other);
    char text[METRIC_TEXT_MAX];
    struct ron_aptr *chain;
    size_t len = 0;

    if (s != NULL) {
        return s;
    }
    (void)ron__metric_labels(f, others, f->label_count, text, &len); /* "other" is short enough */
    chain = &f->table[hash_text(text, len) % METRIC_TABLE];
    s = find_series(chain, text);
    if (s == NULL) {
        s = make_series(f, chain, text, len);
    }
    ron_aptr_store(&f->other, s);
    return s;
}

static struct ron_series *overflow(struct ron_metric *f)
{
    struct ron_series *s = ron_aptr_load(&f->other);

    ron_stat_add(&f->overflow, 1);
    if (s == NULL) {
        ron_mutex_lock(&f->metrics->mu);
        s = other_series(f);
        ron_mutex_unlock(&f->metrics->mu);
    }
    return s != NULL ? s : f->metrics->trash;
}

struct ron_series *ron_metric_series_of(struct ron_metric *f, const char *const *values,
                                        size_t count)
{
    char text[METRIC_TEXT_MAX];
    struct ron_aptr *chain;
    struct ron_series *s;
    size_t len = 0;

    RON_ASSERT_MSG(count == f->label_count, "metric %s has %zu labels", f->def.name,
                   f->label_count);
    if (!ron__metric_labels(f, values, count, text, &len)) {
        return overflow(f);
    }
    chain = &f->table[hash_text(text, len) % METRIC_TABLE];
    s = find_series(chain, text);
    if (s != NULL) {
        return s;
    }
    ron_mutex_lock(&f->metrics->mu);
    s = find_series(chain, text);
    if (s == NULL && f->series_count < f->def.series_max) {
        s = make_series(f, chain, text, len);
        f->series_count += s != NULL;
    }
    ron_mutex_unlock(&f->metrics->mu);
    return s != NULL ? s : overflow(f);
}

struct ron_series *ron_metric_only(struct ron_metric *f)
{
    return ron_metric_series_of(f, NULL, 0);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static struct metric_shard *find_shard(const struct ron_metrics *m, const struct ron_thread *self)
{
    struct metric_shard *shard = ron_aptr_load(&m->shards);

    while (shard != NULL && shard->owner != self) {
        shard = shard->next;
    }
    return shard;
}

static struct metric_shard *make_shard(struct ron_metrics *m, struct ron_thread *self)
{
    struct metric_shard *shard = ron_alloc_zero(
        sizeof *shard + (size_t)m->cells_max * sizeof shard->cells[0]); /* bounded at birth */

    if (shard == NULL) {
        return NULL;
    }
    shard->owner = self;
    ron_mutex_lock(&m->mu);
    shard->next = ron_aptr_load(&m->shards);
    ron_aptr_store(&m->shards, shard);
    ron_mutex_unlock(&m->mu);
    return shard;
}

void ron_series_add_slow(struct ron_series *s, uint32_t offset, uint64_t n)
{
    struct ron_thread *self = ron_thread_self();
    struct metric_shard *shard = find_shard(s->_metrics, self);

    if (shard == NULL) {
        shard = make_shard(s->_metrics, self);
    }
    if (shard == NULL) {
        ron_stat_add(&s->_metrics->common->cells[s->_cell + offset], n);
        return;
    }
    ron_metrics_tls = (struct ron_metrics_tls){.id = s->_metrics_id, .cells = shard->cells};
    ron_stat_bump(&shard->cells[s->_cell + offset], n);
}

void ron_histogram_observe(struct ron_series *s, uint64_t value)
{
    const struct ron_metric_def *def = &s->_family->def;
    uint32_t count = (uint32_t)def->bound_count;
    uint32_t bucket = 0;

    while (bucket < count && value > def->bounds[bucket]) {
        bucket++;
    }
    ron_series_add_at(s, bucket, 1);
    ron_series_add_at(s, count + 1, value);
}

uint64_t ron__metric_sum(const struct ron_metrics *m, uint32_t cell)
{
    uint64_t sum = ron_stat_get(&m->common->cells[cell]);

    for (struct metric_shard *shard = ron_aptr_load(&m->shards); shard != NULL;
         shard = shard->next) {
        sum += ron_stat_get(&shard->cells[cell]);
    }
    return sum;
}

uint64_t ron_series_value(const struct ron_series *s)
{
    return ron__metric_sum(s->_metrics, s->_cell) + ron_stat_get(&s->_set);
}

/* ---- birth and death ------------------------------------------------------------------------- */

static enum ron_rc fill(struct ron_metrics *m, struct ron_err *err)
{
    struct ron_metric *f = NULL;

    _Static_assert(RON_ARRAY_LEN(names) <= RON_METRIC_FAMILIES_MAX / 2, "room for a service");
    m->common =
        ron_alloc_zero(sizeof *m->common + (size_t)m->cells_max * sizeof m->common->cells[0]);
    m->trash = ron_alloc_zero(sizeof *m->trash + 1);
    if (m->common == NULL || m->trash == NULL) {
        return ron_err_set(err, RON_NOMEM, "metrics: no memory");
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        RON_TRY(ron_metrics_declare(m, &names[i], &f, err));
    }
    /* A histogram among the names: the trash must look like the largest family. */
    m->trash->_metrics = m;
    m->trash->_metrics_id = m->id;
    m->trash->_family = m->families[RON_M_REQUEST_LATENCY];
    return RON_OK;
}

enum ron_rc ron_metrics_new(const struct ron_metrics_opts *opts, struct ron_metrics **ret_metrics,
                            struct ron_err *err)
{
    struct ron_metrics *m = ron_alloc_zero(sizeof *m);
    enum ron_rc rc;

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "metrics: no memory");
    }
    m->id = ron_au64_add(&last_id, 1) + 1;
    m->cells_max =
        opts != NULL && opts->cells_max != 0 ? opts->cells_max : RON_METRIC_CELLS_DEFAULT;
    m->cells_max = RON_MAX(m->cells_max, (uint32_t)METRIC_TRASH);
    m->cells_used = METRIC_TRASH;
    ron_mutex_init(&m->mu, RON_RANK_LEAF, "metrics");
    rc = fill(m, err);
    if (rc != RON_OK) {
        ron_metrics_free(m);
        return rc;
    }
    *ret_metrics = m;
    return RON_OK;
}

static void free_family(struct ron_metric *f)
{
    struct ron_series *s = ron_aptr_load(&f->newest);

    while (s != NULL) {
        struct ron_series *next = s->_next;

        ron_free(s);
        s = next;
    }
    ron_free(f);
}

void ron_metrics_free(struct ron_metrics *m)
{
    struct metric_shard *shard;
    uint32_t count;

    if (m == NULL) {
        return;
    }
    count = ron_au32_load(&m->family_count);
    for (uint32_t i = 0; i < count; i++) {
        free_family(m->families[i]);
    }
    shard = ron_aptr_load(&m->shards);
    while (shard != NULL) {
        struct metric_shard *next = shard->next;

        ron_free(shard);
        shard = next;
    }
    ron_mutex_done(&m->mu);
    ron_free(m->common);
    ron_free(m->trash);
    ron_free(m);
}
