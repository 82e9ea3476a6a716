/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - needs that are set under a lock and read without one.
 *
 * A need is a sequence lock made of plain atomics: the version is odd while its words change.
 * Why no fence is needed: every word is stored with release and loaded with acquire. A reader that
 * sees one new word therefore sees the odd version (or a later one) when it looks at the version
 * again, because that store came before the word's; and a word cannot be loaded after the second
 * look at the version, because each load of a word is an acquire before it. So equal even versions
 * before and after mean one whole state. A reader that keeps meeting a writer gives up after some
 * tries and reports the state alone with the text "changing": it never waits (H1). */
#include "ron/obs/health.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/json.h"

enum {
    CAUSE_WORDS = (RON_NEED_CAUSE_MAX + 1) / 8,
    READ_TRIES = 64,
    TASKS_SHOWN = 32, /* names of tasks that are down; the number of all is told */
};

struct ron_need {
    struct ron_needs *needs;
    const char *key;
    bool reads;
    struct ron_au64 version;
    struct ron_au32 state;
    struct ron_au32 retry_after_s;
    struct ron_au64 cause[CAUSE_WORDS];
};

struct ron_needs {
    const struct ron_sup *sup;
    struct ron_mutex mu;
    struct ron_au32 count;
    struct ron_need needs[RON_NEEDS_MAX];
};

/* One need as it was at one moment. */
struct need_view {
    enum ron_need_state state;
    uint32_t retry_after_s;
    char cause[RON_NEED_CAUSE_MAX + 1];
};

/* ---- setting --------------------------------------------------------------------------------- */

static bool key_ok(const char *key)
{
    size_t len = key == NULL ? 0 : strlen(key);

    return len > 0 && len <= RON_NEED_KEY_MAX &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == len;
}

enum ron_rc ron_needs_add(struct ron_needs *c, const char *key, bool reads,
                          struct ron_need **ret_need, struct ron_err *err)
{
    enum ron_rc rc = RON_OK;
    uint32_t count;

    if (!key_ok(key)) {
        return ron_err_set(err, RON_INVALID, "need \"%s\": a key is [a-z0-9_.-], at most %d",
                           key == NULL ? "" : key, RON_NEED_KEY_MAX);
    }
    ron_mutex_lock(&c->mu);
    count = ron_au32_load(&c->count);
    for (uint32_t i = 0; i < count; i++) {
        rc = strcmp(c->needs[i].key, key) == 0 ? RON_EXISTS : rc;
    }
    if (rc == RON_OK && count == RON_NEEDS_MAX) {
        rc = RON_LIMIT;
    }
    if (rc == RON_OK) {
        c->needs[count].needs = c;
        c->needs[count].key = key;
        c->needs[count].reads = reads;
        *ret_need = &c->needs[count];
        ron_au32_store(&c->count, count + 1); /* published last */
    }
    ron_mutex_unlock(&c->mu);
    return rc == RON_OK ? RON_OK : ron_err_set(err, rc, "need %s: %s", key, ron_rc_doc(rc));
}

