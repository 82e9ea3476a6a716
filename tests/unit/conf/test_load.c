/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: sources win in their order, every mistake is refused with its place and the nearest known
 * key, and a table that is wrong itself is caught.
 * Method: the sample table, texts in place of files, and one real file. */
#include "unit/conf/sample.h"

#include "conf/conf_priv.h"
#include "unit/io/fixture.h"

static bool str_is(struct ron_conf_str s, const char *text)
{
    return s.len == strlen(text) && strcmp(s.text, text) == 0;
}

static void refuse(const char *text, const char *message)
{
    struct ron_err err = {0};

    assert_null(sample_load(text, &err));
    assert_string_equal(err.msg, message);
}

static void test_load__no_source__gives_defaults(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("");
    struct ron_conf_list hosts = ron_conf_list(snap, SAMPLE_HOSTS);

    assert_int_equal(ron_conf_ms(snap, SAMPLE_DRAIN), 3000);
    assert_true(str_is(ron_conf_str(snap, SAMPLE_LISTEN), "127.0.0.1:7301"));
    assert_int_equal(ron_conf_int(snap, SAMPLE_RATE), 500);
    assert_int_equal(ron_conf_bytes(snap, SAMPLE_BODY), 1 << 20);
    assert_int_equal(ron_conf_int(snap, SAMPLE_BALANCE), -1);
    assert_int_equal(ron_conf_choice(snap, SAMPLE_FORMAT), 0);
    assert_false(ron_conf_bool(snap, SAMPLE_AMNESIA));
    assert_int_equal(ron_conf_secret(snap, SAMPLE_TOKEN).len, 0);
    assert_int_equal(hosts.count, 2);
    assert_true(str_is(hosts.items[1], "b"));
    assert_int_equal(ron_conf_section_count(snap, "origins"), 0);
    assert_int_equal(ron_conf_get(snap, 0, SAMPLE_RATE)->source, RON_CONF_FROM_DEFAULT);
    ron_conf_unref(snap);
}

static void test_load__file__sets_every_type(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("drain_deadline = \"1.5s\"\n"
                                             "limits.rate = 7\n"
                                             "limits.max_body = \"2 KB\"\n"
                                             "[http]\nlisten = \"[::1]:1\"\n"
                                             "[log]\nformat = \"text\"\nhosts = ['x, y']\n"
                                             "[amnesia]\nenabled = true\n"
                                             "[auth]\ntoken = 's3cret'\n");

    assert_int_equal(ron_conf_ms(snap, SAMPLE_DRAIN), 1500);
    assert_int_equal(ron_conf_int(snap, SAMPLE_RATE), 7);
    assert_int_equal(ron_conf_bytes(snap, SAMPLE_BODY), 2000);
    assert_true(str_is(ron_conf_str(snap, SAMPLE_LISTEN), "[::1]:1"));
    assert_int_equal(ron_conf_choice(snap, SAMPLE_FORMAT), 1);
    assert_int_equal(ron_conf_list(snap, SAMPLE_HOSTS).count, 1);
    assert_true(str_is(ron_conf_list(snap, SAMPLE_HOSTS).items[0], "x, y"));
    assert_true(ron_conf_bool(snap, SAMPLE_AMNESIA));
    assert_true(str_is(ron_conf_secret(snap, SAMPLE_TOKEN), "s3cret"));
    assert_int_equal(ron_conf_get(snap, 0, SAMPLE_RATE)->source, RON_CONF_FROM_FILE);
    assert_int_equal(ron_conf_get(snap, 0, SAMPLE_BALANCE)->source, RON_CONF_FROM_DEFAULT);
    ron_conf_unref(snap);
}

