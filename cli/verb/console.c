/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/console.c - `ron console`: the web console, as a service. */
#include "console/console.h"
#include "cli/base/cli.h"

int cli_console(int argc, char **argv)
{
    return ron_app_main(&con_app, argc, argv);
}
