/* SPDX-License-Identifier: Apache-2.0 */
/* memdisk.h - a disk in memory behind the disk ports: for services that must leave no trace.
 *
 * Place: io. Code that keeps files through struct ron_env runs over it unchanged; clock,
 * randomness, network and poller are those of the environment it is made from. Nothing reaches a
 * real disk, and all of it is gone with ron_memdisk_free.
 *
 * Invariants:
 *   M1. The sizes of all files, rounded up to RON_MEMDISK_PAGE, stay within the maximum: what would
 *       pass it is RON_LIMIT and changes nothing. Bytes inside the size of a file therefore always
 *       have room, as on a disk after zero-filling.
 *   M2. Pages of zeros that were never anything else take no memory.
 *   M3. A file lives as long as it has a name or is open.
 *   M4. A port does what the Linux binding does, with the same codes. A sync has nothing to do and
 *       succeeds. Every port but close is a blocking point all the same, so that what runs here
 *       also runs on a disk.
 *
 * Paths are those of a tree of its own: "/a/b", "a/b" and "a//b/" are one; "" and "/" are its root,
 * which is there from the start. Links of files, no symbolic ones.
 *
 * Threads: all ports from any thread. A lock is held for one page at a time, so a reader never
 * makes a writer wait longer than 64 KiB take to copy; a long write may be seen in part. */
#pragma once

#include "ron/base/env.h"

struct ron_memdisk;

enum {
    RON_MEMDISK_PAGE = 64 << 10,   /* a write of a page is one lock; small files waste no more */
    RON_MEMDISK_FILES_MAX = 256,   /* open at once */
    RON_MEMDISK_NODES_MAX = 65536, /* files and directories, as they take memory when empty too */
    RON_MEMDISK_NAME_MAX = 255,
};

/* `base` is copied. `bytes_max` is the size of the disk. */
RON_MUST_USE enum ron_rc ron_memdisk_new(const struct ron_env *base, uint64_t bytes_max,
                                         struct ron_memdisk **ret_disk, struct ron_err *err);
/* No file may be open. NULL is fine. */
void ron_memdisk_free(struct ron_memdisk *disk);

/* The environment with this disk; lives as long as the disk. Pass the pointer on: a copy of the
 * struct is not known to the ports. */
const struct ron_env *ron_memdisk_env(const struct ron_memdisk *disk);
