/* SPDX-License-Identifier: Apache-2.0 */
/* edge/edge.h - what the program uses of svc-edge.
 *
 * Place: edge; public to cli and tests. */
#pragma once

#include "ron/app/app.h"

extern const struct ron_app_def edg_app;
