/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/system.c - what runs and how: status, topology, logs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "cli/base/money.h"
#include "cli/base/net.h"
#include "cli/up/up.h"
#include "ron/base/arena.h"
#include "ron/base/macros.h"
#include "ron/io/child.h"
#include "ron/io/linux_env.h"
#include "ron/sync/sync.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum {
    ASK_MS = 2000,
    QUEUES_MAX = 512,
    TOPOLOGY_ARENA = 1 << 20,
    LOG_PIECE = 64 << 10,
    LOG_LINES_MAX = 100000,
    FOLLOW_MS = 100,
};

static bool colours(void)
{
    return isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL;
}

/* ---- status ---------------------------------------------------------------------------------- */

struct readiness {
    bool ready;
    bool degraded;
    struct ron_str causes;
    struct ron_json_items missing;
    uint64_t present;
};

static const struct ron_json_field ready_fields[] = {
    RON_JSON_FIELD(struct readiness, ready, BOOL, .required = true),
    RON_JSON_FIELD(struct readiness, degraded, BOOL, .required = true),
    RON_JSON_FIELD(struct readiness, causes, RAW, .required = false),
};
static const struct ron_json_shape ready_shape = {
    .fields = ready_fields,
    .count = RON_ARRAY_LEN(ready_fields),
    .present_offset = offsetof(struct readiness, present),
    .allow_unknown = true,
};

struct row {
    const struct cli_service *service;
    const char *state;
    char cause[256];
    uint64_t took_ms;
};

static void read_row(struct row *r, struct cli_answer *a)
{
    struct readiness ready = {0};
    struct ron_json_error bad;

    r->took_ms = a->took_ms;
    if (a->status == 0) {
        r->state = r->service->pid == 0 ? "down" : "no answer";
        (void)snprintf(r->cause, sizeof r->cause, "%s", a->message);
    } else if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body),
                             &ready_shape, NULL, &ready, &bad) != RON_OK) {
        r->state = "unknown";
        (void)snprintf(r->cause, sizeof r->cause, "unexpected response: status %d", a->status);
    } else {
        r->state = !ready.ready ? "not ready" : ready.degraded ? "degraded" : "ready";
        if (ready.causes.len > 2) {
            (void)snprintf(r->cause, sizeof r->cause, "%.*s", (int)ready.causes.len - 2,
                           ready.causes.ptr + 1);
        }
    }
}

static void print_rows(const struct cli_system *sys, const struct row *rows)
{
    bool colour = colours();

    printf("%-10s %-24s %-7s %-7s %-10s %s\n", "service", "url", "pid", "starts", "state", "cause");
    for (size_t i = 0; i < sys->count; i++) {
        const struct row *r = &rows[i];
        bool good = strcmp(r->state, "ready") == 0;

        printf("%-10s %-24s %-7" PRId32 " %-7" PRIu64 " %s%-10s%s %s\n", r->service->name,
               r->service->url, r->service->pid, r->service->starts,
               !colour ? ""
               : good  ? "\033[32m"
                       : "\033[31m",
               r->state, colour ? "\033[0m" : "", r->cause);
    }
}

static void print_rows_json(const struct cli_system *sys, const struct row *rows, bool all)
{
    struct ron_json_writer w;
    struct ron_buf out;

    ron_buf_init(&out, CLI_RUN_FILE_MAX);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_bool(&w, "ready", all);
    ron_json_text(&w, "data", sys->data);
    ron_json_u64(&w, "pid", (uint64_t)sys->pid);
    ron_json_u64(&w, "started_ms", sys->started_ms);
    ron_json_text(&w, "ledger_uuid", sys->ledger_uuid);
    ron_json_open(&w, "services", '[');
    for (size_t i = 0; i < sys->count; i++) {
        ron_json_open(&w, NULL, '{');
        ron_json_text(&w, "name", sys->services[i].name);
        ron_json_text(&w, "url", sys->services[i].url);
        ron_json_u64(&w, "pid", (uint64_t)sys->services[i].pid);
        ron_json_u64(&w, "starts", sys->services[i].starts);
        ron_json_text(&w, "state", rows[i].state);
        ron_json_text(&w, "cause", rows[i].cause);
        ron_json_close(&w, '}');
    }
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    printf("%s\n", ron_buf_text(&out));
    ron_buf_done(&out);
}

