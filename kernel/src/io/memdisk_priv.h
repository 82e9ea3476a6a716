/* SPDX-License-Identifier: Apache-2.0 */
/* memdisk_priv.h - the tree of names and files of a disk in memory, shared by memdisk*.c alone.
 *
 *     memdisk.c        the disk ports: codes, locking, descriptors
 *     memdisk_node.c   names, files and their pages; called with the lock held */
#pragma once

#include "ron/io/memdisk.h"
#include "ron/sync/sync.h"

struct ron__mem_node {
    bool is_dir;
    bool locked;
    uint32_t links; /* names; of a directory 1 while it has one */
    uint32_t opens;
    uint32_t mode;
    uint64_t mtime_ms;
    uint64_t size;
    uint8_t **pages; /* NULL inside is a page of zeros */
    size_t page_cap;
    struct ron__mem_name *children; /* of a directory */
    struct ron__mem_node *parent;   /* of a directory; NULL for the root */
};

struct ron__mem_name {
    struct ron__mem_name *next;
    struct ron__mem_node *node;
    char text[];
};

struct ron__mem_file {
    struct ron__mem_node *node; /* NULL = free */
    uint32_t flags;             /* enum ron_open_flags */
    bool holds_lock;
};

struct ron_memdisk {
    uint32_t magic;
    struct ron_env env;
    struct ron_mutex lock; /* all below */
    struct ron__mem_node *root;
    uint64_t bytes_max;
    uint64_t bytes_used; /* M1 */
    uint64_t memory;     /* of pages */
    uint32_t nodes;
    struct ron__mem_file files[RON_MEMDISK_FILES_MAX];
};

/* Where a path leads: the directory and the last part; `name` NULL for the root. */
struct ron__mem_place {
    struct ron__mem_node *dir;
    struct ron__mem_name **slot; /* points to the name, or to the end of the list when absent */
    const char *name;
    size_t name_len;
};

/* RON_NOTFOUND when a directory on the way is absent, RON_INVALID when it is none or a part is too
 * long. The last part need not exist. */
enum ron_rc ron__mem_find(struct ron_memdisk *d, const char *path, struct ron__mem_place *ret);
/* The node of a place, NULL when absent. */
struct ron__mem_node *ron__mem_at(struct ron_memdisk *d, const struct ron__mem_place *place);
RON_MUST_USE enum ron_rc ron__mem_node_new(struct ron_memdisk *d, bool is_dir, uint32_t mode,
                                           struct ron__mem_node **ret_node);
/* Adds a name for the node; the place is absent. */
RON_MUST_USE enum ron_rc ron__mem_add(struct ron_memdisk *d, const struct ron__mem_place *place,
                                      struct ron__mem_node *node);
/* Takes a name away, and the node with its last one (M3). */
void ron__mem_drop(struct ron_memdisk *d, struct ron__mem_name **slot);
/* Frees the node when nothing refers to it any more. */
void ron__mem_node_settle(struct ron_memdisk *d, struct ron__mem_node *node);
/* RON_LIMIT or RON_NOMEM; nothing changed then. */
RON_MUST_USE enum ron_rc ron__mem_resize(struct ron_memdisk *d, struct ron__mem_node *node,
                                         uint64_t size);
/* Bytes within one page of a file that is long enough. */
RON_MUST_USE enum ron_rc ron__mem_write(struct ron_memdisk *d, struct ron__mem_node *node,
                                        const uint8_t *bytes, size_t len, uint64_t off);
void ron__mem_read(const struct ron__mem_node *node, uint8_t *ret_bytes, size_t len, uint64_t off);
