/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: hledger, ledger and beancount come to the balances of our book.
 * Method: random journals with names and texts that are hard for a parser are exported;
 * verify_export.py asks the three programs and turns their names back into ours. Then one posting
 * is changed, and the comparison must fail. Skipped where one of them is missing. */
#include "unit/ledger/journal.h"

#include "ledger/read/export.h"

enum { ENTRIES = 400, SKIPPED = 77 };

static struct fixture *f;
static struct journal *j;

static int setup(void **state)
{
    if (j_setup(state, 0, &j) != 0) {
        return -1;
    }
    f = *state;
    return 0;
}

static int teardown(void **state)
{
    return j_teardown(state, j);
}

static void write_export(const char *name, enum led_export_format format, uint64_t from_seq)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct led_export *ex = NULL;
    static char piece[LED_EXPORT_PIECE];
    FILE *file = fopen(fixture_path(f, name), "wb");
    size_t len = 0;

    assert_non_null(file);
    assert_int_equal(
        led_export_new(
            &(struct led_export_opts){.reader = r, .format = format, .from_seq = from_seq}, &ex,
            NULL),
        RON_OK);
    do {
        assert_int_equal(led_export_next(ex, piece, sizeof piece, &len, NULL), RON_OK);
        assert_int_equal(fwrite(piece, 1, len, file), len);
    } while (len > 0);
    assert_int_equal(fclose(file), 0);
    led_export_free(ex);
    led_reader_free(r);
}

static void write_balances(void)
{
    FILE *file = fopen(fixture_path(f, "balances.tsv"), "wb");
    char available[RON_MONEY_TEXT_SIZE];
    char held[RON_MONEY_TEXT_SIZE];

    assert_non_null(file);
    for (int account = 0; account < J_ACCOUNTS; account++) {
        for (int asset = 0; asset < J_ASSETS; asset++) {
            const struct j_state *s = &j->states[j->seq];

            RON_IGNORE(
                ron_money_format((struct ron_money){s->available[account][asset]}, available));
            RON_IGNORE(ron_money_format((struct ron_money){s->held[account][asset]}, held));
            (void)fprintf(file, "%s\t%s\t%s\t%s\n", j_accounts[account], j_assets[asset], available,
                          held);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static void write_all(void)
{
    write_export("journal.hledger", LED_EXPORT_HLEDGER, 0);
    write_export("journal.beancount", LED_EXPORT_BEANCOUNT, 0);
    write_export("part.beancount", LED_EXPORT_BEANCOUNT, j->seq / 2);
    write_balances();
}

static int verify(void)
{
    const char *source = getenv("RON_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    char command[1024];

    assert_true(snprintf(command, sizeof command,
                         "HOME='%s' LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
                         "'%s/tests/unit/ledger/verify_export.py' '%s'",
                         f->dir, source == NULL ? "." : source, f->dir) < (int)sizeof command);
    (void)fflush(stdout);
    return system(command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): a test's own */
}

static void test_led_export__hledger_ledger_beancount__agree_with_the_book(void **state)
{
    (void)state;
    j_grow(j, ENTRIES);
    write_all();
    assert_int_equal(verify(), 0);
    /* A comparison that cannot fail would show nothing. */
    j->states[j->seq].available[0][0]++;
    write_balances();
    assert_int_not_equal(verify(), 0);
    j->states[j->seq].available[0][0]--;
}

static void test_led_export__amounts_of_25_digits__still_exact(void **state)
{
    (void)state;
    /* beancount computes with 28 digits. */
    j->amount_max = UINT64_MAX;
    j->amount_scale = 100000;
    j_grow(j, ENTRIES + 100);
    write_all();
    assert_int_equal(verify(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_export__hledger_ledger_beancount__agree_with_the_book),
        cmocka_unit_test(test_led_export__amounts_of_25_digits__still_exact),
    };

    /* NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe) */
    if (system("command -v hledger >/dev/null && command -v ledger >/dev/null && "
               "/usr/bin/python3 -c 'import beancount' 2>/dev/null") != 0) {
        (void)printf("skipped: hledger, ledger or beancount is not installed\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
