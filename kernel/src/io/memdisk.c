/* SPDX-License-Identifier: Apache-2.0 */
/* memdisk.c - the disk ports over memory.
 *
 * The ports find their disk by the address of the environment (it is a member), not through `host`,
 * which belongs to the ports of the base. Descriptors are numbers far above those of the system, so
 * that one that goes astray is noticed instead of closing something. */
#include "ron/io/memdisk.h"

#include <string.h>

#include "memdisk_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

#define MAGIC UINT32_C(0x6d646973)

enum { FD_BASE = 1 << 24, PAGE = RON_MEMDISK_PAGE };

static struct ron_memdisk *disk_of(const struct ron_env *env)
{
    const char *at = (const char *)env - offsetof(struct ron_memdisk, env);
    struct ron_memdisk *d = (struct ron_memdisk *)(uintptr_t)at;

    RON_CHECK_MAGIC(d, MAGIC);
    return d;
}

/* Every port but close. */
static struct ron_memdisk *enter(const struct ron_env *env, const char *what)
{
    struct ron_memdisk *d = disk_of(env);

    ron_blocking_point(what);
    ron_mutex_lock(&d->lock);
    return d;
}

static enum ron_rc leave(struct ron_memdisk *d, enum ron_rc rc)
{
    ron_mutex_unlock(&d->lock);
    return rc;
}

static enum ron_rc leave_told(struct ron_memdisk *d, enum ron_rc rc, const char *what,
                              const char *path, struct ron_err *err)
{
    ron_mutex_unlock(&d->lock);
    return rc == RON_OK ? rc : ron_err_set(err, rc, "%s %s: %s", what, path, ron_rc_doc(rc));
}

static struct ron__mem_file *file_of(struct ron_memdisk *d, int fd)
{
    RON_ASSERT(fd >= FD_BASE && fd < FD_BASE + RON_MEMDISK_FILES_MAX);
    RON_ASSERT(d->files[fd - FD_BASE].node != NULL);
    return &d->files[fd - FD_BASE];
}

/* ---- open and close -------------------------------------------------------------------------- */

static enum ron_rc open_locked(struct ron_memdisk *d, const char *path, uint32_t flags,
                               uint32_t mode, int *ret_fd)
{
    struct ron__mem_place place;
    struct ron__mem_node *node;
    int free_file = 0;

    while (free_file < RON_MEMDISK_FILES_MAX && d->files[free_file].node != NULL) {
        free_file++;
    }
    if (free_file == RON_MEMDISK_FILES_MAX) {
        return RON_LIMIT;
    }
    RON_TRY(ron__mem_find(d, path, &place));
    node = ron__mem_at(d, &place);
    if (node == NULL) {
        enum ron_rc rc;

        if ((flags & RON_OPEN_CREATE) == 0) {
            return RON_NOTFOUND;
        }
        RON_TRY(ron__mem_node_new(d, false, mode, &node));
        rc = ron__mem_add(d, &place, node);
        if (rc != RON_OK) {
            ron__mem_node_settle(d, node);
            return rc;
        }
    } else if ((flags & RON_OPEN_EXCL) != 0) {
        return RON_EXISTS;
    } else if (node->is_dir && (flags & (RON_OPEN_WRITE | RON_OPEN_PLAIN)) != 0) {
        return RON_INVALID;
    } else if ((flags & RON_OPEN_TRUNC) != 0) {
        RON_TRY(ron__mem_resize(d, node, 0));
    }
    node->opens++;
    d->files[free_file] = (struct ron__mem_file){.node = node, .flags = flags};
    *ret_fd = FD_BASE + free_file;
    return RON_OK;
}

static enum ron_rc mem_open(const struct ron_env *env, const char *path, uint32_t flags,
                            uint32_t mode, int *ret_fd, struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "open");

    RON_ASSERT((flags & (RON_OPEN_READ | RON_OPEN_WRITE)) != 0);
    return leave_told(d, open_locked(d, path, flags, mode, ret_fd), "open", path, err);
}

