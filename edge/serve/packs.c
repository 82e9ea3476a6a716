/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/packs.c - the packs that are served, and the verifier that brings them.
 *
 * Place: service. A set of packs is immutable; a reload makes another one and swaps the pointer,
 * and requests that still read an old pack hold a reference to it. A pack is in a set only when it
 * was opened, verified and hashed. One that is damaged is refused by itself: on a reload the pack
 * of that name that was served before stays, otherwise its paths are 503; the edge is degraded, or
 * not ready when edge.packs_required names it. */
#include <stdio.h>
#include <string.h>

#include "edge/pack/verify.h"
#include "edge/serve/packs.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- settings -------------------------------------------------------------------------------- */

struct pack_row {
    char name[EDG_PACK_NAME_MAX + 1];
    const char *path;
};

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static enum ron_rc read_row(const struct ron_conf_str *item, struct pack_row *ret,
                            struct ron_err *err)
{
    const char *eq = memchr(item->text, '=', item->len);
    size_t len = eq != NULL ? (size_t)(eq - item->text) : 0;

    if (len == 0 || len > EDG_PACK_NAME_MAX || eq[1] == '\0') {
        return ron_err_set(err, RON_INVALID, "edge.packs: invalid entry '%s', expected NAME=FILE",
                           item->text);
    }
    for (size_t i = 0; i < len; i++) {
        if (!name_char(item->text[i])) {
            return ron_err_set(
                err, RON_INVALID,
                "edge.packs: invalid name in '%s', expected letters, digits, _ and -", item->text);
        }
        ret->name[i] = item->text[i];
    }
    ret->name[len] = '\0';
    if (strcmp(ret->name, "files") == 0 || strcmp(ret->name, "o") == 0 ||
        strcmp(ret->name, "ledger") == 0) {
        return ron_err_set(err, RON_INVALID, "edge.packs: the name '%s' is reserved", ret->name);
    }
    ret->path = eq + 1;
    return RON_OK;
}

enum ron_rc edg_packs_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    struct ron_conf_list list = ron_conf_list(conf, EDG_PACKS);
    struct pack_row rows[EDG_PACKS_MAX];

    for (size_t i = 0; i < list.count; i++) {
        RON_TRY(read_row(&list.items[i], &rows[i], err));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(rows[i].name, rows[j].name) == 0) {
                return ron_err_set(err, RON_INVALID, "edge.packs: duplicate name '%s'",
                                   rows[i].name);
            }
        }
    }
    return RON_OK;
}

/* ---- the set --------------------------------------------------------------------------------- */

static void set_free(struct edg_pack_set *set)
{
    if (set == NULL) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        edg_pack_unref(set->packs[i]);
    }
    ron_free(set);
}

/* Whether the settings of the start name it; the verifier is not through with it yet. */
static bool is_awaited(const struct edg_packs *packs, struct ron_str name)
{
    struct ron_conf_list list = ron_conf_list(packs->site->conf, EDG_PACKS);

    for (size_t i = 0; i < list.count; i++) {
        const struct ron_conf_str *item = &list.items[i];

        if (item->len > name.len && item->text[name.len] == '=' &&
            memcmp(item->text, name.ptr, name.len) == 0) {
            return true;
        }
    }
    return false;
}

static struct edg_pack *find(const struct edg_pack_set *set, struct ron_str name)
{
    for (size_t i = 0; set != NULL && i < set->count; i++) {
        if (ron_str_is(name, edg_pack_name(set->packs[i]))) {
            return edg_pack_ref(set->packs[i]);
        }
    }
    return NULL;
}

struct edg_pack *edg_packs_get(struct edg_packs *packs, struct ron_str name,
                               enum edg_error *ret_error)
{
    const struct edg_pack_set *set;
    struct edg_pack *found;
    bool bad = false;
    bool loaded;

