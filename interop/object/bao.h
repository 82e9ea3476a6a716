/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/bao.h - verified ranges: a slice of an object that can be checked against its
 * content id alone. The format is bao's: what `bao decode-slice` reads.
 *
 *     slice = length of the object (8 bytes, little-endian)
 *             then, from the root down and left to right, whatever the range touches:
 *             a parent node (64 bytes: the chaining values of its two children), or a chunk
 *             (1024 bytes of content, the last one shorter)
 *
 * A range of length 0 counts as length 1; a range that begins at or behind the end touches the last
 * chunk, which proves the length.
 *
 * To make a slice one must know the chaining values beside the range. They are kept for groups of
 * 16 chunks (16 KiB): 32 bytes each, 2 MiB for 1 GiB; inside a group at the edge of the range they
 * are computed again from the content. On the wire nothing of the groups is seen.
 *
 * Rules:
 *   O1. iop_bao_final gives the BLAKE3 hash of the content: the tree is the one of the content id.
 *   O2. The verifier hands out a byte only after every node above it was checked.
 *   O3. A slice is refused as soon as one byte is wrong, missing or too many.
 *
 * Threads: one at a time each; a finished tree may be read by all. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/rc.h"
#include "ron/cas/b3.h"

enum {
    IOP_BAO_CHUNK = 1024,
    IOP_BAO_GROUP = 16 * IOP_BAO_CHUNK,
    IOP_BAO_HEADER = 8,
    IOP_BAO_PARENT = 2 * RON_B3_BYTES,
    IOP_BAO_DEPTH_MAX = 54, /* of 2^64 bytes */
};

/* ---- the tree -------------------------------------------------------------------------------- */

struct iop_bao;
/* Content comes in order, in pieces of any size. `len_max` bounds what the tree may hold. */
RON_MUST_USE enum ron_rc iop_bao_new(uint64_t len_max, struct iop_bao **ret_tree,
                                     struct ron_err *err);
void iop_bao_free(struct iop_bao *t);
/* RON_NOMEM, RON_LIMIT. */
RON_MUST_USE enum ron_rc iop_bao_update(struct iop_bao *t, const void *bytes, size_t len);
/* Ends the content: O1. RON_NOMEM. */
RON_MUST_USE enum ron_rc iop_bao_final(struct iop_bao *t, struct ron_b3 *ret_root);
uint64_t iop_bao_len(const struct iop_bao *t);
/* Memory that the tree takes. */
size_t iop_bao_size(const struct iop_bao *t);

/* ---- a slice made ---------------------------------------------------------------------------- */

/* Content of the object; all of len or an error. */
typedef enum ron_rc iop_bao_read_fn(void *arg, uint64_t off, void *buf, size_t len);
/* The next bytes of the slice: at most IOP_BAO_GROUP and its nodes at a time. */
typedef enum ron_rc iop_bao_emit_fn(void *arg, const void *bytes, size_t len);

/* How long the slice will be; overflow cannot happen for objects below 2^60. */
uint64_t iop_bao_slice_len(uint64_t object_len, uint64_t start, uint64_t len);
/* RON_CORRUPT: the content is not that of the tree. Else codes of read and emit. */
RON_MUST_USE enum ron_rc iop_bao_slice(const struct iop_bao *t, uint64_t start, uint64_t len,
                                       iop_bao_read_fn *read, void *read_arg, iop_bao_emit_fn *emit,
                                       void *emit_arg, struct ron_err *err);

/* ---- a slice checked ------------------------------------------------------------------------- */

/* Content that was proven, with its place in the object; only what lies in the range. */
typedef enum ron_rc iop_bao_content_fn(void *arg, uint64_t off, const void *bytes, size_t len);

/* The whole slice in memory. RON_CORRUPT: O3. ret_len: the length that the slice tells; proven when
 * the range touches its last chunk, as every range at or behind the end does. */
RON_MUST_USE enum ron_rc iop_bao_check(const struct ron_b3 *root, uint64_t start, uint64_t len,
                                       const void *slice, size_t slice_len,
                                       iop_bao_content_fn *content, void *content_arg,
                                       uint64_t *ret_len, struct ron_err *err);
