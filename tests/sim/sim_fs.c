/* SPDX-License-Identifier: Apache-2.0 */
/* sim_fs.c - names and directories of the simulated disk, and what a power loss leaves of their
 * changes.
 *
 * Place: above sim_file.c.
 *
 * Invariants:
 *   N1 a change of names is a set of assignments (directory, name) := inode. A rename is two of
 *   them, done
 *      together or not at all, also by a power loss.
 *   N2 a change becomes durable when one of the directories it touches is synced. Syncing the file
 *   does not make
 *      its name durable.
 *   N3 unsynced changes stay or go by seed: in half of the power losses the first ones stay and the
 *   others
 *      go, in the other half each is decided alone.
 *   N4 a durable assignment is never undone by an older one of the same name.
 *
 * There are no symbolic links, owners or permissions; "." means the root and ".." is refused. */
#include <string.h>

#include "ron/base/assert.h"
#include "sim_fs.h"
#include "support/rand.h"

/* ---- entries ---- */

static struct sim_entry *entry_find(const struct sim_entries *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->at[i].name, name) == 0) {
            return &list->at[i];
        }
    }
    return NULL;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = sim__alloc(size);

    memcpy(copy, text, size);
    return copy;
}

static void entry_set(struct sim_entries *list, const char *name, uint32_t ino)
{
    struct sim_entry *entry = entry_find(list, name);

    if (ino == 0) {
        if (entry != NULL) {
            sim__free(entry->name);
            *entry = list->at[--list->count];
        }
        return;
    }
    if (entry == NULL) {
        if (list->count == list->cap) {
            list->cap = RON_MAX((size_t)8, list->cap * 2);
            list->at = sim__grow(list->at, list->cap * sizeof *list->at);
        }
        entry = &list->at[list->count++];
        entry->name = copy_text(name);
    }
    entry->ino = ino;
}

static void entries_done(struct sim_entries *list)
{
    for (size_t i = 0; i < list->count; i++) {
        sim__free(list->at[i].name);
    }
    sim__free(list->at);
    *list = (struct sim_entries){0};
}

static void entries_copy(struct sim_entries *to, const struct sim_entries *from)
{
    entries_done(to);
    for (size_t i = 0; i < from->count; i++) {
        entry_set(to, from->at[i].name, from->at[i].ino);
    }
}

/* ---- paths ---- */

struct sim_inode *sim__fs_inode_new(struct sim_disk *disk, bool is_dir)
{
    struct sim_inode *in = sim__alloc(sizeof *in);

    in->ino = disk->inode_count++;
    in->is_dir = is_dir;
    disk->inode = sim__grow(disk->inode, disk->inode_count * sizeof(struct sim_inode *));
    disk->inode[in->ino] = in;
    return in;
}

/* Takes the next component of *path into name; its length, 0 at the end. */
static size_t next_part(const char **path, char name[SIM_NAME_MAX + 1])
{
    size_t len;

    do {
        *path += strspn(*path, "/");
        len = strcspn(*path, "/");
        if (len > SIM_NAME_MAX) {
            len = SIM_NAME_MAX; /* the name will not be found */
        }
        memcpy(name, *path, len);
        name[len] = '\0';
        *path += len;
    } while (strcmp(name, ".") == 0);
    return len;
}

/* The directory that holds the last component, and that component. NULL when the way there is
 * none. */
static struct sim_inode *find_parent(struct sim_disk *disk, const char *path,
                                     char ret_name[SIM_NAME_MAX + 1])
{
    struct sim_inode *dir = disk->inode[SIM_INO_ROOT];
    char ahead[SIM_NAME_MAX + 1];

    if (next_part(&path, ret_name) == 0) {
        return NULL;
    }
    while (next_part(&path, ahead) > 0) {
        const struct sim_entry *entry =
            dir->is_dir ? entry_find(&dir->live_entries, ret_name) : NULL;
        if (entry == NULL) {
            return NULL;
        }
        dir = disk->inode[entry->ino];
        memcpy(ret_name, ahead, sizeof ahead);
    }
    return dir->is_dir && strcmp(ret_name, "..") != 0 ? dir : NULL;
}