    ron_mutex_lock(&packs->mu);
    set = packs->set;
    found = find(set, name);
    loaded = set != NULL;
    for (size_t i = 0; found == NULL && loaded && i < set->bad_count; i++) {
        bad = bad || ron_str_is(name, set->bad[i]);
    }
    ron_mutex_unlock(&packs->mu);
    if (found == NULL) {
        *ret_error = bad                                  ? EDG_ERROR_PACK_DAMAGED
                     : !loaded && is_awaited(packs, name) ? EDG_ERROR_NOT_READY
                                                          : EDG_ERROR_NOT_FOUND;
    }
    return found;
}

size_t edg_packs_list(struct edg_packs *packs, struct edg_pack *ret_packs[EDG_PACKS_MAX])
{
    size_t count = 0;

    ron_mutex_lock(&packs->mu);
    for (; packs->set != NULL && count < packs->set->count; count++) {
        ret_packs[count] = edg_pack_ref(packs->set->packs[count]);
    }
    ron_mutex_unlock(&packs->mu);
    return count;
}

static void swap_in(struct edg_packs *packs, struct edg_pack_set *take_set)
{
    struct edg_pack_set *old;

    RON_ASSERT(take_set->count + take_set->bad_count <= EDG_PACKS_MAX);
    ron_mutex_lock(&packs->mu);
    old = packs->set;
    packs->set = take_set;
    ron_mutex_unlock(&packs->mu);
    set_free(old);
}

/* ---- the verifier ---------------------------------------------------------------------------- */

/* Between two lines of the log about one verification: small packs have none, large ones one for
 * each tenth, and one now and then where the total is unknown. */
enum { TELL_MIN_MS = 100, TELL_MAX_MS = 10000 };

static void tell(struct edg_packs *packs, const char *phase, uint64_t percent)
{
    uint64_t now_ms = ron_env_now_ns(packs->site->env) / RON_NS_PER_MS;
    uint64_t since_ms = now_ms - packs->verified_told_ms;

    if (since_ms >= TELL_MAX_MS ||
        (since_ms >= TELL_MIN_MS && percent / 10 != packs->verified_percent / 10)) {
        packs->verified_told_ms = now_ms;
        packs->verified_percent = percent;
        RON_LOG(packs->site->log, INFO, "pack verification in progress",
                RON_LOG_STR("pack", packs->verified), RON_LOG_STR("phase", phase),
                RON_LOG_U64("percent", percent));
    }
}

/* Reports progress: at the start in readyz, because clients wait; after a reload in the log,
 * because the previous packs are served meanwhile and nothing is degraded. */
static bool go_on(void *arg, const char *phase, uint64_t done, uint64_t total)
{
    struct edg_packs *packs = RON_OBJ(arg, struct edg_packs, EDG_PACKS_MAGIC);
    uint64_t percent = total > 0 ? done / (total / 100 + 1) : 0;
    char text[RON_NEED_CAUSE_MAX + 1];

    RON_ASSERT_MSG(packs->verified != NULL, "progress belongs to a pack");
    if (packs->set != NULL) {
        tell(packs, phase, percent);
    } else if (percent != packs->verified_percent) { /* at the start: clients wait */
        packs->verified_percent = percent;
        (void)snprintf(text, sizeof text, "verifying %s: %s, %u %%", packs->verified, phase,
                       (unsigned)percent);
        ron_need_set(packs->need, RON_NEED_MISSING, text, 1);
    }
    return !ron_task_stopping(packs->verifier);
}

static enum ron_rc open_one(struct edg_packs *packs, const struct pack_row *row,
                            struct edg_pack **ret_pack, struct ron_err *err)
{
    struct edg_pack_opts opts = {.env = packs->site->env,
                                 .cache = packs->cache,
                                 .path = row->path,
                                 .name = row->name,
                                 .readers =
                                     (uint32_t)ron_conf_int(packs->site->conf, EDG_READERS_N)};
    struct edg_verify_opts verify = {
        .env = packs->site->env, .path = row->path, .progress = go_on, .progress_arg = packs};
    struct edg_verify_report report;
    struct edg_pack *p = NULL;
    enum ron_rc rc;

