/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - levels, repeats, the queue and the thread that writes.
 *
 * Repeats (L2): a slot per message, found by its address. A slot knows the second of its window,
 * how many lines the window has had and how many were left out. Who finds the window old tries to
 * move it (one wins), and the winner takes the count of lines left out along. All of it is atomic
 * adds and exchanges, so a line left out is told exactly once; only how many pass at the very edge
 * of a second may differ by the number of threads. More messages than slots: the rest are not
 * limited, the queue still bounds them. */
#include "obs/log_priv.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/ctx.h"
#include "ron/chan/chan.h"

enum {
    REPEAT_SLOTS = 256, /* messages of one program; each is a line of source */
    REPEAT_PROBES = 8,
    WRITE_BATCH = 64,
    LOOK_MS = 1000, /* between two looks for messages left out and not repeated since */
};

struct log_item {
    size_t len;
    char line[];
};

struct log_repeat {
    struct ron_aptr message;
    struct ron_au32 level;
    struct ron_au64 second; /* of the window; 0: none yet */
    struct ron_au64 count;
    struct ron_au64 left_out;
};

struct ron_log {
    struct ron_log_opts opts;
    struct ron_au32 level;
    struct ron_au32 running; /* the thread takes lines */
    struct ron_chan *queue;
    struct ron_thread *thread;
    struct ron_stat lines[RON_LOG_LEVEL_COUNT];
    struct ron_stat suppressed;
    struct ron_stat write_errors;
    struct log_repeat repeats[REPEAT_SLOTS];
};

/* ---- levels ---------------------------------------------------------------------------------- */

const char *ron_log_level_name(enum ron_log_level level)
{
    static const char *const level_names[] = {
#define X(name, text) text,
        RON_LOG_LEVELS(X)
#undef X
    };

    return (size_t)level < RON_ARRAY_LEN(level_names) ? level_names[level] : "?";
}

bool ron_log_enabled(const struct ron_log *log, enum ron_log_level level)
{
    return log != NULL && (uint32_t)level <= ron_au32_load(&log->level);
}