int cli_status(int argc, char **argv)
{
    struct cli_client c = {0};
    struct row rows[CLI_SERVICES_MAX] = {0};
    bool all = true;
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code =
        cli_parse("status",
                  "Shows the readiness of every service. Exit status 0 if all are ready, 1 if\n"
                  "one is not, 4 if no instance is running.\n"
                  "\nexamples:\n  ron status\n  ron status --json",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code == CLI_OK && !done) {
        code = cli_client_open(&c, "status");
    }
    for (size_t i = 0; code == CLI_OK && !done && i < c.sys.count; i++) {
        struct cli_answer a = {0};

        rows[i].service = &c.sys.services[i];
        /* Any answer is one here: read_row looks at it. */
        (void)cli_call_quiet(&c,
                             &(struct cli_call){.service = c.sys.services[i].name,
                                                .path = "/readyz",
                                                .method = RON_HTTP_GET,
                                                .no_token = true,
                                                .timeout_ms = ASK_MS},
                             &a);
        read_row(&rows[i], &a);
        all =
            all && (strcmp(rows[i].state, "ready") == 0 || strcmp(rows[i].state, "degraded") == 0);
        cli_answer_done(&a);
    }
    if (code == CLI_OK && !done) {
        if (c.json) {
            print_rows_json(&c.sys, rows, all);
        } else {
            print_rows(&c.sys, rows);
        }
        code = all ? CLI_OK : CLI_FAILED;
    }
    cli_client_done(&c);
    return code;
}

/* ---- topology -------------------------------------------------------------------------------- */

struct queue_text {
    struct ron_str name;
    struct ron_str policy;
    struct ron_str producers;
    struct ron_str consumers;
    uint64_t capacity;
    uint64_t depth;
    uint64_t present;
};
struct task_text {
    struct ron_str name;
    struct ron_str state;
    struct ron_str policy;
    uint64_t present;
};
struct topology {
    struct ron_json_items queues;
    struct ron_json_items tasks;
    uint64_t present;
};

static const struct ron_json_field queue_fields[] = {
    RON_JSON_FIELD(struct queue_text, name, STRING, .required = true),
    RON_JSON_FIELD(struct queue_text, policy, STRING, .required = true),
    RON_JSON_FIELD(struct queue_text, producers, STRING, .required = true),
    RON_JSON_FIELD(struct queue_text, consumers, STRING, .required = true),
    RON_JSON_FIELD(struct queue_text, capacity, U64, .required = true),
    RON_JSON_FIELD(struct queue_text, depth, U64, .required = true),
};
static const struct ron_json_shape queue_shape = {
    .fields = queue_fields,
    .count = RON_ARRAY_LEN(queue_fields),
    .present_offset = offsetof(struct queue_text, present),
    .allow_unknown = true,
};
static const struct ron_json_field task_fields[] = {
    RON_JSON_FIELD(struct task_text, name, STRING, .required = true),
    RON_JSON_FIELD(struct task_text, state, STRING, .required = false),
    RON_JSON_FIELD(struct task_text, policy, STRING, .required = false),
};
static const struct ron_json_shape task_shape = {
    .fields = task_fields,
    .count = RON_ARRAY_LEN(task_fields),
    .present_offset = offsetof(struct task_text, present),
    .allow_unknown = true,
};
static const struct ron_json_field topology_fields[] = {
    RON_JSON_FIELD(struct topology, queues, ARRAY, .required = true, .max = QUEUES_MAX,
                   .item_size = sizeof(struct queue_text), .shape = &queue_shape),
    RON_JSON_FIELD(struct topology, tasks, ARRAY, .required = true, .max = QUEUES_MAX,
                   .item_size = sizeof(struct task_text), .shape = &task_shape),
};
static const struct ron_json_shape topology_shape = {
    .fields = topology_fields,
    .count = RON_ARRAY_LEN(topology_fields),
    .present_offset = offsetof(struct topology, present),
    .allow_unknown = true,
};

static int show_topology(const char *name, struct cli_answer *a)
{
    struct topology t = {0};
    struct ron_json_error bad;
    struct ron_arena arena;
    const struct queue_text *queues;
    const struct task_text *tasks;

    if (ron_arena_init(&arena, TOPOLOGY_ARENA) != RON_OK) {
        return CLI_FAILED;
    }
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body),
                      &topology_shape, &arena, &t, &bad) != RON_OK) {
        fprintf(stderr, "ron topology: %s: %s: %s\n", name, bad.field, bad.reason);
        ron_arena_done(&arena);
        return CLI_FAILED;
    }
    queues = t.queues.items;
    tasks = t.tasks.items;
    printf("%s\n  %-22s %8s %8s  %-22s %s\n", name, "queue", "depth", "capacity", "when full",
           "from -> to");
    for (size_t i = 0; i < t.queues.count; i++) {
        printf("  %-22.*s %8" PRIu64 " %8" PRIu64 "  %-22.*s %.*s -> %.*s\n",
               (int)queues[i].name.len, queues[i].name.ptr, queues[i].depth, queues[i].capacity,
               (int)queues[i].policy.len, queues[i].policy.ptr, (int)queues[i].producers.len,
               queues[i].producers.ptr, (int)queues[i].consumers.len, queues[i].consumers.ptr);
    }
    printf("  %-22s %s\n", "task", "state");
    for (size_t i = 0; i < t.tasks.count; i++) {
        printf("  %-22.*s %.*s\n", (int)tasks[i].name.len, tasks[i].name.ptr,
               (int)tasks[i].state.len, tasks[i].state.ptr);
    }
    ron_arena_done(&arena);
    return CLI_OK;
}

