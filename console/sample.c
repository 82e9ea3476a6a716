/* SPDX-License-Identifier: Apache-2.0 */
/* console/sample.c - one pass over the text adds up what is kept; two of these give a point. */
#include "console/sample.h"

#include <stdlib.h>
#include <string.h>

#include "ron/base/macros.h"

struct extra {
    const char *key;
    const char *metric;
    const char *label;
    const char *value;
    enum con_service svc;
};

static const struct extra extras[] = {
#define X(svc_, key_, metric_, label_, value_)                                                     \
    {.key = (key_), .metric = (metric_), .label = (label_), .value = (value_), .svc = CON_##svc_},
    CON_EXTRAS(X)
#undef X
};

size_t con_extra_count(enum con_service svc)
{
    size_t count = 0;

    for (size_t i = 0; i < RON_ARRAY_LEN(extras); i++) {
        count += extras[i].svc == svc;
    }
    return RON_MIN(count, (size_t)CON_EXTRAS_MAX);
}

const char *con_extra_key(enum con_service svc, size_t index)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(extras); i++) {
        if (extras[i].svc == svc && index-- == 0) {
            return extras[i].key;
        }
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    enum con_service svc;
    struct con_count *c;
    struct con_queue queues[CON_QUEUES_MAX];
    size_t queue_count;
    double busy_answers; /* the same refusal may be told of by a queue and by an endpoint */
    double busy_queues;
    double dropped;
};

static bool is_ops_route(struct ron_str labels)
{
    static const char *const routes[] = {"/metrics", "/readyz", "/healthz", "/version",
                                         "/debug/topology"};
    struct ron_str route = {0};

    if (!con_prom_label(labels, "route", &route)) {
        return false;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(routes); i++) {
        if (ron_str_is(route, routes[i])) {
            return true;
        }
    }
    return false;
}

static void add_bucket(struct con_count *c, struct ron_str labels, double value)
{
    struct ron_str le = {0};
    char number[32];
    double bound;
    uint32_t i = 0;

    if (!con_prom_label(labels, "le", &le) || le.len == 0 || le.len >= sizeof number ||
        le.ptr[0] == '+') {
        return;
    }
    memcpy(number, le.ptr, le.len);
    number[le.len] = '\0';
    bound = strtod(number, NULL);
    while (i < c->bucket_count && c->bounds[i] < bound) {
        i++;
    }
    if (i == c->bucket_count || c->bounds[i] > bound) {
        if (c->bucket_count == CON_BUCKETS_MAX) {
            return;
        }
        memmove(c->bounds + i + 1, c->bounds + i, (c->bucket_count - i) * sizeof c->bounds[0]);
        memmove(c->buckets + i + 1, c->buckets + i, (c->bucket_count - i) * sizeof c->buckets[0]);
        c->bounds[i] = bound;
        c->buckets[i] = 0;
        c->bucket_count++;
    }
    c->buckets[i] += value;
}

static struct con_queue *queue_named(struct reading *r, struct ron_str name)
{
    for (size_t i = 0; i < r->queue_count; i++) {
        if (r->queues[i].name.len == name.len &&
            memcmp(r->queues[i].name.ptr, name.ptr, name.len) == 0) {
            return &r->queues[i];
        }
    }
    if (r->queue_count == CON_QUEUES_MAX) {
        return NULL;
    }
    r->queues[r->queue_count] = (struct con_queue){.name = name};
    return &r->queues[r->queue_count++];
}

static struct con_queue *queue_of(struct reading *r, struct ron_str labels)
{
    struct ron_str name = {0};

    /* The log is drained by its own pace and says nothing about the work. */
    if (!con_prom_label(labels, "queue", &name) || name.len == 0 || ron_str_is(name, "log")) {
        return NULL;
    }
    return queue_named(r, name);
}

static void copy_name(char out[CON_NAME_MAX + 1], struct ron_str name)
{
    size_t len = RON_MIN(name.len, (size_t)CON_NAME_MAX);

    /* Names of queues and breakers are of [a-z0-9_.-]; anything else could break a JSON text. */
    for (size_t i = 0; i < len; i++) {
        char c = name.ptr[i];

        out[i] =
            (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ? c
                                                                                            : '_');
    }
    out[len] = '\0';
}

static void add_breaker(struct con_count *c, const struct con_prom_sample *s)
{
    struct ron_str name = {0};

    if (c->breaker_count < CON_BREAKERS_MAX && con_prom_label(s->labels, "svc", &name)) {
        struct con_breaker *b = &c->breakers[c->breaker_count++];

        copy_name(b->name, name);
        b->state = s->value > 0 && s->value < 3 ? (uint32_t)s->value : 0;
    }
}

static void add_extras(struct reading *r, const struct con_prom_sample *s)
{
    size_t index = 0;

    for (size_t i = 0; i < RON_ARRAY_LEN(extras); i++) {
        struct ron_str value = {0};

        if (extras[i].svc != r->svc) {
            continue;
        }
        if (index < CON_EXTRAS_MAX && ron_str_is(s->name, extras[i].metric) &&
            (extras[i].label == NULL || (con_prom_label(s->labels, extras[i].label, &value) &&
                                         ron_str_is(value, extras[i].value)))) {
            r->c->extras[index] += s->value;
        }
        index++;
    }
}

static bool latency(const struct reading *r, const struct con_prom_sample *s, const char **ret_part)
{
    static const char *const names[] = {"request_latency_seconds", "ledger_commit_latency_seconds"};
    const char *name = names[r->svc == CON_LEDGER];
    size_t len = strlen(name);

    if (s->name.len <= len || memcmp(s->name.ptr, name, len) != 0 || is_ops_route(s->labels)) {
        return false;
    }
    *ret_part = s->name.ptr + len;
    return true;
}

