/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/args.c - option parsing with errors a person can act on. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/base/nearest.h"

enum { OPTIONS_MAX = 64, HELP_COLUMN = 28 };

/* One line on standard error: "ron VERB: ..." */
#define MISUSE(verb, fmt, ...)                                                                     \
    (fprintf(stderr, "%s %s: " fmt "\n", cli_program()->name, (verb), __VA_ARGS__), CLI_USAGE)

/* Where the examples of a summary begin, or its end. */
static const char *examples_of(const char *summary)
{
    const char *at = strstr(summary, "\n\nexample");

    return at != NULL ? at : summary + strlen(summary);
}

static void print_help(const char *verb, const char *summary, const struct cli_option *options,
                       size_t count)
{
    const struct cli_verb *row = cli_verb_find(verb);
    const char *args = row != NULL ? row->args : "";
    const char *examples = examples_of(summary);

    printf("usage: %s %s%s%s [options]\n\n%.*s\n\noptions:\n", cli_program()->name, verb,
           args[0] != '\0' ? " " : "", args, (int)(examples - summary), summary);
    for (size_t i = 0; i < count; i++) {
        const struct cli_option *o = &options[i];
        int width = printf("  --%s%s%s", o->name, o->value != NULL ? " " : "",
                           o->value != NULL ? o->value : "");

        printf("%*s%s", width < HELP_COLUMN ? HELP_COLUMN - width : 1, "", o->help);
        if (o->number != NULL) {
            printf(" (%" PRIu64 "-%" PRIu64 ", default: %" PRIu64 ")", o->min, o->max, *o->number);
        }
        printf("\n");
    }
    printf("  --help                    print this text and exit\n");
    if (examples[0] != '\0') {
        printf("%s\n", examples + 1);
    }
}

/* A text as roff: what it would take for its own is escaped. */
static void print_roff(const char *text, size_t len, bool line_start)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (line_start && (c == '.' || c == '\'')) {
            fputs("\\&", stdout);
        }
        line_start = c == '\n';
        if (c == '\\') {
            fputs("\\e", stdout);
        } else if (c == '-') {
            fputs("\\-", stdout);
        } else {
            fputc(c, stdout);
        }
    }
}

/* The same for the man page: a part of its section VERBS. */
static void print_man(const char *summary, const struct cli_option *options, size_t count)
{
    const char *examples = examples_of(summary);

    print_roff(summary, (size_t)(examples - summary), true);
    printf("\n");
    for (size_t i = 0; i < count; i++) {
        const struct cli_option *o = &options[i];

        printf(".TP\n.B \\-\\-");
        print_roff(o->name, strlen(o->name), false);
        if (o->value != NULL) {
            printf(" \\fI");
            print_roff(o->value, strlen(o->value), false);
            printf("\\fP");
        }
        printf("\n");
        print_roff(o->help, strlen(o->help), true);
        if (o->number != NULL) {
            printf(" (%" PRIu64 "\\-%" PRIu64 ", default: %" PRIu64 ")", o->min, o->max,
                   *o->number);
        }
        printf("\n");
    }
    if (examples[0] != '\0') {
        const char *body = strchr(examples + 2, '\n');

        if (body != NULL) {
            printf(".PP\n.nf\n");
            print_roff(body + 1, strlen(body + 1), true);
            printf("\n.fi\n");
        }
    }
}

static int unknown(const char *verb, const char *what, const struct cli_option *options,
                   size_t count)
{
    const char *names[OPTIONS_MAX];
    const char *near;

    RON_ASSERT(count <= OPTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        names[i] = options[i].name;
    }
    near = ron_nearest(what, names, count);
    if (near != NULL) {
        return MISUSE(verb, "unknown option '--%s'; did you mean '--%s'?", what, near);
    }
    return MISUSE(verb, "unknown option '--%s'; see '%s %s --help'", what, cli_program()->name,
                  verb);
}

