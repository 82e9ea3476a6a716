/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/verbs.c - finds a verb in the table, runs it, and prints help and lists from it. */
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/verbs.h"
#include "ron/base/build.h"
#include "ron/base/nearest.h"

enum {
    DEPTH_MAX = 3,   /* words of the longest path */
    PATH_SIZE = 96,  /* longer than any path of the table */
    VERBS_MAX = 128, /* below one word, for the nearest of them */
};

const char *cli_group_title(enum cli_group group)
{
    static const char *const titles[] = {
#define X(name, title) title,
        CLI_GROUPS(X)
#undef X
    };

    return titles[group];
}

const struct cli_verb *cli_verb_find(const char *path)
{
    for (size_t i = 0; i < cli_verb_count; i++) {
        if (strcmp(cli_verbs[i].path, path) == 0) {
            return &cli_verbs[i];
        }
    }
    return NULL;
}

bool cli_verb_below(const struct cli_verb *verb, const char *path)
{
    size_t len = strlen(path);

    if (len > 0) {
        if (strncmp(verb->path, path, len) != 0 || verb->path[len] != ' ') {
            return false;
        }
        len++;
    }
    return strchr(verb->path + len, ' ') == NULL;
}

/* The last word of a path. */
static const char *last_word(const char *path)
{
    const char *blank = strrchr(path, ' ');

    return blank == NULL ? path : blank + 1;
}

int cli_print_version(void)
{
    printf("ron %s (%s)\n", ron_version(), ron_build_id());
    return CLI_OK;
}

int cli_version(int argc, char **argv)
{
    bool done = false;
    int code = cli_parse("version",
                         "Prints the version of the program and what it was built from.\n\n"
                         "example:\n  ron version",
                         NULL, 0, argc, argv, &done);

    return code != CLI_OK || done ? code : cli_print_version();
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void list_all(FILE *to)
{
    fprintf(to, "usage: ron VERB [options]\n");
    for (int g = 0; g < CLI_GROUP_COUNT; g++) {
        fprintf(to, "\n%s:\n", cli_group_title((enum cli_group)g));
        for (size_t i = 0; i < cli_verb_count; i++) {
            const struct cli_verb *v = &cli_verbs[i];

            /* A word below another stands in its list; without such a row it stands here. */
            if (v->group == (enum cli_group)g &&
                (cli_verb_below(v, "") || v->group == CLI_GROUP_OFFLINE ||
                 v->group == CLI_GROUP_CONTENT)) {
                fprintf(to, "  %-16s %s\n", v->path, v->summary);
            }
        }
    }
    fprintf(to, "\n'ron VERB --help' explains a verb.\n"
                "\nexamples:\n"
                "  ron up                        start everything, here\n"
                "  ron issue alice 500           and, in another terminal, use it\n"
                "  ron transfer alice bob 40\n"
                "  ron help transfer\n");
}

static void list_below(FILE *to, const struct cli_verb *verb)
{
    const char *path = verb->path;

    fprintf(to, "usage: ron %s VERB [options]\n\nverbs:\n", path);
    for (size_t i = 0; i < cli_verb_count; i++) {
        if (cli_verb_below(&cli_verbs[i], path)) {
            fprintf(to, "  %-12s %s\n", last_word(cli_verbs[i].path), cli_verbs[i].summary);
        }
    }
    fprintf(to, "\n'ron %s VERB --help' explains a verb.\n\nexample:\n  %s\n", path, verb->example);
}

static int unknown_verb(const char *path, const char *name)
{
    const char *names[VERBS_MAX];
    const char *near;
    size_t count = 0;

    for (size_t i = 0; i < cli_verb_count && count < VERBS_MAX; i++) {
        if (cli_verb_below(&cli_verbs[i], path)) {
            names[count++] = last_word(cli_verbs[i].path);
        }
    }
    near = ron_nearest(name, names, count);
    if (path[0] != '\0') {
        if (near != NULL) {
            fprintf(stderr, "ron %s: unknown verb '%s'; did you mean '%s'?\n", path, name, near);
        } else {
            fprintf(stderr, "ron %s: unknown verb '%s'; see 'ron %s --help'\n", path, name, path);
        }
    } else if (near != NULL) {
        fprintf(stderr, "ron: unknown verb '%s'; did you mean 'ron %s'?\n", name, near);
    } else {
        fprintf(stderr, "ron: unknown verb '%s'; 'ron help' lists them\n", name);
    }
    return CLI_USAGE;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* The longest path that the first words name; *ret_depth is how many they are. */
static const struct cli_verb *find(int argc, char **argv, int *ret_depth)
{
    const struct cli_verb *found = NULL;
    char path[PATH_SIZE] = "";
    size_t len = 0;

    for (int depth = 1; depth <= DEPTH_MAX && depth < argc; depth++) {
        const struct cli_verb *v;
        int n = snprintf(path + len, sizeof path - len, "%s%s", depth > 1 ? " " : "", argv[depth]);

        if (n < 0 || (size_t)n >= sizeof path - len) {
            break;
        }
        len += (size_t)n;
        v = cli_verb_find(path);
        if (v != NULL) {
            found = v;
            *ret_depth = depth;
        }
    }
    return found;
}

int cli_dispatch(int argc, char **argv)
{
    int depth = 0;
    const struct cli_verb *v = find(argc, argv, &depth);
    bool help = argc > depth + 1 && is_help(argv[depth + 1]);

    if (v != NULL && v->run != NULL) {
        return v->run(argc - depth, argv + depth);
    }
    if (argc <= depth + 1 || help) {
        if (v == NULL) {
            list_all(stdout);
        } else {
            list_below(help ? stdout : stderr, v);
        }
        return help ? CLI_OK : CLI_USAGE;
    }
    return unknown_verb(v == NULL ? "" : v->path, argv[depth + 1]);
}

int cli_help(int argc, char **argv)
{
    char help[] = "--help";
    char *words[DEPTH_MAX + 3] = {argv[0]};

    if (argc < 2 || argv[1][0] == '-') {
        list_all(stdout);
        return CLI_OK;
    }
    if (argc > DEPTH_MAX + 1) {
        fprintf(stderr, "ron help: at most %d words name a verb\n", DEPTH_MAX);
        return CLI_USAGE;
    }
    for (int i = 1; i < argc; i++) {
        words[i] = argv[i];
    }
    words[argc] = help;
    return cli_dispatch(argc + 1, words);
}
