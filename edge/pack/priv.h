/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/priv.h - what the files of packs share: numbers as texts, and documents made of
 * them. */
#pragma once

#include "edge/pack/pack.h"

/* Degrees as decimals to e7: sign, at most three digits, a point and any digits (those behind the
 * seventh are cut); blanks around it. Moves *at behind it and, when `more`, behind the comma that
 * must follow. False when it is none, or beyond 180. */
RON_MUST_USE bool edg__degrees_read(const char **at, bool more, int32_t *ret_e7);
/* "-118.2903", without trailing zeros. */
void edg__degrees_write(struct ron_buf *out, int32_t e7);
/* Whole numbers from 0 to max; the end of the text must follow. */
RON_MUST_USE bool edg__number_read(const char *text, uint64_t max, uint64_t *ret);
bool edg__bounds_good(const struct edg_bounds *b);
bool edg__utf8(const char *text, size_t len);

/* "name":"value", with a comma before it unless it is the first member. */
void edg__member_write(struct ron_buf *out, struct ron_str name, struct ron_str value);

/* Appends the members of a TileJSON that do not depend on where it is served: from `,"minzoom"` to
 * the closing brace. */
RON_MUST_USE enum ron_rc edg__tilejson_tail(const struct edg_pack_info *info,
                                            struct ron_str metadata, struct ron_buf *out,
                                            struct ron_err *err);

/* BLAKE3 of the first `size` bytes of a file; as edg_pack_hash. */
RON_MUST_USE enum ron_rc edg__hash_file(const struct ron_env *env, int fd, uint64_t size,
                                        edg_progress_fn *progress, void *arg,
                                        struct ron_b3 *ret_tag, struct ron_err *err);