static int set_number(const char *verb, const struct cli_option *o, const char *value)
{
    char *end = NULL;
    unsigned long long n;

    errno = 0;
    n = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || n < o->min ||
        n > o->max) {
        return MISUSE(verb, "--%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                      o->name, o->min, o->max, value);
    }
    *o->number = n;
    return CLI_OK;
}

static int set_text(const char *verb, const struct cli_option *o, const char *value)
{
    if (o->choices != NULL) {
        size_t i = 0;
        while (o->choices[i] != NULL && strcmp(o->choices[i], value) != 0) {
            i++;
        }
        if (o->choices[i] == NULL) {
            return MISUSE(verb, "--%s takes %s, not '%s'", o->name, o->value, value);
        }
    }
    *o->text = value;
    return CLI_OK;
}

static const struct cli_option *find(const struct cli_option *options, size_t count,
                                     const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == len && strncmp(options[i].name, name, len) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

/* Sets the option at argv[*at]; moves *at past a separate value. */
static int parse_one(const char *verb, const struct cli_option *options, size_t count, int argc,
                     char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    const char *value = strchr(name, '=');
    size_t len = value != NULL ? (size_t)(value - name) : strlen(name);
    const struct cli_option *o = find(options, count, name, len);

    if (o == NULL) {
        char word[RON_NEAREST_WORD_MAX + 1];
        (void)snprintf(word, sizeof word, "%.*s", (int)RON_MIN(len, (size_t)RON_NEAREST_WORD_MAX),
                       name);
        return unknown(verb, word, options, count);
    }
    if (o->flag != NULL) {
        if (value != NULL) {
            return MISUSE(verb, "--%s takes no value", o->name);
        }
        *o->flag = true;
        return CLI_OK;
    }
    if (value != NULL) {
        value++;
    } else if (*at + 1 < argc) {
        value = argv[++*at];
    } else {
        return MISUSE(verb, "--%s needs a value: %s", o->name, o->value);
    }
    return o->number != NULL ? set_number(verb, o, value) : set_text(verb, o, value);
}

static bool take_word(struct cli_words *words, const char *word)
{
    if (words == NULL || words->count == words->max) {
        return false;
    }
    words->words[words->count++] = word;
    return true;
}

static int too_few(const char *verb)
{
    const struct cli_verb *row = cli_verb_find(verb);
    const char *name = cli_program()->name;

    return MISUSE(verb, "usage: %s %s %s; see '%s %s --help'", name, verb,
                  row != NULL ? row->args : "", name, verb);
}

int cli_parse_words(const char *verb, const char *summary, const struct cli_option *options,
                    size_t count, struct cli_words *words, int argc, char **argv, bool *ret_done)
{
    bool only_words = false;

    *ret_done = false;
    if (words != NULL) {
        words->count = 0;
    }
    for (int at = 1; at < argc; at++) {
        bool is_word = only_words || strncmp(argv[at], "--", 2) != 0;
        int rc;

        if (!only_words && (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)) {
            print_help(verb, summary, options, count);
            *ret_done = true;
            return CLI_OK;
        }
        if (!only_words && strcmp(argv[at], "--help-man") == 0) {
            print_man(summary, options, count);
            *ret_done = true;
            return CLI_OK;
        }
        if (words != NULL && !only_words && strcmp(argv[at], "--") == 0) {
            only_words = true;
            continue;
        }
        if (is_word && (argv[at][0] != '-' || argv[at][1] == '\0' || only_words) &&
            take_word(words, argv[at])) {
            continue;
        }
        if (is_word || argv[at][2] == '\0') {
            return MISUSE(verb, "'%s' is not an option; see '%s %s --help'", argv[at],
                          cli_program()->name, verb);
        }
        rc = parse_one(verb, options, count, argc, argv, &at);
        if (rc != CLI_OK) {
            return rc;
        }
    }
    return words != NULL && words->count < words->min ? too_few(verb) : CLI_OK;
}

int cli_parse(const char *verb, const char *summary, const struct cli_option *options, size_t count,
              int argc, char **argv, bool *ret_done)
{
    return cli_parse_words(verb, summary, options, count, NULL, argc, argv, ret_done);
}
