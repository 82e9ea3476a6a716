/* SPDX-License-Identifier: Apache-2.0 */
/* sim_disk.c - the disk ports over the simulated file system, with the faults of an operation.
 *
 * Place: top of the simulated disk. Each port takes time, may fail by chance, and may be the one in
 * which the machine loses power: before it, within it (a write half done) or after it, when the
 * caller no longer learns that it was done.
 *
 * As in the Linux binding, every port but close is a blocking point of sync. */
#include <string.h>

#include "ron/base/assert.h"
#include "sim_fs.h"

enum doom { DOOM_NONE, DOOM_BEFORE, DOOM_WITHIN, DOOM_AFTER };

/* One operation of one port. */
struct op {
    struct sim_env *env;
    struct sim_host *host;
    struct sim *sim;
    struct sim_disk *disk;
    const char *what;
    enum doom doom;
};

/* Starts an operation that takes up to max_ns. False: the machine is off, or goes off now. */
static bool begin(struct op *op, const struct ron_env *env, const char *what, uint64_t max_ns)
{
    op->env = sim__env(env);
    op->host = op->env->host;
    op->sim = op->host->sim;
    op->disk = op->host->disk;
    op->what = what;
    op->doom = DOOM_NONE;
    if (op->sim->fibers) {
        ron_blocking_point(what);
    }
    sim__enter(op->sim);
    if (op->env->dead) {
        return false;
    }
    op->host->disk_ops++;
    if (op->host->die_at_op != 0 && op->host->disk_ops >= op->host->die_at_op) {
        op->doom = (enum doom)ron_rand_range(&op->disk->rand, DOOM_BEFORE, DOOM_AFTER);
    }
    sim__spend(op->sim, ron_rand_range(&op->disk->rand, 1, RON_MAX(max_ns, UINT64_C(1))));
    if (op->env->dead) {
        return false; /* while we waited */
    }
    if (op->doom == DOOM_BEFORE) {
        sim_host_power_loss(op->host);
        return false;
    }
    return true;
}

static enum ron_rc end(struct op *op, enum ron_rc rc, struct ron_err *err)
{
    if (op->doom != DOOM_NONE && !op->env->dead) {
        sim_host_power_loss(op->host);
    }
    sim__leave(op->sim);
    if (op->env->dead) {
        return ron_err_set(err, RON_IO, "%s: the machine is off", op->what);
    }
    return rc == RON_OK ? RON_OK : ron_err_set(err, rc, "%s: %s", op->what, ron_rc_doc(rc));
}

static uint64_t op_max_ns(const struct ron_env *env)
{
    return sim__env(env)->host->sim->opts.disk_op_max_ns;
}

static uint64_t sync_max_ns(const struct ron_env *env)
{
    return sim__env(env)->host->sim->opts.disk_sync_max_ns;
}

static bool strikes(const struct op *op, uint64_t ppm, enum sim_event ev, uint64_t a)
{
    if (!sim__chance(&op->disk->rand, ppm)) {
        return false;
    }
    sim__event(op->sim, ev, op->host, a, 0);
    return true;
}

static bool meta_fails(const struct op *op)
{
    return strikes(op, op->sim->opts.disk_meta_fail_ppm, SIM_EV_META_FAIL, 0);
}

/* ---- files ---- */

static enum ron_rc open_inode(struct op *op, const char *path, uint32_t flags,
                              struct sim_inode **ret_inode)
{
    struct sim_inode *in = sim__fs_find(op->disk, path);

    if (in == NULL && (flags & RON_OPEN_CREATE) != 0) {
        return sim__fs_create(op->disk, path, false, ret_inode);
    }
    if (in == NULL) {
        return RON_NOTFOUND;
    }
    if ((flags & RON_OPEN_EXCL) != 0) {
        return RON_EXISTS;
    }
    if (in->is_dir) {
        return RON_INVALID;
    }
    if ((flags & RON_OPEN_TRUNC) != 0 && in->live.len > 0) {
        sim__file_truncate(op->disk, in, 0);
    }
    *ret_inode = in;
    return RON_OK;
}