int cli_topology(int argc, char **argv)
{
    struct cli_client c = {0};
    const char *only = NULL;
    struct cli_words words = {.words = &only, .min = 0, .max = 1};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code = cli_parse_words("topology",
                               "Lists the current queues and tasks of one service or of all "
                               "services.\n\nexamples:\n  ron topology wallet\n"
                               "  ron topology --json > topology.json",
                               options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code == CLI_OK && !done) {
        code = cli_client_open(&c, "topology");
    }
    if (code != CLI_OK || done) {
        cli_client_done(&c);
        return code;
    }
    if (only != NULL && cli_service_url(&c.sys, only) == NULL) {
        fprintf(stderr, "ron topology: service '%s' is not running\n", only);
        code = CLI_USAGE;
    }
    if (code == CLI_OK && c.json && only == NULL) {
        printf("{");
    }
    for (size_t i = 0; code == CLI_OK && i < c.sys.count; i++) {
        const char *name = c.sys.services[i].name;
        struct cli_answer a = {0};

        if (only != NULL && strcmp(only, name) != 0) {
            continue;
        }
        code = cli_call(&c,
                        &(struct cli_call){.service = name,
                                           .path = "/debug/topology",
                                           .method = RON_HTTP_GET,
                                           .no_token = true},
                        &a);
        if (code == CLI_OK && !c.json) {
            code = show_topology(name, &a);
        } else if (code == CLI_OK && only != NULL) {
            code = cli_print_body(&c, &a);
        } else if (code == CLI_OK) {
            printf("%s\"%s\":%s", i > 0 ? "," : "", name, ron_buf_text(&a.body));
        }
        cli_answer_done(&a);
    }
    if (code == CLI_OK && c.json && only == NULL) {
        printf("}\n");
    }
    cli_client_done(&c);
    return code;
}

/* ---- logs ------------------------------------------------------------------------------------ */

struct log_filter {
    const char *service;
    enum up_level level;
    bool json;
    bool colour;
};

/* The word behind the level: "wallet/committer:" of service wallet, task committer. */
static struct ron_str who_of(const char *line, size_t len)
{
    const char *end = line + len;
    const char *at = memchr(line, ' ', len);
    const char *colon;

    while (at != NULL && at < end && *at == ' ') {
        at++;
    }
    at = at == NULL ? NULL : memchr(at, ' ', (size_t)(end - at));
    while (at != NULL && at < end && *at == ' ') {
        at++;
    }
    colon = at == NULL ? NULL : memchr(at, ':', (size_t)(end - at));
    return colon == NULL ? (struct ron_str){line, 0} : (struct ron_str){at, (size_t)(colon - at)};
}

static bool wanted(const struct log_filter *f, const char *line, size_t len)
{
    struct ron_str who = who_of(line, len);
    size_t n = f->service == NULL ? 0 : strlen(f->service);

    return up_level_of(line, len) <= f->level &&
           (f->service == NULL || (who.len >= n && memcmp(who.ptr, f->service, n) == 0 &&
                                   (who.len == n || who.ptr[n] == '/')));
}

static void print_line(const struct log_filter *f, const char *line, size_t len)
{
    static const char *const paint[] = {"\033[31m", "\033[33m", "", "\033[2m"};
    enum up_level level = up_level_of(line, len);

    if (f->json) {
        struct ron_str who = who_of(line, len);
        const char *slash = memchr(who.ptr, '/', who.len);
        struct ron_json_writer w;
        struct ron_buf out;

        ron_buf_init(&out, (size_t)4 * UP_LINE_MAX);
        ron_json_begin(&w, &out);
        ron_json_open(&w, NULL, '{');
        ron_json_text(&w, "level", up_level_name(level));
        ron_json_str(
            &w, "service",
            (struct ron_str){who.ptr, slash == NULL ? who.len : (size_t)(slash - who.ptr)});
        ron_json_str(&w, "line", (struct ron_str){line, len});
        ron_json_close(&w, '}');
        printf("%s\n", ron_buf_text(&out));
        ron_buf_done(&out);
    } else if (f->colour && paint[level][0] != '\0') {
        printf("%s%.*s\033[0m\n", paint[level], (int)len, line);
    } else {
        printf("%.*s\n", (int)len, line);
    }
}

