/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation, step of SQLite or port fails, the mailbox gives a code, leaks
 * nothing, and the step that failed has changed nothing in the file.
 * Method: the fault sweep over the script of box_script.h (iop_box_faults.h). */
#include "fault/iop_box_faults.h"

static void test_iop_box_faults__every_fault__a_code_and_nothing_changed(void **state)
{
    (void)state;
    box_golden(golden);
    support_sweep_expect_clean(&(struct support_sweep){.name = "script", .run = live});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iop_box_faults__every_fault__a_code_and_nothing_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
