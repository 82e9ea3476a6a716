/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/service.c - the services as verbs: each hands over to the frame of `ron/app`. Offline
 * work on the files of a service is in a file of its own (ledger.c, edge.c, interop.c). */
#include "cli/base/cli.h"
#include "console/console.h"
#include "edge/edge.h"
#include "interop/interop.h"
#include "ledger/ledger.h"
#include "rewarder/rewarder.h"
#include "wallet/wallet.h"

/* X(verb, app) */
#define SERVICES(X)                                                                                \
    X(ledger, led_app)                                                                             \
    X(wallet, wlt_app)                                                                             \
    X(rewarder, rwd_app)                                                                           \
    X(edge, edg_app)                                                                               \
    X(interop, iop_app)                                                                            \
    X(console, con_app)

#define X(verb, app)                                                                               \
    int cli_##verb(int argc, char **argv)                                                          \
    {                                                                                              \
        return ron_app_main(&(app), argc, argv);                                                   \
    }
SERVICES(X)
#undef X
