/* SPDX-License-Identifier: Apache-2.0 */
/* test_topology.c - the registry written as JSON and as Markdown.
 *
 * Goal: the JSON is valid whatever is registered, and complete (K-65); the Markdown holds what is
 *   decided in the source and none of what changes at run time; too small a buffer is an error,
 *   never half a document that looks whole.
 * Method: a small checker of JSON's grammar, and the exact texts.
 */
#include "unit/chan/fixture.h"

#include <ctype.h>

enum { DOC_MAX = 1 << 20 };

/* JSON grammar: each function skips what it names and returns the rest, or NULL. Depth is bounded
 * by the documents written here, which nest four deep. */
static const char *json_value(const char *p);

static const char *json_string(const char *p)
{
    if (*p++ != '"') {
        return NULL;
    }
    while (*p != '"') {
        if (*p == '\0' || *p == '\\' || (unsigned char)*p < ' ') {
            return NULL; /* No escapes are expected: the registry keeps such texts out. */
        }
        p++;
    }
    return p + 1;
}

static const char *json_number(const char *p)
{
    const char *begin = p;

    while (isdigit((unsigned char)*p)) {
        p++;
    }
    return p == begin || (begin[0] == '0' && p - begin > 1) ? NULL : p;
}

/* `{"k":v,...}` or `[v,...]`, by its brackets. */
static const char *json_members(const char *p, char close, bool keys)
{
    p++;
    if (*p == close) {
        return p + 1;
    }
    for (;;) {
        if (keys) {
            p = json_string(p);
            if (p == NULL || *p++ != ':') {
                return NULL;
            }
        }
        p = json_value(p);
        if (p == NULL) {
            return NULL;
        }
        if (*p == close) {
            return p + 1;
        }
        if (*p++ != ',') {
            return NULL;
        }
    }
}

static const char *json_value(const char *p)
{
    switch (*p) {
    case '{':
        return json_members(p, '}', true);
    case '[':
        return json_members(p, ']', false);
    case '"':
        return json_string(p);
    default:
        return json_number(p);
    }
}

static bool json_is_valid(const char *text)
{
    const char *rest = json_value(text);

    return rest != NULL && strcmp(rest, "\n") == 0;
}

static void test_topology__checker__tells_good_from_bad(void **state)
{
    static const char *const good[] = {"{}\n", "{\"a\":[1,{\"b\":\"c\"}],\"d\":0}\n"};
    static const char *const bad[] = {"{}",           "{\"a\":1,}\n", "{\"a\" 1}\n",
                                      "[1,]\n",       "{\"a\":01}\n", "{\"a\":\"\n\"}\n",
                                      "{\"a\":1}}\n", "{\"a\":[1}\n"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        assert_true(json_is_valid(good[i]));
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(json_is_valid(bad[i]));
    }
}

static void test_topology__empty_registry__all_lists_are_there(void **state)
{
    struct ron_buf out;

    ron_buf_init(&out, DOC_MAX);
    assert_int_equal(ron_registry_write_json(*state, &out), RON_OK);
    assert_true(json_is_valid(ron_buf_text(&out)));
    assert_non_null(strstr(ron_buf_text(&out), "{\"queues\":[],\"buses\":[],\"watches\":[],"
                                               "\"tasks\":[],\"workers\":[],\"lock_breaches\":{"));
    ron_buf_done(&out);
}

static void test_topology__objects__json_holds_each_with_its_counters(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct ron_bus *b = bus_make(*state, 4);
    struct ron_watch *w = watch_make(*state, 0);
    struct ron_buf out;
    const char *text;

    chan_put(c, 0, 2);
    assert_int_equal(ron_chan_try_send(c, msg(2), NULL), RON_FULL);
    ron_watch_set(w, 1);
    ron_buf_init(&out, DOC_MAX);
    assert_int_equal(ron_registry_write_json(*state, &out), RON_OK);
    text = ron_buf_text(&out);
    assert_true(json_is_valid(text));
    assert_non_null(strstr(text,
                           "{\"name\":\"jobs\",\"state\":\"open\",\"capacity\":2,\"depth\":2,"
                           "\"policy\":\"reject\",\"producers\":\"test\",\"consumers\":\"test\","
                           "\"drop\":\"given to the test\",\"samples\":{\"queue_depth\":2,"));
    assert_non_null(strstr(text, "\"queue_dropped_total\":0,\"busy_rejections_total\":1,"));
    assert_non_null(strstr(text, "\"buses\":[{\"name\":\"events\","));
    assert_non_null(strstr(text, "\"watch_sets_total\":1}"));
    assert_non_null(
        strstr(text, "\"lock_breaches\":{\"rank\":0,\"held\":0,\"loop\":0,\"owner\":0}"));
    ron_buf_done(&out);
    ron_watch_free(w);
    ron_bus_free(b);
    ron_chan_free(c);
}

