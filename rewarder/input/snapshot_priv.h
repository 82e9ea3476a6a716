/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/snapshot_priv.h - what the reader of snapshots needs of their writer. */
#pragma once

#include "rewarder/input/snapshot.h"

/* Fills `cid` from all the rest. */
RON_MUST_USE enum ron_rc rwd__snapshot_name(struct rwd_snapshot *snapshot, struct ron_err *err);
