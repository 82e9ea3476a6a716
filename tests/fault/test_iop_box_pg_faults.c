/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation or statement fails, or whichever answer of the database is lost, the
 * mailbox in PostgreSQL gives a code, leaks nothing, and is never halfway.
 * Method: the fault sweep over the script of box_script.h (iop_box_faults.h); what it has to end in
 * is what the same script leaves in SQLite. */
#include "fault/iop_box_faults.h"

static void test_iop_box_pg_faults__every_fault__a_code_and_nothing_halfway(void **state)
{
    (void)state;
    box_on_pg = false;
    box_golden(golden);
    box_on_pg = true;
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "script", .run = live, .may_succeed = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_CASE(test_iop_box_pg_faults__every_fault__a_code_and_nothing_halfway),
    };

    return cmocka_run_group_tests(tests, box_pg_up, box_pg_down);
}
