/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/ledger.h - the ledger as a service.
 *
 * Place: ledger; its public header, with the tools of offline/tool.h. */
#pragma once

#include "ron/app/app.h"

/* `ron ledger` as a service. */
extern const struct ron_app_def led_app;
