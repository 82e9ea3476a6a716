/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/doctor.c - `ron doctor`: looks for what is wrong with a set-up, and says what to do.
 *
 * Every check prints a line: ok, warn or FAIL, what was looked at, what was found, and what to do
 * about it. Nothing is changed. Exit 0 when nothing failed, 1 otherwise. The checks that need the
 * services are left out while none runs; the others never talk to anybody. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "cli/base/net.h"
#include "cli/up/up.h"
#include "rewarder/offline/tool.h"
#include "ron/base/macros.h"
#include "ron/cap/cap.h"
#include "ron/io/child.h"
#include "ron/io/linux_env.h"
#include "ron/merkle/note_key.h"

enum {
    TEXT_SIZE = 512,
    ASK_MS = 2000,
    DAY_S = 86400,
    SOON_DAYS = 7,
    SKEW_MAX_MS = 2000, /* services on one machine have one clock; a token's slack is 5 s */
    CLOCK_BEHIND_MS = 1000,
};

enum verdict { GOOD, WARN, FAIL };

struct doctor {
    struct cli_client c;
    char dir[RON_FILE_PATH_SIZE];
    bool running;
    uint64_t port_base;
    struct ron_buf out;
    struct ron_json_writer w;
    uint32_t failed;
    uint32_t warned;
    bool colour;
};

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct doctor *d, enum verdict v, const char *check, const char *todo,
                 const char *fmt, ...) RON_PRINTF(5, 6);

static void tell(struct doctor *d, enum verdict v, const char *check, const char *todo,
                 const char *fmt, ...)
{
    static const char *const words[] = {"ok", "warn", "FAIL"};
    static const char *const paint[] = {"\033[32m", "\033[33m", "\033[31m"};
    char text[TEXT_SIZE];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    d->failed += v == FAIL;
    d->warned += v == WARN;
    if (d->c.json) {
        ron_json_open(&d->w, NULL, '{');
        ron_json_text(&d->w, "check", check);
        ron_json_text(&d->w, "verdict", v == GOOD ? "ok" : v == WARN ? "warn" : "fail");
        ron_json_text(&d->w, "found", text);
        ron_json_text(&d->w, "todo", v == GOOD ? NULL : todo);
        ron_json_close(&d->w, '}');
        return;
    }
    printf("%s%-4s%s  %-12s %s\n", d->colour ? paint[v] : "", words[v], d->colour ? "\033[0m" : "",
           check, text);
    if (v != GOOD && todo != NULL) {
        printf("      %-12s -> %s\n", "", todo);
    }
}

static const char *in_dir(const struct doctor *d, const char *name, char *room)
{
    (void)snprintf(room, RON_FILE_PATH_SIZE + 64, "%s/%s", d->dir, name);
    return room;
}

/* ---- directory ------------------------------------------------------------------------------- */

static bool check_dir(struct doctor *d)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_file_stat st;
    uint64_t free_bytes = 0;

    if (env->disk->stat(env, d->dir, &st) != RON_OK || !st.is_dir) {
        tell(d, FAIL, "directory",
             "start an instance with `ron up`, or name its directory with --data",
             "%s is not a directory", d->dir);
        return false;
    }
    if (access(d->dir, W_OK | X_OK) != 0) {
        tell(d, FAIL, "directory", "fix its owner (chown), or choose another with --data",
             "%s is not writable for this user", d->dir);
    } else if (!st.owned) {
        tell(d, WARN, "directory", "run ron as the user that owns it", "%s belongs to another user",
             d->dir);
    } else {
        tell(d, GOOD, "directory", NULL, "%s", d->dir);
    }
    if (env->disk->free_bytes(env, d->dir, &free_bytes) != RON_OK) {
        tell(d, WARN, "disk", NULL, "cannot read the free space");
    } else {
        bool low = free_bytes < (uint64_t)UP_DOCTOR_FREE_MIB << 20;

        tell(d, low ? FAIL : GOOD, "disk",
             "free some space: below 256 MiB the ledger refuses writes (engine.free_floor)",
             "%" PRIu64 " MiB free", free_bytes >> 20);
    }
    return true;
}

