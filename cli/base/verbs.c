/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/verbs.c - finds a verb in the table, runs it, and prints help and lists from it.
 *
 * The table belongs to the program and is set once, by cli_main, before any verb runs. */
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/verbs.h"
#include "ron/base/assert.h"
#include "ron/base/build.h"
#include "ron/base/macros.h"
#include "ron/base/nearest.h"

enum {
    DEPTH_MAX = 3,   /* words of the longest path */
    PATH_SIZE = 96,  /* longer than any path of the table */
    VERBS_MAX = 128, /* below one word, for the nearest of them */
};

static const struct cli_program *current;

const struct cli_program *cli_program(void)
{
    RON_ASSERT_MSG(current != NULL, "cli_main sets the program before a verb runs");
    return current;
}

const char *cli_group_title(enum cli_group group)
{
    static const char *const titles[] = {
#define X(name, title) title,
        CLI_GROUPS(X)
#undef X
    };

    RON_ASSERT((size_t)group < RON_ARRAY_LEN(titles));
    return titles[group];
}

const struct cli_verb *cli_verb_find(const char *path)
{
    const struct cli_program *p = cli_program();

    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->verbs[i].path, path) == 0) {
            return &p->verbs[i];
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

static int print_version(void)
{
    printf("%s %s (%s)\n", cli_program()->name, ron_version(), ron_build_id());
    return CLI_OK;
}

int cli_version(int argc, char **argv)
{
    bool done = false;
    int code = cli_parse("version",
                         "Prints the version and the build id.\n\n"
                         "example:\n  ron version",
                         NULL, 0, argc, argv, &done);

    return code != CLI_OK || done ? code : print_version();
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool listed_in(const struct cli_verb *v, enum cli_group group)
{
    /* A word below another is in the list of that word; rows without one are listed here. */
    return v->group == group && (cli_verb_below(v, "") || v->group == CLI_GROUP_OFFLINE ||
                                 v->group == CLI_GROUP_CONTENT);
}

static void list_group(FILE *to, enum cli_group group)
{
    const struct cli_program *p = cli_program();
    bool first = true;

    for (size_t i = 0; i < p->count; i++) {
        const struct cli_verb *v = &p->verbs[i];

        if (!listed_in(v, group)) {
            continue;
        }
        if (first) {
            fprintf(to, "\n%s:\n", cli_group_title(group));
            first = false;
        }
        fprintf(to, "  %-16s %s\n", v->path, v->summary);
    }
}

static void list_all(FILE *to)
{
    const struct cli_program *p = cli_program();

    fprintf(to, "usage: %s VERB [options]\n", p->name);
    for (int g = 0; g < CLI_GROUP_COUNT; g++) {
        list_group(to, (enum cli_group)g);
    }
    fprintf(to, "\n'%s VERB --help' explains a verb.\n\nexamples:\n%s", p->name, p->examples);
}

static void list_below(FILE *to, const struct cli_verb *verb)
{
    const struct cli_program *p = cli_program();
    const char *path = verb->path;

    fprintf(to, "usage: %s %s VERB [options]\n\nverbs:\n", p->name, path);
    for (size_t i = 0; i < p->count; i++) {
        if (cli_verb_below(&p->verbs[i], path)) {
            fprintf(to, "  %-12s %s\n", last_word(p->verbs[i].path), p->verbs[i].summary);
        }
    }
    fprintf(to, "\n'%s %s VERB --help' explains a verb.\n\nexample:\n  %s\n", p->name, path,
            verb->example);
}

static int unknown_verb(const char *path, const char *name)
{
    const struct cli_program *p = cli_program();
    const char *blank = path[0] != '\0' ? " " : "";
    const char *names[VERBS_MAX];
    const char *near;
    size_t count = 0;

    for (size_t i = 0; i < p->count && count < VERBS_MAX; i++) {
        if (cli_verb_below(&p->verbs[i], path)) {
            names[count++] = last_word(p->verbs[i].path);
        }
    }
    near = ron_nearest(name, names, count);
    fprintf(stderr, "%s%s%s: unknown verb '%s'; ", p->name, blank, path, name);
    if (near != NULL) {
        fprintf(stderr, "did you mean '%s%s%s %s'?\n", p->name, blank, path, near);
    } else {
        fprintf(stderr, "see '%s%s%s --help'\n", p->name, blank, path);
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

static int dispatch(int argc, char **argv)
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
        fprintf(stderr, "%s help: a verb has at most %d words\n", cli_program()->name, DEPTH_MAX);
        return CLI_USAGE;
    }
    for (int i = 1; i < argc; i++) {
        words[i] = argv[i];
    }
    words[argc] = help;
    return dispatch(argc + 1, words);
}

int cli_main(const struct cli_program *program, int argc, char **argv)
{
    RON_ASSERT(program->count > 0);
    current = program;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        return print_version();
    }
    return dispatch(argc, argv);
}