static void test_topology__more_objects_than_a_page__each_once(void **state)
{
    enum { COUNT = 50 };
    static char names[COUNT][8];
    struct ron_chan *c[COUNT];
    struct ron_buf out;

    for (size_t i = 0; i < COUNT; i++) {
        struct ron_chan_opts opts = chan_opts(*state, RON_CHAN_REJECT, 1);

        (void)snprintf(names[i], sizeof(names[i]), "q%zu", i);
        opts.name = names[i];
        c[i] = chan_with(&opts);
    }
    ron_buf_init(&out, DOC_MAX);
    assert_int_equal(ron_registry_write_json(*state, &out), RON_OK);
    assert_true(json_is_valid(ron_buf_text(&out)));
    for (size_t i = 0; i < COUNT; i++) {
        char wanted[32];
        const char *first;

        (void)snprintf(wanted, sizeof(wanted), "{\"name\":\"q%zu\",", i);
        first = strstr(ron_buf_text(&out), wanted);
        assert_non_null(first);
        assert_null(strstr(first + 1, wanted));
        ron_chan_free(c[i]);
    }
    ron_buf_done(&out);
}

static void fill_task(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    (void)e;
    row->state = "running";
}

static void test_topology__markdown__holds_decisions_and_no_numbers_of_the_moment(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_DROP_OLDEST, 3);
    struct ron_bus *b = bus_make(*state, 4);
    struct ron_watch *w = watch_make(*state, 0);
    struct ron_reg_entry task;
    struct ron_reg_desc d = {.name = "intake",
                             .policy = "restart",
                             .producers = "supervisor",
                             .consumers = "intake, polling",
                             .drop = "first",
                             .capacity = 0};
    struct ron_buf before;
    struct ron_buf after;

    assert_int_equal(ron_registry_add(*state, &task, RON_REG_TASK, &d, fill_task, NULL), RON_OK);
    ron_buf_init(&before, DOC_MAX);
    assert_int_equal(ron_registry_write_md(*state, &before), RON_OK);
    assert_non_null(
        strstr(ron_buf_text(&before),
               "| `jobs` | queue | 3 | test -> test | drop_oldest | given to the test |\n"
               "| `events` | bus | 4 | test -> test | drop_oldest | slow readers lag: "
               "bus_lagged_total |\n"
               "| `shutdown` | watch | 1 | test -> test | last_write_wins | older values are "
               "replaced |\n"
               "\n### Tasks\n"));
    assert_non_null(strstr(ron_buf_text(&before),
                           "| `intake` | intake, polling | supervisor | restart | first |\n"));
#define X(name, number, text, doc)                                                                 \
    assert_non_null(strstr(ron_buf_text(&before), "| " #number " | `" text "` | " doc " |\n"));
    RON_LOCK_RANKS(X)
#undef X

    chan_put(c, 0, 2);
    assert_int_equal(ron_bus_publish(b, &(uint64_t){1}), RON_OK);
    ron_watch_set(w, 1);
    assert_true(ron_chan_close(c));
    ron_buf_init(&after, DOC_MAX);
    assert_int_equal(ron_registry_write_md(*state, &after), RON_OK);
    assert_string_equal(ron_buf_text(&before), ron_buf_text(&after));
    ron_buf_done(&before);
    ron_buf_done(&after);
    ron_registry_remove(*state, &task);
    ron_watch_free(w);
    ron_bus_free(b);
    ron_chan_free(c);
}

static void test_topology__buffer_too_small__limit(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct ron_buf whole;
    struct ron_buf small;

    ron_buf_init(&whole, DOC_MAX);
    assert_int_equal(ron_registry_write_json(*state, &whole), RON_OK);
    ron_buf_init(&small, ron_buf_len(&whole));
    assert_int_equal(ron_registry_write_json(*state, &small), RON_OK);
    ron_buf_done(&small);
    ron_buf_init(&small, ron_buf_len(&whole) - 1);
    assert_int_equal(ron_registry_write_json(*state, &small), RON_LIMIT);
    assert_false(json_is_valid(ron_buf_text(&small)));
    ron_buf_done(&small);
    ron_buf_init(&small, 100);
    assert_int_equal(ron_registry_write_md(*state, &small), RON_LIMIT);
    ron_buf_done(&small);
    ron_buf_done(&whole);
    ron_chan_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_topology__checker__tells_good_from_bad),
        CASE(test_topology__empty_registry__all_lists_are_there),
        CASE(test_topology__objects__json_holds_each_with_its_counters),
        CASE(test_topology__more_objects_than_a_page__each_once),
        CASE(test_topology__markdown__holds_decisions_and_no_numbers_of_the_moment),
        CASE(test_topology__buffer_too_small__limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
