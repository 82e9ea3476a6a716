/* SPDX-License-Identifier: Apache-2.0 */
/* pg_array.h - an array as one parameter of a statement: many rows in one statement.
 *
 *     INSERT INTO t SELECT * FROM unnest($1::int8[], $2::bytea[])
 *
 * Place: kernel, beside ron/pg/pg.h. One dimension, no nulls, elements of one type, in the binary
 * form of PostgreSQL.
 *
 * A failed append (no memory, too large) is kept in the buffer and told by ron_pg_array_param.
 * Threads: one. */
#pragma once

#include "ron/base/buf.h"
#include "ron/pg/pg.h"

enum ron_pg_kind { RON_PG_INT8, RON_PG_BYTEA, RON_PG_TEXT };

enum {
    RON_PG_ARRAY_HEAD = 20,           /* dimensions, nulls, type, length, first index */
    RON_PG_ARRAY_BYTES_MAX = 1 << 28, /* a value of PostgreSQL ends at 1 GiB */
};

struct ron_pg_array {
    struct ron_buf buf;
    enum ron_pg_kind kind;
    uint32_t count;
    bool failed;
};

void ron_pg_array_init(struct ron_pg_array *a, enum ron_pg_kind kind);
void ron_pg_array_done(struct ron_pg_array *a); /* also fine on zeros */
/* Empties it and keeps its memory, unless that is more than `keep` bytes. */
void ron_pg_array_clear(struct ron_pg_array *a, size_t keep);
void ron_pg_array_u64(struct ron_pg_array *a, uint64_t value); /* as int8: two's complement */
void ron_pg_array_bytes(struct ron_pg_array *a, const void *data, size_t len);
/* The parameter, which lives until the array is changed. RON_NOMEM: an append failed. */
RON_MUST_USE enum ron_rc ron_pg_array_param(struct ron_pg_array *a, struct ron_pg_param *ret_param);
