/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/rewarder.h - what the program uses of svc-rewarder.
 *
 * Place: rewarder; public to cli and tests. */
#pragma once

#include "ron/app/app.h"

extern const struct ron_app_def rwd_app;
