/* SPDX-License-Identifier: Apache-2.0 */
/* console/console.h - what the program uses of the console.
 *
 * Place: console; public to cli and tests. */
#pragma once

#include "ron/app/app.h"

extern const struct ron_app_def con_app;