static enum ron_rc disk_open(const struct ron_env *env, const char *path, uint32_t flags,
                             uint32_t mode, int *ret_fd, struct ron_err *err)
{
    struct op op;
    struct sim_inode *in = NULL;
    enum ron_rc rc = RON_LIMIT;
    int fd = -1;

    (void)mode;
    RON_ASSERT((flags & (RON_OPEN_READ | RON_OPEN_WRITE)) != 0);
    if (!begin(&op, env, "open", op_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    fd = sim__fd_take(op.env);
    if (fd >= 0) {
        rc = meta_fails(&op) ? RON_IO : open_inode(&op, path, flags, &in);
    }
    if (rc == RON_OK) {
        in->open_count++;
        op.env->fd[fd] = (struct sim_fd){.kind = SIM_FD_FILE, .open_flags = flags, .inode = in};
        sim__event(op.sim, SIM_EV_OPEN, op.host, in->ino, (uint64_t)fd);
    }
    RON_TRY(end(&op, rc, err));
    *ret_fd = fd;
    return RON_OK;
}

void sim__disk_fd_closed(struct sim_disk *disk, const struct sim_fd *f)
{
    f->inode->open_count--;
    if (f->holds_lock) {
        f->inode->locked = false;
    }
    disk->used_stale = true;
}

static void disk_close(const struct ron_env *env, int fd)
{
    struct sim_env *se = sim__env(env);

    if (!se->dead) {
        sim__disk_fd_closed(se->host->disk, sim__fd(se, fd, SIM_FD_FILE));
        sim__fd_free(se, fd);
    }
}

static struct sim_inode *file_of(const struct op *op, int fd, uint32_t needs)
{
    const struct sim_fd *f = sim__fd(op->env, fd, SIM_FD_FILE);

    RON_ASSERT_MSG((f->open_flags & needs) == needs, "descriptor %d is not open for that", fd);
    return f->inode;
}

static enum ron_rc disk_pread(const struct ron_env *env, int fd, void *buf, size_t len,
                              uint64_t off, size_t *ret_len)
{
    struct op op;
    enum ron_rc rc;
    size_t got = 0;

    if (!begin(&op, env, "pread", op_max_ns(env))) {
        return end(&op, RON_IO, NULL);
    }
    rc = sim__file_read(op.disk, file_of(&op, fd, RON_OPEN_READ), buf, len, off, &got);
    sim__event(op.sim, SIM_EV_DISK_READ, op.host, off, sim__hash_bytes(buf, got));
    RON_TRY(end(&op, rc, NULL));
    *ret_len = got;
    return RON_OK;
}

/* Here a read takes as long with a hint as without. */
static void disk_will_read(const struct ron_env *env, int fd, uint64_t off, size_t len)
{
    (void)env;
    (void)fd;
    (void)off;
    (void)len;
}

/* How much of a write that does not end is there: whole sectors, or all of it. A disk writes a
 * sector or does not, and the kernel copies pages. */
static size_t first_part(const struct op *op, size_t len, uint64_t off)
{
    uint64_t done = ron_rand_below(&op->disk->rand, (uint64_t)len + 1);
    uint64_t beyond = (off + done) % SIM_SECTOR_BYTES;

    if (done == len) {
        return len;
    }
    return beyond > done ? 0 : (size_t)(done - beyond);
}

/* How much of a write is done, and what the caller is told. */
static enum ron_rc write_fate(const struct op *op, const struct sim_inode *in, size_t len,
                              uint64_t off, size_t *ret_done)
{
    uint64_t used = sim__fs_used_bytes(op->disk);
    uint64_t capacity = op->sim->opts.disk_capacity_bytes;
    uint64_t size_max = in->live.len + (capacity > used ? capacity - used : 0);

    *ret_done = len;
    if (op->doom == DOOM_WITHIN) {
        *ret_done = first_part(op, len, off);
        return RON_IO;
    }
    if (strikes(op, op->sim->opts.disk_write_fail_ppm, SIM_EV_WRITE_FAIL, off)) {
        *ret_done = first_part(op, len, off);
        return RON_IO;
    }
    if (strikes(op, op->sim->opts.disk_full_ppm, SIM_EV_DISK_FULL, off)) {
        *ret_done = first_part(op, len, off);
        return RON_LIMIT;
    }
    if (off + len > size_max) {
        *ret_done = size_max > off ? (size_t)(size_max - off) : 0;
        sim__event(op->sim, SIM_EV_DISK_FULL, op->host, off, *ret_done);
        return RON_LIMIT;
    }
    return RON_OK;
}

static enum ron_rc disk_pwrite(const struct ron_env *env, int fd, const void *buf, size_t len,
                               uint64_t off, struct ron_err *err)
{
    struct op op;
    struct sim_inode *in;
    size_t done = 0;
    enum ron_rc rc;

    if (!begin(&op, env, "pwrite", op_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    in = file_of(&op, fd, RON_OPEN_WRITE);
    rc = write_fate(&op, in, len, off, &done);
    sim__file_write(op.disk, in, buf, done, off);
    in->mtime_ms = ron_env_wall_ms(env);
    sim__event(op.sim, SIM_EV_DISK_WRITE, op.host, off, sim__hash_bytes(buf, done));
    return end(&op, rc, err);
}

static enum ron_rc disk_sync(const struct ron_env *env, int fd, bool data_only, struct ron_err *err)
{
    struct op op;
    struct sim_inode *in;
    bool failed;

    (void)data_only; /* the size is data enough to be synced either way; nothing else is kept */
    if (!begin(&op, env, "sync", sync_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    in = file_of(&op, fd, 0);
    failed = strikes(&op, op.sim->opts.disk_sync_fail_ppm, SIM_EV_SYNC_FAIL, in->ino);
    if (op.doom != DOOM_WITHIN) {
        sim__file_sync(op.disk, in, failed);
    }
    sim__event(op.sim, SIM_EV_DISK_SYNC, op.host, in->ino, in->durable.len);
    return end(&op, failed ? RON_IO : RON_OK, err);
}

static enum ron_rc disk_truncate(const struct ron_env *env, int fd, uint64_t size_bytes,
                                 struct ron_err *err)
{
    struct op op;
    struct sim_inode *in;
    enum ron_rc rc = RON_OK;

    if (!begin(&op, env, "truncate", op_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    in = file_of(&op, fd, RON_OPEN_WRITE);
    if (meta_fails(&op)) {
        rc = RON_IO;
    } else if (size_bytes > in->live.len &&
               size_bytes - in->live.len + sim__fs_used_bytes(op.disk) >
                   op.sim->opts.disk_capacity_bytes) {
        rc = RON_LIMIT;
    } else {
        sim__file_truncate(op.disk, in, size_bytes);
    }
    sim__event(op.sim, SIM_EV_DISK_META, op.host, in->ino, size_bytes);
    return end(&op, rc, err);
}

static enum ron_rc disk_size(const struct ron_env *env, int fd, uint64_t *ret_bytes)
{
    struct op op;
    uint64_t size;

    if (!begin(&op, env, "size", op_max_ns(env))) {
        return end(&op, RON_IO, NULL);
    }
    size = file_of(&op, fd, 0)->live.len;
    RON_TRY(end(&op, RON_OK, NULL));
    *ret_bytes = size;
    return RON_OK;
}

/* ---- names ---- */

/* Nobody else lives on the simulated machine, so every file is ours and private. */
static struct ron_file_stat stat_of(const struct sim_inode *in)
{
    return (struct ron_file_stat){.size_bytes = in->live.len,
                                  .is_dir = in->is_dir,
                                  .is_file = !in->is_dir,
                                  .mtime_ms = in->mtime_ms,
                                  .mode = in->is_dir ? 0700 : 0600,
                                  .owned = true,
                                  .number = (uint64_t)(uintptr_t)in};
}

static enum ron_rc disk_stat_fd(const struct ron_env *env, int fd, struct ron_file_stat *ret_stat)
{
    struct op op;
    struct ron_file_stat st;

    if (!begin(&op, env, "stat_fd", op_max_ns(env))) {
        return end(&op, RON_IO, NULL);
    }
    st = stat_of(file_of(&op, fd, 0));
    RON_TRY(end(&op, RON_OK, NULL));
    *ret_stat = st;
    return RON_OK;
}

static enum ron_rc disk_lock(const struct ron_env *env, int fd, struct ron_err *err)
{
    struct op op;
    struct sim_inode *in;
    struct sim_fd *f;

    if (!begin(&op, env, "lock", op_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    in = file_of(&op, fd, 0);
    f = sim__fd(op.env, fd, SIM_FD_FILE);
    if (in->locked && !f->holds_lock) {
        return end(&op, RON_AGAIN, err);
    }
    in->locked = true;
    f->holds_lock = true;
    return end(&op, RON_OK, err);
}

static enum ron_rc disk_stat(const struct ron_env *env, const char *path,
                             struct ron_file_stat *ret_stat)
{
    struct op op;
    const struct sim_inode *in;
    struct ron_file_stat st = {0};
    enum ron_rc rc = RON_OK;

    if (!begin(&op, env, "stat", op_max_ns(env))) {
        return end(&op, RON_IO, NULL);
    }
    in = sim__fs_find(op.disk, path);
    if (in == NULL) {
        rc = RON_NOTFOUND;
    } else {
        st = stat_of(in);
    }
    RON_TRY(end(&op, rc, NULL));
    *ret_stat = st;
    return RON_OK;
}

enum name_op { NAME_RENAME, NAME_LINK, NAME_REMOVE, NAME_MKDIR, NAME_RMDIR };

/* The five changes of names have one shape. `to` only where there are two. */
static enum ron_rc change_names(const struct ron_env *env, enum name_op name_op, const char *what,
                                const char *path, const char *to, struct ron_err *err)
{
    struct op op;
    struct sim_inode *made = NULL;
    enum ron_rc rc = RON_IO;

    if (!begin(&op, env, what, op_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    if (op.doom == DOOM_WITHIN || meta_fails(&op)) {
        return end(&op, RON_IO, err);
    }
    switch (name_op) {
    case NAME_RENAME:
        rc = sim__fs_rename(op.disk, path, to);
        break;
    case NAME_LINK:
        rc = sim__fs_link(op.disk, path, to);
        break;
    case NAME_REMOVE:
        rc = sim__fs_remove(op.disk, path, false);
        break;
    case NAME_MKDIR:
        rc = sim__fs_create(op.disk, path, true, &made);
        break;
    case NAME_RMDIR:
        rc = sim__fs_remove(op.disk, path, true);
        break;
    }
    sim__event(op.sim, SIM_EV_DISK_META, op.host, (uint64_t)name_op,
               sim__hash_bytes(path, strlen(path)));
    return end(&op, rc, err);
}

static enum ron_rc disk_rename(const struct ron_env *env, const char *from, const char *to,
                               struct ron_err *err)
{
    return change_names(env, NAME_RENAME, "rename", from, to, err);
}

static enum ron_rc disk_link(const struct ron_env *env, const char *from, const char *to,
                             struct ron_err *err)
{
    return change_names(env, NAME_LINK, "link", from, to, err);
}

static enum ron_rc disk_remove(const struct ron_env *env, const char *path, struct ron_err *err)
{
    return change_names(env, NAME_REMOVE, "remove", path, NULL, err);
}

static enum ron_rc disk_mkdir(const struct ron_env *env, const char *path, uint32_t mode,
                              struct ron_err *err)
{
    (void)mode;
    return change_names(env, NAME_MKDIR, "mkdir", path, NULL, err);
}

static enum ron_rc disk_rmdir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    return change_names(env, NAME_RMDIR, "rmdir", path, NULL, err);
}

static enum ron_rc disk_sync_dir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct op op;
    const struct sim_inode *dir;
    enum ron_rc rc = RON_OK;

    if (!begin(&op, env, "sync_dir", sync_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    dir = sim__fs_find(op.disk, path);
    if (dir == NULL) {
        rc = RON_NOTFOUND;
    } else if (!dir->is_dir) {
        rc = RON_INVALID;
    } else if (op.doom == DOOM_WITHIN ||
               strikes(&op, op.sim->opts.disk_sync_fail_ppm, SIM_EV_SYNC_FAIL, dir->ino)) {
        rc = RON_IO; /* the changes stay undecided */
    } else {
        sim__fs_sync_dir(op.disk, dir);
        sim__event(op.sim, SIM_EV_DISK_SYNC_DIR, op.host, dir->ino, 0);
    }
    return end(&op, rc, err);
}

struct listing {
    struct sim_entry *at;
    size_t count;
};

/* A copy, because the callback may use ports, in an order that no code can rely on. */
static struct listing copy_entries(struct op *op, const struct sim_inode *dir)
{
    const struct sim_entries *from = &dir->live_entries;
    struct listing list = {.at = sim__alloc(from->count * sizeof(struct sim_entry)),
                           .count = from->count};
    size_t start = from->count == 0 ? 0 : (size_t)ron_rand_below(&op->disk->rand, from->count);

    for (size_t i = 0; i < from->count; i++) {
        const struct sim_entry *entry = &from->at[(start + i) % from->count];
        size_t size = strlen(entry->name) + 1;
        list.at[i].name = sim__alloc(size);
        memcpy(list.at[i].name, entry->name, size);
        list.at[i].ino = op->disk->inode[entry->ino]->is_dir ? 1 : 0; /* only the kind is told */
    }
    return list;
}

static enum ron_rc disk_list(const struct ron_env *env, const char *path, ron_list_fn *each,
                             void *arg, struct ron_err *err)
{
    struct op op;
    const struct sim_inode *dir;
    struct listing list = {0};
    enum ron_rc rc = RON_OK;
    bool more = true;

    if (!begin(&op, env, "list", op_max_ns(env))) {
        return end(&op, RON_IO, err);
    }
    dir = sim__fs_find(op.disk, path);
    if (dir == NULL) {
        rc = RON_NOTFOUND;
    } else if (!dir->is_dir) {
        rc = RON_INVALID;
    } else if (meta_fails(&op)) {
        rc = RON_IO;
    } else {
        list = copy_entries(&op, dir);
    }
    rc = end(&op, rc, err);
    for (size_t i = 0; i < list.count; i++) {
        more = more && rc == RON_OK && each(arg, list.at[i].name, list.at[i].ino != 0);
        sim__free(list.at[i].name);
    }
    sim__free(list.at);
    return rc;
}

static enum ron_rc disk_free_bytes(const struct ron_env *env, const char *path, uint64_t *ret_bytes)
{
    struct op op;
    uint64_t used;
    uint64_t capacity;

    (void)path;
    if (!begin(&op, env, "free_bytes", op_max_ns(env))) {
        return end(&op, RON_IO, NULL);
    }
    used = sim__fs_used_bytes(op.disk);
    capacity = op.sim->opts.disk_capacity_bytes;
    RON_TRY(end(&op, RON_OK, NULL));
    *ret_bytes = capacity > used ? capacity - used : 0;
    return RON_OK;
}

const struct ron_disk_ops sim__disk_ops = {
    .open = disk_open,
    .close = disk_close,
    .pread = disk_pread,
    .will_read = disk_will_read,
    .pwrite = disk_pwrite,
    .sync = disk_sync,
    .truncate = disk_truncate,
    .size = disk_size,
    .stat = disk_stat,
    .stat_link = disk_stat, /* there are no links */
    .stat_fd = disk_stat_fd,
    .lock = disk_lock,
    .rename = disk_rename,
    .link = disk_link,
    .remove = disk_remove,
    .mkdir = disk_mkdir,
    .rmdir = disk_rmdir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
    .free_bytes = disk_free_bytes,
};
