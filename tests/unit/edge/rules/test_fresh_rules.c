/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a gateway built on the edge's rules answers every required and optimal case of the public
 * suite http-cache-tests as it expects, but for a short list with reasons.
 * Method: fresh_rules.txt has each case as requests in a row. Here a cache of a few entries, which
 * only does what the rules say, stands between them and an origin that answers by the script. */
#include "unit/edge/fresh_script.h"

#include "edge/rules/fresh.h"
#include "edge/rules/fresh_update.h"
#include "edge/rules/hop.h"
#include "edge/rules/vary.h"
#include "ron/http/select.h"

enum { STEPS_MAX = 4, ENTRIES_MAX = 8 };

/* ---- the gateway ----------------------------------------------------------------------------- */

struct entry {
    bool used;
    char target[64];
    char vary[EDG_VARY_TEXT_MAX + 1];
    char key[512];
    struct message stored;
    struct edg_life life;
};

struct gateway {
    const struct edg_policy *policy;
    struct origin origin;
    struct fields request; /* of the client; what the origin saw borrows it */
    struct entry entries[ENTRIES_MAX];
};

static void vary_key(const char *vary, struct edg_fields request, char key[512])
{
    struct ron_buf buf;

    ron_buf_init_over(&buf, key, 512);
    assert_int_equal(edg_vary_key(ron_str_of(vary), request, &buf), RON_OK);
    RON_IGNORE(ron_buf_text(&buf));
}

static struct entry *find(struct gateway *g, const char *target, struct edg_fields request)
{
    for (size_t i = 0; i < ENTRIES_MAX; i++) {
        struct entry *e = &g->entries[i];
        char key[512];

        if (e->used && strcmp(e->target, target) == 0) {
            vary_key(e->vary, request, key);
            if (strcmp(key, e->key) == 0) {
                return e;
            }
        }
    }
    return NULL;
}

/* Copies fields into storage of their own. */
static void copy_fields(struct fields *out, const struct ron_http_field *at, size_t count)
{
    out->count = 0;
    out->len = 0;
    for (size_t i = 0; i < count; i++) {
        char line[512];
        int n = snprintf(line, sizeof line, "%.*s:%.*s", (int)at[i].name.len, at[i].name.ptr,
                         (int)at[i].value.len, at[i].value.ptr);

        assert_true(n > 0 && (size_t)n < sizeof line);
        add_line(out, line, (size_t)n);
    }
}

static struct edg_exchange exchange(const struct gateway *g, const struct step *s,
                                    const struct fields *request, int status,
                                    struct edg_fields response)
{
    return (struct edg_exchange){.method = s->method,
                                 .request = view(request),
                                 .status = status,
                                 .response = response,
                                 .request_ms = g->origin.now_ms,
                                 .response_ms = g->origin.now_ms};
}

/* Stores or replaces, if the rules say so. */
static struct entry *store(struct gateway *g, const struct step *s, const struct fields *request,
                           const struct message *m, bool self_located, struct entry *e)
{
    struct edg_exchange ex = exchange(g, s, request, m->status, view(&m->fields));
    struct ron_http_field kept[FIELDS_MAX];
    struct edg_vary vary;
    size_t count = 0;

    ex.self_located = self_located;
    if (e != NULL) {
        e->used = false;
    }
    if (edg_store_judge(&ex, g->policy) != EDG_STORE_OK) {
        return NULL;
    }
    for (size_t i = 0; e == NULL && i < ENTRIES_MAX; i++) {
        e = g->entries[i].used ? NULL : &g->entries[i];
    }
    assert_non_null(e);
    e->used = true;
    e->stored.status = m->status;
    memcpy(e->stored.body, m->body, sizeof e->stored.body);
    RON_IGNORE(snprintf(e->target, sizeof e->target, "%s", s->target));
    edg_vary_parse(view(&m->fields), &vary);
    memcpy(e->vary, vary.text, sizeof e->vary);
    vary_key(e->vary, view(request), e->key);
    assert_int_equal(edg_update_keep(view(&m->fields), kept, FIELDS_MAX, &count), RON_OK);
    copy_fields(&e->stored.fields, kept, count);
    edg_life_read(&ex, g->policy, &e->life);
    return e;
}

static void update(struct gateway *g, const struct step *s, const struct fields *request,
                   struct entry *e, const struct message *fresh)
{
    struct ron_http_field merged[FIELDS_MAX];
    struct fields copy;
    size_t count = 0;
    struct edg_exchange ex;

