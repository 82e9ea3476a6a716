/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what is printed can be loaded again and gives the same, secrets are not shown, and the
 * references list every key.
 * Method: the whole output for a small snapshot, and a random walk through print and load. */
#include "unit/conf/sample.h"

#include "conf/conf_priv.h"

static char *printed(const struct ron_conf_snap *snap)
{
    struct ron_buf out;
    char *text = NULL;

    ron_buf_init(&out, RON_CONF_PRINT_MAX);
    assert_int_equal(ron_conf_print(snap, &out), RON_OK);
    text = strdup(ron_buf_text(&out));
    assert_non_null(text);
    ron_buf_done(&out);
    return text;
}

static void test_print__snapshot__is_commented_toml(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("auth.token = 'hunter2'\norigins.o.url = 'u\"'\n");
    char *text = printed(snap);

    assert_string_equal(text, "# Configuration of wallet.\n"
                              "# How long a shutdown may drain.\n"
                              "# duration 1s..5s, default \"3s\", reloadable\n"
                              "drain_deadline = \"3s\"\n"
                              "\n[http]\n"
                              "# Address of the service.\n"
                              "# string 1..64 bytes, default \"127.0.0.1:7301\", needs restart\n"
                              "listen = \"127.0.0.1:7301\"\n"
                              "\n[limits]\n"
                              "# Requests per second and client; 0 is off.\n"
                              "# integer 0..100000 requests/s, default 500, reloadable\n"
                              "rate = 500\n"
                              "# Largest body.\n"
                              "# size 1B..1GiB, default \"1MiB\", reloadable\n"
                              "max_body = \"1MiB\"\n"
                              "# A number that may be negative.\n"
                              "# integer -10..10, default -1, needs restart\n"
                              "balance = -1\n"
                              "\n[log]\n"
                              "# Shape of log lines | one of two.\n"
                              "# choice json|text, default \"json\", reloadable\n"
                              "format = \"json\"\n"
                              "# Names of hosts.\n"
                              "# list of strings 0..4 items, default [\"a\", \"b\"], reloadable\n"
                              "hosts = [\"a\", \"b\"]\n"
                              "\n[amnesia]\n"
                              "# Leave nothing on disk.\n"
                              "# boolean, default false, needs restart\n"
                              "enabled = false\n"
                              "\n[auth]\n"
                              "# Token of the upstream.\n"
                              "# string 0..64 bytes, unset by default, reloadable, secret\n"
                              "# token is set, and not shown\n"
                              "\n[origins.o]\n"
                              "# Where to fetch from.\n"
                              "# string 1..128 bytes, must be set, reloadable\n"
                              "url = \"u\\\"\"\n"
                              "# How often.\n"
                              "# integer 1..9, default 3, reloadable\n"
                              "tries = 3\n"
                              "\n[origins.o.tls]\n"
                              "# Certificate authority.\n"
                              "# string 0..128 bytes, default \"\", reloadable\n"
                              "ca = \"\"\n");
    free(text);
    ron_conf_unref(snap);
}

static size_t random_text(struct ron_rand *rand, char *out, size_t max)
{
    static const char letters[] = "ab \"\\\t\n#=[]'\x7f\x01";
    size_t len = (size_t)ron_rand_range(rand, 1, max);

    for (size_t i = 0; i < len; i++) {
        out[i] = letters[ron_rand_below(rand, sizeof(letters) - 1)];
    }
    out[len] = '\0';
    return len;
}

/* Values that no file gave, straight into a draft, so that odd characters get in. */
static struct ron_conf_snap *random_snap(struct ron_rand *rand, char texts[3][64])
{
    struct conf_draft *draft = NULL;
    struct ron_conf_value *slot = NULL;
    struct ron_conf_snap *snap = NULL;

    assert_int_equal(conf_draft_new(&sample_table, 100, &draft, NULL), RON_OK);
    draft->rows[0].values[SAMPLE_DRAIN].number = (int64_t)ron_rand_range(rand, 1000, 5000);
    draft->rows[0].values[SAMPLE_BODY].number = (int64_t)ron_rand_range(rand, 1, 1 << 30);
    draft->rows[0].values[SAMPLE_RATE].number = (int64_t)ron_rand_below(rand, 100001);
    draft->rows[0].values[SAMPLE_FORMAT].number = (int64_t)ron_rand_below(rand, 2);
    draft->rows[0].values[SAMPLE_LISTEN].string =
        (struct ron_conf_str){texts[0], random_text(rand, texts[0], 60)};
    struct ron_conf_str items[2] = {{texts[1], random_text(rand, texts[1], 60)},
                                    {texts[2], random_text(rand, texts[2], 60)}};