struct sim_inode *sim__fs_find(struct sim_disk *disk, const char *path)
{
    char name[SIM_NAME_MAX + 1];
    const char *rest = path;
    const struct sim_inode *dir;
    const struct sim_entry *entry;

    if (path[0] != '\0' && next_part(&rest, name) == 0) {
        return disk->inode[SIM_INO_ROOT];
    }
    dir = find_parent(disk, path, name);
    entry = dir == NULL ? NULL : entry_find(&dir->live_entries, name);
    return entry == NULL ? NULL : disk->inode[entry->ino];
}

/* ---- changes ---- */

static void meta_free(struct sim_meta *meta)
{
    for (size_t i = 0; i < meta->count; i++) {
        sim__free(meta->set[i].name);
    }
    sim__free(meta);
}

static void meta_apply(struct sim_disk *disk, const struct sim_meta *meta)
{
    for (size_t i = 0; i < meta->count; i++) {
        const struct sim_set *set = &meta->set[i];
        entry_set(&disk->inode[set->dir]->durable_entries, set->name, set->ino);
    }
}

/* Does a change as programs see it, and remembers it as unsynced. A second assignment is
 * optional. */
static void change(struct sim_disk *disk, struct sim_set first, const struct sim_set *second)
{
    struct sim_meta *meta = sim__alloc(sizeof *meta);

    meta->set[meta->count++] = first;
    if (second != NULL) {
        meta->set[meta->count++] = *second;
    }
    for (size_t i = 0; i < meta->count; i++) {
        struct sim_inode *dir = disk->inode[meta->set[i].dir];
        meta->set[i].name = copy_text(meta->set[i].name);
        entry_set(&dir->live_entries, meta->set[i].name, meta->set[i].ino);
        dir->version++;
    }
    if (disk->meta_last == NULL) {
        disk->meta_first = meta;
    } else {
        disk->meta_last->next = meta;
    }
    disk->meta_last = meta;
    disk->used_stale = true;
}

enum ron_rc sim__fs_create(struct sim_disk *disk, const char *path, bool is_dir,
                           struct sim_inode **ret_inode)
{
    char name[SIM_NAME_MAX + 1];
    struct sim_inode *dir = find_parent(disk, path, name);
    struct sim_inode *in;

    if (dir == NULL) {
        return RON_NOTFOUND;
    }
    if (entry_find(&dir->live_entries, name) != NULL) {
        return RON_EXISTS;
    }
    in = sim__fs_inode_new(disk, is_dir);
    change(disk, (struct sim_set){dir->ino, name, in->ino}, NULL);
    *ret_inode = in;
    return RON_OK;
}

/* Whether `below` is `dir` or lies under it. */
static bool contains(const struct sim_disk *disk, const struct sim_inode *dir,
                     const struct sim_inode *below, unsigned depth)
{
    if (dir == below) {
        return true;
    }
    if (!dir->is_dir || depth == SIM_DEPTH_MAX) {
        return false;
    }
    for (size_t i = 0; i < dir->live_entries.count; i++) {
        if (contains(disk, disk->inode[dir->live_entries.at[i].ino], below, depth + 1)) {
            return true;
        }
    }
    return false;
}

/* What rename(2) asks of the two ends. */
static enum ron_rc check_rename(const struct sim_disk *disk, const struct sim_inode *moved,
                                const struct sim_inode *to_dir, const struct sim_inode *target)
{
    if (moved->is_dir && contains(disk, moved, to_dir, 0)) {
        return RON_INVALID;
    }
    if (target == NULL) {
        return RON_OK;
    }
    if (target->is_dir != moved->is_dir) {
        return RON_INVALID;
    }
    return target->is_dir && target->live_entries.count > 0 ? RON_EXISTS : RON_OK;
}