    assert_int_equal(
        edg_update_merge(view(&e->stored.fields), view(&fresh->fields), merged, FIELDS_MAX, &count),
        RON_OK);
    copy_fields(&copy, merged, count);
    copy_fields(&e->stored.fields, copy.at, copy.count);
    ex = exchange(g, s, request, e->stored.status, view(&e->stored.fields));
    e->used = edg_store_judge(&ex, g->policy) == EDG_STORE_OK;
    edg_life_read(&ex, g->policy, &e->life);
}

static void invalidate(struct gateway *g, const char *target, size_t len)
{
    for (size_t i = 0; i < ENTRIES_MAX; i++) {
        struct entry *e = &g->entries[i];

        if (strlen(e->target) == len && memcmp(e->target, target, len) == 0) {
            e->used = false;
        }
    }
}

/* Whether a field of the answer refers to this target; `drop`: what it refers to is invalidated. */
static bool refers(struct gateway *g, const struct step *s, const struct message *m,
                   const char *name, bool drop)
{
    const struct edg_base base = {.host = ron_str_of("cache.example"),
                                  .target = ron_str_of(s->target)};
    struct ron_str value;
    struct ron_str target;
    char out[256];

    if (edg_fields_get(view(&m->fields), name, &value) != 1 ||
        edg_location(&base, value, out, sizeof out, &target) != RON_OK) {
        return false;
    }
    if (drop) {
        invalidate(g, target.ptr, target.len);
    }
    return ron_str_is(target, s->target);
}

/* The stored answer to the client: conditions, ranges and Age. */
static void serve(const struct gateway *g, const struct step *s, const struct fields *request,
                  const struct entry *e, struct message *ret)
{
    static struct ron_http_head head;
    struct edg_fields stored = view(&e->stored.fields);
    struct ron_http_repr repr = {.size = strlen(e->stored.body), .mtime_s = RON_HTTP_NO_MTIME};
    struct ron_http_etag etag;
    struct ron_http_selection a;
    struct ron_str value;
    char line[80];

    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < stored.count; i++) {
        if (!ron_str_is_nocase(stored.at[i].name, "Age")) {
            ret->fields.at[ret->fields.count++] = stored.at[i];
        }
    }
    RON_IGNORE(snprintf(line, sizeof line, "Content-Length: %zu", strlen(e->stored.body)));
    add_line(&ret->fields, line, strlen(line));
    RON_IGNORE(snprintf(line, sizeof line, "Age: %llu",
                        (unsigned long long)edg_life_age_s(&e->life, g->origin.now_ms)));
    add_line(&ret->fields, line, strlen(line));
    ret->status = e->stored.status;
    memcpy(ret->body, e->stored.body, sizeof ret->body);
    if (e->stored.status != 200) {
        return;
    }
    if (edg_fields_get(stored, "ETag", &value) == 1 &&
        ron_http_etag_parse(value, &etag) == RON_OK) {
        repr.etag = &etag;
    }
    if (edg_date(stored, "Last-Modified", T0_S, &repr.mtime_s) != RON_OK) {
        repr.mtime_s = RON_HTTP_NO_MTIME;
    }
    ron_http_select(head_of(&head, s->method, request), &repr, g->origin.now_ms / 1000, &a);
    ret->status = a.status;
    if (a.status == 206) {
        memset(ret->body, 0, sizeof ret->body);
        memcpy(ret->body, e->stored.body + a.ranges[0].first, a.length);
    }
}

static void forward(struct gateway *g, const struct step *s, const struct step *before,
                    const struct fields *request, const struct entry *e, struct message *ret)
{
    struct fields *out = &g->origin.seen;
    struct edg_conditions c = {.if_none_match = {NULL, 0}};
    bool fills = s->method == RON_HTTP_GET || s->method == RON_HTTP_HEAD;

    assert_int_equal(edg_hop_filter(fills ? EDG_HOP_FILL : EDG_HOP_PASS, view(request), out->at,
                                    FIELDS_MAX - 2, &out->count),
                     RON_OK);
    if (e != NULL) {
        edg_conditions(view(&e->stored.fields), &c);
    }
    if (c.if_none_match.len > 0) {
        out->at[out->count++] =
            (struct ron_http_field){ron_str_of("If-None-Match"), c.if_none_match};
    }
    if (c.if_modified_since.len > 0) {
        out->at[out->count++] =
            (struct ron_http_field){ron_str_of("If-Modified-Since"), c.if_modified_since};
    }
    origin_answer(&g->origin, s, before, ret);
}

/* An answer of the origin that goes on to the client. */
static void pass(struct message *m)
{
    struct ron_http_field kept[FIELDS_MAX];
    size_t count = 0;

    assert_int_equal(edg_hop_filter(EDG_HOP_ANSWER, view(&m->fields), kept, FIELDS_MAX, &count),
                     RON_OK);
    memcpy(m->fields.at, kept, count * sizeof kept[0]);
    m->fields.count = count;
    m->status = m->status == 0 ? 504 : m->status;
}

