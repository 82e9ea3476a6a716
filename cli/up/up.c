/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/up.c - `ron up` and `ron down`; how it works is in up.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "cli/base/system.h"
#include "cli/up/up.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"
#include "ron/sync/sync.h"
#include "ron/task/signals.h"

enum {
    DRAIN_MS = 5000,  /* all services one behind the other; each is done in milliseconds */
    DOWN_WAIT_S = 20, /* that `ron down` waits: the drain, its grace, and a slow machine */
    LOOK_MS = 20,
    PORT_MAX = 65535 - 500, /* the highest offset of the table */
};

/* What the supervisor did with a service, for the log. */
static void on_event(void *arg, const struct ron_sup_event *e)
{
    struct up *up = RON_OBJ(arg, struct up, UP_MAGIC);

    if (e->task == NULL || up->notes == NULL) {
        return;
    }
    if (e->kind == RON_SUP_EVENT_RESTARTING) {
        up_say(up, UP_WARN, "restarting %s in %" PRIu64 " ms", e->task, e->delay_ms);
    } else if (e->kind == RON_SUP_EVENT_ESCALATED) {
        up_say(up, UP_ERROR,
               "%s exited more than five times in a minute and stays down; see `ron logs --service "
               "%s`, then restart with `ron down` and `ron up`",
               e->task, e->task);
    } else if (e->kind == RON_SUP_EVENT_ABORTED) {
        up_say(up, UP_WARN, "%s did not drain in time and was killed", e->task);
    }
}

static enum ron_rc build(struct up *up, struct ron_err *err)
{
    RON_TRY(ron_registry_new(&up->registry, err));
    RON_TRY(ron_exec_new(
        &(struct ron_exec_opts){.env = up->env, .registry = up->registry, .workers = 1}, &up->exec,
        err));
    RON_TRY(ron_sup_new(&(struct ron_sup_opts){.env = up->env,
                                               .registry = up->registry,
                                               .exec = up->exec,
                                               .drain_deadline_ms = DRAIN_MS,
                                               .on_event = on_event,
                                               .on_event_arg = up},
                        &up->sup, err));
    RON_TRY(up_log_add(up, err));
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        if (up->services[i].on) {
            RON_TRY(up_child_add(up, &up->services[i], err));
        }
    }
    return up_watch_add(up, err);
}

static void take_down(struct up *up)
{
    if (up->sup != NULL) {
        ron_sup_free(up->sup);
    }
    if (up->exec != NULL) {
        (void)ron_exec_free(up->exec);
    }
    if (up->client != NULL) {
        (void)ron_http_client_free(up->client);
    }
    if (up->notes != NULL) {
        ron_chan_free(up->notes);
    }
    if (up->registry != NULL) {
        ron_registry_free(up->registry);
    }
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        up_tail_drop(&up->services[i]);
        up_argv_done(&up->services[i].argv);
    }
}

static int run(struct up *up)
{
    struct ron_signals *signals = NULL;
    struct ron_err err = {0};
    int code;

    if (build(up, &err) != RON_OK ||
        ron_signals_start(up->sup, NULL, NULL, &signals, &err) != RON_OK) {
        fprintf(stderr, "ron up: %s\n", err.msg);
        return CLI_FAILED;
    }
    code = ron_sup_run(up->sup);
    ron_signals_stop(signals);
    if (up->failed) {
        return CLI_FAILED;
    }
    if (code == RON_EXIT_FATAL) {
        fprintf(stderr, "ron up: the ledger exited more than five times in a minute; see `ron logs "
                        "--service ledger` and `ron doctor`\n");
    } else if (!up->opts.json) {
        printf("%s\n", code == CLI_OK ? "stopped; all services drained"
                                      : "stopped; some services did not drain in time");
    }
    return code;
}

static int prepare(struct up *up)
{
    static int (*const steps[])(struct up *) = {up_choose,      up_setup_data,  up_setup_keys,
                                                up_setup_ports, up_setup_packs, up_command_lines};
    struct ron_err err = {0};

    if (ron_program_path(up->program, sizeof up->program, &err) != RON_OK) {
        fprintf(stderr, "ron up: %s\n", err.msg);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(steps); i++) {
        int code = steps[i](up);

        if (code != CLI_OK) {
            return code;
        }
    }
    return CLI_OK;
}

static enum up_level level_of(const char *name)
{
    enum up_level level = UP_ERROR;

    while (level < UP_DEBUG && strcmp(up_level_name(level), name) != 0) {
        level++;
    }
    return level;
}

