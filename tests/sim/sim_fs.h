/* SPDX-License-Identifier: Apache-2.0 */
/* sim_fs.h - a disk in memory, shared by sim_file.c (contents), sim_fs.c (names) and sim_disk.c
 * (ports).
 *
 * Everything exists twice: `live` is what programs see (the page cache), `durable` is what a power
 * loss leaves. A list of pending changes leads from one to the other. Damage lies over the durable
 * bytes as a layer of its own, so that it can be hidden. */
#pragma once

#include "sim_priv.h"

/* A change of a file's content that was not synced. */
struct sim_pending {
    struct sim_pending *next;
    bool is_truncate;
    uint64_t off; /* truncate: the size */
    size_t len;
    uint8_t data[];
};

enum sim_damage_kind { SIM_DAMAGE_FLIP, SIM_DAMAGE_UNREADABLE, SIM_DAMAGE_REPLACED };

struct sim_damage {
    enum sim_damage_kind kind;
    uint64_t sector;
    uint32_t bit;                   /* FLIP: of the sector */
    uint8_t data[SIM_SECTOR_BYTES]; /* REPLACED */
};

struct sim_entry {
    char *name;
    uint32_t ino;
};

struct sim_entries {
    struct sim_entry *at;
    size_t count;
    size_t cap;
};

struct sim_inode {
    uint32_t ino;
    bool is_dir;
    uint32_t open_count;
    bool locked; /* by one of the descriptors */
    uint64_t mtime_ms;
    uint64_t version; /* grows with every change */
    /* File. */
    struct sim_bytes live;
    struct sim_bytes durable;
    struct sim_pending *pending_first;
    struct sim_pending *pending_last;
    struct sim_damage *damage;
    size_t damage_count;
    size_t damage_cap;
    /* Directory. */
    struct sim_entries live_entries;
    struct sim_entries durable_entries;
};

/* One name set to one inode (0: the name is gone). */
struct sim_set {
    uint32_t dir;
    char *name;
    uint32_t ino;
};

/* An unsynced change of directories: one or two names, all or nothing. */
struct sim_meta {
    struct sim_meta *next;
    size_t count;
    struct sim_set set[2];
};

enum { SIM_INO_ROOT = 1, SIM_NAME_MAX = 255, SIM_DEPTH_MAX = 32 };

struct sim_disk {
    struct sim_host *host;
    struct ron_rand rand;
    bool hide_damage;
    struct sim_inode **inode; /* by number; 0 is none, freed ones are NULL */
    uint32_t inode_count;
    struct sim_meta *meta_first;
    struct sim_meta *meta_last;
    uint64_t used_bytes;
    bool used_stale; /* used_bytes must be counted anew */
};

/* ---- contents (sim_file.c) ---- */

/* Sees and remembers a write or a new size; the caller has checked the room. */
void sim__file_write(struct sim_disk *disk, struct sim_inode *in, const void *data, size_t len,
                     uint64_t off);
void sim__file_truncate(struct sim_disk *disk, struct sim_inode *in, uint64_t size);
/* Reads through the damage. RON_IO for an unreadable sector. */
enum ron_rc sim__file_read(struct sim_disk *disk, struct sim_inode *in, void *buf, size_t len,
                           uint64_t off, size_t *ret_len);
/* Makes pending changes durable: all of them, or after a failed sync only some. All are
 * forgotten. */
void sim__file_sync(struct sim_disk *disk, struct sim_inode *in, bool failed);
/* Decides the fate of each pending change. */
void sim__file_power_loss(struct sim_disk *disk, struct sim_inode *in);
void sim__file_done(struct sim_inode *in);

/* ---- names (sim_fs.c) ---- */

struct sim_inode *sim__fs_inode_new(struct sim_disk *disk, bool is_dir);
/* The inode of a path, or NULL. */
struct sim_inode *sim__fs_find(struct sim_disk *disk, const char *path);
enum ron_rc sim__fs_create(struct sim_disk *disk, const char *path, bool is_dir,
                           struct sim_inode **ret_inode);
enum ron_rc sim__fs_rename(struct sim_disk *disk, const char *from, const char *to);
enum ron_rc sim__fs_link(struct sim_disk *disk, const char *from, const char *to);
enum ron_rc sim__fs_remove(struct sim_disk *disk, const char *path, bool is_dir);
/* Makes the changes that touch a directory durable. */
void sim__fs_sync_dir(struct sim_disk *disk, const struct sim_inode *dir);
uint64_t sim__fs_used_bytes(struct sim_disk *disk);
