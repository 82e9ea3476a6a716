/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/system.c - the run file and the token; the contract is in system.h. */
#include "cli/base/system.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "ron/base/arena.h"
#include "ron/base/macros.h"
#include "ron/io/child.h"
#include "ron/io/linux_env.h"

enum { ARENA_BYTES = 1 << 14 };

/* ---- the run file ---------------------------------------------------------------------------- */

struct service_text {
    struct ron_str name;
    struct ron_str url;
    uint64_t pid;
    uint64_t starts;
    uint64_t present;
};
struct run_text {
    uint64_t version;
    uint64_t pid;
    uint64_t started_ms;
    struct ron_str ledger_uuid;
    struct ron_json_items services;
    uint64_t present;
};

static const struct ron_json_field service_fields[] = {
    RON_JSON_FIELD(struct service_text, name, STRING, .required = true, .max = 15),
    RON_JSON_FIELD(struct service_text, url, STRING, .required = true, .max = CLI_URL_SIZE - 1),
    RON_JSON_FIELD(struct service_text, pid, U64, .required = true, .max = INT32_MAX),
    RON_JSON_FIELD(struct service_text, starts, U64, .required = true),
};
static const struct ron_json_shape service_shape = {
    .fields = service_fields,
    .count = RON_ARRAY_LEN(service_fields),
    .present_offset = offsetof(struct service_text, present),
    .allow_unknown = true,
};
static const struct ron_json_field run_fields[] = {
    RON_JSON_FIELD(struct run_text, version, U64, .required = true, .max = 1),
    RON_JSON_FIELD(struct run_text, pid, U64, .required = true, .max = INT32_MAX),
    RON_JSON_FIELD(struct run_text, started_ms, U64, .required = true),
    RON_JSON_FIELD(struct run_text, ledger_uuid, STRING, .required = true, .max = 39),
    RON_JSON_FIELD(struct run_text, services, ARRAY, .required = true, .max = CLI_SERVICES_MAX,
                   .item_size = sizeof(struct service_text), .shape = &service_shape),
};
static const struct ron_json_shape run_shape = {
    .fields = run_fields,
    .count = RON_ARRAY_LEN(run_fields),
    .present_offset = offsetof(struct run_text, present),
    .allow_unknown = true,
};

static void take_text(char *to, struct ron_str from)
{
    memcpy(to, from.ptr, from.len); /* the shape has bounded it */
    to[from.len] = '\0';
}

static enum ron_rc parse(char *text, size_t len, struct cli_system *sys)
{
    struct run_text run = {0};
    struct ron_json_error bad;
    struct ron_arena arena;
    enum ron_rc rc;

    RON_TRY(ron_arena_init(&arena, ARENA_BYTES));
    rc = ron_json_scan(text, len, &run_shape, &arena, &run, &bad);
    if (rc == RON_OK) {
        const struct service_text *rows = run.services.items;

        sys->pid = (int32_t)run.pid;
        sys->started_ms = run.started_ms;
        take_text(sys->ledger_uuid, run.ledger_uuid);
        sys->count = run.services.count;
        for (size_t i = 0; i < sys->count; i++) {
            take_text(sys->services[i].name, rows[i].name);
            take_text(sys->services[i].url, rows[i].url);
            sys->services[i].pid = (int32_t)rows[i].pid;
            sys->services[i].starts = rows[i].starts;
        }
    }
    ron_arena_done(&arena);
    return rc == RON_OK ? RON_OK : RON_CORRUPT;
}

enum ron_rc cli_system_read(const char *data, struct cli_system *ret_system)
{
    struct cli_system sys = {0};
    char path[RON_FILE_PATH_SIZE + 16];
    struct ron_err err = {0};
    struct ron_buf text;
    enum ron_rc rc;

    (void)snprintf(sys.data, sizeof sys.data, "%s", data);
    (void)snprintf(path, sizeof path, "%s/run.json", data);
    ron_buf_init(&text, CLI_RUN_FILE_MAX);
    rc = ron_file_read_all(ron_env_linux(), path, &text, &err);
    if (rc == RON_OK) {
        /* The buffer is ours to change. */
        rc = parse((char *)(uintptr_t)ron_buf_text(&text), ron_buf_len(&text), &sys);
    }
    ron_buf_done(&text);
    if (rc == RON_OK) {
        *ret_system = sys;
    }
    return rc;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool is_dir(const char *path)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_file_stat st;

    return env->disk->stat(env, path, &st) == RON_OK && st.is_dir;
}