    packs->verified = row->name;
    packs->verified_percent = 0;
    packs->verified_told_ms = ron_env_now_ns(packs->site->env) / RON_NS_PER_MS;
    rc = edg_verify_open(&verify, &opts, &report, &p, err);
    for (uint32_t i = 0; i < RON_MIN(report.notes.count, (uint32_t)EDG_FINDINGS_MAX); i++) {
        RON_LOG(packs->site->log, INFO, "pack verification note", RON_LOG_STR("pack", row->name),
                RON_LOG_STR("note", report.notes.texts[i]));
    }
    edg_count_of(packs->site, EDG_M_PACK_LOADS, rc == RON_OK ? "ok" : "failed", 1);
    if (rc != RON_OK) {
        ron_err_prefix(err, "pack %s (%s)", row->name, row->path);
        return rc;
    }
    RON_LOG(packs->site->log, INFO, "pack verified", RON_LOG_STR("pack", row->name),
            RON_LOG_U64("tiles", edg_pack_info(p)->tiles_addressed),
            RON_LOG_U64("bytes", edg_pack_info(p)->size_bytes));
    edg_events_tell(packs->site, &(struct edg_event){.what = "served"}, row->name);
    *ret_pack = p;
    return RON_OK;
}

/* What became of the packs of a configuration. */
struct loaded {
    struct edg_pack_set *set;
    size_t kept;                                  /* stay as they were */
    bool required;                                /* one that is named as required is not there */
    char cause[sizeof((struct ron_err *)0)->msg]; /* of the first that is not good */
};

static bool is_required(const struct ron_conf_snap *conf, const char *name)
{
    struct ron_conf_list list = ron_conf_list(conf, EDG_PACKS_REQUIRED);

    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.items[i].text, name) == 0) {
            return true;
        }
    }
    return false;
}

/* A pack that is not good: that of before, or none. Only this task changes packs->set. */
static void refuse(struct edg_packs *packs, const struct ron_conf_snap *conf,
                   const struct pack_row *row, const struct ron_err *err, struct loaded *l)
{
    struct edg_pack *old = find(packs->set, (struct ron_str){row->name, strlen(row->name)});

    if (old != NULL) {
        RON_LOG(packs->site->log, ERROR, "pack reload failed; serving the previous version",
                RON_LOG_ERR(err));
        edg_events_tell(packs->site, &(struct edg_event){.what = "kept"}, row->name);
    } else {
        RON_LOG(packs->site->log, ERROR, "pack load failed; pack not served", RON_LOG_ERR(err));
        edg_events_tell(packs->site, &(struct edg_event){.what = "refused"}, row->name);
    }
    if (l->cause[0] == '\0') {
        memcpy(l->cause, err->msg, sizeof l->cause);
    }
    if (old != NULL) {
        RON_ASSERT(l->set->count < EDG_PACKS_MAX);
        l->set->packs[l->set->count++] = old;
        l->kept++;
        return;
    }
    RON_ASSERT(l->set->bad_count < EDG_PACKS_MAX);
    memcpy(l->set->bad[l->set->bad_count++], row->name, sizeof row->name);
    l->required = l->required || is_required(conf, row->name);
}

static void open_all(struct edg_packs *packs, const struct ron_conf_snap *conf, struct loaded *l)
{
    struct ron_conf_list list = ron_conf_list(conf, EDG_PACKS);

    for (size_t i = 0; i < list.count; i++) {
        struct pack_row row = {0};
        struct ron_err err = {0};
        enum ron_rc rc = read_row(&list.items[i], &row, &err);

        RON_ASSERT(l->set->count < EDG_PACKS_MAX);
        if (rc == RON_OK) {
            rc = open_one(packs, &row, &l->set->packs[l->set->count], &err);
        }
        if (rc == RON_OK) {
            l->set->count++;
        } else {
            refuse(packs, conf, &row, &err, l);
        }
    }
}

/* The pack of the demo, unless the settings have one of that name. */
static void open_sample(struct edg_packs *packs, const struct ron_conf_snap *conf, struct loaded *l)
{
    struct pack_row row = {.name = "sample", .path = packs->sample};
    struct ron_conf_list list = ron_conf_list(conf, EDG_PACKS);
    struct ron_err err = {0};

    for (size_t i = 0; i < list.count; i++) {
        if (strncmp(list.items[i].text, "sample=", 7) == 0) {
            return;
        }
    }
    if (row.path == NULL) {
        return;
    }
    if (open_one(packs, &row, &l->set->packs[l->set->count], &err) == RON_OK) {
        l->set->count++;
    } else {
        refuse(packs, conf, &row, &err, l);
    }
}

