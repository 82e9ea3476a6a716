/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/priv.h - what the tools share: inputs and options as values. */
#pragma once

#include <string.h>

#include "rewarder/offline/tool.h"
#include "rewarder/run/run.h"
#include "ron/base/str.h"

/* Takes the bytes of an input, unpacked, in pieces. */
typedef enum ron_rc rwd__take_fn(void *arg, const void *bytes, size_t len, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd__tool_pump(const struct rwd_tool_in *in, rwd__take_fn *take, void *arg,
                                        struct ron_err *err);

/* A whole small input; the maximum of `buf` bounds it. */
RON_MUST_USE enum ron_rc rwd__tool_text(const struct rwd_tool_in *in, struct ron_buf *buf,
                                        struct ron_err *err);
/* Rows are counted in `progress` unless it is NULL. */
RON_MUST_USE enum ron_rc rwd__tool_snapshot(const struct rwd_tool_in *in,
                                            struct rwd_progress *progress,
                                            struct rwd_snapshot *ret_snapshot, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd__tool_policy(const struct rwd_tool_in *in, const char *key,
                                          struct rwd_policy_doc **ret_doc, struct ron_err *err);

/* 64 lowercase digits of option `name`. */
RON_MUST_USE enum ron_rc rwd__tool_hex(const char *text, const char *name, uint8_t ret_bytes[32],
                                       struct ron_err *err);
/* "ID=HEX". */
RON_MUST_USE enum ron_rc rwd__tool_policy_key(const char *text, struct rwd_policy_key *ret_key,
                                              struct ron_err *err);
/* A key file; its name is the key id. The caller wipes the seed. */
RON_MUST_USE enum ron_rc rwd__tool_attester(const char *path, struct rwd_attester *ret_attester,
                                            struct ron_err *err);

/* What a manifest says, for people. */
void rwd__tool_tell(const struct rwd_manifest *m, struct ron_buf *out);
