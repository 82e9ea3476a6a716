/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/verify.h - a whole pack looked at: every directory, every entry, every row.
 *
 * Place: edge; at boot, at reload, and behind `ron edge verify`. Opening a pack checks what is
 * cheap; this checks the rest, and tells all it finds instead of the first (up to
 * EDG_FINDINGS_MAX). What is checked: docs/formats/packs.md.
 *
 * A fault means that the file breaks its format: it is not served. A note is something a person may
 * want to know. Tiles themselves are not decoded; a sidecar FILE.b3, as b3sum writes it, covers
 * their bytes.
 *
 * Memory: the directories on one way down (each at most 22 MiB, usually below 1), and for archives
 * that are not clustered a set of offsets of at most 64 MiB; beyond that contents are not counted,
 * and a note says so.
 *
 * Threads: blocking; no state. */
#pragma once

#include "edge/pack/pack.h"

enum { EDG_FINDINGS_MAX = 16, EDG_FINDING_SIZE = 160 };

struct edg_findings {
    uint32_t count; /* may be more than are kept */
    char texts[EDG_FINDINGS_MAX][EDG_FINDING_SIZE];
};

enum edg_sidecar { EDG_SIDECAR_NONE, EDG_SIDECAR_GOOD, EDG_SIDECAR_BAD };

struct edg_verify_report {
    bool opened; /* the fields of `info` are there */
    struct edg_pack_info info;
    struct edg_findings faults;
    struct edg_findings notes;
    uint64_t tiles_addressed, tile_entries, tile_contents; /* found; MBTiles: rows */
    uint64_t directories;
    uint32_t depth;
    enum edg_sidecar sidecar;
    bool hashed;
    struct ron_b3 tag; /* of the file, when it was hashed */
};

struct edg_verify_opts {
    const struct ron_env *env;
    const char *path;
    bool hash;                 /* even without a sidecar */
    edg_progress_fn *progress; /* NULL: no reports, and no cancellation */
    void *progress_arg;
};

/* RON_OK when the file was looked at, whatever was found. RON_NOTFOUND, RON_IO and the like when it
 * cannot be read, RON_CANCELLED, RON_NOMEM. `ret_report` is written in every case. */
RON_MUST_USE enum ron_rc edg_verify(const struct edg_verify_opts *opts,
                                    struct edg_verify_report *ret_report, struct ron_err *err);

/* Verifies a pack, opens it to be served and hashes it (pack.h), all of one and the same file:
 * if another one got its name meanwhile, or it was written to, all of that is done again, a few
 * times. RON_CORRUPT: it has faults; RON_AGAIN: it kept changing. `ret_report` as above. */
RON_MUST_USE enum ron_rc edg_verify_open(const struct edg_verify_opts *opts,
                                         const struct edg_pack_opts *pack,
                                         struct edg_verify_report *ret_report,
                                         struct edg_pack **ret_pack, struct ron_err *err);

/* A report for people, and as one JSON object. */
void edg_verify_tell(const struct edg_verify_report *r, const char *path, struct ron_buf *out);
void edg_verify_json(const struct edg_verify_report *r, const char *path, struct ron_buf *out);