enum ron_rc sim__fs_rename(struct sim_disk *disk, const char *from, const char *to)
{
    char from_name[SIM_NAME_MAX + 1];
    char to_name[SIM_NAME_MAX + 1];
    struct sim_inode *from_dir = find_parent(disk, from, from_name);
    struct sim_inode *to_dir = find_parent(disk, to, to_name);
    struct sim_inode *moved = sim__fs_find(disk, from);
    const struct sim_inode *target = sim__fs_find(disk, to);

    if (from_dir == NULL || to_dir == NULL || moved == NULL) {
        return RON_NOTFOUND;
    }
    if (moved == target) {
        return RON_OK; /* two names of one file: rename(2) does nothing */
    }
    RON_TRY(check_rename(disk, moved, to_dir, target));
    change(disk, (struct sim_set){from_dir->ino, from_name, 0},
           &(struct sim_set){to_dir->ino, to_name, moved->ino});
    return RON_OK;
}

enum ron_rc sim__fs_link(struct sim_disk *disk, const char *from, const char *to)
{
    char name[SIM_NAME_MAX + 1];
    struct sim_inode *dir = find_parent(disk, to, name);
    const struct sim_inode *in = sim__fs_find(disk, from);

    if (dir == NULL || in == NULL) {
        return RON_NOTFOUND;
    }
    if (in->is_dir) {
        return RON_DENIED;
    }
    if (entry_find(&dir->live_entries, name) != NULL) {
        return RON_EXISTS;
    }
    change(disk, (struct sim_set){dir->ino, name, in->ino}, NULL);
    return RON_OK;
}

enum ron_rc sim__fs_remove(struct sim_disk *disk, const char *path, bool is_dir)
{
    char name[SIM_NAME_MAX + 1];
    struct sim_inode *dir = find_parent(disk, path, name);
    const struct sim_inode *in = sim__fs_find(disk, path);

    if (dir == NULL || in == NULL) {
        return RON_NOTFOUND;
    }
    if (in->is_dir != is_dir) {
        return RON_INVALID;
    }
    if (is_dir && in->live_entries.count > 0) {
        return RON_EXISTS;
    }
    change(disk, (struct sim_set){dir->ino, name, 0}, NULL);
    return RON_OK;
}

/* ---- durability ---- */

static bool touches(const struct sim_meta *meta, uint32_t dir, const char *name)
{
    for (size_t i = 0; i < meta->count; i++) {
        if (meta->set[i].dir == dir && (name == NULL || strcmp(meta->set[i].name, name) == 0)) {
            return true;
        }
    }
    return false;
}

/* Takes assignments of the same names out of changes older than `meta`. */
static void supersede(struct sim_disk *disk, const struct sim_meta *meta)
{
    for (struct sim_meta *old = disk->meta_first; old != NULL && old != meta; old = old->next) {
        for (size_t i = 0; i < old->count; i++) {
            if (touches(meta, old->set[i].dir, old->set[i].name)) {
                sim__free(old->set[i].name);
                old->set[i--] = old->set[--old->count];
            }
        }
    }
}

void sim__fs_sync_dir(struct sim_disk *disk, const struct sim_inode *dir)
{
    struct sim_meta **slot = &disk->meta_first;
    struct sim_meta *last = NULL;

    while (*slot != NULL) {
        struct sim_meta *meta = *slot;
        if (touches(meta, dir->ino, NULL)) {
            supersede(disk, meta); /* keeps N4 */
            meta_apply(disk, meta);
            *slot = meta->next;
            meta_free(meta);
        } else {
            last = meta;
            slot = &meta->next;
        }
    }
    disk->meta_last = last;
}

static void mark_reachable(struct sim_disk *disk, uint32_t ino, bool *reached)
{
    const struct sim_inode *in = disk->inode[ino];

    if (reached[ino]) {
        return;
    }
    reached[ino] = true;
    for (size_t i = 0; i < in->live_entries.count; i++) {
        mark_reachable(disk, in->live_entries.at[i].ino, reached);
    }
}

static bool *reachable(struct sim_disk *disk)
{
    bool *reached = sim__alloc(disk->inode_count);

    mark_reachable(disk, SIM_INO_ROOT, reached);
    return reached;
}

