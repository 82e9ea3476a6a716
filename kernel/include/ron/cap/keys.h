/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - root keys: the key file, immutable snapshots of it, and the ring that holds the present
 * one.
 *
 * Place: cap. docs/formats/keys.md shows the file. The last key of the file is the newest and
 * mints; all verify. Rotation adds a key, retiring takes one away and voids its tokens.
 *
 * Rules:
 *   K1. A key file that others may read or write, that belongs to somebody else, or whose end is
 *       missing or damaged is refused whole. RON_DENIED and RON_CORRUPT say so.
 *   K2. The file is replaced, never changed: at every instant it is old or new, whole.
 *   K3. A snapshot never changes and lives as long as somebody holds a reference. Then it is wiped.
 *   K4. A ring's generation changes with the keys and with nothing else: a reload that finds the
 *       same keys keeps it. Two generations of a ring are never equal.
 *   K5. What leaves here about a key is its id and its date.
 *
 * Threads: snapshots and rings may be used from all threads. File functions block. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/sync/sync.h"

enum {
    RON_CAP_KEYS_MAX = 32, /* with a new one every 90 days, eight years */
    RON_CAP_KEY_ID_MAX = 32,
    RON_CAP_KEY_ID_SIZE = RON_CAP_KEY_ID_MAX + 1,
    RON_CAP_KEY_BYTES = 32,
};

struct ron_cap_key_info {
    char id[RON_CAP_KEY_ID_SIZE];
    uint64_t created_s; /* Unix time, as the clock stood; the order is that of the file */
};

struct ron_cap_keys;

/* ---- file ------------------------------------------------------------------------------------ */

/* A snapshot with one reference, which is the caller's. RON_NOTFOUND, RON_DENIED, RON_CORRUPT,
 * RON_LIMIT, or what the disk says. */
RON_MUST_USE enum ron_rc ron_cap_keyfile_load(const struct ron_env *env, const char *path,
                                              struct ron_cap_keys **ret_keys, struct ron_err *err);

/* Adds a new random key, which from then on mints; makes the file (0600) when there is none. An
 * empty id asks for one to be made. RON_EXISTS when the id is taken, RON_LIMIT when the file is
 * full, RON_AGAIN while another process changes the file. */
RON_MUST_USE enum ron_rc ron_cap_keyfile_add(const struct ron_env *env, const char *path,
                                             struct ron_str id, struct ron_cap_key_info *ret_info,
                                             struct ron_err *err);

/* Takes a key away: its tokens are void wherever the file is loaded anew. RON_NOTFOUND for an
 * unknown id, RON_CONFLICT for the only key. */
RON_MUST_USE enum ron_rc ron_cap_keyfile_retire(const struct ron_env *env, const char *path,
                                                struct ron_str id, struct ron_err *err);

/* ---- snapshot -------------------------------------------------------------------------------- */

void ron_cap_keys_unref(struct ron_cap_keys *keys); /* NULL is fine */

/* At least 1; the last one mints. */
size_t ron_cap_keys_count(const struct ron_cap_keys *keys);
struct ron_cap_key_info ron_cap_keys_info(const struct ron_cap_keys *keys, size_t index);

/* ---- ring ------------------------------------------------------------------------------------ */

struct ron_cap_ring {
    struct ron_mutex lock; /* guards `keys`, for a pointer and a count */
    struct ron_cap_keys *keys;
    struct ron_au64 generation; /* written under the lock; from 1 */
};

void ron_cap_ring_init(struct ron_cap_ring *ring, struct ron_cap_keys *take_keys);
void ron_cap_ring_done(struct ron_cap_ring *ring);