static void load(struct edg_packs *packs)
{
    struct loaded l = {.set = ron_alloc_zero(sizeof *l.set)};
    struct ron_conf_snap *conf;
    bool good;

    if (l.set == NULL) {
        RON_LOG(packs->site->log, ERROR, "pack reload failed; serving the previous packs",
                RON_LOG_STR("why", "no memory"));
        return;
    }
    conf = ron_conf_box_get(ron_app_conf_box(packs->site->app));
    open_sample(packs, conf, &l);
    open_all(packs, conf, &l);
    ron_conf_unref(conf);
    good = l.cause[0] == '\0';
    edg_set_of(packs->site, EDG_M_PACKS, "served", l.set->count);
    edg_set_of(packs->site, EDG_M_PACKS, "failed", l.set->bad_count + l.kept);
    swap_in(packs, l.set);
    ron_need_set(packs->need,
                 good         ? RON_NEED_OK
                 : l.required ? RON_NEED_MISSING
                              : RON_NEED_DEGRADED,
                 l.cause, 0);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        ron_free(items[i]);
    }
    load(RON_OBJ(arg, struct edg_packs, EDG_PACKS_MAGIC));
    return RON_OK;
}

void edg_packs_reload(struct edg_packs *packs)
{
    void *wish = ron_alloc(1);

    /* Full: a queued reload covers this one, too. */
    if (wish != NULL && ron_chan_try_send(packs->reloads, wish, NULL) != RON_OK) {
        ron_free(wish);
    }
}

static void drop_wish(void *item, void *arg)
{
    (void)arg;
    ron_free(item);
}

void edg_packs_init(struct edg_packs *packs, struct edg_site *site)
{
    *packs = (struct edg_packs){.magic = EDG_PACKS_MAGIC, .site = site};
    ron_mutex_init(&packs->mu, RON_RANK_SHARED, "edge.routing_table");
}

enum ron_rc edg_packs_open(struct edg_packs *packs, struct ron_err *err)
{
    const struct edg_site *site = packs->site;

    RON_TRY(ron_needs_add(ron_app_needs(site->app), "packs_verified", false, &packs->need, err));
    return ron_chan_new(&(struct ron_chan_opts){.registry = ron_app_registry(site->app),
                                                .env = site->env,
                                                .name = "reloads",
                                                .producers = "signals",
                                                .consumers = "verifier",
                                                .drop_text = "one queued reload covers later ones",
                                                .capacity = 1,
                                                .policy = RON_CHAN_REJECT,
                                                .wake_batch = 1,
                                                .drop = drop_wish,
                                                .drop_arg = packs},
                        &packs->reloads, err);
}

enum ron_rc edg_packs_add(struct edg_packs *packs, const char *sample, struct ron_err *err)
{
    RON_ASSERT_MSG(packs->reloads != NULL, "edg_packs_open comes first");
    packs->sample = sample;
    RON_TRY(edg_pack_cache_new(NULL, &packs->cache, err));
    RON_TRY(ron_sup_add(ron_app_sup(packs->site->app),
                        &(struct ron_task_def){.name = "verifier",
                                               .kind = "verifier",
                                               .mode = RON_TASK_BLOCKING,
                                               .stage = 1,
                                               .input = packs->reloads,
                                               .batch_max = 4,
                                               .handle = handle,
                                               .arg = packs},
                        &packs->verifier, err));
    ron_need_set(packs->need, RON_NEED_MISSING, "verification in progress", 1);
    edg_packs_reload(packs);
    return RON_OK;
}

void edg_packs_free(struct edg_packs *packs)
{
    set_free(packs->set);
    packs->set = NULL;
    edg_pack_cache_free(packs->cache);
    if (packs->reloads != NULL) {
        ron_chan_free(packs->reloads);
    }
    ron_mutex_done(&packs->mu);
    packs->magic = 0;
}