static void inode_free(struct sim_inode *in)
{
    if (in != NULL) {
        sim__file_done(in);
        entries_done(&in->live_entries);
        entries_done(&in->durable_entries);
        sim__free(in);
    }
}

/* Which of the unsynced changes of names survive (N3). */
static void resolve_meta(struct sim_disk *disk)
{
    struct sim *sim = disk->host->sim;
    uint64_t keep_ppm = sim->opts.crash_keep_meta_ppm;
    bool in_order = ron_rand_chance(&disk->rand, 1, 2);
    bool lost_one = false;

    while (disk->meta_first != NULL) {
        struct sim_meta *meta = disk->meta_first;
        bool keep = sim__chance(&disk->rand, keep_ppm) && !(in_order && lost_one);

        lost_one = lost_one || !keep;
        if (keep) {
            meta_apply(disk, meta);
        }
        if (meta->count > 0) {
            sim__event(sim, keep ? SIM_EV_CRASH_KEEP_META : SIM_EV_CRASH_LOSE_META, disk->host,
                       meta->set[0].dir,
                       sim__hash_bytes(meta->set[0].name, strlen(meta->set[0].name)));
        }
        disk->meta_first = meta->next;
        meta_free(meta);
    }
    disk->meta_last = NULL;
}

void sim__disk_power_loss(struct sim_disk *disk)
{
    bool *reached;

    resolve_meta(disk);
    for (uint32_t i = SIM_INO_ROOT; i < disk->inode_count; i++) {
        struct sim_inode *in = disk->inode[i];
        if (in != NULL) {
            sim__file_power_loss(disk, in);
            entries_copy(&in->live_entries, &in->durable_entries);
        }
    }
    reached = reachable(disk);
    for (uint32_t i = SIM_INO_ROOT; i < disk->inode_count; i++) {
        if (!reached[i]) {
            inode_free(disk->inode[i]);
            disk->inode[i] = NULL;
        }
    }
    sim__free(reached);
    disk->used_stale = true;
}

uint64_t sim__fs_used_bytes(struct sim_disk *disk)
{
    bool *reached;

    if (!disk->used_stale) {
        return disk->used_bytes;
    }
    disk->used_bytes = 0;
    disk->used_stale = false;
    reached = reachable(disk);
    for (uint32_t i = SIM_INO_ROOT; i < disk->inode_count; i++) {
        const struct sim_inode *in = disk->inode[i];
        if (in != NULL && (reached[i] || in->open_count > 0)) {
            disk->used_bytes += in->live.len;
        }
    }
    sim__free(reached);
    return disk->used_bytes;
}

struct sim_disk *sim__disk_new(struct sim_host *host)
{
    struct sim_disk *disk = sim__alloc(sizeof *disk);

    disk->host = host;
    disk->rand = ron_rand_fork(&host->rand);
    (void)sim__fs_inode_new(disk, false); /* number 0 means "none" */
    (void)sim__fs_inode_new(disk, true);
    return disk;
}

void sim__disk_free(struct sim_disk *disk)
{
    while (disk->meta_first != NULL) {
        struct sim_meta *meta = disk->meta_first;
        disk->meta_first = meta->next;
        meta_free(meta);
    }
    for (uint32_t i = 0; i < disk->inode_count; i++) {
        inode_free(disk->inode[i]);
    }
    sim__free(disk->inode);
    sim__free(disk);
}

uint64_t sim__disk_digest(const struct sim_disk *disk)
{
    uint64_t hash = disk->inode_count;

    /* Bytes went into the hash when they were written; here their effect is enough. */
    for (uint32_t i = SIM_INO_ROOT; i < disk->inode_count; i++) {
        const struct sim_inode *in = disk->inode[i];
        if (in != NULL) {
            hash = sim__mix(hash, in->ino);
            hash = sim__mix(hash, in->version);
            hash = sim__mix(hash, in->live.len);
            hash = sim__mix(hash, in->durable.len);
            hash = sim__mix(hash, in->damage_count);
        }
    }
    return hash;
}