static void add_requests(struct con_count *c, enum con_service svc, const struct con_prom_sample *s)
{
    struct ron_str status = {0};

    if (is_ops_route(s->labels) || !con_prom_label(s->labels, "status", &status)) {
        return;
    }
    if (svc != CON_LEDGER) {
        c->ops += s->value;
    }
    if (status.len == 3 && status.ptr[0] == '5') {
        c->errors += s->value;
    }
}

static void add_busy(struct reading *r, const struct con_prom_sample *s)
{
    struct ron_str endpoint = {0};

    if (con_prom_label(s->labels, "endpoint", &endpoint) && endpoint.len > 0) {
        r->busy_answers += s->value;
    } else {
        r->busy_queues += s->value;
    }
}

static void add_sample(struct reading *r, const struct con_prom_sample *s)
{
    struct con_count *c = r->c;
    struct con_queue *q;
    const char *part = NULL;

    if (latency(r, s, &part)) {
        size_t len = (size_t)(s->name.ptr + s->name.len - part);

        if (len == 7 && memcmp(part, "_bucket", 7) == 0) {
            add_bucket(c, s->labels, s->value);
        } else if (len == 4 && memcmp(part, "_sum", 4) == 0) {
            c->latency_sum_s += s->value;
        } else if (len == 6 && memcmp(part, "_count", 6) == 0) {
            c->latency_count += s->value;
        }
    } else if (ron_str_is(s->name, "http_requests_total")) {
        add_requests(c, r->svc, s);
    } else if (ron_str_is(s->name, "queue_depth")) {
        q = queue_of(r, s->labels);
        if (q != NULL) {
            q->depth = s->value;
            c->depth += s->value;
        }
    } else if (ron_str_is(s->name, "queue_capacity")) {
        q = queue_of(r, s->labels);
        if (q != NULL) {
            q->capacity = s->value;
        }
    } else if (ron_str_is(s->name, "inflight_requests")) {
        /* The front counts its own queue, of requests that wait for an answer. */
        q = queue_named(r, (struct ron_str){"http.inflight", 13});
        if (q != NULL) {
            q->depth = s->value;
            c->depth += s->value;
        }
    } else if (ron_str_is(s->name, "busy_rejections_total")) {
        add_busy(r, s);
    } else if (ron_str_is(s->name, "queue_dropped_total")) {
        r->dropped += s->value;
    } else if (ron_str_is(s->name, "service_restarts_total")) {
        c->restarts += s->value;
    } else if (ron_str_is(s->name, "breaker_state")) {
        add_breaker(c, s);
    } else if (ron_str_is(s->name, "process_cpu_seconds_total")) {
        c->cpu_s = s->value;
    } else if (ron_str_is(s->name, "process_resident_memory_bytes")) {
        c->rss_bytes = s->value;
    }
    add_extras(r, s);
}

void con_count_read(enum con_service svc, struct ron_str text, struct con_count *ret_count)
{
    struct reading r = {.svc = svc, .c = ret_count};
    struct con_prom_sample s;

    *ret_count = (struct con_count){.there = true};
    while (con_prom_next(&text, &s)) {
        add_sample(&r, &s);
    }
    ret_count->busy = RON_MAX(r.busy_answers, r.busy_queues) + r.dropped;
    for (size_t i = 0; i < r.queue_count; i++) {
        const struct con_queue *q = &r.queues[i];

        if (q->capacity > 0 && q->depth / q->capacity > ret_count->fill) {
            ret_count->fill = q->depth / q->capacity;
            copy_name(ret_count->fullest, q->name);
        }
    }
    if (svc == CON_LEDGER) {
        ret_count->ops = ret_count->extras[1]; /* "entries": most come over OAP, not HTTP */
    }
}

/* ---- points ---------------------------------------------------------------------------------- */

static uint32_t bounded(double x)
{
    return x <= 0 ? 0 : x >= UINT32_MAX ? UINT32_MAX : (uint32_t)(x + 0.5);
}

/* What was added in between; a total that fell began anew. */
static double gained(double before, double now)
{
    return now >= before ? now - before : now;
}

static uint32_t rate(double before, double now, uint64_t ms)
{
    return bounded(gained(before, now) * 1e6 / (double)ms);
}

static uint32_t p99_us(const struct con_count *before, const struct con_count *now, double all)
{
    bool same = before->bucket_count == now->bucket_count &&
                memcmp(before->bounds, now->bounds, now->bucket_count * sizeof now->bounds[0]) == 0;

    for (uint32_t i = 0; i < now->bucket_count; i++) {
        if (gained(same ? before->buckets[i] : 0, now->buckets[i]) >= 0.99 * all) {
            return bounded(now->bounds[i] * 1e6);
        }
    }
    return now->bucket_count > 0 ? bounded(now->bounds[now->bucket_count - 1] * 1e6) : 0;
}

struct con_point con_point_of(const struct con_count *before, const struct con_count *now,
                              uint64_t ms)
{
    struct con_point p = {.up = now->there};
    double count;

    if (!now->there) {
        return p;
    }
    p.depth = bounded(now->depth);
    p.fill = bounded(now->fill * 1000);
    p.rss_kib = bounded(now->rss_bytes / 1024);
    if (!before->there || ms == 0) {
        return p;
    }
    p.ops = rate(before->ops, now->ops, ms);
    p.errors = rate(before->errors, now->errors, ms);
    p.busy = rate(before->busy, now->busy, ms);
    p.cpu = rate(before->cpu_s, now->cpu_s, ms);
    count = gained(before->latency_count, now->latency_count);
    if (count > 0) {
        p.mean_us = bounded(gained(before->latency_sum_s, now->latency_sum_s) / count * 1e6);
        p.p99_us = p99_us(before, now, count);
    }
    return p;
}