    draft->rows[0].values[SAMPLE_HOSTS].list =
        (struct ron_conf_list){items, (size_t)ron_rand_below(rand, 3)};
    assert_int_equal(conf_draft_slot(draft, SAMPLE_ORIGIN_URL, "o-1", 3, &slot, NULL), RON_OK);
    *slot = (struct ron_conf_value){.set = true, .string = {texts[0], strlen(texts[0])}};
    assert_int_equal(conf_freeze(&sample_table, draft->rows, draft->row_count, &snap, NULL),
                     RON_OK);
    conf_draft_free(draft);
    return snap;
}

static void test_print__any_values__load_again_the_same(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 200; i++) {
        char texts[3][64];
        struct ron_conf_snap *snap = random_snap(&rand, texts);
        char *text = printed(snap);
        struct ron_conf_snap *again = sample_good(text);
        char *text_again = printed(again);

        assert_string_equal(text, text_again);
        assert_int_equal(ron_conf_ms(snap, SAMPLE_DRAIN), ron_conf_ms(again, SAMPLE_DRAIN));
        assert_int_equal(ron_conf_bytes(snap, SAMPLE_BODY), ron_conf_bytes(again, SAMPLE_BODY));
        assert_string_equal(ron_conf_str(snap, SAMPLE_LISTEN).text,
                            ron_conf_str(again, SAMPLE_LISTEN).text);
        assert_true(conf_value_equal(&sample_keys[SAMPLE_HOSTS],
                                     ron_conf_get(snap, 0, SAMPLE_HOSTS),
                                     ron_conf_get(again, 0, SAMPLE_HOSTS)));
        free(text);
        free(text_again);
        ron_conf_unref(snap);
        ron_conf_unref(again);
    }
}

static void test_print__references__list_every_key(void **state)
{
    (void)state;
    struct ron_buf md;
    struct ron_buf man;

    ron_buf_init(&md, RON_CONF_PRINT_MAX);
    ron_buf_init(&man, RON_CONF_PRINT_MAX);
    assert_int_equal(ron_conf_write_markdown(&sample_table, &md), RON_OK);
    assert_int_equal(ron_conf_write_man(&sample_table, &man), RON_OK);
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        char cell[100];
        char bold[100];

        (void)snprintf(cell, sizeof(cell), "\n| `%s` | `RON_WALLET__", sample_keys[i].name);
        (void)snprintf(bold, sizeof(bold), "\n.TP\n.B %s\n", sample_keys[i].name);
        assert_non_null(strstr(ron_buf_text(&md), cell));
        assert_non_null(strstr(ron_buf_text(&man), bold));
    }
    assert_non_null(strstr(ron_buf_text(&md),
                           "| `log.format` | `RON_WALLET__LOG__FORMAT` | choice json\\|text, "
                           "default \"json\", reloadable | Shape of log lines \\| one of two. Also "
                           "`shape`. |\n"));
    assert_non_null(strstr(ron_buf_text(&man),
                           ".B limits.balance\nA number that may be negative.\n.br\n"
                           "integer \\-10..10, default \\-1, needs restart\n.br\n"
                           "RON_WALLET__LIMITS__BALANCE\n"));
    ron_buf_done(&md);
    ron_buf_done(&man);
}

static void test_print__full_buffer__is_reported(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("");
    struct ron_buf out;

    ron_buf_init(&out, 300);
    assert_int_equal(ron_conf_print(snap, &out), RON_LIMIT);
    ron_buf_done(&out);
    ron_conf_unref(snap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print__snapshot__is_commented_toml),
        cmocka_unit_test(test_print__any_values__load_again_the_same),
        cmocka_unit_test(test_print__references__list_every_key),
        cmocka_unit_test(test_print__full_buffer__is_reported),
    };

    return cmocka_run_group_tests_name("conf.print", tests, NULL, NULL);
}