bool cli_data_dir(const char *option, char ret_dir[RON_FILE_PATH_SIZE])
{
    const char *named = option != NULL ? option : getenv("RON_DATA");
    char at[PATH_MAX];

    if (named != NULL && named[0] != '\0') {
        return snprintf(ret_dir, RON_FILE_PATH_SIZE, "%s", named) < RON_FILE_PATH_SIZE;
    }
    if (getcwd(at, sizeof at) == NULL) {
        return false;
    }
    for (;;) {
        char *slash;

        if (snprintf(ret_dir, RON_FILE_PATH_SIZE, "%s/ron-data", strcmp(at, "/") == 0 ? "" : at) <
                RON_FILE_PATH_SIZE &&
            is_dir(ret_dir)) {
            return true;
        }
        slash = strrchr(at, '/');
        if (slash == NULL || at[1] == '\0') {
            return false;
        }
        slash[slash == at ? 1 : 0] = '\0';
    }
}

/* Services that the environment names, on top of those of the run file. */
static void take_environment(struct cli_system *sys)
{
    static const char *const names[] = {"ledger", "wallet",  "rewarder",
                                        "edge",   "interop", "console"};

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        char variable[32] = "RON_";
        const char *url;
        size_t at = 0;
        size_t len = 4;

        for (const char *c = names[i]; *c != '\0'; c++) {
            variable[len++] = (char)toupper((unsigned char)*c);
        }
        (void)snprintf(variable + len, sizeof variable - len, "_URL");
        url = getenv(variable);
        if (url == NULL || url[0] == '\0' || strlen(url) >= CLI_URL_SIZE) {
            continue;
        }
        while (at < sys->count && strcmp(sys->services[at].name, names[i]) != 0) {
            at++;
        }
        if (at == CLI_SERVICES_MAX) {
            continue;
        }
        (void)snprintf(sys->services[at].name, sizeof sys->services[at].name, "%s", names[i]);
        (void)snprintf(sys->services[at].url, sizeof sys->services[at].url, "%s", url);
        sys->count += at == sys->count;
    }
}

int cli_system_find(const char *verb, const char *option, struct cli_system *ret_system)
{
    struct cli_system sys = {0};
    char dir[RON_FILE_PATH_SIZE];
    bool found = cli_data_dir(option, dir);
    enum ron_rc rc = found ? cli_system_read(dir, &sys) : RON_NOTFOUND;

    if (rc == RON_OK && !ron_process_exists(sys.pid)) {
        rc = RON_NOTFOUND;
        sys.count = 0;
        sys.pid = 0;
    }
    take_environment(&sys);
    if (sys.count > 0) {
        if (found && sys.data[0] == '\0') {
            (void)snprintf(sys.data, sizeof sys.data, "%s", dir);
        }
        *ret_system = sys;
        return CLI_OK;
    }
    if (rc == RON_CORRUPT) {
        fprintf(stderr, "ron %s: %s/run.json is corrupt; restart with: ron up\n", verb, dir);
    } else if (found) {
        fprintf(stderr, "ron %s: nothing is running on %s; start it in another terminal: ron up\n",
                verb, dir);
    } else {
        fprintf(stderr,
                "ron %s: no running instance found; start one in another terminal with `ron up`, "
                "or name "
                "its directory with --data or RON_DATA\n",
                verb);
    }
    return CLI_UNREACHABLE;
}

const char *cli_service_url(const struct cli_system *sys, const char *name)
{
    for (size_t i = 0; i < sys->count; i++) {
        if (strcmp(sys->services[i].name, name) == 0) {
            return sys->services[i].url;
        }
    }
    return NULL;
}

int cli_token_read(const char *verb, const struct cli_system *sys, const char *option,
                   char ret_token[CLI_TOKEN_SIZE])
{
    const char *named = option != NULL ? option : getenv("RON_TOKEN_FILE");
    char path[RON_FILE_PATH_SIZE + 32];
    struct ron_err err = {0};
    size_t len = 0;

    if (named != NULL && named[0] != '\0') {
        (void)snprintf(path, sizeof path, "%s", named);
    } else if (sys->data[0] != '\0') {
        (void)snprintf(path, sizeof path, "%s/operator.token", sys->data);
    } else {
        fprintf(stderr, "ron %s: missing token; give one with --token-file or RON_TOKEN_FILE\n",
                verb);
        return CLI_FAILED;
    }
    if (ron_file_read_private(ron_env_linux(), path, ret_token, CLI_TOKEN_SIZE - 1, &len, &err) !=
        RON_OK) {
        fprintf(stderr, "ron %s: token: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    while (len > 0 && isspace((unsigned char)ret_token[len - 1])) {
        len--;
    }
    ret_token[len] = '\0';
    if (len == 0 || strpbrk(ret_token, " \r\n\t") != NULL) {
        fprintf(stderr, "ron %s: no token in %s\n", verb, path);
        return CLI_FAILED;
    }
    return CLI_OK;
}
