/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_wallet.c - `ron wallet`: the front door for value, as a service. */
#include "cli/base/cli.h"
#include "wallet/wallet.h"

int cli_wallet(int argc, char **argv)
{
    return ron_app_main(&wal_app, argc, argv);
}