void ron_log_set_level(struct ron_log *log, enum ron_log_level level)
{
    RON_ASSERT(level < RON_LOG_LEVEL_COUNT);
    ron_au32_store(&log->level, (uint32_t)level);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_now(struct ron_log *log, const char *line, size_t len)
{
    if (log->opts.write(log->opts.write_arg, line, len) != RON_OK) {
        ron_stat_add(&log->write_errors, 1);
    }
}

/* Hands a line over, or writes it when nobody takes it. */
static void emit(struct ron_log *log, const char *line, size_t len)
{
    struct log_item *item = NULL;
    void *evicted = NULL;

    if (ron_au32_load(&log->running) == 0) {
        write_now(log, line, len);
        return;
    }
    item = ron_alloc(sizeof *item + len);
    if (item == NULL) {
        ron_stat_add(&log->write_errors, 1);
        return;
    }
    item->len = len;
    memcpy(item->line, line, len);
    if (ron_chan_try_send(log->queue, item, &evicted) == RON_OK) {
        ron_free(evicted); /* the channel counted it */
    } else {
        write_now(log, line, len); /* closed: the thread is on its way out */
        ron_free(item);
    }
}

static void put_line(struct ron_log *log, const struct log_line *line, bool now)
{
    char text[RON_LOG_LINE_MAX];
    size_t len = ron__log_line(line, text);

    ron_stat_add(&log->lines[line->level], 1);
    if (now) {
        write_now(log, text, len);
    } else {
        emit(log, text, len);
    }
}

static struct log_line line_of(const struct ron_log *log, enum ron_log_level level,
                               const char *message)
{
    return (struct log_line){.format = log->opts.format,
                             .level = level,
                             .wall_ms = ron_env_wall_ms(log->opts.env),
                             .service = log->opts.service,
                             .task = ron_ctx_current()->task,
                             .message = message};
}

/* ---- repeats --------------------------------------------------------------------------------- */

static struct log_repeat *find_slot(struct ron_log *log, const char *message)
{
    size_t at = ((uintptr_t)message >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 40;

    for (size_t i = 0; i < REPEAT_PROBES; i++) {
        struct log_repeat *slot = &log->repeats[(at + i) % REPEAT_SLOTS];
        void *there = ron_aptr_load(&slot->message);
        void *mine = (void *)(uintptr_t)message;

        if (there == mine || (there == NULL && ron_aptr_cas(&slot->message, &there, mine)) ||
            there == mine) {
            return slot;
        }
    }
    return NULL;
}

static uint64_t now_s(const struct ron_log *log)
{
    return ron_env_now_ns(log->opts.env) / RON_NS_PER_S + 1; /* never 0 */
}

/* False when the line is left out; otherwise how many were left out before it. */
static bool may_pass(struct ron_log *log, const char *message, enum ron_log_level level,
                     uint64_t *ret_repeated)
{
    struct log_repeat *slot = find_slot(log, message);
    uint64_t second = now_s(log);
    uint64_t window;

    *ret_repeated = 0;
    if (slot == NULL) {
        return true;
    }
    window = ron_au64_load(&slot->second);
    if (window != second && ron_au64_cas(&slot->second, &window, second)) {
        ron_au32_store(&slot->level, (uint32_t)level);
        ron_au64_store(&slot->count, 1);
        *ret_repeated = ron_au64_xchg(&slot->left_out, 0);
        return true;
    }
    if (ron_au64_add(&slot->count, 1) < RON_LOG_BURST) {
        return true;
    }
    (void)ron_au64_add(&slot->left_out, 1);
    ron_stat_add(&log->suppressed, 1);
    return false;
}

/* Tells of messages that were left out and did not come again; all of them when `all`. */
static void tell_left_out(struct ron_log *log, bool all)
{
    uint64_t second = now_s(log);

    for (size_t i = 0; i < REPEAT_SLOTS; i++) {
        struct log_repeat *slot = &log->repeats[i];
        struct log_line line;

        if (ron_au64_load(&slot->left_out) == 0 ||
            (!all && ron_au64_load(&slot->second) == second)) {
            continue;
        }
        line = line_of(log, (enum ron_log_level)ron_au32_load(&slot->level),
                       ron_aptr_load(&slot->message));
        line.repeated = ron_au64_xchg(&slot->left_out, 0);
        if (line.repeated > 0) {
            put_line(log, &line, true);
        }
    }
}

void ron_log_write(struct ron_log *log, enum ron_log_level level, const char *message,
                   const struct ron_log_field *fields, size_t count)
{
    struct log_line line;
    uint64_t repeated;

    if (!ron_log_enabled(log, level) || !may_pass(log, message, level, &repeated)) {
        return;
    }
    line = line_of(log, level, message);
    line.repeated = repeated;
    line.fields = fields;
    line.count = count;
    put_line(log, &line, false);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void write_items(struct ron_log *log, void **items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct log_item *item = items[i];

        write_now(log, item->line, item->len);
        ron_free(item);
    }
}

static void log_main(void *arg)
{
    struct ron_log *log = arg;
    void *items[WRITE_BATCH];
    enum ron_rc rc;

    do {
        size_t count = 0;

        rc = ron_chan_recv_many(log->queue, items, WRITE_BATCH,
                                ron_deadline_after_ms(ron_mono_ns(), LOOK_MS), &count);
        if (rc == RON_OK) {
            write_items(log, items, count);
        }
        tell_left_out(log, rc != RON_OK && rc != RON_TIMEOUT);
    } while (rc == RON_OK || rc == RON_TIMEOUT);
}

/* ---- supervisor's events --------------------------------------------------------------------- */

static enum ron_log_level level_of(enum ron_sup_event_kind kind)
{
    switch (kind) {
    case RON_SUP_EVENT_STATE:
        return RON_LOG_INFO;
    case RON_SUP_EVENT_STARTED:
    case RON_SUP_EVENT_ENDED:
        return RON_LOG_DEBUG;
    case RON_SUP_EVENT_FAILED:
    case RON_SUP_EVENT_RESTARTING:
    case RON_SUP_EVENT_STUCK:
    case RON_SUP_EVENT_LEFT:
        return RON_LOG_WARN;
    case RON_SUP_EVENT_ESCALATED:
    case RON_SUP_EVENT_ABORTED:
    case RON_SUP_EVENT_LEAKED:
    case RON_SUP_EVENT_COUNT:
        break;
    }
    return RON_LOG_ERROR;
}

void ron_log_sup_event(void *arg, const struct ron_sup_event *e)
{
    static const char *const texts[] = {
#define X(name, text, doc) doc,
        RON_SUP_EVENTS(X)
#undef X
    };
    const struct ron_log_field state[] = {RON_LOG_STR("state", ron_sup_state_name(e->state))};
    const struct ron_log_field task[] = {RON_LOG_STR("event", ron_sup_event_name(e->kind)),
                                         RON_LOG_STR("name", e->task),
                                         RON_LOG_STR("kind", e->task_kind),
                                         RON_LOG_STR("rc", ron_rc_name(e->rc)),
                                         RON_LOG_U64("delay_ms", e->delay_ms),
                                         RON_LOG_STR("error", e->message)};

    RON_ASSERT(e->kind < RON_SUP_EVENT_COUNT);
    if (e->kind == RON_SUP_EVENT_STATE) {
        ron_log_write(arg, RON_LOG_INFO, texts[e->kind], state, RON_ARRAY_LEN(state));
    } else {
        ron_log_write(arg, level_of(e->kind), texts[e->kind], task, RON_ARRAY_LEN(task));
    }
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void collect_log(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    const struct ron_log *log = arg;

    for (int i = 0; i < RON_LOG_LEVEL_COUNT; i++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_LOG_LINES), ron_stat_get(&log->lines[i]),
                       ron_log_level_name((enum ron_log_level)i));
    }
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_LOG_SUPPRESSED), ron_stat_get(&log->suppressed),
                      NULL, 0);
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_LOG_WRITE_ERRORS),
                      ron_stat_get(&log->write_errors), NULL, 0);
}

