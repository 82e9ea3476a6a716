/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `ron`: finds the verb and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "ron/base/build.h"
#include "ron/base/macros.h"
#include "ron/base/nearest.h"

struct verb {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static int show_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("ron %s (%s)\n", ron_version(), ron_build_id());
    return CLI_OK;
}

static int show_help(int argc, char **argv);

static const struct verb verbs[] = {
    {"kernel", "run the kernel with its self-check pipeline, or print its topology", cli_kernel},
    {"http", "serve the self-check routes of the HTTP front", cli_http},
    {"cap", "make keys and capability tokens, narrow and show them", cli_cap},
    {"oap", "serve the self-check app of the OAP/1 front", cli_oap},
    {"version", "print version and build", show_version},
    {"help", "list the verbs", show_help},
};

static int show_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("usage: ron VERB [options]\n\nverbs:\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(verbs); i++) {
        printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    }
    printf("\n'ron VERB --help' explains a verb.\n");
    return CLI_OK;
}

static int unknown_verb(const char *name)
{
    const char *names[RON_ARRAY_LEN(verbs)];
    const char *near;

    for (size_t i = 0; i < RON_ARRAY_LEN(verbs); i++) {
        names[i] = verbs[i].name;
    }
    near = ron_nearest(name, names, RON_ARRAY_LEN(names));
    if (near != NULL) {
        fprintf(stderr, "ron: unknown verb '%s'; did you mean 'ron %s'?\n", name, near);
    } else {
        fprintf(stderr, "ron: unknown verb '%s'; 'ron help' lists them\n", name);
    }
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        show_help(argc, argv);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return show_help(argc, argv);
    }
    if (strcmp(argv[1], "--version") == 0) {
        return show_version(argc, argv);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    return unknown_verb(argv[1]);
}
