/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - the command line of a service: a few options, and every key of its table as a flag.
 *
 *     ron wallet --config wallet.toml --limits.rate=1000 --log.level debug
 *
 * The value of an option or key stands behind `=` or is the next word; dashes may stand for the
 * underscores of a key. Pure: reads argv and prints
 * nothing. `config` points into argv. */
#pragma once

#include "ron/conf/conf.h"

enum ron_app_mode {
    RON_APP_RUN,
    RON_APP_HELP,
    RON_APP_PRINT_CONFIG,  /* the settings in force, as a file */
    RON_APP_CHECK_CONFIG,  /* load and say whether it is good */
    RON_APP_REFERENCE_MD,  /* all keys, as a Markdown table */
    RON_APP_REFERENCE_MAN, /* the same as a man page section */
    RON_APP_TOPOLOGY_MD,   /* channels, tasks and locks that would run */
    RON_APP_TOPOLOGY_JSON,
};

enum { RON_APP_FLAGS_MAX = 256 };

struct ron_app_args {
    enum ron_app_mode mode;
    const char *config; /* NULL: no file */
    const char *flags[RON_APP_FLAGS_MAX];
    size_t flag_count;
    char *_room; /* texts that had to be joined */
};

/* `argv` without the names of program and service. RON_INVALID names the word and, for one that is
 * nearly right, what was probably meant. */
RON_MUST_USE enum ron_rc ron_app_args_parse(const struct ron_conf_table *table, int argc,
                                            char *const *argv, struct ron_app_args *ret_args,
                                            struct ron_err *err);
void ron_app_args_done(struct ron_app_args *args);

/* The text of --help. */
enum ron_rc ron_app_write_help(const struct ron_conf_table *table, const char *summary,
                               struct ron_buf *out);