/* Bytes of the text that fit, not ending inside a character. */
static size_t cut(const char *text)
{
    size_t len = strnlen(text, RON_NEED_CAUSE_MAX + 1);

    if (len <= RON_NEED_CAUSE_MAX) {
        return len;
    }
    len = RON_NEED_CAUSE_MAX;
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

void ron_need_set(struct ron_need *need, enum ron_need_state state, const char *cause,
                  uint32_t retry_after_s)
{
    uint64_t words[CAUSE_WORDS] = {0};
    uint64_t version;

    if (cause != NULL) {
        memcpy(words, cause, cut(cause));
    }
    ron_mutex_lock(&need->needs->mu);
    version = ron_au64_load(&need->version);
    ron_au64_store(&need->version, version + 1);
    ron_au32_store(&need->state, (uint32_t)state);
    ron_au32_store(&need->retry_after_s, retry_after_s);
    for (size_t i = 0; i < CAUSE_WORDS; i++) {
        ron_au64_store(&need->cause[i], words[i]);
    }
    ron_au64_store(&need->version, version + 2);
    ron_mutex_unlock(&need->needs->mu);
}

enum ron_need_state ron_need_state(const struct ron_need *need)
{
    return (enum ron_need_state)ron_au32_load(&need->state);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void view_need(const struct ron_need *need, struct need_view *v)
{
    uint64_t words[CAUSE_WORDS];

    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t version = ron_au64_load(&need->version);

        v->state = ron_need_state(need);
        v->retry_after_s = ron_au32_load(&need->retry_after_s);
        for (size_t k = 0; k < CAUSE_WORDS; k++) {
            words[k] = ron_au64_load(&need->cause[k]);
        }
        if (version % 2 == 0 && ron_au64_load(&need->version) == version) {
            memcpy(v->cause, words, sizeof v->cause);
            return;
        }
    }
    memcpy(v->cause, "changing", sizeof "changing");
}

/* All that a body needs, gathered before anything is written: the verdict stands first in it. */
struct picture {
    struct ron_health health;
    size_t task_count; /* all that are down */
    const char *tasks[TASKS_SHOWN];
    uint32_t need_count;
    struct need_view needs[RON_NEEDS_MAX];
    struct ron_readiness readiness;
};

static void take_picture(const struct ron_needs *c, bool reads_only, struct picture *p)
{
    struct ron_readiness *r = &p->readiness;

    p->health = (struct ron_health){.state = RON_SUP_RUNNING, .ready = true, .healthy = true};
    p->task_count = 0;
    if (c->sup != NULL) {
        ron_sup_health(c->sup, &p->health);
        p->task_count = ron_sup_causes(c->sup, p->tasks, TASKS_SHOWN);
    }
    *r = (struct ron_readiness){.ready = p->health.ready,
                                .degraded = p->health.degraded || !p->health.ready,
                                .retry_after_s = p->health.ready ? 0 : 1};
    p->need_count = ron_au32_load(&c->count);
    for (uint32_t i = 0; i < p->need_count; i++) {
        struct need_view *v = &p->needs[i];

        view_need(&c->needs[i], v);
        if (v->state == RON_NEED_OK || (reads_only && !c->needs[i].reads)) {
            v->state = RON_NEED_OK;
            continue;
        }
        r->degraded = true;
        if (v->state == RON_NEED_MISSING) {
            r->ready = false;
            r->retry_after_s = RON_MAX(r->retry_after_s, RON_MAX(v->retry_after_s, 1u));
        }
    }
}

/* Why the supervisor is not ready, when it is not a task. */
static const char *sup_key(const struct picture *p)
{
    if (p->health.state == RON_SUP_NEW) {
        return "starting";
    }
    return p->health.state == RON_SUP_RUNNING ? NULL : "draining";
}

static void write_missing(const struct ron_needs *c, const struct picture *p,
                          struct ron_json_writer *w)
{
    size_t shown = RON_MIN(p->task_count, (size_t)TASKS_SHOWN);

    ron_json_open(w, "missing", '[');
    if (!p->health.ready && sup_key(p) != NULL) {
        ron_json_text(w, NULL, sup_key(p));
    } else if (!p->health.ready) {
        for (size_t i = 0; i < shown; i++) {
            ron_json_text(w, NULL, p->tasks[i]);
        }
    }
    for (uint32_t i = 0; i < p->need_count; i++) {
        if (p->needs[i].state == RON_NEED_MISSING) {
            ron_json_text(w, NULL, c->needs[i].key);
        }
    }
    ron_json_close(w, ']');
}

static void write_causes(const struct ron_needs *c, const struct picture *p,
                         struct ron_json_writer *w)
{
    size_t shown = RON_MIN(p->task_count, (size_t)TASKS_SHOWN);

    ron_json_open(w, "causes", '{');
    if (sup_key(p) != NULL) {
        ron_json_text(w, sup_key(p), ron_sup_state_name(p->health.state));
    }
    for (size_t i = 0; i < shown; i++) {
        ron_json_text(w, p->tasks[i], "the task is down");
    }
    for (uint32_t i = 0; i < p->need_count; i++) {
        if (p->needs[i].state != RON_NEED_OK) {
            ron_json_text(w, c->needs[i].key, p->needs[i].cause);
        }
    }
    ron_json_close(w, '}');
}

void ron_needs_write_ready(const struct ron_needs *c, bool reads_only, struct ron_buf *out,
                           struct ron_readiness *ret_readiness)
{
    struct ron_json_writer w;
    struct picture p;

    take_picture(c, reads_only, &p);
    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_bool(&w, "ready", p.readiness.ready);
    ron_json_bool(&w, "degraded", p.readiness.degraded);
    write_missing(c, &p, &w);
    ron_json_u64(&w, "retry_after", p.readiness.retry_after_s);
    if (!p.readiness.ready || p.readiness.degraded) {
        write_causes(c, &p, &w);
    }
    ron_json_close(&w, '}');
    *ret_readiness = p.readiness;
}

bool ron_needs_write_health(const struct ron_needs *c, struct ron_buf *out)
{
    struct ron_json_writer w;
    struct picture p;

    take_picture(c, false, &p);
    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_bool(&w, "ok", p.health.healthy);
    ron_json_text(&w, "state", ron_sup_state_name(p.health.state));
    if (!p.health.healthy) {
        write_causes(c, &p, &w);
    }
    ron_json_close(&w, '}');
    return p.health.healthy;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void collect_needs(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    const struct ron_needs *c = arg;
    struct picture p;

    take_picture(c, false, &p);
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_HEALTH_READY), p.readiness.ready, NULL, 0);
    for (uint32_t i = 0; i < p.need_count; i++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_READYZ_DEGRADED),
                       p.needs[i].state != RON_NEED_OK, c->needs[i].key);
    }
    for (size_t i = 0; i < RON_MIN(p.task_count, (size_t)TASKS_SHOWN); i++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_READYZ_DEGRADED), 1, p.tasks[i]);
    }
}

enum ron_rc ron_collect_needs(struct ron_metrics *m, const struct ron_needs *c, struct ron_err *err)
{
    return ron_metrics_collector(m, collect_needs, (void *)(uintptr_t)c, err);
}

/* ---- birth and death ------------------------------------------------------------------------- */

enum ron_rc ron_needs_new(const struct ron_sup *sup, struct ron_needs **ret_needs,
                          struct ron_err *err)
{
    struct ron_needs *c = ron_alloc_zero(sizeof *c);

    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "needs: no memory");
    }
    c->sup = sup;
    ron_mutex_init(&c->mu, RON_RANK_LEAF, "needs");
    *ret_needs = c;
    return RON_OK;
}

void ron_needs_free(struct ron_needs *c)
{
    if (c != NULL) {
        ron_mutex_done(&c->mu);
        ron_free(c);
    }
}