enum ron_rc ron_collect_log(struct ron_metrics *m, const struct ron_log *log, struct ron_err *err)
{
    return ron_metrics_collector(m, collect_log, (void *)(uintptr_t)log, err);
}

/* ---- birth and death ------------------------------------------------------------------------- */

static void drop_line(void *item, void *arg)
{
    (void)arg;
    ron_free(item);
}

enum ron_rc ron_log_new(const struct ron_log_opts *opts, struct ron_log **ret_log,
                        struct ron_err *err)
{
    struct ron_log *log;
    enum ron_rc rc;

    if (opts->env == NULL || opts->registry == NULL || opts->service == NULL ||
        opts->write == NULL || opts->level >= RON_LOG_LEVEL_COUNT) {
        return ron_err_set(err, RON_INVALID, "log: env, registry, service, write and a level");
    }
    log = ron_alloc_zero(sizeof *log);
    if (log == NULL) {
        return ron_err_set(err, RON_NOMEM, "log: no memory");
    }
    log->opts = *opts;
    ron_au32_store(&log->level, (uint32_t)opts->level);
    rc = ron_chan_new(&(struct ron_chan_opts){.registry = opts->registry,
                                              .env = opts->env,
                                              .name = "log",
                                              .producers = "all",
                                              .consumers = "log",
                                              .drop_text = "the oldest line is lost and counted",
                                              .capacity = opts->queue_capacity != 0
                                                              ? opts->queue_capacity
                                                              : RON_LOG_QUEUE_DEFAULT,
                                              .policy = RON_CHAN_DROP_OLDEST,
                                              .drop = drop_line},
                      &log->queue, err);
    if (rc != RON_OK) {
        ron_free(log);
        return rc;
    }
    *ret_log = log;
    return RON_OK;
}

void ron_log_free(struct ron_log *log)
{
    if (log != NULL) {
        RON_ASSERT_MSG(log->thread == NULL, "stop the log before it is freed");
        ron_chan_free(log->queue);
        ron_free(log);
    }
}

enum ron_rc ron_log_start(struct ron_log *log, struct ron_err *err)
{
    RON_TRY(ron_thread_start(
        &(struct ron_thread_opts){.name = "log", .may_block = true, .main = log_main, .arg = log},
        &log->thread, err));
    ron_au32_store(&log->running, 1);
    return RON_OK;
}

void ron_log_stop(struct ron_log *log)
{
    if (log->thread != NULL) {
        ron_au32_store(&log->running, 0);
        (void)ron_chan_close(log->queue); /* what is queued is still written */
        ron_thread_join(log->thread);
        log->thread = NULL;
    }
}
