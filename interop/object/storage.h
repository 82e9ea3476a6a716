/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/storage.h - objects at another service (`storage.url`, one that has /put and /o,
 * such as another `ron interop`); the own store is a cache in front of it.
 *
 *     /put: client --> own store (hashed) --push--> storage --> 202
 *     /o:   own store, or storage --pull--> own store (checked against the address) --> client
 *
 * Rules:
 *   T1. What is pulled is stored and answered only when it hashes to its address: the other side
 *       is not believed.
 *   T2. A push has succeeded when the other side named the same address. It asks first whether the
 *       object is there; so a repetition is cheap, and a push that nobody waits for any more is
 *       not lost work.
 *   T3. Both may be repeated (the address is the content) and are, within timeouts.storage.
 *
 * Threads: tasks that may block; each call has pieces of its own. */
#pragma once

#include "interop/object/objects.h"

/* RON_OK: the other side has it. Else RON_IO, RON_AGAIN, RON_TIMEOUT, RON_NOMEM, RON_LIMIT. */
RON_MUST_USE enum ron_rc iop_storage_push(struct iop_objects *o, const struct ron_b3 *id,
                                          struct ron_err *err);
/* Into the own store, and opens it. RON_NOTFOUND; RON_CORRUPT: T1; and the codes above. */
RON_MUST_USE enum ron_rc iop_storage_pull(struct iop_objects *o, const struct ron_b3 *id,
                                          struct ron_cas_obj **ret_obj, struct ron_err *err);
/* Asks whether it answers, when the last call failed; the sentinel's. Never blocks. */
void iop_storage_probe(struct iop_objects *o);