static const char up_text[] =
    "Starts all services in one data directory and supervises them until Ctrl-C. The first\n"
    "start creates keys and tokens (mode 0600). When all services are ready, prints their\n"
    "addresses, then their logs. A service that exits is restarted. Ctrl-C drains all\n"
    "services, the ledger last.\n"
    "\nexamples:\n"
    "  ron up\n"
    "  ron up --data /srv/ron --log-level warn\n"
    "  ron up --only wallet --port-base 8000\n"
    "  ron up --config ron.toml       # [wallet] and below it limits.max_body_bytes = \"1MiB\"";

int cli_up(int argc, char **argv)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    struct up *up = ron_alloc_zero(sizeof *up);
    bool done = false;
    int code;

    if (up == NULL) {
        return CLI_FAILED;
    }
    up->magic = UP_MAGIC;
    up->opts = (struct up_opts){.level = "info", .port_base = UP_PORT_BASE};
    up->lock_fd = -1;
    const struct cli_option options[] = {
        CLI_CHOICE("data", "DIR", "data directory (default: RON_DATA, else ron-data)",
                   &up->opts.data, NULL),
        CLI_NUMBER("port-base", "N", "first port; services use N, N+100, ... N+500",
                   &up->opts.port_base, 1, PORT_MAX),
        CLI_CHOICE("only", "LIST",
                   "services to start, with those they depend on: ledger,wallet,...",
                   &up->opts.only, NULL),
        CLI_CHOICE("config", "FILE", "TOML file with a section of settings per service",
                   &up->opts.config, NULL),
        CLI_CHOICE("log-level", "error|warn|info|debug",
                   "least severe level shown (default: info); DIR/log has all", &up->opts.level,
                   levels),
        CLI_FLAG("adopt-ledger", "accept the present ledger as this directory's own",
                 &up->opts.adopt),
        CLI_FLAG("json", "print the addresses as one line of JSON", &up->opts.json),
    };

    code = cli_parse("up", up_text, options, RON_ARRAY_LEN(options), argc, argv, &done);
    if (code != CLI_OK || done) {
        ron_free(up);
        return code;
    }
    if (up->opts.data == NULL) {
        const char *named = getenv("RON_DATA");

        up->opts.data = named != NULL && named[0] != '\0' ? named : "ron-data";
    }
    ron_signals_block();
    up->env = ron_env_linux();
    up->pid = getpid();
    up->begin_ns = ron_env_now_ns(up->env);
    up->begin_ms = ron_env_wall_ms(up->env);
    up->shown = level_of(up->opts.level);
    up->colour = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL;
    code = prepare(up);
    if (code == CLI_OK) {
        code = run(up);
    }
    take_down(up);
    up_setup_done(up);
    up->magic = 0;
    ron_free(up);
    return code;
}

int cli_down(int argc, char **argv)
{
    const struct ron_env *env = ron_env_linux();
    const char *data = NULL;
    struct cli_system sys;
    struct cli_system now;
    struct ron_child other = {0};
    bool done = false;
    uint64_t end_ns;
    const struct cli_option options[] = {
        CLI_CHOICE("data", "DIR", "data directory (default: RON_DATA, else ron-data here or above)",
                   &data, NULL),
    };
    int code =
        cli_parse("down",
                  "Stops the instance started by `ron up`, as Ctrl-C does, and waits until it\n"
                  "has drained.\n\nexample:\n  ron down",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code == CLI_OK && !done) {
        code = cli_system_find("down", data, &sys);
    }
    if (code != CLI_OK || done) {
        return code;
    }
    if (sys.pid == 0) {
        fprintf(stderr, "ron down: these services were not started by ron up\n");
        return CLI_FAILED;
    }
    other.pid = sys.pid;
    ron_child_signal(&other, SIGTERM);
    end_ns = ron_env_now_ns(env) + (uint64_t)DOWN_WAIT_S * 1000 * RON_NS_PER_MS;
    /* The run file goes last; a process that its parent has not taken notice of still has a
     * number. */
    while (ron_process_exists(sys.pid) && cli_system_read(sys.data, &now) == RON_OK &&
           now.pid == sys.pid) {
        if (ron_env_now_ns(env) > end_ns) {
            fprintf(stderr, "ron down: process %" PRId32 " is still running after %d s\n", sys.pid,
                    DOWN_WAIT_S);
            return CLI_FAILED;
        }
        (void)ron_park_until(ron_deadline_after_ms(ron_env_now_ns(env), LOOK_MS), "ron up");
    }
    printf("stopped\n");
    return CLI_OK;
}
