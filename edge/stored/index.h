/* SPDX-License-Identifier: Apache-2.0 */
/* edge/stored/index.h - the table of stored answers outlives a restart: one file, written when the
 * edge has stopped and taken when it starts.
 *
 * docs/formats/edge-index.md describes the bytes.
 *
 * Rules:
 *   N1. The file exists only between a stop and the next start: it is removed, durably, before
 *       anything of it is used. So an edge that was killed starts with an empty table, and nothing
 *       that was purged or written to since the last stop can come back.
 *   N2. A file that is not whole, or not of this version, is removed and not used. Records of
 *       origins that are no longer configured, or have another URL, are left out.
 *   N3. Freshness counts on: records carry the moments of the wall clock that they were judged by.
 *
 * Threads: one, at the start and after everything has stopped. Blocking. */
#pragma once

#include "edge/stored/table.h"
#include "ron/base/buf.h"

enum { EDG_INDEX_BYTES_MAX = 256 << 20 }; /* the table has 64 MiB, and a record grows little */

/* Where the records of one origin belong now. */
struct edg_index_origin {
    const char *name;
    const char *url;
    uint32_t place; /* `origin` of its records */
};

struct edg_index_opts {
    const struct ron_env *env;
    const char *dir; /* the edge's own folder */
    struct edg_table *table;
    const struct edg_index_origin *origins;
    size_t origin_count;
};

/* Takes the file into the table; how many records there were. 0 without a file. RON_CORRUPT and
 * RON_IO are told and leave the table as it is. */
RON_MUST_USE enum ron_rc edg_index_load(const struct edg_index_opts *opts, size_t *ret_records,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc edg_index_save(const struct edg_index_opts *opts, size_t *ret_records,
                                        struct ron_err *err);

/* One record of the origin `opts` names alone, in the same bytes: for a bucket that edges share.
 * The table is not used. */
RON_MUST_USE enum ron_rc edg_index_pack(const struct edg_index_opts *opts,
                                        const struct edg_stored *record, struct ron_buf *out);
/* Its parts, which point into the bytes; `fields` has room for EDG_STORED_FIELDS_MAX. RON_CORRUPT:
 * it is not whole, or of another origin, or not one record. */
RON_MUST_USE enum ron_rc edg_index_unpack(const struct edg_index_opts *opts, const void *bytes,
                                          size_t len, struct edg_stored *ret_record,
                                          struct ron_http_field *fields, struct ron_err *err);

/* The bytes alone, for tests. */
RON_MUST_USE enum ron_rc edg_index_write(const struct edg_index_opts *opts, struct ron_buf *out,
                                         size_t *ret_records);
RON_MUST_USE enum ron_rc edg_index_read(const struct edg_index_opts *opts, const void *bytes,
                                        size_t len, size_t *ret_records, struct ron_err *err);
