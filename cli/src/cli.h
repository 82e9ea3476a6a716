/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what the verbs of the program share: exit codes and option parsing.
 *
 * Exit codes: 0 done, 1 the operation failed, 2 used wrongly or (for services) not fully drained, 3
 * an essential task kept failing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* One option of a verb. Exactly one of the pointers is set; a flag takes no value. */
struct cli_option {
    const char *name;  /* without the dashes */
    const char *value; /* name of the value in the help, NULL for a flag */
    const char *help;
    bool *flag;
    uint64_t *number;
    uint64_t min;
    uint64_t max;
    const char **text;
    const char *const *choices; /* for text: NULL-terminated list, or NULL for anything */
};

#define CLI_NUMBER(name_, value_, help_, number_, min_, max_)                                      \
    {                                                                                              \
        .name = (name_), .value = (value_), .help = (help_), .number = (number_), .min = (min_),   \
        .max = (max_)                                                                              \
    }
#define CLI_CHOICE(name_, value_, help_, text_, choices_)                                          \
    {                                                                                              \
        .name = (name_), .value = (value_), .help = (help_), .text = (text_),                      \
        .choices = (choices_)                                                                      \
    }
#define CLI_FLAG(name_, help_, flag_)                                                              \
    {                                                                                              \
        .name = (name_), .help = (help_), .flag = (flag_)                                          \
    }

/* Parses argv[1..). Accepts `--name value` and `--name=value`. On a mistake prints one line that
 * says what is wrong and what was probably meant, and returns CLI_USAGE. `--help` prints and sets
 * *ret_done. */
int cli_parse(const char *verb, const char *summary, const struct cli_option *options, size_t count,
              int argc, char **argv, bool *ret_done);

/* ---- verbs ----------------------------------------------------------------------------------- */
int cli_kernel(int argc, char **argv);
int cli_http(int argc, char **argv);
int cli_cap(int argc, char **argv);
int cli_oap(int argc, char **argv);
