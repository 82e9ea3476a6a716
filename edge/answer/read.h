/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/read.h - requests that need the disk or the bucket before they can be answered.
 *
 *     http --disk--> reader-N: reads, then the same answer as from a loop
 *              +--bucket--> s3-reader-N: objects that the local store does not have
 *
 * Ownership: a read belongs to the task that took it from its queue. */
#pragma once

#include "edge/answer/site.h"

/* The queues to the readers. */
struct edg_reads {
    struct ron_chan *disk;
    struct ron_chan *bucket; /* NULL: there is no bucket */
};

enum edg_read_kind {
    EDG_READ_FILE,
    EDG_READ_FILE_CHECK, /* no reply: looks whether a file is still the same */
    EDG_READ_TILE,
    EDG_READ_OBJECT, /* by its id */
    EDG_READ_STORED, /* the object of a stored answer */
    EDG_READ_PARTS,  /* open already; several ranges of it are written piece by piece */
    EDG_READ_PURGE,  /* forget a path, a prefix, or without one the object `id` */
    EDG_READ_KIND_COUNT,
};

enum { EDG_READ_MAGIC = 0x65526564 }; /* "eRed" */

struct edg_read {
    uint32_t magic;
    enum edg_read_kind kind;
    struct ron_http_reply *reply;
    const struct ron_http_head *head; /* lives with the reply */
    struct edg_pack *pack;            /* a reference */
    uint64_t z, x, y;
    struct ron_b3 id;
    const struct edg_stored *stored; /* a reference */
    struct edg_status status;        /* of it, for Cache-Status */
    struct edg_content content;      /* of PARTS */
    struct edg_extra extra;          /* of it, with a reference in `stored` */
    bool prefix;                     /* PURGE: all that begin so */
    bool deep;                       /* OBJECT, STORED: the bucket is asked, too */
    char path[];                     /* of a file, or to be purged */
};

struct edg_read *edg_read_new(enum edg_read_kind kind, const char *path); /* NULL: no memory */
/* Of a read that holds nothing any more. */
void edg_read_free(struct edg_read *r);
/* To a reader, or refused; takes the read, which may be NULL. It is answered in any case. */
void edg_read_submit(struct edg_out *out, struct edg_read *take_read);
/* Frees it; a read with a reply is answered with the error. */
void edg_read_drop(struct edg_site *s, struct edg_read *take_read, enum edg_error error);
/* To a reader: the bytes of a stored answer must be opened first. Takes the reference. */
void edg_submit_stored(struct edg_out *out, const struct edg_stored *take_stored,
                       const struct edg_status *status);