/* Keys and tokens are for their owner alone. */
static void check_modes(struct doctor *d)
{
    static const char *const files[] = {"cap.keys",
                                        "operator.token",
                                        "keys/attest.key",
                                        "keys/board.key",
                                        "tokens/wallet",
                                        "tokens/rewarder",
                                        "tokens/interop",
                                        "tokens/console",
                                        "tokens/console-write",
                                        "keys/demo_github.secret",
                                        "keys/demo_stripe.secret",
                                        "ledger/signing.key"};
    const struct ron_env *env = ron_env_linux();
    size_t seen = 0;
    bool good = true;

    for (size_t i = 0; i < RON_ARRAY_LEN(files); i++) {
        char path[RON_FILE_PATH_SIZE + 64];
        char todo[RON_FILE_PATH_SIZE + 96];
        struct ron_file_stat st;

        if (env->disk->stat(env, in_dir(d, files[i], path), &st) != RON_OK) {
            continue;
        }
        seen++;
        if ((st.mode & 077) != 0) {
            (void)snprintf(todo, sizeof todo, "run: chmod 0600 %s", path);
            tell(d, FAIL, "permissions", todo, "%s has mode %04o: readable by others", files[i],
                 st.mode);
            good = false;
        }
    }
    if (good) {
        tell(d, GOOD, "permissions", NULL, "%zu keys and tokens are readable by their owner only",
             seen);
    }
}

/* ---- keys and tokens ------------------------------------------------------------------------- */

static void check_token(struct doctor *d, const struct ron_cap_keys *keys, const char *name)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_cap_request any = {.now_ms = ron_env_wall_ms(env)};
    struct ron_cap_info info = {0};
    char path[RON_FILE_PATH_SIZE + 64];
    char text[CLI_TOKEN_SIZE];
    struct ron_err err = {0};
    uint64_t now_s = any.now_ms / RON_MS_PER_S;
    size_t len = 0;
    enum ron_cap_why why;

    if (ron_file_read_private(env, in_dir(d, name, path), text, sizeof text, &len, &err) !=
        RON_OK) {
        tell(d, FAIL, "token", "restart `ron up`; it creates missing tokens", "%s: %s", name,
             err.msg);
        return;
    }
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    why = ron_cap_verify_signature(keys, (struct ron_str){text, len});
    if (why != RON_CAP_OK) {
        tell(d, FAIL, "token", "restart `ron up`; it creates tokens with the current keys",
             "%s: %s", name, ron_cap_why_doc(why));
        return;
    }
    /* For the time of its end, which is told whatever the caveats say. */
    RON_IGNORE(ron_cap_verify(keys, (struct ron_str){text, len}, &any, &info));
    if (info.exp_s <= now_s) {
        tell(d, FAIL, "token", "restart `ron up`; it creates new tokens",
             "%s expired %" PRIu64 " s ago", name, now_s - info.exp_s);
    } else if (info.exp_s - now_s < (uint64_t)SOON_DAYS * DAY_S) {
        tell(d, WARN, "token", "restart `ron up` before that", "%s expires in %" PRIu64 " hours",
             name, (info.exp_s - now_s) / 3600);
    } else {
        tell(d, GOOD, "token", NULL, "%s is valid for %" PRIu64 " days", name,
             (info.exp_s - now_s) / DAY_S);
    }
}

static void check_keys(struct doctor *d)
{
    static const char *const tokens[] = {"operator.token",  "tokens/wallet",
                                         "tokens/rewarder", "tokens/interop",
                                         "tokens/console",  "tokens/console-write"};
    static const char *const signers[] = {"keys/attest.key", "keys/board.key"};
    const struct ron_env *env = ron_env_linux();
    struct ron_cap_keys *keys = NULL;
    char path[RON_FILE_PATH_SIZE + 64];
    struct ron_err err = {0};

    if (ron_cap_keyfile_load(env, in_dir(d, "cap.keys", path), &keys, &err) != RON_OK) {
        tell(d, FAIL, "keys",
             "restore cap.keys from a backup, or move it away: the next start creates new keys "
             "and invalidates all tokens",
             "%s", err.msg);
    } else {
        tell(d, GOOD, "keys", NULL, "cap.keys has %zu keys", ron_cap_keys_count(keys));
        for (size_t i = 0; i < RON_ARRAY_LEN(tokens); i++) {
            check_token(d, keys, tokens[i]);
        }
    }
    ron_cap_keys_unref(keys);
    for (size_t i = 0; i < RON_ARRAY_LEN(signers); i++) {
        struct ron_buf out;

        ron_buf_init(&out, 4096);
        if (rwd_tool_key_show(in_dir(d, signers[i], path), &out, &err) != RON_OK) {
            tell(d, FAIL, "keys",
                 "restore it from a backup, or move it away: the next start creates another",
                 "%s: %s", signers[i], err.msg);
        } else {
            tell(d, GOOD, "keys", NULL, "%s is usable", signers[i]);
        }
        ron_buf_done(&out);
    }
}

