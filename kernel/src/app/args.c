/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - the command line of a service.
 *
 * Place: app. The options below are the same for every service; whatever else begins with two
 * dashes is a key, and ron/conf judges it. Only words that look like neither are judged here, so
 * that a slip in an option is not explained as a slip in a key. */
#include "app/args.h"

#include <stdio.h>
#include <string.h>

#include "app/app_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/nearest.h"

struct option {
    const char *name;
    const char *value; /* what stands for it in the help; NULL: it takes none */
    const char *help;
};

enum { OPT_CONFIG, OPT_PRINT, OPT_CHECK, OPT_REFERENCE, OPT_TOPOLOGY, OPT_HELP, OPT_COUNT };

static const struct option options[OPT_COUNT] = {
    [OPT_CONFIG] = {"config", "FILE", "read this TOML file"},
    [OPT_PRINT] = {"print-config", NULL, "print the settings in force as such a file, then exit"},
    [OPT_CHECK] = {"check-config", NULL, "say whether the settings are good, then exit"},
    [OPT_REFERENCE] = {"print-reference", "md|man", "print what every key means, then exit"},
    [OPT_TOPOLOGY] = {"print-topology", "md|json", "print channels, tasks and locks, then exit"},
    [OPT_HELP] = {"help", NULL, "print this text"},
};

static int find_option(const char *name, size_t len)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0) {
            return i;
        }
    }
    return OPT_COUNT;
}

/* A word without a point that is no key of the first level can only be a slip. */
static enum ron_rc explain(const struct ron_conf_table *table, const char *name, size_t len,
                           struct ron_err *err)
{
    const char *words[RON_CONF_KEYS_MAX + OPT_COUNT];
    char word[RON_NEAREST_WORD_MAX + 1];
    size_t count = 0;
    const char *near;

    for (int i = 0; i < OPT_COUNT; i++) {
        words[count++] = options[i].name;
    }
    for (size_t i = 0; i < table->key_count; i++) {
        words[count++] = table->keys[i].name;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)RON_MIN(len, sizeof word - 1), name);
    near = ron_nearest(word, words, count);
    if (near == NULL) {
        return ron_err_set(err, RON_INVALID, "unknown option --%s; see --help", word);
    }
    return ron_err_set(err, RON_INVALID, "unknown option --%s; did you mean --%s?", word, near);
}

static enum ron_rc pick(const char *name, const char *value, const char *first, const char *second,
                        int first_mode, enum ron_app_mode *mode, struct ron_err *err)
{
    if (strcmp(value, first) == 0) {
        *mode = (enum ron_app_mode)first_mode;
    } else if (strcmp(value, second) == 0) {
        *mode = (enum ron_app_mode)(first_mode + 1);
    } else {
        return ron_err_set(err, RON_INVALID, "--%s takes %s or %s, not \"%s\"", name, first, second,
                           value);
    }
    return RON_OK;
}

static enum ron_rc take_option(int option, const char *value, struct ron_app_args *a,
                               struct ron_err *err)
{
    const struct option *o = &options[option];

    switch (option) {
    case OPT_CONFIG:
        a->config = value;
        return RON_OK;
    case OPT_PRINT:
        a->mode = RON_APP_PRINT_CONFIG;
        return RON_OK;
    case OPT_CHECK:
        a->mode = RON_APP_CHECK_CONFIG;
        return RON_OK;
    case OPT_REFERENCE:
        return pick(o->name, value, "md", "man", RON_APP_REFERENCE_MD, &a->mode, err);
    case OPT_TOPOLOGY:
        return pick(o->name, value, "md", "json", RON_APP_TOPOLOGY_MD, &a->mode, err);
    default:
        a->mode = RON_APP_HELP;
        return RON_OK;
    }
}

/* The key meant by a word: as written, or with underscores where a hand put dashes. Names that an
 * operator chose may hold dashes, so only whole known names are changed. */
static void key_name(const struct ron_conf_table *table, const char *word, size_t len,
                     char name[RON_CONF_NAME_MAX + 1])
{
    char other[RON_CONF_NAME_MAX + 1];

    (void)snprintf(name, RON_CONF_NAME_MAX + 1, "%.*s", (int)len, word);
    memcpy(other, name, sizeof other);
    for (char *c = other; *c != '\0'; c++) {
        *c = (char)(*c == '-' ? '_' : *c);
    }
    if (ron_conf_find_key(table, other) != SIZE_MAX) {
        memcpy(name, other, sizeof other);
    }
}

/* Adds "name=value" as a flag, written to *room. */
static enum ron_rc take_key(const struct ron_conf_table *table, const char *word, const char *value,
                            struct ron_app_args *a, char **room, struct ron_err *err)
{
    char name[RON_CONF_NAME_MAX + 1] = "";
    size_t len = strcspn(word, "=");
    int written;

