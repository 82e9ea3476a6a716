/* SPDX-License-Identifier: Apache-2.0 */
/* fresh_script.h - the words of fresh_rules.txt, and an origin that answers by them.
 *
 * A line of the file: "required ID" or "optimal ID" begins a case; "> METHOD TARGET | word | ..."
 * is a request and the answer that the origin has for it. q: a header of the request; a: the status
 * of the answer (0: the connection ends; 200 without one); r: a header of it; b: its body; type,
 * status, has, lacks, over, text: what the client must see; sent: what the origin must; wait: 3 s
 * pass. */
#pragma once

#include "unit/edge/edge_fields.h"

enum { WORDS_MAX = 24, BODY_MAX = 32 };

/* ---- the script ------------------------------------------------------------------------------ */

struct step {
    enum ron_http_method method;
    char target[64];
    const char *words[WORDS_MAX]; /* "q Foo: 1" */
    size_t word_count;
};

/* The text behind the first word `key` from *at on, NULL at the end. */
static inline const char *next_word(const struct step *s, const char *key, size_t *at)
{
    size_t len = strlen(key);

    while (*at < s->word_count) {
        const char *w = s->words[(*at)++];

        if (strncmp(w, key, len) == 0 && (w[len] == ' ' || w[len] == '\0')) {
            return w + len + (w[len] == ' ');
        }
    }
    return NULL;
}

static inline const char *word(const struct step *s, const char *key)
{
    size_t at = 0;

    return next_word(s, key, &at);
}

static inline void add_words(struct fields *f, const struct step *s, const char *key,
                             uint64_t base_s)
{
    size_t at = 0;
    const char *line;

    f->base_s = base_s;
    while ((line = next_word(s, key, &at)) != NULL) {
        add_line(f, line, strlen(line));
    }
}

static inline enum ron_http_method method_of(const char *text, size_t len)
{
    for (int m = 0; m < RON_HTTP_METHOD_COUNT; m++) {
        const char *name = ron_http_method_name((enum ron_http_method)m);

        if (strlen(name) == len && memcmp(name, text, len) == 0) {
            return (enum ron_http_method)m;
        }
    }
    fail_msg("method %.*s", (int)len, text);
    return RON_HTTP_GET;
}

/* "> GET /t | q Foo: 1 | ..."; the line is cut into its words. */
static inline void read_step(struct step *s, char *line)
{
    char *target = strchr(line + 2, ' ');
    char *bar;

    assert_non_null(target);
    s->method = method_of(line + 2, (size_t)(target - line - 2));
    s->word_count = 0;
    bar = strstr(line, " | ");
    while (bar != NULL) {
        *bar = '\0';
        assert_true(s->word_count < WORDS_MAX);
        s->words[s->word_count++] = bar + 3;
        bar = strstr(bar + 3, " | ");
    }
    RON_IGNORE(snprintf(s->target, sizeof s->target, "%s", target + 1));
}

/* ---- the origin ------------------------------------------------------------------------------ */

struct message {
    int status; /* 0: none */
    struct fields fields;
    char body[BODY_MAX];
};

struct origin {
    uint64_t now_ms;
    uint64_t last_s; /* when it answered last */
    unsigned count;
    struct fields seen; /* of the last request */
};

static inline bool same_field(struct edg_fields a, const char *name_a, struct edg_fields b,
                              const char *name_b)
{
    struct ron_str va;
    struct ron_str vb;

    return edg_fields_get(a, name_a, &va) == 1 && edg_fields_get(b, name_b, &vb) >= 1 &&
           va.len == vb.len && memcmp(va.ptr, vb.ptr, va.len) == 0;
}

/* What the suite's server does: 304 to the validator of the step before, where one is expected. */
static inline int status_of(const struct origin *o, const struct step *s, const struct step *before)
{
    const char *type = word(s, "type");
    struct fields past = {.count = 0};

    if (type == NULL || strstr(type, "_validated") == NULL) {
        return word(s, "a") == NULL ? 200 : (int)strtol(word(s, "a"), NULL, 10);
    }
    add_words(&past, before, "r", o->last_s);
    return same_field(view(&past), "ETag", view(&o->seen), "If-None-Match") ||
                   same_field(view(&past), "Last-Modified", view(&o->seen), "If-Modified-Since")
               ? 304
               : 599;
}

static inline void origin_answer(struct origin *o, const struct step *s, const struct step *before,
                                 struct message *ret)
{
    char count[40];

    memset(ret, 0, sizeof *ret);
    ret->status = status_of(o, s, before);
    o->last_s = o->now_ms / 1000;
    o->count++;
    add_words(&ret->fields, s, "r", o->last_s);
    RON_IGNORE(snprintf(count, sizeof count, "Server-Request-Count: %u", o->count));
    add_line(&ret->fields, count, strlen(count));
    if (ret->status != 204 && ret->status != 304) {
        struct ron_str value = {NULL, 0};
        uint64_t len = BODY_MAX - 1;

        if (edg_fields_get(view(&ret->fields), "Content-Length", &value) == 1) {
            assert_int_equal(edg_seconds(value, &len), RON_OK);
        }
        RON_IGNORE(snprintf(ret->body, sizeof ret->body, "%.*s", (int)len,
                            word(s, "b") == NULL ? "some bytes of a body" : word(s, "b")));
    }
}