static void test_load__flag_over_environment_over_file__in_that_order(void **state)
{
    (void)state;
    static const char *const vars[] = {"PATH=/bin",
                                       "RON_WALLET__LIMITS__MAX_BODY=5B",
                                       "RON_WALLET__LIMITS__RATE=3",
                                       "RON_LEDGER__LIMITS__NONSENSE=1",
                                       "RON_WALLET_SINGLE=1",
                                       "RON_WALLET__LOG__HOSTS=c,d , e",
                                       "RON_WALLET__ORIGINS__OSM__URL=env",
                                       NULL};
    static const char *const flags[] = {"--limits.rate=4", "origins.osm.tries=5"};
    struct ron_conf_sources sources = {
        .path = "w.toml",
        .text = "limits = {rate = 2, max_body = '6B', balance = 2}\norigins.osm.url = 'file'\n",
        .environ = vars,
        .flags = flags,
        .flag_count = 2};
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};

    if (ron_conf_load(NULL, &sample_table, &sources, &snap, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(ron_conf_int(snap, SAMPLE_RATE), 4);
    assert_int_equal(ron_conf_get(snap, 0, SAMPLE_RATE)->source, RON_CONF_FROM_FLAG);
    assert_int_equal(ron_conf_bytes(snap, SAMPLE_BODY), 5);
    assert_int_equal(ron_conf_get(snap, 0, SAMPLE_BODY)->source, RON_CONF_FROM_ENV);
    assert_int_equal(ron_conf_int(snap, SAMPLE_BALANCE), 2);
    assert_int_equal(ron_conf_list(snap, SAMPLE_HOSTS).count, 3);
    assert_true(str_is(ron_conf_list(snap, SAMPLE_HOSTS).items[1], "d"));
    uint32_t osm = ron_conf_section_find(snap, "origins", "osm");

    assert_true(osm > 0);
    assert_true(str_is(ron_conf_str_in(snap, osm, SAMPLE_ORIGIN_URL), "env"));
    assert_int_equal(ron_conf_int_in(snap, osm, SAMPLE_ORIGIN_TRIES), 5);
    ron_conf_unref(snap);
}

static void test_load__named_sections__each_with_its_own_values(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("[origins.b-2]\nurl = 'x'\ntls.ca = 'ca'\n"
                                             "[origins.a]\nurl = 'y'\ntries = 9\n"
                                             "[peers.empty]\n");
    uint32_t b = ron_conf_section(snap, "origins", 0);
    uint32_t a = ron_conf_section(snap, "origins", 1);

    assert_int_equal(ron_conf_section_count(snap, "origins"), 2);
    assert_string_equal(ron_conf_section_name(snap, b), "b-2");
    assert_string_equal(ron_conf_section_name(snap, a), "a");
    assert_true(str_is(ron_conf_str_in(snap, b, SAMPLE_ORIGIN_URL), "x"));
    assert_true(str_is(ron_conf_str_in(snap, b, SAMPLE_ORIGIN_CA), "ca"));
    assert_int_equal(ron_conf_int_in(snap, b, SAMPLE_ORIGIN_TRIES), 3);
    assert_true(str_is(ron_conf_str_in(snap, a, SAMPLE_ORIGIN_CA), ""));
    assert_int_equal(ron_conf_int_in(snap, a, SAMPLE_ORIGIN_TRIES), 9);
    assert_int_equal(ron_conf_section_count(snap, "peers"), 1);
    assert_int_equal(ron_conf_section_find(snap, "origins", "empty"), 0);
    ron_conf_unref(snap);
}

static void test_load__unknown_key__names_place_and_nearest(void **state)
{
    (void)state;
    refuse("\n[limits]\n  max_bdoy = '1B'",
           "w.toml:3:3: unknown key \"limits.max_bdoy\"; the nearest known is \"limits.max_body\"");
    refuse("[limit]\nrate = 1",
           "w.toml:1:2: unknown section \"limit\"; the nearest known is \"limits\"");
    refuse(
        "origins.osm.ulr = 'x'",
        "w.toml:1:13: unknown key \"origins.osm.ulr\"; the nearest known is \"origins.osm.url\"");
    refuse("zzzzzzzzzzzz = 1", "w.toml:1:1: unknown key \"zzzzzzzzzzzz\"");
    refuse("limits = 1", "w.toml:1:1: \"limits\" is a section, not a key");
    refuse("[[limits]]\nrate = 1", "w.toml:1:3: \"limits\" is a section, not a key");
    refuse("'limits.rate' = 1", "w.toml:1:1: unknown key: longer than any known one, or with "
                                "characters that none has");
    refuse("Limits.rate = 1",
           "w.toml:1:1: unknown section \"Limits\"; the nearest known is \"limits\"");
}

static void test_load__bad_value__names_place_range_and_type(void **state)
{
    (void)state;
    refuse("drain_deadline = \"900ms\"",
           "w.toml:1:18: drain_deadline: 900ms is out of range 1s..5s");
    refuse("drain_deadline = \"5.1s\"",
           "w.toml:1:18: drain_deadline: 5100ms is out of range 1s..5s");
    refuse("drain_deadline = 3", "w.toml:1:18: drain_deadline: must be a duration such as "
                                 "\"250ms\", not a value of type integer");
    refuse("limits.rate = 100001",
           "w.toml:1:15: limits.rate: 100001 is out of range 0..100000 requests/s");
    refuse("limits.rate = \"1\"", "w.toml:1:15: limits.rate: must be a integer such as 42, not a "
                                  "value of type string");
    refuse("limits.max_body = '0B'", "w.toml:1:19: limits.max_body: 0B is out of range 1B..1GiB");
    refuse("limits.balance = -11", "w.toml:1:18: limits.balance: -11 is out of range -10..10");
    refuse("log.format = 'xml'", "w.toml:1:14: log.format: must be one of json|text");
    refuse("log.hosts = ['a', 1]", "w.toml:1:13: log.hosts: must be a list of strings such as "
                                   "[\"a\", \"b\"], not a value of type integer");
    refuse("log.hosts = ['a','b','c','d','e']", "w.toml:1:13: log.hosts: 5 items, 0 to 4 allowed");
    refuse("amnesia.enabled = 1", "w.toml:1:19: amnesia.enabled: must be a boolean such as true, "
                                  "not a value of type integer");
    refuse("http.listen = ''", "w.toml:1:15: http.listen: 0 bytes, at least 1 needed");
    refuse("http.listen = \"a\\u0000b\"", "w.toml:1:15: http.listen: must be UTF-8 without NUL");
    refuse("[limits.rate]\nx = 1", "w.toml:1:14: limits.rate: must be a integer such as 42, not a "
                                   "value of type table");
    refuse("[origins.x]\ntries = 2",
           "\"origins.x.url\" must be set (or RON_WALLET__ORIGINS__X__URL)");
    refuse("amnesia.enabled = true\nlimits.balance = 7",
           "amnesia.enabled excludes limits.balance = 7");
    refuse("a = [", "w.toml:1:6: end of file where a value should stand");
}

static void refuse_text(const char *var, const char *flag, const char *message)
{
    const char *vars[] = {var, NULL};
    struct ron_conf_sources sources = {
        .environ = vars, .flags = &flag, .flag_count = flag == NULL ? 0 : 1};
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};

    assert_int_equal(ron_conf_load(NULL, &sample_table, &sources, &snap, &err), RON_INVALID);
    assert_string_equal(err.msg, message);
}