    if (len <= RON_CONF_NAME_MAX) {
        key_name(table, word, len, name);
    }
    if (name[0] == '\0' ||
        (strchr(name, '.') == NULL && ron_conf_find_key(table, name) == SIZE_MAX)) {
        return explain(table, word, len, err);
    }
    if (a->flag_count == RON_APP_FLAGS_MAX) {
        return ron_err_set(err, RON_LIMIT, "more than %d flags", RON_APP_FLAGS_MAX);
    }
    if (value == NULL) {
        return ron_err_set(err, RON_INVALID, "--%s needs a value", name);
    }
    a->flags[a->flag_count++] = *room;
    /* The room holds every word of the command line, so it holds these two. */
    written = snprintf(*room, len + 1 + strlen(value) + 1, "%s=%s", name, value);
    *room += written + 1;
    return RON_OK;
}

/* One option or key at argv[*at]; moves *at behind it. */
static enum ron_rc take_word(const struct ron_conf_table *table, int argc, char *const *argv,
                             int *at, struct ron_app_args *a, char **room, struct ron_err *err)
{
    const char *word = argv[*at];
    const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
    const char *value = NULL;
    size_t len;
    int option;

    if (word[0] != '-' || word[1] != '-' || word[2] == '\0') {
        return ron_err_set(err, RON_INVALID, "unexpected word \"%s\"; see --help", word);
    }
    word += 2;
    len = strcspn(word, "=");
    value = word[len] == '=' ? word + len + 1 : next;
    (*at) += 1;
    option = find_option(word, len);
    if (option == OPT_COUNT) {
        RON_TRY(take_key(table, word, value, a, room, err));
        *at += word[len] != '=';
        return RON_OK;
    }
    if (options[option].value == NULL) {
        if (word[len] == '=') {
            return ron_err_set(err, RON_INVALID, "--%s takes no value", options[option].name);
        }
        return take_option(option, "", a, err);
    }
    if (value == NULL || *value == '\0') {
        return ron_err_set(err, RON_INVALID, "--%s needs %s", options[option].name,
                           options[option].value);
    }
    *at += word[len] != '=';
    return take_option(option, value, a, err);
}

enum ron_rc ron_app_args_parse(const struct ron_conf_table *table, int argc, char *const *argv,
                               struct ron_app_args *ret_args, struct ron_err *err)
{
    struct ron_app_args a = {.mode = RON_APP_RUN};
    size_t bytes = 1;
    enum ron_rc rc = RON_OK;
    char *room;

    for (int i = 0; i < argc; i++) {
        bytes += strlen(argv[i]) + 1;
    }
    a._room = ron_alloc(bytes);
    if (a._room == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the arguments");
    }
    room = a._room;
    for (int at = 0; at < argc && rc == RON_OK;) {
        rc = take_word(table, argc, argv, &at, &a, &room, err);
    }
    if (rc != RON_OK) {
        ron_app_args_done(&a);
        return rc;
    }
    *ret_args = a;
    return RON_OK;
}

void ron_app_args_done(struct ron_app_args *args)
{
    ron_free(args->_room);
    *args = (struct ron_app_args){0};
}

enum ron_rc ron_app_write_help(const struct ron_conf_table *table, const char *summary,
                               struct ron_buf *out)
{
    static const char *const examples[] = {"--config service.toml --check-config",
                                           "--config service.toml --log.level=debug",
                                           "--print-reference md | less"};

    ron_buf_append_fmt(out, "usage: ron %s [--config FILE] [--KEY=VALUE...]\n\n%s\n\noptions:\n",
                       table->service, summary);
    for (int i = 0; i < OPT_COUNT; i++) {
        char head[48];

        (void)snprintf(head, sizeof head, "--%s%s%s", options[i].name,
                       options[i].value == NULL ? "" : " ",
                       options[i].value == NULL ? "" : options[i].value);
        ron_buf_append_fmt(out, "  %-26s %s\n", head, options[i].help);
    }
    ron_buf_append_text(out, "\nkeys (in the file, the environment, or as flags):\n");
    for (size_t i = 0; i < table->key_count; i++) {
        const struct ron_conf_key *key = &table->keys[i];
        const char *value = key->value;

        if ((key->flags & RON_CONF_SECRET) != 0) {
            value = "secret";
        } else if (value == NULL) {
            value = "must be set";
        }
        ron_buf_append_fmt(out, "  %-26s %s%s%s%s\n", key->name, key->doc,
                           *value == '\0' ? "" : " (", value, *value == '\0' ? "" : ")");
    }
    ron_buf_append_text(out, "\nexamples:\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(examples); i++) {
        ron_buf_append_fmt(out, "  ron %s %s\n", table->service, examples[i]);
    }
    return ron_buf_error(out);
}
