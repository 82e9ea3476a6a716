/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/cli.h - what the verbs of the program share: exit codes and option parsing. The verbs
 * themselves are in verbs.h.
 *
 * A summary may have a part that begins with a line `example:` or `examples:`; it is shown after
 * the options. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/base/verbs.h"

/* Exit statuses. X(NAME, number, "meaning") */
#define CLI_EXIT_CODES(X)                                                                          \
    X(OK, 0, "success; a service drained")                                                         \
    X(FAILED, 1, "failure, refusal, or a check that did not pass")                                 \
    X(USAGE, 2, "usage error; a service aborted a task or left accepted work")                     \
    X(FATAL, 3, "an essential task or the ledger kept failing")                                    \
    X(UNREACHABLE, 4, "no running instance found, or it does not answer")                          \
    X(DENIED, 5, "the capability does not allow it (401, 403)")                                    \
    X(RETRY, 6, "temporary refusal (429, 503): retry with the same key")

enum cli_exit {
#define X(name, number, text) CLI_##name = (number),
    CLI_EXIT_CODES(X)
#undef X
};

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

/* The same with words other than options (accounts, files), in their order: at least `min` and at
 * most `max` of them, put into `words`. Words and options may be mixed; after `--` everything is a
 * word, and `-` is one. */
struct cli_words {
    const char **words;
    size_t min;
    size_t max;
    size_t count; /* set */
};
int cli_parse_words(const char *verb, const char *summary, const struct cli_option *options,
                    size_t count, struct cli_words *words, int argc, char **argv, bool *ret_done);
