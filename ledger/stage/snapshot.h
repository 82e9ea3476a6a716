/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/snapshot.h - a consistent directory from which a ledger can start, made while it
 * runs.
 *
 * Place: service. Sealed segments are linked, the last one is copied up to what is durable, with
 * zeros behind; then a copy of the index, the list of frozen accounts, the marker of safe mode, the
 * signing key if it lies in the data directory (without it nobody could go on behind the
 * checkpoint), and the signed checkpoint. So a snapshot is as secret as the directory. The stored
 * hashes are left out: a start makes them again. Nothing of the ledger stands still meanwhile. */
#pragma once

#include "ron/base/json.h"
#include "ron/base/rc.h"

struct led_engine;
struct led_signer;

struct led_snapshot_done {
    uint64_t seq; /* of the last entry in it */
    uint64_t segments;
};

/* Reads {"dir":"/path"}: an absolute path. */
RON_MUST_USE enum ron_rc led_snapshot_read_dir(struct ron_str body, char *ret_dir, size_t size,
                                               struct ron_err *err);
/* `dir` must not exist. RON_EXISTS; RON_INVALID on another file system; what the disk says. What
 * was made is left behind on failure, without its checkpoint: then it is not whole. Blocks; with a
 * lease. */
RON_MUST_USE enum ron_rc led_snapshot(struct led_engine *engine, struct led_signer *signer,
                                      const char *dir, struct led_snapshot_done *ret_done,
                                      struct ron_err *err);
