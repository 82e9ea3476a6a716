/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a service: options, keys, and slips in both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>
#include <cmocka.h>

#include "app/app_priv.h"
#include "app/args.h"
#include "conf/conf_priv.h"
#include "ron/app/keys.h"
#include "ron/base/macros.h"

#define SAMPLE(X)                                                                                  \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7000")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    RON_APP_KEYS_TIMEOUTS(X, "10s")                                                                \
    RON_APP_KEYS_REST(X)                                                                           \
    X(SAMPLE_TOKEN, "sample.token", STRING, "bytes", 0, 64, "", RON_CONF_SECRET, "A secret.")
enum { SAMPLE(RON_CONF_ID) SAMPLE_COUNT };
static const struct ron_conf_key sample_keys[] = {SAMPLE(RON_CONF_ROW)};
static const struct ron_conf_table sample = {
    .service = "sample", .keys = sample_keys, .key_count = SAMPLE_COUNT};

#define PARSE(args, err, ...)                                                                      \
    ron_app_args_parse(&sample, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)),           \
                       (char *[]){__VA_ARGS__}, (args), (err))

static void test_app_keys__common_rows__make_a_sound_table(void **state)
{
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(ron_conf_table_check(&sample, &err), RON_OK);
    assert_int_equal(ron_conf_find_key(&sample, "bind_addr"), RON_APP_BIND_ADDR);
    assert_int_equal(ron_conf_find_key(&sample, "sample.token"), SAMPLE_TOKEN);
    assert_true(ron_conf_find_key(&sample, "bind") == SIZE_MAX);
}

static void test_app_args__keys_in_both_spellings__become_flags(void **state)
{
    struct ron_app_args a;
    struct ron_err err = {0};
    struct ron_conf_snap *snap = NULL;

    (void)state;
    assert_int_equal(PARSE(&a, &err, "--config", "x.toml", "--limits.rate_per_second=7",
                           "--log.level", "debug", "--workers", "3", "--drain-deadline=2s"),
                     RON_OK);
    assert_int_equal(a.mode, RON_APP_RUN);
    assert_string_equal(a.config, "x.toml");
    assert_int_equal(a.flag_count, 4);
    assert_int_equal(
        ron_conf_load(NULL, &sample,
                      &(struct ron_conf_sources){.flags = a.flags, .flag_count = a.flag_count},
                      &snap, &err),
        RON_OK);
    assert_int_equal(ron_conf_int(snap, RON_APP_RATE), 7);
    assert_int_equal(ron_conf_int(snap, RON_APP_WORKERS), 3);
    assert_int_equal(ron_conf_ms(snap, RON_APP_DRAIN_DEADLINE), 2000);
    assert_int_equal(ron_conf_choice(snap, RON_APP_LOG_LEVEL), 3);
    ron_conf_unref(snap);
    ron_app_args_done(&a);
}

static void test_app_args__modes__are_told_apart(void **state)
{
    static const struct {
        const char *words[2];
        enum ron_app_mode mode;
    } cases[] = {
        {{"--help", "--help"}, RON_APP_HELP},
        {{"--print-config", "--print-config"}, RON_APP_PRINT_CONFIG},
        {{"--check-config", "--check-config"}, RON_APP_CHECK_CONFIG},
        {{"--print-reference", "md"}, RON_APP_REFERENCE_MD},
        {{"--print-reference", "man"}, RON_APP_REFERENCE_MAN},
        {{"--print-topology", "md"}, RON_APP_TOPOLOGY_MD},
        {{"--print-topology", "json"}, RON_APP_TOPOLOGY_JSON},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char first[32];
        char second[32];
        struct ron_app_args a;
        struct ron_err err = {0};

        strcpy(first, cases[i].words[0]);
        strcpy(second, cases[i].words[1]);
        assert_int_equal(PARSE(&a, &err, first, second), RON_OK);
        assert_int_equal(a.mode, cases[i].mode);
        ron_app_args_done(&a);
    }
}

#define assert_slip(expected, ...)                                                                 \
    do {                                                                                           \
        struct ron_app_args slip_args = {.flag_count = 77};                                        \
        struct ron_err slip_err = {0};                                                             \
        assert_int_equal(PARSE(&slip_args, &slip_err, __VA_ARGS__), RON_INVALID);                  \
        assert_string_equal(slip_err.msg, (expected));                                             \
        assert_int_equal(slip_args.flag_count, 77);                                                \
    } while (0)

static void test_app_args__slips__are_named_with_what_was_meant(void **state)
{
    (void)state;
    assert_slip("unknown option --confg; did you mean --config?", "--confg", "x");
    assert_slip("unknown option --bind-adr; did you mean --bind_addr?", "--bind-adr=x");
    assert_slip("--config needs FILE", "--config");
    assert_slip("--config needs FILE", "--config=");
    assert_slip("--limits.rate_per_second needs a value", "--limits.rate_per_second");
    assert_slip("--print-topology takes md or json, not \"xml\"", "--print-topology", "xml");
    assert_slip("--print-config takes no value", "--print-config=yes");
    assert_slip("unexpected word \"wallet.toml\"; see --help", "wallet.toml");
    assert_slip("unexpected word \"--\"; see --help", "--");
}

static void test_app_help__lists_every_option_and_key(void **state)
{
    struct ron_buf out;
    const char *text;

    (void)state;
    ron_buf_init(&out, 1 << 16);
    assert_int_equal(ron_app_write_help(&sample, "A sample.", &out), RON_OK);
    text = ron_buf_text(&out);
    for (size_t i = 0; i < sample.key_count; i++) {
        assert_non_null(strstr(text, sample_keys[i].name));
    }
    assert_non_null(strstr(text, "usage: ron sample [--config FILE]"));
    assert_non_null(strstr(text, "--print-reference md|man"));
    assert_non_null(
        strstr(text, "\nexamples:\n  ron sample --config service.toml --check-config\n"));
    assert_non_null(strstr(text, "sample.token               A secret. (secret)"));
    ron_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_app_keys__common_rows__make_a_sound_table),
        cmocka_unit_test(test_app_args__keys_in_both_spellings__become_flags),
        cmocka_unit_test(test_app_args__modes__are_told_apart),
        cmocka_unit_test(test_app_args__slips__are_named_with_what_was_meant),
        cmocka_unit_test(test_app_help__lists_every_option_and_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
