/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/files.h - the store of an index in files, shared by files*.c alone.
 *
 *     journal-N   records, one a commit: pieces of whole runs, blobs of tails, the state
 *     run-N       pieces of a run that a merge has made
 *     image-SEQ   chunks of an image
 *
 * The files are only ever appended to, and removed when no state and no lookup names them. */
#pragma once

#include "ledger/index/priv.h"
#include "ron/base/buf.h"
#include "ron/io/file.h"

enum {
    LED_FILES_WRITE = 64 * LED_PIECE_BYTES,  /* pieces of a merge gathered for one write */
    LED_FILES_AHEAD = 8 * LED_PIECE_BYTES,   /* read where a merge needs one piece */
    LED_FILES_STREAM = 64 * LED_PIECE_BYTES, /* read where piece follows piece */
    LED_FILES_BUF = 1 << 30,                 /* most of a record, a journal, a list */
    LED_FILES_RECORD = 16 << 20,             /* beyond it, whole runs get files of their own */
};

/* The folder; a name in it still fits. */
enum { LED_FILES_PATH = RON_FILE_PATH_SIZE - 32 };

enum led_file_kind { LED_FILE_JOURNAL, LED_FILE_RUN, LED_FILE_IMAGE, LED_FILE_KINDS };

/* An open file. */
struct led_file {
    struct led_file *next;
    enum led_file_kind kind;
    int fd; /* -1: not made yet */
    uint64_t number;
    uint64_t len;     /* committed */
    uint64_t len_new; /* with what this transaction appends */
    uint64_t synced;  /* of that, durable */
    uint64_t records; /* of a journal, or chunks of an image; committed */
    uint64_t records_new;
    uint32_t runs; /* journal: that lie in it */
    bool named;    /* its name is durable */
    bool fresh;    /* made in this transaction */
    bool doomed;   /* deleted in this transaction */
    bool suspect;  /* a sync has failed: what was not synced is written again */
};

/* A run, in a journal or a file of its own. */
struct led_file_run {
    struct led_run_file read; /* what lookups have */
    struct led_file_run *next;
    struct led_file *file;
    uint64_t id;
    uint32_t pieces;     /* committed */
    uint32_t pieces_new; /* with those of this transaction */
    bool fresh;
    bool doomed;
};

struct led_file_tail {
    struct led_file_tail *next;
    uint32_t len;
    uint8_t bytes[];
};

/* In the order of the blobs. */
struct led_file_tails {
    struct led_file_tail *first;
    struct led_file_tail *last;
};

/* Pieces that wait for a write at the end of their file. */
struct led_files_out {
    struct led_file *file; /* NULL: none */
    size_t len;
    uint8_t *bytes;
};

/* A part of a file that was read. */
struct led_files_in {
    const struct led_file *file; /* NULL: none */
    uint64_t at;
    size_t len;
    uint8_t *bytes;
};

struct led_files {
    struct led_blobs base;
    const struct ron_env *env;
    char path[LED_FILES_PATH];
    uint64_t journal_max; /* bytes, before the next one is begun */
    struct ron_stat bytes;

    /* Also of a copy: changed with the lock held. */
    struct ron_mutex lock;
    uint32_t copies; /* that go on: meanwhile no file is removed */
    struct led_file *files;
    struct led_file *journal; /* that is appended to; NULL: the next commit begins one */
    struct led_file_tails tails[LED_TREES];
    uint8_t *state;
    size_t state_len;

    /* The writer's. */
    struct led_file_run *runs;
    struct led_file *gone; /* to be removed */
    uint64_t journal_next;
    bool begun;            /* a transaction */
    struct led_file *to;   /* journal of the transaction; in `files` after its commit */
    struct ron_buf record; /* head and pieces, then the rest */
    struct led_file_tails tails_new[LED_TREES];
    bool cleared[LED_TREES];
    uint8_t *state_new;
    size_t state_new_len;

    struct led_files_out out;
    struct led_files_in in;
    uint8_t *chunk; /* of an image, as it was read last */
    uint64_t chunk_image;
    uint64_t chunk_next; /* number and place of the one behind it */
    uint64_t chunk_at;
    const struct led_file_tail *tail_at; /* blob that was got last */
    uint32_t tail_tree;
    uint64_t tail_number;
};

/* files.c */
void led__files_name(const struct led_files *s, enum led_file_kind kind, uint64_t number,
                     char path[RON_FILE_PATH_SIZE]);
/* Opens a file and adds it to the list. `flags` beside reading and writing. */
RON_MUST_USE enum ron_rc led__files_open(struct led_files *s, enum led_file_kind kind,
                                         uint64_t number, uint32_t flags,
                                         struct led_file **ret_file, struct ron_err *err);
struct led_file *led__files_find(const struct led_files *s, enum led_file_kind kind,
                                 uint64_t number);
void led__files_reset_reads(struct led_files *s);
struct led_file_run *led__files_run(const struct led_files *s, uint64_t id);
void led__tails_clear(struct led_file_tails *tails);
RON_MUST_USE enum ron_rc led__tails_add(struct led_file_tails *tails, const void *bytes,
                                        uint32_t len);

/* files_write.c */
RON_MUST_USE enum ron_rc led__files_put(struct led_blobs *b, struct led_blob_key key,
                                        const void *bytes, size_t len, const uint8_t **ret_kept,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc led__files_del(struct led_blobs *b, struct led_blob_key key,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc led__files_make_run(struct led_blobs *b, uint64_t run, bool whole,
                                             const struct led_run_file **ret_file,
                                             struct ron_err *err);
RON_MUST_USE enum ron_rc led__files_sync_run(struct led_blobs *b, uint64_t run,
                                             struct ron_err *err);
RON_MUST_USE enum ron_rc led__files_flush(struct led_files *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led__files_commit(struct led_blobs *b, struct ron_err *err);
void led__files_abort(struct led_blobs *b);
/* The record that says all: tails and state as committed, for a journal of that number. */
RON_MUST_USE enum ron_rc led__files_whole(const struct led_files *s, uint64_t journal,
                                          struct ron_buf *record);

/* files_copy.c */
RON_MUST_USE enum ron_rc led__files_copy(struct led_blobs *b, const char *path,
                                         struct ron_err *err);
