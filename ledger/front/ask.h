/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/ask.h - from the target of a GET to a question, whichever front it came through.
 *
 * Place: service. A front turns path and query into a struct led_query (work/query.h), checks the
 * caller and hands it to the sequencer.
 *
 * Rules:
 *   A1. HTTP and OAP read a target with the same code, so both answer the same status and bytes. */
#pragma once

#include "ledger/work/query.h"

/* What GET of this target asks for. False: `ret_error`, whose texts last. */
RON_MUST_USE bool led_ask_parse(struct ron_str path, struct ron_str query, struct led_query *ret,
                                struct ron_http_error *ret_error);
/* Pieces of it, for the routes that HTTP has alone; false: `ret_error`. A number of the query, or
 * `absent`. */
RON_MUST_USE bool led_ask_number(struct ron_str query, const char *name, uint64_t absent,
                                 uint64_t *ret, struct ron_http_error *ret_error);
/* Takes the suffix off, or leaves the path alone. */
bool led_ask_ends_with(struct ron_str *path, const char *suffix);
/* A percent-encoded name; one that may hold '/'. */
RON_MUST_USE bool led_ask_name(struct ron_str in, char *out, size_t size, uint16_t *ret_len,
                               struct ron_http_error *ret_error);
/* The same for an account, which must be one. */
RON_MUST_USE bool led_ask_account(struct ron_str in, struct led_query *q,
                                  struct ron_http_error *ret_error);
/* The members of GET /head that every ledger has. */
void led_ask_write_head(struct ron_json_writer *j, uint64_t seq, const struct ron_tree_hash *root,
                        uint64_t ts_ms);