static void test_load__bad_variable_or_flag__is_named(void **state)
{
    (void)state;
    refuse_text("RON_WALLET__LIMITS__RAET=1", NULL,
                "environment RON_WALLET__LIMITS__RAET: unknown key \"limits.raet\"; the nearest "
                "known is \"limits.rate\"");
    refuse_text("RON_WALLET__LIMITS__RATE=x", NULL,
                "environment RON_WALLET__LIMITS__RATE: needs a whole number");
    refuse_text("RON_WALLET__=x", NULL, "environment RON_WALLET__: no key has such a name");
    refuse_text("RON_WALLET__LIMITS____RATE=1", NULL,
                "environment RON_WALLET__LIMITS____RATE: no key has such a name");
    refuse_text("RON_WALLET__LOG__HOSTS=a,,b", NULL,
                "environment RON_WALLET__LOG__HOSTS: item 2 is empty");
    refuse_text("RON_WALLET__HTTP__LISTEN=\xff", NULL,
                "environment RON_WALLET__HTTP__LISTEN: must be UTF-8 without NUL");
    refuse_text(NULL, "--limits.rate", "flag --limits.rate: needs a value: --limits.rate=VALUE");
    refuse_text(NULL, "--limits.rat=1",
                "flag --limits.rat: unknown key \"limits.rat\"; the nearest known is "
                "\"limits.rate\"");
    refuse_text(NULL, "--=1", "flag --: no key has such a name");
    refuse_text(NULL, "--limits.=1", "flag --limits.: no key has such a name");
}

static void test_load__secret__is_in_no_message(void **state)
{
    (void)state;
    char text[200] = "[auth]\ntoken = '";
    char var[200] = "RON_WALLET__AUTH__TOKEN=";
    const char *vars[] = {var, NULL};
    struct ron_conf_sources sources = {.environ = vars};
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};

    for (int i = 0; i < 10; i++) {
        (void)snprintf(text + strlen(text), 20, "hunter2%s", i == 9 ? "'" : "");
        (void)snprintf(var + strlen(var), 20, "hunter2");
    }
    refuse(text, "w.toml:2:9: auth.token: 70 bytes, 64 at most");
    assert_int_equal(ron_conf_load(NULL, &sample_table, &sources, &snap, &err), RON_INVALID);
    assert_null(strstr(err.msg, "hunter"));
}