static void from_origin(struct gateway *g, const struct step *s, const struct step *before,
                        const struct fields *request, const struct edg_ask *ask, struct entry *e,
                        struct message *ret)
{
    bool reads = s->method == RON_HTTP_GET;
    bool own = false;

    forward(g, s, before, request, e, ret);
    if (e != NULL && ret->status == 304) {
        update(g, s, request, e, ret);
        serve(g, s, request, e, ret);
        return;
    }
    if (e != NULL && edg_use_on_error(&e->life, ask, ret->status, g->origin.now_ms)) {
        serve(g, s, request, e, ret);
        return;
    }
    if (edg_invalidates(s->method, ret->status)) {
        invalidate(g, s->target, strlen(s->target));
        RON_IGNORE(refers(g, s, ret, "Location", true));
        own = refers(g, s, ret, "Content-Location", true);
    }
    if (ret->status != 0 && (reads || own)) {
        e = store(g, s, request, ret, own, e);
        if (e != NULL && reads) {
            serve(g, s, request, e, ret);
            return;
        }
    }
    pass(ret);
}

static void answer(struct gateway *g, const struct step *s, const struct step *before,
                   struct message *ret)
{
    struct fields *request = &g->request;
    struct edg_ask ask;
    struct edg_use use;
    struct entry *e;

    set_lines(request, NULL);
    add_words(request, s, "q", g->origin.last_s);
    if (request->count == 0) { /* as the suite's client does */
        add_line(request, "Pragma: foo", 11);
        add_line(request, "Cache-Control: nothing-to-see-here", 34);
    }
    e = s->method == RON_HTTP_GET ? find(g, s->target, view(request)) : NULL;
    edg_ask_read(s->method, view(request), &ask);
    edg_use(e == NULL ? NULL : &e->life, &ask, g->origin.now_ms, &use);
    if (e != NULL && (use.verdict == EDG_FRESH || use.verdict == EDG_STALE_OK)) {
        serve(g, s, request, e, ret);
    } else {
        from_origin(g, s, before, request, &ask, e, ret);
    }
}

/* ---- what the suite checks ------------------------------------------------------------------- */

static bool field_is(struct edg_fields fields, const char *line, uint64_t base_s)
{
    struct fields wanted = {.base_s = base_s};
    struct ron_str value;

    add_line(&wanted, line, strlen(line));
    for (size_t i = 0; i < fields.count; i++) {
        value = fields.at[i].value;
        if (ron_str_equal_nocase(fields.at[i].name, wanted.at[0].name) &&
            (wanted.at[0].value.len == 0 || ron_str_equal_nocase(value, wanted.at[0].value))) {
            return true;
        }
    }
    return false;
}

static uint64_t number_of(struct edg_fields fields, const char *name)
{
    struct ron_str value;
    uint64_t n = 0;

    return edg_fields_get(fields, name, &value) >= 1 && edg_seconds(value, &n) == RON_OK ? n : 0;
}

static const char *check_fields(const struct gateway *g, const struct step *s,
                                const struct message *m)
{
    size_t at = 0;
    const char *line;

    while ((line = next_word(s, "has", &at)) != NULL) {
        if (!field_is(view(&m->fields), line, g->origin.last_s)) {
            return line;
        }
    }
    for (at = 0; (line = next_word(s, "lacks", &at)) != NULL;) {
        if (edg_fields_has(view(&m->fields), line)) {
            return line;
        }
    }
    for (at = 0; (line = next_word(s, "over", &at)) != NULL;) {
        char name[32];
        int n = 0;

        while (line[n] != ':') {
            n++;
        }
        RON_IGNORE(snprintf(name, sizeof name, "%.*s", n, line));
        if (number_of(view(&m->fields), name) <= strtoull(line + n + 1, NULL, 10)) {
            return line;
        }
    }
    for (at = 0; (line = next_word(s, "sent", &at)) != NULL;) {
        if (!field_is(view(&g->origin.seen), line, g->origin.last_s)) {
            return line;
        }
    }
    return NULL;
}

/* NULL, or what is not as it should be. */
static const char *check(const struct gateway *g, const struct step *s, unsigned number,
                         const struct message *m)
{
    const char *type = word(s, "type") == NULL ? "" : word(s, "type");
    const char *status = word(s, "status") != NULL ? word(s, "status") : word(s, "a");
    uint64_t count = number_of(view(&m->fields), "Server-Request-Count");
    bool cut = word(s, "a") != NULL && strcmp(word(s, "a"), "0") == 0;

    if (strcmp(type, "cached") == 0 && !(count > 0 && count < number)) {
        return "does not come from the cache";
    }
    if (strcmp(type, "not_cached") == 0 && (cut ? m->status != 504 : count != number)) {
        return "comes from the cache";
    }
    if (!cut && m->status != (status == NULL ? 200 : strtol(status, NULL, 10))) {
        return "has another status";
    }
    if (word(s, "text") != NULL && strcmp(word(s, "text"), m->body) != 0) {
        return "has another body";
    }
    return check_fields(g, s, m);
}

