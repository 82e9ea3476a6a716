/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_rewarder.c - `ron rewarder`: epoch payouts, as a service. */
#include "cli/base/cli.h"
#include "rewarder/rewarder.h"

int cli_rewarder(int argc, char **argv)
{
    return ron_app_main(&rew_app, argc, argv);
}
