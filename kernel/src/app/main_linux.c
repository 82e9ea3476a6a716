/* SPDX-License-Identifier: Apache-2.0 */
/* main_linux.c - the main function of a service: arguments, settings, signals, exit code.
 *
 * Place: app; the only file of it that knows the process. */
#include <stdio.h>
#include <unistd.h>

#include "app/app_priv.h"
#include "ron/io/cpu.h"
#include "ron/io/linux_env.h"
#include "ron/obs/collect.h"
#include "ron/task/signals.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, TEXT_MAX = 4 << 20 };

extern char **environ;

/* One line that says what is wrong. */
static int complain(const struct ron_app_def *def, const struct ron_err *err, int code)
{
    fprintf(stderr, "ron %s: %s\n", def->conf->service, err->msg);
    return code;
}

static int print(struct ron_buf *out, enum ron_rc rc)
{
    if (rc == RON_OK) {
        (void)fwrite(ron_buf_data(out), 1, ron_buf_len(out), stdout); /* seen by the flush below */
    }
    ron_buf_done(out);
    if (rc != RON_OK || fflush(stdout) != 0 || ferror(stdout) != 0) {
        fprintf(stderr, "ron: could not write the output\n");
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* Modes that need no settings. */
static int print_table(const struct ron_app_def *def, enum ron_app_mode mode)
{
    struct ron_buf out;

    ron_buf_init(&out, TEXT_MAX);
    switch ((int)mode) {
    case RON_APP_HELP:
        return print(&out, ron_app_write_help(def->conf, def->summary, &out));
    case RON_APP_REFERENCE_MD:
        return print(&out, ron_conf_write_markdown(def->conf, &out));
    default:
        return print(&out, ron_conf_write_man(def->conf, &out));
    }
}

static int print_settings(const struct ron_app_opts *opts, enum ron_app_mode mode)
{
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};
    struct ron_buf out;
    int code;

    if (ron_conf_load(opts->env, opts->def->conf, opts->sources, &snap, &err) != RON_OK) {
        return complain(opts->def, &err, EXIT_FAILED);
    }
    ron_buf_init(&out, TEXT_MAX);
    if (mode == RON_APP_CHECK_CONFIG) {
        code = print(&out, ron_buf_append_text(&out, "the settings are good\n"));
    } else {
        code = print(&out, ron_conf_print(snap, &out));
    }
    ron_conf_unref(snap);
    return code;
}

static int print_topology(struct ron_app *app, enum ron_app_mode mode)
{
    struct ron_buf out;

    ron_buf_init(&out, TEXT_MAX);
    return print(&out, mode == RON_APP_TOPOLOGY_MD ? ron_registry_write_md(app->registry, &out)
                                                   : ron_registry_write_json(app->registry, &out));
}

static void on_hangup(void *arg)
{
    struct ron_app *app = arg;
    struct ron_err err = {0};

    if (ron_app_reload(app, &err) != RON_OK) {
        RON_LOG(app->log, ERROR, "reload refused; the old settings stay", RON_LOG_ERR(&err));
    }
}

static int run(struct ron_app *app)
{
    struct ron_signals *signals = NULL;
    struct ron_err err = {0};
    int code;

    if (ron_signals_start(app->sup, on_hangup, app, &signals, &err) != RON_OK) {
        return complain(app->def, &err, EXIT_FAILED);
    }
    RON_LOG(app->log, INFO, "listening",
            RON_LOG_STR("addr", ron_http_server_listener_addr(app->http, 0)),
            RON_LOG_STR("metrics_addr", ron__app_metrics_addr(app)),
            RON_LOG_U64("pid", (uint64_t)getpid()));
    code = ron_app_run(app);
    ron_signals_stop(signals); /* so that no reload runs beside the end */
    return ron_app_finish(app, code);
}

static int start(const struct ron_app_opts *opts, enum ron_app_mode mode)
{
    struct ron_app *app = NULL;
    struct ron_err err = {0};
    int code;

    ron_signals_block();
    if (ron_app_new(opts, &app, &err) != RON_OK) {
        return complain(opts->def, &err, EXIT_FAILED);
    }
    code = mode == RON_APP_RUN ? run(app) : print_topology(app, mode);
    if (!ron_app_free(app) && code == EXIT_DONE) {
        code = RON_EXIT_ABORTED;
    }
    return code;
}

int ron_app_main(const struct ron_app_def *def, int argc, char **argv)
{
    struct ron_app_args args;
    struct ron_err err = {0};
    struct ron_conf_sources sources;
    struct ron_app_opts opts = {.def = def,
                                .env = ron_env_linux(),
                                .sources = &sources,
                                .cpus = ron_cpu_count(),
                                .uid = (uint32_t)geteuid(),
                                .log_write = ron_log_stderr,
                                .collect = ron_collect_process};
    int code;

    if (ron_app_args_parse(def->conf, argc - 1, argv + 1, &args, &err) != RON_OK) {
        return complain(def, &err, EXIT_USAGE);
    }
    sources = (struct ron_conf_sources){.path = args.config,
                                        .environ = (const char *const *)environ,
                                        .flags = args.flags,
                                        .flag_count = args.flag_count};
    switch (args.mode) {
    case RON_APP_HELP:
    case RON_APP_REFERENCE_MD:
    case RON_APP_REFERENCE_MAN:
        code = print_table(def, args.mode);
        break;
    case RON_APP_PRINT_CONFIG:
    case RON_APP_CHECK_CONFIG:
        code = print_settings(&opts, args.mode);
        break;
    case RON_APP_RUN:
    case RON_APP_TOPOLOGY_MD:
    case RON_APP_TOPOLOGY_JSON:
    default:
        code = start(&opts, args.mode);
        break;
    }
    ron_app_args_done(&args);
    return code;
}