static void test_load__file_on_disk__is_read_and_bounded(void **state)
{
    const struct fixture *f = *state;
    const char *path = fixture_path(f, "ron.toml");
    struct ron_conf_sources sources = {.path = path};
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fprintf(file, "[limits]\nrate = 9\n#") > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(ron_conf_load(f->env, &sample_table, &sources, &snap, &err), RON_OK);
    assert_int_equal(ron_conf_int(snap, SAMPLE_RATE), 9);
    ron_conf_unref(snap);
    assert_int_equal(truncate(path, RON_CONF_FILE_MAX + 1), 0);
    assert_int_equal(ron_conf_load(f->env, &sample_table, &sources, &snap, &err), RON_LIMIT);
    sources.path = fixture_path(f, "absent.toml");
    assert_int_equal(ron_conf_load(f->env, &sample_table, &sources, &snap, &err), RON_NOTFOUND);
    assert_non_null(strstr(err.msg, "absent.toml"));
}

static void test_load__too_many_sections__is_a_limit(void **state)
{
    (void)state;
    char *text = calloc(1, 16384);
    size_t len = 0;
    struct ron_err err = {0};

    assert_non_null(text);
    for (int i = 0; i < RON_CONF_SECTIONS_MAX; i++) {
        len += (size_t)snprintf(text + len, 40, "peers.p%d.addr = 'x'\n", i);
    }
    struct ron_conf_snap *snap = sample_good(text);

    assert_int_equal(ron_conf_section_count(snap, "peers"), RON_CONF_SECTIONS_MAX);
    ron_conf_unref(snap);
    (void)snprintf(text + len, 40, "[peers.more]\n");
    assert_null(sample_load(text, &err));
    assert_int_equal(err.rc, RON_LIMIT);
    free(text);
}

static void test_load__second_name__is_the_key(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("shape = 'text'\n[ingress]\ndrain_secs = 2\n"
                                             "body_bytes = 77\n");
    static const char *const flags[] = {"--ingress.drain_secs=5", "--ingress.drain_secs=4"};
    static const char *const vars[] = {"RON_WALLET__INGRESS__DRAIN_SECS=3", NULL};
    struct ron_conf_sources sources = {.path = "w.toml",
                                       .text = "drain_deadline = '1s'\n",
                                       .environ = vars,
                                       .flags = flags,
                                       .flag_count = 2};

    assert_int_equal(ron_conf_ms(snap, SAMPLE_DRAIN), 2000);
    assert_int_equal(ron_conf_bytes(snap, SAMPLE_BODY), 77);
    assert_int_equal(ron_conf_choice(snap, SAMPLE_FORMAT), 1);
    assert_int_equal(ron_conf_get(snap, 0, SAMPLE_DRAIN)->source, RON_CONF_FROM_FILE);
    ron_conf_unref(snap);
    snap = NULL;
    /* Another source may use the other name, and the last of a source wins as always. */
    assert_int_equal(ron_conf_load(NULL, &sample_table, &sources, &snap, NULL), RON_OK);
    assert_int_equal(ron_conf_ms(snap, SAMPLE_DRAIN), 4000);
    ron_conf_unref(snap);
}

static void test_load__second_name__refused_with_its_place(void **state)
{
    (void)state;
    refuse("ingress.drain_secs = 9", "w.toml:1:22: ingress.drain_secs: 9s is out of range 1s..5s");
    refuse("ingress.drain_secs = '2s'",
           "w.toml:1:22: ingress.drain_secs: must be a whole number (s)");
    refuse("ingress.drain_secs = -2",
           "w.toml:1:22: ingress.drain_secs: must be a whole number (s)");
    refuse("drain_deadline = '2s'\ningress.drain_secs = 2",
           "w.toml:2:9: \"drain_deadline\" is given under both of its names");
    refuse("shape = 'text'\nlog.format = 'text'",
           "w.toml:2:5: \"log.format\" is given under both of its names");
    refuse_text("RON_WALLET__INGRESS__DRAIN_SECS=2s", NULL,
                "environment RON_WALLET__INGRESS__DRAIN_SECS: must be a whole number (s)");
    refuse("ingress.nothing = 1", "w.toml:1:9: unknown key \"ingress.nothing\"");
}

