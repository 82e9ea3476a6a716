/* SPDX-License-Identifier: Apache-2.0 */
/* audit/journal/log.h - the segment files of a journal, walked from the first frame to the last.
 *
 * Place: audit, over the disk ports of struct ron_env. Reads only; nothing is created, locked or
 * changed, so a running ledger may be audited: what it appends meanwhile is not looked at, or is
 * seen whole.
 *
 * What ends the walk: zeros to the end of the last segment; a torn tail, which is told and is no
 * finding (a crash leaves it, and nobody was told that it is durable); damage, which is a finding.
 * Behind damage nothing is read, because what a frame is there cannot be known.
 *
 * Threads: one; blocks. Failure: RON_NOTFOUND without a journal, RON_IO and RON_DENIED when it
 * cannot be read, RON_NOMEM; codes of the visitors are handed on. */
#pragma once

#include "audit/base/find.h"
#include "audit/journal/frame.h"
#include "ron/base/env.h"
#include "ron/io/file.h"

enum {
    AUD_NAME_SIZE = 40,
    AUD_SEGMENTS_MAX = 1 << 20, /* 64 TiB of usual segments */
};

struct aud_segment {
    uint64_t number;
    uint64_t seq_first;
    uint64_t bytes;
    char name[AUD_NAME_SIZE];
};

struct aud_log {
    const struct ron_env *env;
    char dir[RON_FILE_PATH_SIZE];
    struct aud_segment *segments; /* in their order */
    size_t segment_count;
    size_t segment_cap;
    uint64_t bytes; /* of all files */
};

/* `dir` holds the segment files. */
RON_MUST_USE enum ron_rc aud_log_open(const struct ron_env *env, const char *dir,
                                      struct aud_log *ret_log, struct ron_err *err);
void aud_log_done(struct aud_log *log);

struct aud_walk {
    struct aud_findings *findings; /* NULL: damage ends the walk in silence */
    /* Each may be NULL. RON_CANCELLED ends the walk, and it is good so. */
    enum ron_rc (*on_segment)(void *arg, const struct aud_segment_head *head,
                              const struct aud_place *place);
    enum ron_rc (*on_frame)(void *arg, const struct aud_frame *frame,
                            const struct aud_place *place);
    void *arg;
    /* Results. */
    uint64_t frames;
    uint64_t read_bytes; /* up to the end of the last frame, all segments */
    uint64_t torn_bytes;
    struct aud_place end; /* behind the last frame; `file` lives as long as the log */
    bool damaged;
};

RON_MUST_USE enum ron_rc aud_log_walk(const struct aud_log *log, struct aud_walk *walk,
                                      struct ron_err *err);