/* Without --config; with it the key may lie elsewhere. */
static void check_ledger_key(struct doctor *d)
{
    const struct ron_env *env = ron_env_linux();
    char path[RON_FILE_PATH_SIZE + 64];
    struct ron_note_signer signer;
    struct ron_err err = {0};
    enum ron_rc rc =
        ron_note_signer_load(env, in_dir(d, "ledger/signing.key", path), &signer, &err);

    if (rc == RON_OK) {
        tell(d, GOOD, "keys", NULL, "ledger/signing.key is usable");
        ron_note_signer_done(&signer);
    } else if (rc != RON_NOTFOUND && rc != RON_DENIED) { /* modes are told elsewhere */
        tell(d, FAIL, "keys",
             "restore it from a backup: the ledger cannot extend its checkpoint without this "
             "key",
             "ledger/signing.key: %s", err.msg);
    }
}

/* ---- clock ----------------------------------------------------------------------------------- */

/* The clock must not be behind what is in the journal: tokens and entries are judged by it. */
static void check_clock(struct doctor *d)
{
    const struct ron_env *env = ron_env_linux();
    uint64_t now_ms = ron_env_wall_ms(env);
    char path[RON_FILE_PATH_SIZE + 64];
    struct ron_file_stat st;

    if (env->disk->stat(env, in_dir(d, "ledger/checkpoint", path), &st) == RON_OK &&
        st.mtime_ms > now_ms + CLOCK_BEHIND_MS) {
        tell(d, FAIL, "clock", "set the clock (timedatectl set-ntp true)",
             "%" PRIu64 " s behind the last checkpoint", (st.mtime_ms - now_ms) / 1000);
    } else {
        tell(d, GOOD, "clock", NULL, "not behind the last checkpoint");
    }
}

/* ---- identity -------------------------------------------------------------------------------- */

struct uuid_text {
    struct ron_str ledger_uuid;
    uint64_t present;
};

static bool read_uuid(struct doctor *d, char *ret_uuid, size_t size)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct uuid_text, ledger_uuid, STRING, .required = true, .max = 39),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct uuid_text, fields, present);
    struct uuid_text id = {0};
    char path[RON_FILE_PATH_SIZE + 64];
    struct ron_json_error bad;
    struct ron_err err = {0};
    struct ron_buf text;
    bool ok;

    shape.allow_unknown = true;
    ron_buf_init(&text, 4096);
    ok = ron_file_read_all(ron_env_linux(), in_dir(d, "ron.json", path), &text, &err) == RON_OK &&
         ron_json_scan((char *)(uintptr_t)ron_buf_text(&text), ron_buf_len(&text), &shape, NULL,
                       &id, &bad) == RON_OK;
    if (ok) {
        (void)snprintf(ret_uuid, size, "%.*s", (int)id.ledger_uuid.len, id.ledger_uuid.ptr);
    }
    ron_buf_done(&text);
    return ok;
}

/* The first line of the checkpoint on disk names the ledger. */
static void check_uuid(struct doctor *d)
{
    char path[RON_FILE_PATH_SIZE + 64];
    char wanted[48];
    struct ron_err err = {0};
    struct ron_buf text;

    if (!read_uuid(d, wanted, sizeof wanted)) {
        tell(d, FAIL, "ledger",
             "restore it from a backup, or remove it to adopt the present ledger",
             "ron.json, which names the ledger of this directory, is missing or corrupt");
        return;
    }
    ron_buf_init(&text, 1 << 16);
    if (ron_file_read_all(ron_env_linux(), in_dir(d, "ledger/checkpoint", path), &text, &err) !=
        RON_OK) {
        tell(d, WARN, "ledger", "the ledger writes one within 5 s of the first entry",
             "no checkpoint yet to compare with %s", wanted);
    } else {
        const char *line = ron_buf_text(&text);
        size_t len = strcspn(line, "\n");
        size_t n = strlen(wanted);

        if (len >= n && memcmp(line + len - n, wanted, n) == 0) {
            tell(d, GOOD, "ledger", NULL, "%s", wanted);
        } else {
            tell(d, FAIL, "ledger", "restore the right journal, or start with --adopt-ledger",
                 "the journal belongs to %.*s, the directory to %s", (int)RON_MIN(len, 80ul), line,
                 wanted);
        }
    }
    ron_buf_done(&text);
}

/* ---- running --------------------------------------------------------------------------------- */

static void check_services(struct doctor *d)
{
    for (size_t i = 0; i < d->c.sys.count; i++) {
        const struct cli_service *s = &d->c.sys.services[i];
        struct cli_answer a = {0};
        int code = cli_call_quiet(&d->c,
                                  &(struct cli_call){.service = s->name,
                                                     .path = "/readyz",
                                                     .method = RON_HTTP_GET,
                                                     .no_token = true,
                                                     .timeout_ms = ASK_MS},
                                  &a);
        char todo[96];

        (void)snprintf(todo, sizeof todo, "ron logs --service %s --level warn", s->name);
        if (code == CLI_OK) {
            tell(d, GOOD, "service", NULL, "%s is ready (%" PRIu64 " ms)", s->name, a.took_ms);
        } else if (a.status == 0) {
            tell(d, FAIL, "service", todo, "%s does not answer on %s", s->name, s->url);
        } else {
            tell(d, FAIL, "service", todo, "%s is not ready: %.300s", s->name,
                 ron_buf_text(&a.body));
        }
        if (s->starts > 1) {
            tell(d, WARN, "service", todo, "%s was started %" PRIu64 " times", s->name, s->starts);
        }
        cli_answer_done(&a);
    }
}