/* Cases that end otherwise here, on purpose. */
static const struct {
    const char *id;
    const char *why;
} known[] = {
    {"age-parse-prefix", "an Age of two values is unknown, as in the suite's other cases of it"},
    {"conditional-lm-fresh-no-lm", "RFC 9111 4.3.2 compares Date, which is later: 200"},
    {"vary-normalise-lang-select", "a choice among languages is the origin's to make"},
    {"partial-store-partial-reuse-partial", "parts are not stored"},
    {"partial-store-partial-reuse-partial-byterange", "parts are not stored"},
    {"partial-store-partial-reuse-partial-absent", "parts are not stored"},
    {"partial-store-partial-reuse-partial-suffix", "parts are not stored"},
    {"partial-store-partial-complete", "parts are not stored"},
};

static bool is_known(const char *id)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        if (strcmp(known[i].id, id) == 0) {
            return true;
        }
    }
    return false;
}

static const struct edg_policy policy = {.heuristic_max_s = 86400};

/* Whether the case passes; says what is wrong where it should. */
static bool run_case(const char *id, const struct step *steps, size_t count)
{
    static struct gateway g;
    static struct message m;
    bool quiet = is_known(id);

    memset(&g, 0, sizeof g);
    g.policy = &policy;
    g.origin.now_ms = T0_MS;
    g.origin.last_s = T0_S;
    for (size_t i = 0; i < count; i++) {
        const char *why;

        answer(&g, &steps[i], i > 0 ? &steps[i - 1] : NULL, &m);
        why = check(&g, &steps[i], (unsigned)i + 1, &m);
        if (why != NULL) {
            if (!quiet) {
                print_message("%s, request %zu: %s (status %d)\n", id, i + 1, why, m.status);
            }
            return false;
        }
        g.origin.now_ms += word(&steps[i], "wait") != NULL ? 3000 : 10;
    }
    return true;
}

struct score {
    unsigned required;
    unsigned optimal;
    unsigned wrong; /* failed without being known, or known without failing */
};

static void end_case(const char *title, const struct step *steps, size_t count, struct score *score)
{
    const char *id = title == NULL ? NULL : strchr(title, ' ');
    bool passed;

    if (id == NULL) {
        return;
    }
    passed = run_case(id + 1, steps, count);
    score->required += passed && strncmp(title, "required", 8) == 0;
    score->optimal += passed && strncmp(title, "optimal", 7) == 0;
    if (passed == is_known(id + 1)) {
        print_message("%s: %s\n", id + 1, passed ? "passes, and is known to fail" : "fails");
        score->wrong++;
    }
}

static char *read_rules(void)
{
    static char text[131072];
    const char *root = getenv("RON_SOURCE_DIR");
    char path[512];
    FILE *file;
    size_t len;

    if (root == NULL) {
        print_message("RON_SOURCE_DIR is not set\n");
        return NULL;
    }
    RON_IGNORE(snprintf(path, sizeof path, "%s/tests/unit/edge/fresh_rules.txt", root));
    file = fopen(path, "r");
    assert_non_null(file);
    len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(len < sizeof text - 1);
    text[len] = '\0';
    return text;
}

static void test_fresh__cases_of_the_public_suite__all_but_the_known_ones(void **state)
{
    static struct step steps[STEPS_MAX];
    struct score score = {0};
    const char *title = NULL;
    char *line = read_rules();
    size_t count = 0;

    (void)state;
    if (line == NULL) {
        skip();
    }
    while (*line != '\0') {
        char *end = line + strcspn(line, "\n");
        char *next = *end == '\0' ? end : end + 1;

        *end = '\0';
        if (line[0] == '>') {
            assert_true(count < STEPS_MAX);
            read_step(&steps[count++], line);
        } else if (line[0] != '#') {
            end_case(title, steps, count, &score);
            title = line;
            count = 0;
        }
        line = next;
    }
    end_case(title, steps, count, &score);
    print_message("required %u, optimal %u\n", score.required, score.optimal);
    assert_int_equal(score.wrong, 0);
    assert_int_equal(score.required, 156);
    assert_int_equal(score.optimal, 79);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh__cases_of_the_public_suite__all_but_the_known_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
