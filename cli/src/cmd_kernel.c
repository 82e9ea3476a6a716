/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel.c - `ron kernel`: the kernel as a service of its own. */
#include "cli.h"
#include "kernel_check.h"

int cli_kernel(int argc, char **argv)
{
    return ron_app_main(&kernel_app, argc, argv);
}
