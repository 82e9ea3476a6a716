/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/wallet.h - what the program may use of the wallet: the service.
 *
 * Place: wallet; its only public header. */
#pragma once

#include "ron/app/app.h"

/* `ron wallet` as a service. */
extern const struct ron_app_def wlt_app;
