/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_conf_value.c - any text as a value of each type, and as a whole configuration.
 *
 * The first byte chooses the key, the rest is the text. Properties: what a variable of the
 * environment sets is printed as TOML, and loading that gives the same value; a text taken as a
 * file is refused with a reason or prints a file that loads to the same print. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "ron/base/assert.h"
#include "ron/conf/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ron_conf_key keys[] = {
    {"duration", RON_CONF_DURATION, "", 0, INT64_MAX, "1s", RON_CONF_RELOAD, "A duration."},
    {"size", RON_CONF_SIZE, "", 0, INT64_MAX, "1B", RON_CONF_RELOAD, "A size."},
    {"int", RON_CONF_INT, "things", INT64_MIN, INT64_MAX, "1", RON_CONF_RELOAD, "An integer."},
    {"bool", RON_CONF_BOOL, "", 0, 0, "true", RON_CONF_RELOAD, "A boolean."},
    {"string", RON_CONF_STRING, "", 0, 1000, "", RON_CONF_RELOAD, "A string."},
    {"list", RON_CONF_LIST, "", 0, 100, "", RON_CONF_RELOAD, "A list."},
    {"choice", RON_CONF_ENUM, "one|two|three", 0, 0, "two", RON_CONF_RELOAD, "A choice."},
    {"some.*.name", RON_CONF_STRING, "", 0, 100, "x", RON_CONF_RELOAD, "A name."},
    {"some.*.deep.count", RON_CONF_INT, "", 0, 9, "1", RON_CONF_RELOAD, "A count."},
};
enum { KEY_COUNT = sizeof(keys) / sizeof(keys[0]), PLAIN = 7 };

static const struct ron_conf_table table = {
    .service = "fuzz", .keys = keys, .key_count = KEY_COUNT};

static struct ron_conf_snap *load(const struct ron_conf_sources *sources)
{
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = ron_conf_load(NULL, &table, sources, &snap, &err);

    RON_ASSERT(rc == RON_OK || rc == RON_INVALID || rc == RON_LIMIT);
    RON_ASSERT((rc == RON_OK) == (err.msg[0] == '\0'));
    return snap;
}

static void print(const struct ron_conf_snap *snap, struct ron_buf *out)
{
    ron_buf_init(out, RON_CONF_PRINT_MAX);
    RON_ASSERT(ron_conf_print(snap, out) == RON_OK);
}

/* Printed and loaded again: the same values, the same print. */
static void check_print(const struct ron_conf_snap *snap)
{
    struct ron_buf first;
    struct ron_buf second;
    struct ron_conf_sources sources = {.path = "printed"};

    print(snap, &first);
    sources.text = ron_buf_text(&first);
    struct ron_conf_snap *again = load(&sources);

    RON_ASSERT(again != NULL);
    for (size_t i = 0; i < PLAIN; i++) {
        RON_ASSERT(conf_value_equal(&keys[i], ron_conf_get(snap, 0, i), ron_conf_get(again, 0, i)));
    }
    print(again, &second);
    RON_ASSERT(strcmp(ron_buf_text(&first), ron_buf_text(&second)) == 0);
    ron_buf_done(&first);
    ron_buf_done(&second);
    ron_conf_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    unsigned which = data[0] % (PLAIN + 1);
    struct ron_conf_sources sources = {.path = NULL};
    char *text = calloc(1, size + 64);
    const char *var[] = {text, NULL};

    RON_ASSERT(text != NULL);
    if (which == PLAIN) {
        memcpy(text, data + 1, size - 1);
        sources.path = "fuzz";
        sources.text = text;
    } else {
        struct conf_env name;

        conf_env_name(&table, keys[which].name, &name);
        int len = snprintf(text, 64, "%s=", name.text);

        memcpy(text + len, data + 1, size - 1);
        sources.environ = var;
    }
    struct ron_conf_snap *snap = load(&sources);

    if (snap != NULL) {
        check_print(snap);
        ron_conf_unref(snap);
    }
    free(text);
    return 0;
}