/* While nothing runs: whether the ports are free. */
static void check_ports(struct doctor *d)
{
    const struct ron_env *env = ron_env_linux();
    bool good = true;

    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        uint64_t port = d->port_base + up_rows[i].port_offset;
        struct ron_err err = {0};
        char addr[32];
        char todo[96];
        int fd = -1;

        if (cli_verb_find(up_rows[i].name) == NULL) {
            continue;
        }
        (void)snprintf(addr, sizeof addr, "127.0.0.1:%" PRIu64, port);
        if (env->net->listen(env, addr, NULL, &fd, &err) == RON_OK) {
            env->net->close(env, fd);
        } else {
            (void)snprintf(todo, sizeof todo,
                           "stop the process that uses it, or run: ron up --port-base %" PRIu64,
                           d->port_base + 1000);
            tell(d, FAIL, "ports", todo, "port %" PRIu64 " for %s is in use", port,
                 up_rows[i].name);
            good = false;
        }
    }
    if (good) {
        tell(d, GOOD, "ports", NULL, "%" PRIu64 " to %" PRIu64 " are free", d->port_base,
             d->port_base + 500);
    }
}

/* A run file without its process: `ron up` was killed. */
static void check_run(struct doctor *d)
{
    struct cli_system sys;
    enum ron_rc rc = cli_system_read(d->dir, &sys);

    if (rc == RON_CORRUPT) {
        tell(d, FAIL, "run file", "restart `ron up`", "run.json is corrupt");
    } else if (rc != RON_OK) {
        tell(d, GOOD, "run file", NULL, "no instance is running");
    } else if (!ron_process_exists(sys.pid)) {
        tell(d, WARN, "run file", "restart with `ron up`; it recovers",
             "the last run (process %" PRId32 ") was not shut down cleanly", sys.pid);
    } else {
        d->running = true;
        tell(d, GOOD, "run file", NULL, "`ron up` runs as process %" PRId32, sys.pid);
    }
}

static void examine(struct doctor *d)
{
    if (!check_dir(d)) {
        return;
    }
    check_modes(d);
    check_keys(d);
    check_ledger_key(d);
    check_clock(d);
    check_uuid(d);
    check_run(d);
    if (!d->running) {
        check_ports(d);
    } else if (cli_client_open(&d->c, "doctor") == CLI_OK) {
        check_services(d);
    } else {
        tell(d, FAIL, "services", "fix the problems above first", "not checked");
    }
}

int cli_doctor(int argc, char **argv)
{
    struct doctor d = {.port_base = UP_PORT_BASE};
    bool done = false;
    const struct cli_option options[] = {
        CLI_NUMBER("port-base", "N", "first port that `ron up` would use", &d.port_base, 1, 65000),
        CLI_CLIENT_OPTIONS(&d.c),
    };
    int code =
        cli_parse("doctor",
                  "Checks an instance: directory, disk, permissions, keys, tokens, clock, "
                  "ledger\nidentity, ports and the readiness of every service. Suggests fixes and "
                  "changes\nnothing. Exit status 0 if no check failed, 1 otherwise.\n\nexamples:\n "
                  " ron doctor\n  ron doctor --json",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    d.colour = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL;
    if (!cli_data_dir(d.c.data, d.dir)) {
        (void)snprintf(d.dir, sizeof d.dir, "ron-data");
    }
    ron_buf_init(&d.out, 1 << 20);
    ron_json_begin(&d.w, &d.out);
    ron_json_open(&d.w, NULL, '{');
    ron_json_open(&d.w, "checks", '[');
    examine(&d);
    ron_json_close(&d.w, ']');
    ron_json_u64(&d.w, "failed", d.failed);
    ron_json_u64(&d.w, "warned", d.warned);
    ron_json_close(&d.w, '}');
    if (d.c.json) {
        printf("%s\n", ron_buf_text(&d.out));
    } else if (d.failed + d.warned == 0) {
        printf("\nno problems found\n");
    } else {
        printf("\n%" PRIu32 " failed, %" PRIu32 " warnings\n", d.failed, d.warned);
    }
    ron_buf_done(&d.out);
    cli_client_done(&d.c);
    return d.failed == 0 ? CLI_OK : CLI_FAILED;
}
