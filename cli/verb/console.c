/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_console.c - `ron console`: the web console, as a service. */
#include "cli/base/cli.h"
#include "console/console.h"

int cli_console(int argc, char **argv)
{
    return ron_app_main(&con_app, argc, argv);
}