static void mem_close(const struct ron_env *env, int fd)
{
    struct ron_memdisk *d = disk_of(env);
    struct ron__mem_file *f;

    ron_mutex_lock(&d->lock);
    f = file_of(d, fd);
    if (f->holds_lock) {
        f->node->locked = false;
    }
    f->node->opens--;
    ron__mem_node_settle(d, f->node);
    *f = (struct ron__mem_file){0};
    ron_mutex_unlock(&d->lock);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static enum ron_rc mem_pread(const struct ron_env *env, int fd, void *buf, size_t len, uint64_t off,
                             size_t *ret_len)
{
    size_t done = 0;

    for (;;) {
        struct ron_memdisk *d = enter(env, "pread");
        const struct ron__mem_file *f = file_of(d, fd);
        uint64_t at = off + done;
        size_t piece = RON_MIN(len - done, (size_t)(PAGE - at % PAGE));

        RON_ASSERT((f->flags & RON_OPEN_READ) != 0);
        if (f->node->is_dir && len > 0) { /* nothing is asked of it: as the system */
            return leave(d, RON_INVALID);
        }
        piece = at >= f->node->size ? 0 : (size_t)RON_MIN((uint64_t)piece, f->node->size - at);
        if (piece > 0) {
            ron__mem_read(f->node, (uint8_t *)buf + done, piece, at);
        }
        (void)leave(d, RON_OK);
        done += piece;
        if (piece == 0 || done == len) {
            *ret_len = done;
            return RON_OK;
        }
    }
}

static void mem_will_read(const struct ron_env *env, int fd, uint64_t off, size_t len)
{
    (void)env;
    (void)fd;
    (void)off;
    (void)len;
}

static enum ron_rc mem_pwrite(const struct ron_env *env, int fd, const void *buf, size_t len,
                              uint64_t off, struct ron_err *err)
{
    enum ron_rc rc = off > (uint64_t)INT64_MAX - len ? RON_LIMIT : RON_OK;

    for (size_t done = 0; done < len && rc == RON_OK;) {
        struct ron_memdisk *d = enter(env, "pwrite");
        const struct ron__mem_file *f = file_of(d, fd);
        uint64_t at = off + done;
        size_t piece = RON_MIN(len - done, (size_t)(PAGE - at % PAGE));

        RON_ASSERT((f->flags & RON_OPEN_WRITE) != 0);
        if (done == 0 && off + len > f->node->size) { /* room for all of it, or nothing (M1) */
            rc = ron__mem_resize(d, f->node, off + len);
        }
        if (rc == RON_OK) {
            rc = ron__mem_write(d, f->node, (const uint8_t *)buf + done, piece, at);
        }
        f->node->mtime_ms = ron_env_wall_ms(env);
        (void)leave(d, RON_OK);
        done += piece;
    }
    return rc == RON_OK ? rc : ron_err_set(err, rc, "write of %zu bytes: %s", len, ron_rc_doc(rc));
}

static enum ron_rc mem_sync(const struct ron_env *env, int fd, bool data_only, struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "sync");

    (void)data_only;
    (void)err;
    (void)file_of(d, fd);
    return leave(d, RON_OK);
}

static enum ron_rc mem_truncate(const struct ron_env *env, int fd, uint64_t size_bytes,
                                struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "truncate");
    const struct ron__mem_file *f = file_of(d, fd);

    RON_ASSERT((f->flags & RON_OPEN_WRITE) != 0);
    f->node->mtime_ms = ron_env_wall_ms(env);
    return leave_told(d, ron__mem_resize(d, f->node, size_bytes), "truncate", "a file", err);
}

static enum ron_rc mem_size(const struct ron_env *env, int fd, uint64_t *ret_bytes)
{
    struct ron_memdisk *d = enter(env, "size");

    *ret_bytes = file_of(d, fd)->node->size;
    return leave(d, RON_OK);
}

static enum ron_rc mem_lock(const struct ron_env *env, int fd, struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "lock");
    struct ron__mem_file *f = file_of(d, fd);

    if (f->node->locked && !f->holds_lock) {
        return leave_told(d, RON_AGAIN, "lock", "a file", err);
    }
    f->node->locked = f->holds_lock = true;
    return leave(d, RON_OK);
}

/* ---- looking --------------------------------------------------------------------------------- */

static struct ron_file_stat stat_of(const struct ron__mem_node *node)
{
    return (struct ron_file_stat){
        .size_bytes = node->size,
        .is_dir = node->is_dir,
        .is_file = !node->is_dir,
        .mode = node->mode,
        .mtime_ms = node->mtime_ms,
        .owned = true,
        .number = (uint64_t)(uintptr_t)node,
    };
}

static enum ron_rc mem_stat(const struct ron_env *env, const char *path,
                            struct ron_file_stat *ret_stat)
{
    struct ron_memdisk *d = enter(env, "stat");
    struct ron__mem_place place;
    enum ron_rc rc = ron__mem_find(d, path, &place);

    if (rc == RON_OK && ron__mem_at(d, &place) == NULL) {
        rc = RON_NOTFOUND;
    }
    if (rc == RON_OK) {
        *ret_stat = stat_of(ron__mem_at(d, &place));
    }
    return leave(d, rc);
}

static enum ron_rc mem_stat_fd(const struct ron_env *env, int fd, struct ron_file_stat *ret_stat)
{
    struct ron_memdisk *d = enter(env, "stat");

    *ret_stat = stat_of(file_of(d, fd)->node);
    return leave(d, RON_OK);
}

