/* SPDX-License-Identifier: Apache-2.0 */
/* edge/files/files.h - plain files of a folder, open and with their tags, as a bounded table.
 *
 * A file is opened, hashed (BLAKE3 of its bytes) and kept: small ones with their bytes in memory,
 * larger ones as a descriptor that the system sends from. A hit costs one short lock of a shard and
 * no system call. The same file is looked at again after `check_ms`, so that a replaced one is seen
 * soon.
 *
 * Rules:
 *   F1. What is served under a tag are the bytes of that tag. Small files are served from the
 *       memory that was hashed. A larger one is served from the very file that was hashed; it must
 *       be replaced (written to another name and renamed), never changed in place: a change in
 *       place is noticed by the next check, and responses until then may mix.
 *   F2. Nothing outside the folder is ever opened (ron/io/folder.h). A name that begins with a dot,
 *       anywhere in the path, is not there.
 *   F3. Bounded: entries, memory, and the size of a file. What was not used for longest goes first;
 *       a handle keeps its file.
 *
 * Threads: get and release from anywhere, never blocking; load where blocking is allowed.
 * Ownership: each handle is released once. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/cas/b3.h"
#include "ron/io/folder.h"

enum {
    EDG_PATH_MAX = 1023, /* of a file, decoded */
    EDG_TAG_LEN = 3 + RON_B3_HEX_LEN,
    EDG_FILE_SMALL_MAX = 64 * 1024, /* kept in memory: one write with the head beats sendfile */
    EDG_FILE_MAGIC = 0x65466c65,    /* "eFle" */
};

struct edg_files;

struct edg_file {
    uint32_t magic;       /* EDG_FILE_MAGIC */
    const uint8_t *bytes; /* NULL: in `fd` */
    int fd;
    uint64_t size;
    uint64_t mtime_s;
    char tag[EDG_TAG_LEN + 1]; /* "b3:" and 64 digits, without quotes */
    const char *type;          /* by the name's ending */
};

struct edg_files_opts {
    const struct ron_env *env;
    const char *dir;
    uint32_t entries_max; /* 0 = 4096; each larger file holds a descriptor */
    uint64_t memory_max;  /* 0 = 32 MiB, of small files */
    uint64_t file_max;    /* 0 = 64 GiB */
    uint32_t check_ms;    /* 0 = 1000 */
};

struct edg_files_stats {
    uint64_t entries;
    uint64_t memory_bytes;
    uint64_t hits;
    uint64_t loads; /* opened and hashed */
    uint64_t evictions;
};

/* RON_NOTFOUND, RON_DENIED, RON_INVALID name the folder. Blocking. */
RON_MUST_USE enum ron_rc edg_files_new(const struct edg_files_opts *opts,
                                       struct edg_files **ret_files, struct ron_err *err);
/* All handles must be back. */
void edg_files_free(struct edg_files *f);

/* The path of a URL below the folder, decoded and judged: percent-decoded once, no empty segment,
 * no segment that begins with a dot, at most EDG_PATH_MAX bytes. RON_INVALID: badly encoded, or a
 * control; RON_NOTFOUND: no file can have that name. */
RON_MUST_USE enum ron_rc edg_path_decode(struct ron_str text, char ret_path[EDG_PATH_MAX + 1]);

/* Whether a path, still encoded, stays below its start for every reader: no segment is a dot or
 * two, not even to an origin that takes %2f, a backslash or %5c for a slash, or ends a name
 * at a semicolon. */
bool edg_path_stays(struct ron_str path);

/* RON_OK: *ret_check tells this caller alone to have the file checked again (edg_files_load) while
 * the known one is served. RON_AGAIN: not known, or not checked for too long: edg_files_load. */
RON_MUST_USE enum ron_rc edg_files_get(struct edg_files *f, const char *path, uint64_t now_ms,
                                       const struct edg_file **ret_file, bool *ret_check);
/* Opens or looks again. RON_NOTFOUND; RON_DENIED; RON_INVALID: no regular file; RON_LIMIT: too
 * large, or no descriptor left; RON_AGAIN: it changed while it was read; RON_IO, RON_NOMEM.
 * Blocking. */
RON_MUST_USE enum ron_rc edg_files_load(struct edg_files *f, const char *path, uint64_t now_ms,
                                        const struct edg_file **ret_file, struct ron_err *err);
/* Never blocks for long: closing a descriptor that was only read. */
void edg_file_release(const struct edg_file *file);
void edg_files_get_stats(struct edg_files *f, struct edg_files_stats *ret_stats);

/* "application/octet-stream" when the ending is not known; constants. */
const char *edg_type_of(const char *path);
