/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/wallet.c - `ron wallet`: the front door for value, as a service. */
#include "wallet/wallet.h"
#include "cli/base/cli.h"

int cli_wallet(int argc, char **argv)
{
    return ron_app_main(&wlt_app, argc, argv);
}