/* The n-th name, copied out: the caller may use ports while it is told. */
static enum ron_rc nth_name(struct ron_memdisk *d, const char *path, size_t n,
                            char ret_text[RON_MEMDISK_NAME_MAX + 1], bool *ret_is_dir)
{
    struct ron__mem_place place;
    const struct ron__mem_node *node;
    const struct ron__mem_name *name;

    RON_TRY(ron__mem_find(d, path, &place));
    node = ron__mem_at(d, &place);
    if (node == NULL || !node->is_dir) {
        return node == NULL ? RON_NOTFOUND : RON_INVALID;
    }
    for (name = node->children; name != NULL && n > 0; n--) {
        name = name->next;
    }
    ret_text[0] = '\0';
    if (name != NULL) {
        memcpy(ret_text, name->text, strlen(name->text) + 1);
        *ret_is_dir = name->node->is_dir;
    }
    return RON_OK;
}

static enum ron_rc mem_list(const struct ron_env *env, const char *path, ron_list_fn *each,
                            void *arg, struct ron_err *err)
{
    char text[RON_MEMDISK_NAME_MAX + 1] = "";
    bool is_dir = false;

    for (size_t n = 0;; n++) {
        struct ron_memdisk *d = enter(env, "list");

        RON_TRY(leave_told(d, nth_name(d, path, n, text, &is_dir), "list", path, err));
        if (text[0] == '\0' || !each(arg, text, is_dir)) {
            return RON_OK;
        }
    }
}

static enum ron_rc mem_free_bytes(const struct ron_env *env, const char *path, uint64_t *ret_bytes)
{
    struct ron_memdisk *d = enter(env, "free_bytes");

    (void)path;
    *ret_bytes = d->bytes_max - d->bytes_used;
    return leave(d, RON_OK);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether `dir` is `node` or lies below it. */
static bool within(const struct ron__mem_node *node, const struct ron__mem_node *dir)
{
    while (dir != NULL && dir != node) {
        dir = dir->parent;
    }
    return dir != NULL;
}

static enum ron_rc rename_locked(struct ron_memdisk *d, const char *from, const char *to)
{
    struct ron__mem_place old;
    struct ron__mem_place new;
    struct ron__mem_node *node;
    struct ron__mem_node *there;

    RON_TRY(ron__mem_find(d, from, &old));
    RON_TRY(ron__mem_find(d, to, &new));
    if (old.name == NULL || new.name == NULL) {
        return RON_INVALID;
    }
    node = ron__mem_at(d, &old);
    there = ron__mem_at(d, &new);
    if (node == NULL) {
        return RON_NOTFOUND;
    }
    if (within(node, new.dir)) {
        return RON_INVALID; /* into itself */
    }
    if (there == node) {
        return RON_OK;
    }
    if (there != NULL) {
        if (within(there, old.dir)) {
            return RON_EXISTS;
        }
        if (there->is_dir != node->is_dir) {
            return RON_INVALID;
        }
        if (there->is_dir && there->children != NULL) {
            return RON_EXISTS;
        }
        /* The new name takes over the node, and the old name goes. */
        (*new.slot)->node = node;
        node->links++;
        node->parent = node->is_dir ? new.dir : NULL;
        there->links--;
        ron__mem_node_settle(d, there);
    } else {
        RON_TRY(ron__mem_add(d, &new, node));
        RON_TRY(ron__mem_find(d, from, &old)); /* the list may have grown behind its slot */
    }
    ron__mem_drop(d, old.slot);
    return RON_OK;
}

static enum ron_rc mem_rename(const struct ron_env *env, const char *from, const char *to,
                              struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "rename");

    return leave_told(d, rename_locked(d, from, to), "rename to", to, err);
}

static enum ron_rc link_locked(struct ron_memdisk *d, const char *from, const char *to)
{
    struct ron__mem_place old;
    struct ron__mem_place new;
    struct ron__mem_node *node;

    RON_TRY(ron__mem_find(d, from, &old));
    node = ron__mem_at(d, &old);
    if (node == NULL) {
        return RON_NOTFOUND;
    }
    RON_TRY(ron__mem_find(d, to, &new));
    if (ron__mem_at(d, &new) != NULL) {
        return RON_EXISTS;
    }
    return node->is_dir ? RON_DENIED : ron__mem_add(d, &new, node);
}

static enum ron_rc mem_link(const struct ron_env *env, const char *from, const char *to,
                            struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "link");

    return leave_told(d, link_locked(d, from, to), "link to", to, err);
}

static enum ron_rc remove_locked(struct ron_memdisk *d, const char *path, bool is_dir)
{
    struct ron__mem_place place;
    struct ron__mem_node *node;

