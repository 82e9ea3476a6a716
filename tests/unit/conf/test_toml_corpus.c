/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the reader agrees with the public toml-test corpus on every file listed for TOML 1.0.
 * Method: each valid file is read and compared with the JSON beside it; each invalid one must be
 * refused with "file:line:column: reason". The corpus lies outside the tree; without it the whole
 * test reports itself as skipped. */
#include "unit/conf/tagged_json.h"

#include <ctype.h>

#include "support/support.h"

enum { FILE_MAX = 1 << 20, PATH_SIZE = 1024, VALID_MIN = 200, INVALID_MIN = 450 };

static char root[PATH_SIZE];

/* The whole file in a block of exactly its size plus a NUL, so that a sanitizer sees overreads. */
static char *slurp(const char *name, size_t *ret_len)
{
    char path[2 * PATH_SIZE];
    FILE *file = NULL;
    char *text = NULL;
    long size = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0 && size < FILE_MAX);
    rewind(file);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    (void)fclose(file);
    *ret_len = (size_t)size;
    return text;
}

static bool check_valid(const char *name)
{
    char json_name[PATH_SIZE];
    size_t len = 0;
    size_t json_len = 0;
    char *text = slurp(name, &len);
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};
    bool good = false;

    (void)snprintf(json_name, sizeof(json_name), "%.*sjson", (int)(strlen(name) - 4), name);
    char *json = slurp(json_name, &json_len);

    assert_non_null(text);
    assert_non_null(json);
    if (ron_toml_parse(name, text, len, &doc, &err) != RON_OK) {
        print_error("refused: %s\n", err.msg);
    } else {
        struct tagged t = {.at = json};

        good = tagged_equal(&t, ron_toml_root(doc));
        if (!good) {
            print_error("%s: %s near \"%s\"\n", name, t.why, t.path);
        }
    }
    ron_toml_free(doc);
    free(text);
    free(json);
    return good;
}

/* "name:line:column: reason" */
static bool has_place(const char *name, const char *msg)
{
    size_t len = strlen(name);
    int line = 0;
    int column = 0;
    int end = 0;

    return strncmp(msg, name, len) == 0 &&
           sscanf(msg + len, ":%d:%d: %n", &line, &column, &end) == 2 && line > 0 && column > 0 &&
           end > 0 && strlen(msg + len + end) > 10;
}

static bool check_invalid(const char *name)
{
    size_t len = 0;
    char *text = slurp(name, &len);
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};

    assert_non_null(text);
    enum ron_rc rc = ron_toml_parse(name, text, len, &doc, &err);

    free(text);
    ron_toml_free(doc);
    if (rc == RON_OK) {
        print_error("accepted: %s\n", name);
        return false;
    }
    if (rc != RON_INVALID || !has_place(name, err.msg)) {
        print_error("no place or reason: %s\n", err.msg);
        return false;
    }
    if (getenv("RON_VERBOSE") != NULL) {
        print_message("%s\n", err.msg);
    }
    return true;
}

static void test_toml__public_corpus__decoded_or_refused(void **state)
{
    (void)state;
    size_t list_len = 0;
    char *list = slurp("files-toml-1.0.0", &list_len);
    int valid = 0;
    int invalid = 0;
    int bad = 0;
    char *rest = NULL;

    assert_non_null(list);
    for (char *name = strtok_r(list, "\r\n", &rest); name != NULL;
         name = strtok_r(NULL, "\r\n", &rest)) {
        size_t len = strlen(name);

        if (len < 5 || strcmp(name + len - 5, ".toml") != 0) {
            continue;
        }
        if (strncmp(name, "valid/", 6) == 0) {
            valid++;
            bad += !check_valid(name);
        } else {
            invalid++;
            bad += !check_invalid(name);
        }
    }
    free(list);
    print_message("%d valid, %d invalid, %d wrong\n", valid, invalid, bad);
    assert_int_equal(bad, 0);
    assert_true(valid >= VALID_MIN);
    assert_true(invalid >= INVALID_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_toml__public_corpus__decoded_or_refused),
    };
    size_t len = 0;

    support_corpus("toml-test/tests", root, sizeof root);
    char *list = slurp("files-toml-1.0.0", &len);

    if (list == NULL) {
        (void)printf("skipped: %s is absent\n", root);
        return 77;
    }
    free(list);
    return cmocka_run_group_tests_name("conf.toml_corpus", tests, NULL, NULL);
}
