/* SPDX-License-Identifier: Apache-2.0 */
/* interop/interop.h - what the program uses of svc-interop.
 *
 * Place: interop; public to cli and tests. */
#pragma once

#include "ron/app/app.h"

extern const struct ron_app_def iop_app;