    RON_TRY(ron__mem_find(d, path, &place));
    node = ron__mem_at(d, &place);
    if (node == NULL) {
        return RON_NOTFOUND;
    }
    if (node->is_dir != is_dir || place.name == NULL) {
        return RON_INVALID;
    }
    if (node->children != NULL) {
        return RON_EXISTS;
    }
    ron__mem_drop(d, place.slot);
    return RON_OK;
}

static enum ron_rc mem_remove(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "remove");

    return leave_told(d, remove_locked(d, path, false), "remove", path, err);
}

static enum ron_rc mem_rmdir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "rmdir");

    return leave_told(d, remove_locked(d, path, true), "rmdir", path, err);
}

static enum ron_rc mkdir_locked(struct ron_memdisk *d, const char *path, uint32_t mode)
{
    struct ron__mem_place place;
    struct ron__mem_node *node;
    enum ron_rc rc;

    RON_TRY(ron__mem_find(d, path, &place));
    if (ron__mem_at(d, &place) != NULL) {
        return RON_EXISTS;
    }
    RON_TRY(ron__mem_node_new(d, true, mode, &node));
    rc = ron__mem_add(d, &place, node);
    if (rc != RON_OK) {
        ron__mem_node_settle(d, node);
    }
    return rc;
}

static enum ron_rc mem_mkdir(const struct ron_env *env, const char *path, uint32_t mode,
                             struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "mkdir");

    return leave_told(d, mkdir_locked(d, path, mode), "mkdir", path, err);
}

static enum ron_rc mem_sync_dir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct ron_memdisk *d = enter(env, "sync_dir");
    struct ron__mem_place place;
    enum ron_rc rc = ron__mem_find(d, path, &place);

    if (rc == RON_OK) {
        const struct ron__mem_node *node = ron__mem_at(d, &place);

        rc = node == NULL ? RON_NOTFOUND : node->is_dir ? RON_OK : RON_INVALID;
    }
    return leave_told(d, rc, "sync directory", path, err);
}

static const struct ron_disk_ops mem_ops = {
    .open = mem_open,
    .close = mem_close,
    .pread = mem_pread,
    .will_read = mem_will_read,
    .pwrite = mem_pwrite,
    .sync = mem_sync,
    .truncate = mem_truncate,
    .size = mem_size,
    .stat = mem_stat,
    .stat_link = mem_stat,
    .stat_fd = mem_stat_fd,
    .lock = mem_lock,
    .rename = mem_rename,
    .link = mem_link,
    .remove = mem_remove,
    .mkdir = mem_mkdir,
    .rmdir = mem_rmdir,
    .sync_dir = mem_sync_dir,
    .list = mem_list,
    .free_bytes = mem_free_bytes,
};

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc ron_memdisk_new(const struct ron_env *base, uint64_t bytes_max,
                            struct ron_memdisk **ret_disk, struct ron_err *err)
{
    struct ron_memdisk *d = ron_alloc_zero(sizeof *d);

    if (d == NULL) {
        return ron_err_set(err, RON_NOMEM, "disk in memory");
    }
    d->magic = MAGIC;
    d->env = *base;
    d->env.disk = &mem_ops;
    d->bytes_max = bytes_max;
    if (ron__mem_node_new(d, true, 0700, &d->root) != RON_OK) {
        ron_free(d);
        return ron_err_set(err, RON_NOMEM, "disk in memory");
    }
    d->root->links = 1;
    ron_mutex_init(&d->lock, RON_RANK_PLATFORM, "memdisk");
    *ret_disk = d;
    return RON_OK;
}

static void drop_tree(struct ron_memdisk *d)
{
    struct ron__mem_node *dir = d->root;

    while (dir->children != NULL || dir->parent != NULL) {
        if (dir->children == NULL) {
            dir = dir->parent;
        } else if (dir->children->node->children != NULL) {
            dir = dir->children->node;
        } else {
            ron__mem_drop(d, &dir->children);
        }
    }
}

void ron_memdisk_free(struct ron_memdisk *disk)
{
    if (disk == NULL) {
        return;
    }
    RON_CHECK_MAGIC(disk, MAGIC);
    for (size_t i = 0; i < RON_MEMDISK_FILES_MAX; i++) {
        RON_ASSERT(disk->files[i].node == NULL);
    }
    drop_tree(disk);
    disk->root->links = 0;
    ron__mem_node_settle(disk, disk->root);
    RON_ASSERT(disk->nodes == 0);
    RON_ASSERT(disk->bytes_used == 0);
    ron_mutex_done(&disk->lock);
    disk->magic = 0;
    ron_free(disk);
}

const struct ron_env *ron_memdisk_env(const struct ron_memdisk *disk)
{
    RON_CHECK_MAGIC(disk, MAGIC);
    return &disk->env;
}
