/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every banned function is a compile error that names the header, and its allowed neighbours
 * are not.
 * Method: the compiler itself, on one line of code at a time. */
#include <sys/wait.h>

#include "support/support.h"

#include "ron/base/macros.h"

/* Compiles `code` inside a function with the header force-included; true when it is accepted. */
static bool compiles(const char *before, const char *code, const char *expected_error)
{
    const char *root = getenv("RON_SOURCE_DIR");
    char command[2048];
    char output[8192];
    bool explained = false;

    if (root == NULL) {
        return false;
    }
    (void)snprintf(command, sizeof(command),
                   "printf '%%s\\nvoid f(char *s, void *p);\\n"
                   "void f(char *s, void *p) { (void)s; (void)p; %%s; }\\n' '%s' '%s' | "
                   "cc -x c -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -I'%s/kernel/include' "
                   "-include '%s/kernel/include/ron/base/banned.h' -fsyntax-only - 2>&1",
                   before, code, root, root);
    FILE *compiler = popen(command, "r");

    assert_non_null(compiler);
    while (fgets(output, sizeof(output), compiler) != NULL) {
        explained = explained || strstr(output, expected_error) != NULL;
    }
    int status = pclose(compiler);

    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0 && !explained) {
        print_error("refused for another reason: %s\n", code);
        fail();
    }
    return WEXITSTATUS(status) == 0;
}

static void skip_without_tree(void)
{
    if (getenv("RON_SOURCE_DIR") == NULL) {
        print_message("skipped: RON_SOURCE_DIR does not name the source tree\n");
        skip();
    }
}

static void test_banned__each_function__does_not_compile(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *call;
    } cases[] = {
        {"strcpy", "strcpy(s, s)"},
        {"strcat", "strcat(s, s)"},
        {"sprintf", "sprintf(s, \"x\")"},
        {"vsprintf", "vsprintf(s, s, p)"},
        {"gets", "gets(s)"},
        {"strncpy", "strncpy(s, s, 1)"},
        {"strncat", "strncat(s, s, 1)"},
        {"strtok", "strtok(s, s)"},
        {"localtime", "localtime(p)"},
        {"gmtime", "gmtime(p)"},
        {"asctime", "asctime(p)"},
        {"ctime", "ctime(p)"},
        {"atoi", "atoi(s)"},
        {"atol", "atol(s)"},
        {"atoll", "atoll(s)"},
        {"sscanf", "sscanf(s, s)"},
        {"alloca", "p = alloca(1)"},
        {"malloc", "p = malloc(1)"},
        {"calloc", "p = calloc(1, 1)"},
        {"realloc", "p = realloc(p, 1)"},
        {"free", "free(p)"},
        {"strdup", "s = strdup(s)"},
        {"strndup", "s = strndup(s, 1)"},
        {"reallocarray", "p = reallocarray(p, 1, 1)"},
    };

    skip_without_tree();
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char expected[64];

        (void)snprintf(expected, sizeof(expected), "ron_banned_%s_see_ron_base_banned_h",
                       cases[i].name);
        assert_false(compiles("", cases[i].call, expected));
    }
}

static void test_banned__neighbours_and_headers__compile(void **state)
{
    (void)state;
    static const char *const good[] = {
        "(void)snprintf(s, 4, \"x\")",
        "struct tm t; (void)gmtime_r(p, &t)",
        "(void)strtol(s, 0, 10)",
        "int malloc = 1; (void)malloc",
        "struct { int free; } x = {.free = 1}; (void)x.free",
    };

    skip_without_tree();
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        assert_true(compiles("", good[i], "never"));
    }
    /* System headers after it, among them those that declare banned names. */
    assert_true(compiles("#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n"
                         "#include <time.h>\n#include <malloc.h>\n#include <alloca.h>\n"
                         "#include <strings.h>\n#include <wchar.h>\n#include <unistd.h>\n"
                         "#include <sys/socket.h>\n#include <netdb.h>\n#include <signal.h>\n"
                         "#include <pthread.h>\n#include <fcntl.h>",
                         "", "never"));
}

static void test_banned__raw_heap__opens_for_who_says_so(void **state)
{
    (void)state;
    const char *door = "#define RON_ALLOW_RAW_ALLOC\n#include \"ron/base/banned.h\"";

    skip_without_tree();
    assert_true(compiles(door, "p = malloc(1); free(p)", "never"));
    assert_true(compiles(door, "p = calloc(1, 1); p = realloc(p, 2); free(p)", "never"));
    assert_false(compiles(door, "strcpy(s, s)", "ron_banned_strcpy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_banned__each_function__does_not_compile),
        cmocka_unit_test(test_banned__neighbours_and_headers__compile),
        cmocka_unit_test(test_banned__raw_heap__opens_for_who_says_so),
    };

    return cmocka_run_group_tests_name("base.banned", tests, NULL, NULL);
}
