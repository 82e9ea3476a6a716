/* SPDX-License-Identifier: Apache-2.0 */
/* conf_testing.h - what tests ask of a settings box; the product calls none of it. */
#pragma once

#include "ron/conf/conf.h"

/* Brings *snap (a reference of the caller) up to date. `seen` belongs to it and starts at 0; *snap
 * starts as NULL. Returns whether it changed. */
bool ron_conf_box_refresh(struct ron_conf_box *box, struct ron_conf_snap **snap, uint64_t *seen);