static void test_table__wrong_second_name__is_named(void **state)
{
    (void)state;
    static const struct ron_conf_alias bad[] = {{"limits.rate", "limits.rate", ""},
                                                {"a", "limits.none", ""},
                                                {"log", "limits.rate", ""},
                                                {"A", "limits.rate", ""},
                                                {"x", "origins.*.url", ""}};

    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_conf_table table = sample_table;
        struct ron_err err = {0};

        table.aliases = &bad[i];
        table.alias_count = 1;
        assert_int_equal(ron_conf_table_check(&table, &err), RON_INVALID);
        assert_non_null(strstr(err.msg, "is no second name of"));
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define ROW(name, type, unit, min, max, value, flags, doc)                                         \
    RON_CONF_ROW(0, name, type, unit, min, max, value, flags, doc)

static void bad_table(const struct ron_conf_key *keys, size_t count, const char *reason)
{
    struct ron_conf_table table = {.service = "t", .keys = keys, .key_count = count};
    struct ron_err err = {0};

    assert_int_equal(ron_conf_table_check(&table, &err), RON_INVALID);
    if (strstr(err.msg, reason) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.msg, reason);
    }
}
#define BAD(reason, ...)                                                                           \
    do {                                                                                           \
        const struct ron_conf_key rows[] = {__VA_ARGS__};                                          \
        bad_table(rows, RON_ARRAY_LEN(rows), reason);                                              \
    } while (0)

static void test_table__wrong_row__is_named(void **state)
{
    (void)state;
    assert_int_equal(ron_conf_table_check(&sample_table, NULL), RON_OK);
    BAD("table t: A: malformed name", ROW("A", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("malformed name", ROW("a__b", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("malformed name", ROW("a_.b", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("malformed name", ROW("*.b", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("malformed name", ROW("a.*", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("malformed name", ROW("a.*.b.*.c", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("doc line", ROW("a", BOOL, "", 0, 0, "true", 0, ""));
    BAD("needs true or false", ROW("a", BOOL, "", 0, 0, "yes", 0, "x"));
    BAD("out of range", ROW("a", INT, "", 1, 2, "3", 0, "x"));
    BAD("has no range", ROW("a", INT, "", 2, 1, "1", 0, "x"));
    BAD("may be secret", ROW("a", INT, "", 1, 2, "1", RON_CONF_SECRET, "x"));
    BAD("has no default", ROW("a", STRING, "", 0, 9, "pw", RON_CONF_SECRET, "x"));
    BAD("two words", ROW("a", ENUM, "one", 0, 0, "one", 0, "x"));
    BAD("beyond", ROW("a", STRING, "", 0, 1 << 30, "", 0, "x"));
    BAD("clashes with a",
        ROW("a", BOOL, "", 0, 0, "true", 0, "x") ROW("a", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("clashes with a",
        ROW("a", BOOL, "", 0, 0, "true", 0, "x") ROW("a.b", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("clashes with",
        ROW("a.*.b", BOOL, "", 0, 0, "true", 0, "x") ROW("a.c.b", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("stands apart",
        ROW("a.x", BOOL, "", 0, 0, "true", 0, "x") ROW("b.x", BOOL, "", 0, 0, "true", 0, "x")
            ROW("a.y", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("come first",
        ROW("a.x", BOOL, "", 0, 0, "true", 0, "x") ROW("b", BOOL, "", 0, 0, "true", 0, "x"));
    BAD("or none is", ROW("a.*.x", BOOL, "", 0, 0, "true", 0, "x")
                          ROW("a.*.y", BOOL, "", 0, 0, "true", RON_CONF_RELOAD, "x"));
}

static void read_wrong_type(void *snap)
{
    (void)ron_conf_int(snap, SAMPLE_BODY);
}

static void read_secret_openly(void *snap)
{
    (void)ron_conf_str(snap, SAMPLE_TOKEN);
}

static void test_load__wrong_reading__is_caught(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("");

    support_death(read_wrong_type, snap, "limits.max_body is a size, read as a integer");
    support_death(read_secret_openly, snap, "auth.token is secret");
    ron_conf_unref(snap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__no_source__gives_defaults),
        cmocka_unit_test(test_load__file__sets_every_type),
        cmocka_unit_test(test_load__flag_over_environment_over_file__in_that_order),
        cmocka_unit_test(test_load__named_sections__each_with_its_own_values),
        cmocka_unit_test(test_load__unknown_key__names_place_and_nearest),
        cmocka_unit_test(test_load__bad_value__names_place_range_and_type),
        cmocka_unit_test(test_load__bad_variable_or_flag__is_named),
        cmocka_unit_test(test_load__secret__is_in_no_message),
        cmocka_unit_test_setup_teardown(test_load__file_on_disk__is_read_and_bounded, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test(test_load__too_many_sections__is_a_limit),
        cmocka_unit_test(test_table__wrong_row__is_named),
        cmocka_unit_test(test_table__wrong_second_name__is_named),
        cmocka_unit_test(test_load__second_name__is_the_key),
        cmocka_unit_test(test_load__second_name__refused_with_its_place),
        cmocka_unit_test(test_load__wrong_reading__is_caught),
    };

    return cmocka_run_group_tests_name("conf.load", tests, NULL, NULL);
}
