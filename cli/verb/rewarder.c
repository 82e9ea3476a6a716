/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/rewarder.c - `ron rewarder`: epoch payouts, as a service. */
#include "rewarder/rewarder.h"
#include "cli/base/cli.h"

int cli_rewarder(int argc, char **argv)
{
    return ron_app_main(&rwd_app, argc, argv);
}