/* Prints the last `count` wanted lines of the text. */
static void print_last(const struct log_filter *f, const char *text, size_t len, uint64_t count)
{
    const char *end = text + len;
    const char *from = end;
    uint64_t found = 0;

    while (from > text && found < count) {
        const char *line_end = from[-1] == '\n' ? from - 1 : from;
        const char *start = line_end;

        while (start > text && start[-1] != '\n') {
            start--;
        }
        found += wanted(f, start, (size_t)(line_end - start));
        from = start;
    }
    while (from < end) {
        const char *line_end = memchr(from, '\n', (size_t)(end - from));
        size_t n = line_end == NULL ? (size_t)(end - from) : (size_t)(line_end - from);

        if (wanted(f, from, n)) {
            print_line(f, from, n);
        }
        from += n + 1;
    }
}

/* Follows the file from `at` on until the process ends. Reopens the file after it was rotated. */
static int follow(const struct log_filter *f, const char *path, uint64_t at)
{
    const struct ron_env *env = ron_env_linux();
    static char piece[LOG_PIECE];
    struct ron_err err = {0};
    int fd = -1;

    for (;;) {
        struct ron_file_stat st;
        size_t n = 0;
        size_t used;

        if (fd < 0 && env->disk->open(env, path, RON_OPEN_READ, 0, &fd, &err) != RON_OK) {
            fd = -1;
        }
        if (fd >= 0 && env->disk->pread(env, fd, piece, sizeof piece, at, &n) == RON_OK && n > 0) {
            used = n;
            while (used > 0 && piece[used - 1] != '\n') {
                used--;
            }
            used = used == 0 && n == sizeof piece ? n : used; /* a line without an end */
            print_last(f, piece, used, UINT64_MAX);
            at += used;
            if (fflush(stdout) != 0) {
                return CLI_OK; /* the reader has left */
            }
            if (used > 0) {
                continue;
            }
        }
        if (fd >= 0 && env->disk->stat(env, path, &st) == RON_OK && st.size_bytes < at) {
            env->disk->close(env, fd);
            fd = -1;
            at = 0;
        }
        (void)ron_park_until(ron_deadline_after_ms(ron_env_now_ns(env), FOLLOW_MS), "log");
    }
}

int cli_logs(int argc, char **argv)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    const char *data = NULL;
    const char *level = "debug";
    uint64_t lines = 50;
    bool going_on = false;
    bool done = false;
    struct log_filter f = {.level = UP_DEBUG, .colour = colours()};
    char dir[RON_FILE_PATH_SIZE];
    char path[RON_FILE_PATH_SIZE + 16];
    struct ron_err err = {0};
    struct ron_buf text;
    enum ron_rc rc;
    const struct cli_option options[] = {
        CLI_WORD("service", "NAME", "service to show; up for `ron up` itself (default: all)",
                 &f.service),
        CLI_CHOICE("level", "error|warn|info|debug", "least severe level shown (default: debug)",
                   &level, levels),
        CLI_NUMBER("lines", "N", "show the last N lines", &lines, 1, LOG_LINES_MAX),
        CLI_FLAG("follow", "follow the log until Ctrl-C", &going_on),
        CLI_FLAG("json", "JSON output, one object per line", &f.json),
        CLI_WORD("data", "DIR", "data directory (default: RON_DATA, else ron-data here or above)",
                 &data),
    };
    int code = cli_parse("logs",
                         "Prints the merged log of all services started by `ron up`.\n"
                         "\nexamples:\n  ron logs --level warn\n"
                         "  ron logs --service wallet --follow",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (!cli_data_dir(data, dir)) {
        fprintf(stderr, "ron logs: no data directory found; name it with --data\n");
        return CLI_UNREACHABLE;
    }
    while (f.level > UP_ERROR && strcmp(up_level_name(f.level), level) != 0) {
        f.level--;
    }
    (void)snprintf(path, sizeof path, "%s/log/ron.log", dir);
    ron_buf_init(&text, 64 << 20);
    rc = ron_file_read_all(ron_env_linux(), path, &text, &err);
    if (rc != RON_OK) {
        fprintf(stderr, "ron logs: %s\n", err.msg);
        code = rc == RON_NOTFOUND ? CLI_UNREACHABLE : CLI_FAILED;
    } else {
        uint64_t at = ron_buf_len(&text);

        print_last(&f, (const char *)ron_buf_data(&text), ron_buf_len(&text), lines);
        code = fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
        ron_buf_done(&text);
        return going_on && code == CLI_OK ? follow(&f, path, at) : code;
    }
    ron_buf_done(&text);
    return code;
}
