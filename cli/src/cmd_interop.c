/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_interop.c - `ron interop`: webhooks and objects from outside, as a service. */
#include "cli.h"
#include "ron_interop.h"

int cli_interop(int argc, char **argv)
{
    return ron_app_main(&iop_app, argc, argv);
}
