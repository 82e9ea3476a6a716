/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the line of long work says how much is done, how fast, and how long it still takes. */
#include "support/support.h"

#include "io/io_priv.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"

enum { MS = 1000000 };
#define BEGIN_NS UINT64_C(5000000000)

static struct ron_progress made(const char *unit)
{
    return (struct ron_progress){.what = "import", .unit = unit, .begin_ns = BEGIN_NS};
}

static void expect(const struct ron_progress *p, uint64_t done, uint64_t total, uint64_t after_ms,
                   const char *text)
{
    char found[RON_PROGRESS_SIZE];

    ron_progress_text(p, done, total, BEGIN_NS + after_ms * MS, found);
    assert_string_equal(found, text);
}

static void test_progress__a_known_total__has_rate_and_remaining_time(void **state)
{
    struct ron_progress p = made("rows");

    (void)state;
    expect(&p, 0, 300, 0, "import [........................]   0% of 300 rows, 0/s");
    expect(&p, 75, 300, 1500,
           "import [######..................]  25% of 300 rows, 50/s, 0:04 left");
    expect(&p, 100, 60100, 1000,
           "import [........................]   0% of 60100 rows, 100/s, 10:00 left");
    expect(&p, 300, 300, 6000,
           "import [########################] 100% of 300 rows, 50/s, 0:00 left");
    /* More than was guessed is all of it. */
    expect(&p, 400, 300, 4000,
           "import [########################] 100% of 300 rows, 100/s, 0:00 left");
}

static void test_progress__no_total__has_count_and_rate(void **state)
{
    struct ron_progress p = made("rows");

    (void)state;
    expect(&p, 90, 0, 3000, "import 90 rows, 30/s");
}

static void test_progress__bytes__are_read_by_people(void **state)
{
    struct ron_progress p = made("bytes");

    (void)state;
    expect(&p, 1500000, 6000000, 1000,
           "import [######..................]  25% of 6.0 MB, 1.5 MB/s, 0:03 left");
    expect(&p, 999, 0, 1000, "import 0.9 kB, 0.9 kB/s");
    expect(&p, UINT64_C(2999999999999), 0, 1000000, "import 2.9 TB, 2.9 GB/s");
}

static void test_progress__work_with_an_end_in_time__counts_the_time(void **state)
{
    struct ron_progress p = made("transfers");

    (void)state;
    p.end_ns = BEGIN_NS + UINT64_C(10000) * MS;
    expect(&p, 0, 0, 2500, "import [######..................]  25%, 0 transfers/s, 0:07 left");
    expect(&p, 500, 0, 5000, "import [############............]  50%, 100 transfers/s, 0:05 left");
    expect(&p, 500, 0, 20000, "import [########################] 100%, 25 transfers/s, 0:00 left");
}

/* What was there before a phase was not done by it. */
static void test_progress__a_phase__is_counted_from_its_beginning(void **state)
{
    struct ron_progress p;

    (void)state;
    ron_progress_begin(&p, ron_env_linux(), "export", "bytes");
    ron_progress_phase(&p, "writing", "entries", 1000);
    p.begin_ns = BEGIN_NS;
    ron_progress_phase(&p, "writing", "entries", 1200); /* still the same one */
    assert_int_equal(p.begin_ns, BEGIN_NS);
    expect(&p, 1100, 2000, 1000,
           "export: writing [#############...........]  55% of 2000 entries, 100/s, 0:09 left");
    expect(&p, 900, 2000, 1000, /* a count that went back */
           "export: writing [##########..............]  45% of 2000 entries, 0/s");
    ron_progress_phase(&p, "closing", "entries", 0);
    assert_int_not_equal(p.begin_ns, BEGIN_NS);
}

static void test_progress__long_names__leave_room_for_the_numbers(void **state)
{
    struct ron_progress p = made("units-that-nobody-would-call-so");
    char found[RON_PROGRESS_SIZE];

    (void)state;
    p.what = "a-file-name-that-goes-on-and-on-and-on.pmtiles";
    p.phase = "a-part-of-the-work-with-a-long-name";
    ron_progress_text(&p, UINT64_MAX / 4000, UINT64_MAX / 2000, BEGIN_NS + MS, found);
    assert_non_null(strstr(found, "a-file-name-that-goes-on: a-part-of-the-work-with- [####"));
    assert_non_null(strstr(found, "% of 9223372036854775 units-that-nobody-would-, "));
    assert_string_equal(found + strlen(found) - 5, " left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress__a_known_total__has_rate_and_remaining_time),
        cmocka_unit_test(test_progress__no_total__has_count_and_rate),
        cmocka_unit_test(test_progress__bytes__are_read_by_people),
        cmocka_unit_test(test_progress__work_with_an_end_in_time__counts_the_time),
        cmocka_unit_test(test_progress__a_phase__is_counted_from_its_beginning),
        cmocka_unit_test(test_progress__long_names__leave_room_for_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
