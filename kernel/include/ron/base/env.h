/* SPDX-License-Identifier: Apache-2.0 */
/* env.h - the ports through which all time, randomness, network and disk enter the program.
 *
 * Code above base never asks the system directly: it is given a `struct ron_env`. Production binds
 * it to Linux (kernel/src/io), the simulator (tests/sim) binds it to memory with virtual time and
 * one seed. So the same code runs under both, and a run under the simulator can be replayed.
 *
 * Result codes of all ports: RON_OK; RON_AGAIN (would block, try when the poller says so);
 * RON_CLOSED (end of stream, or peer gone); RON_TIMEOUT; RON_NOTFOUND, RON_EXISTS, RON_DENIED,
 * RON_LIMIT (out of space or descriptors), RON_INVALID; RON_IO for the rest, with errno in `err`.
 * Every port may fail at any call.
 *
 * Threads: an env is immutable after it is bound and may be used from all threads. Disk ports
 * block: the Linux binding asserts that the calling thread may (ron_blocking_point). Net ports
 * never block. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/clock.h"
#include "ron/base/rc.h"

struct ron_env;
struct iovec;

/* ---- poller ---------------------------------------------------------------------------------- */

enum ron_io_events {
    RON_IO_READ = 1u << 0,
    RON_IO_WRITE = 1u << 1,
    RON_IO_HUP = 1u << 2,  /* reported only: the peer has closed its side */
    RON_IO_ERR = 1u << 3,  /* reported only */
    RON_IO_EDGE = 1u << 4, /* asked only: report changes, not levels */
};

struct ron_ready {
    void *user;
    uint32_t events;
};

struct ron_poller;

struct ron_poller_ops {
    enum ron_rc (*open)(const struct ron_env *env, struct ron_poller **ret_poller,
                        struct ron_err *err);
    void (*close)(struct ron_poller *p);
    /* Adds, changes (same fd again) or removes (events 0) interest. Only the thread that waits
     * calls it. */
    enum ron_rc (*set)(struct ron_poller *p, int fd, uint32_t events, void *user);
    /* Waits for events, a wake or the deadline; fills at most `max` entries and returns how
     * many. */
    size_t (*wait)(struct ron_poller *p, struct ron_ready *ready, size_t max,
                   struct ron_deadline deadline);
    /* From any thread: makes the present or next wait return. Many wakes before one wait count as
     * one. */
    void (*wake)(struct ron_poller *p);
};

/* ---- network --------------------------------------------------------------------------------- */

/* Addresses are text: "127.0.0.1:7200", "[::1]:0", "unix:/run/ron/x.sock". Port 0 asks for a free
 * one. */
enum { RON_ADDR_MAX = 128 };

struct ron_peer {
    char addr[RON_ADDR_MAX];
    /* Unix sockets only (has_cred), from the system and not from the peer. */
    bool has_cred;
    uint32_t uid;
    uint32_t gid;
    int32_t pid;
    bool same_user; /* as this process */
};

struct ron_listen_opts {
    int backlog;        /* 0 = 512 */
    bool reuse_port;    /* one listener per worker on one port */
    uint32_t unix_mode; /* permission bits of a Unix socket; 0 = 0600 */
};

struct ron_net_ops {
    enum ron_rc (*listen)(const struct ron_env *env, const char *addr,
                          const struct ron_listen_opts *opts, int *ret_fd, struct ron_err *err);
    enum ron_rc (*accept)(const struct ron_env *env, int fd, int *ret_fd,
                          struct ron_peer *ret_peer);
    /* Starts; RON_OK means "writable when done, then ask connect_result". */
    enum ron_rc (*connect)(const struct ron_env *env, const char *addr, int *ret_fd,
                           struct ron_err *err);
    enum ron_rc (*connect_result)(const struct ron_env *env, int fd);
    enum ron_rc (*read)(const struct ron_env *env, int fd, void *buf, size_t len, size_t *ret_len);
    enum ron_rc (*write)(const struct ron_env *env, int fd, const void *buf, size_t len,
                         size_t *ret_len);
    /* The same, and more follows at once: the system may keep the bytes back until then, so that
     * they share a segment with it. */
    enum ron_rc (*write_more)(const struct ron_env *env, int fd, const void *buf, size_t len,
                              size_t *ret_len);
    enum ron_rc (*writev)(const struct ron_env *env, int fd, const struct iovec *iov, int iov_count,
                          size_t *ret_len);
    /* Sends bytes of a regular file from `off` on without copying them through the program. RON_IO
     * when the file ends before. Like a page fault it may wait for the disk when the bytes are not
     * in memory. */
    enum ron_rc (*sendfile)(const struct ron_env *env, int fd, int file_fd, uint64_t off,
                            size_t len, size_t *ret_len);
    /* Tells the peer that nothing more will come; reading goes on. */
    enum ron_rc (*shutdown_write)(const struct ron_env *env, int fd);
    enum ron_rc (*local_addr)(const struct ron_env *env, int fd, char *buf, size_t len);
    void (*close)(const struct ron_env *env, int fd);
    /* Closes a connection and throws away what the system still holds for the peer, who gets a
     * reset. A plain close would keep that memory for as long as the peer likes to dawdle. */
    void (*reset)(const struct ron_env *env, int fd);
};

/* ---- disk ------------------------------------------------------------------------------------ */

enum ron_open_flags {
    RON_OPEN_READ = 1u << 0,
    RON_OPEN_WRITE = 1u << 1,
    RON_OPEN_CREATE = 1u << 2,
    RON_OPEN_EXCL = 1u << 3, /* with CREATE: RON_EXISTS when it is there */
    RON_OPEN_TRUNC = 1u << 4,
    /* A regular file or nothing: a link, folder, pipe or device under that name is RON_INVALID, and
     * opening it does not wait for another end. For folders that strangers may have put things
     * in. */
    RON_OPEN_PLAIN = 1u << 5,
    /* Past the system's cache, for bulk that is written once and read seldom. A hint: it holds
     * while buffer, offset and length are multiples of what device and file system want
     * (RON_DIRECT_ALIGN suffices for all, a sector for most); what does not fit goes through the
     * cache, as does all that follows on this descriptor. Other descriptors see every write. */
    RON_OPEN_DIRECT = 1u << 6,
};

enum { RON_DIRECT_ALIGN = 4096 };

struct ron_file_stat {
    uint64_t size_bytes;
    bool is_dir;
    bool is_file;  /* a regular one: neither a directory nor a pipe, socket or device */
    uint32_t mode; /* permission bits, 0-07777; the simulator has one user and knows no others */
    uint64_t mtime_ms;
    bool owned; /* by the user that this process acts as */
    /* Which file it is, whatever its name: no two that exist at once have the same numbers. */
    uint64_t device;
    uint64_t number;
    uint64_t changed_ns; /* bytes, name or rights; 0 where that is not known */
};

/* Called for each entry except "." and ".."; false stops the listing. */
typedef bool ron_list_fn(void *arg, const char *name, bool is_dir);

struct ron_disk_ops {
    enum ron_rc (*open)(const struct ron_env *env, const char *path, uint32_t flags, uint32_t mode,
                        int *ret_fd, struct ron_err *err);
    void (*close)(const struct ron_env *env, int fd);
    /* Reads up to len; fewer only at the end of the file. */
    enum ron_rc (*pread)(const struct ron_env *env, int fd, void *buf, size_t len, uint64_t off,
                         size_t *ret_len);
    /* Says that these bytes are read next, so that the disk brings several pieces at once instead
     * of one after another. A hint: nothing is promised, and nothing of it can fail. */
    void (*will_read)(const struct ron_env *env, int fd, uint64_t off, size_t len);
    /* Writes all or fails; after a failure any prefix may be there. */
    enum ron_rc (*pwrite)(const struct ron_env *env, int fd, const void *buf, size_t len,
                          uint64_t off, struct ron_err *err);
    /* After a failed sync nothing is known about earlier writes: never retry, treat the file as
     * damaged. */
    enum ron_rc (*sync)(const struct ron_env *env, int fd, bool data_only, struct ron_err *err);
    enum ron_rc (*truncate)(const struct ron_env *env, int fd, uint64_t size_bytes,
                            struct ron_err *err);
    enum ron_rc (*size)(const struct ron_env *env, int fd, uint64_t *ret_bytes);
    enum ron_rc (*stat)(const struct ron_env *env, const char *path,
                        struct ron_file_stat *ret_stat);
    /* The same, but of a symbolic link itself instead of what it leads to. */
    enum ron_rc (*stat_link)(const struct ron_env *env, const char *path,
                             struct ron_file_stat *ret_stat);
    /* Of an open file: for who must look at and read one and the same file. */
    enum ron_rc (*stat_fd)(const struct ron_env *env, int fd, struct ron_file_stat *ret_stat);
    /* Keeps the open file to this descriptor: RON_AGAIN at once while another one has it, whatever
     * process that is of. Ends with close or with the process, however it ends. Binds only who asks
     * for the lock too. */
    enum ron_rc (*lock)(const struct ron_env *env, int fd, struct ron_err *err);
    enum ron_rc (*rename)(const struct ron_env *env, const char *from, const char *to,
                          struct ron_err *err);
    enum ron_rc (*link)(const struct ron_env *env, const char *from, const char *to,
                        struct ron_err *err);
    enum ron_rc (*remove)(const struct ron_env *env, const char *path, struct ron_err *err);
    enum ron_rc (*mkdir)(const struct ron_env *env, const char *path, uint32_t mode,
                         struct ron_err *err);
    enum ron_rc (*rmdir)(const struct ron_env *env, const char *path, struct ron_err *err);
    /* Makes renames, links and removals inside the directory durable. */
    enum ron_rc (*sync_dir)(const struct ron_env *env, const char *path, struct ron_err *err);
    enum ron_rc (*list)(const struct ron_env *env, const char *path, ron_list_fn *each, void *arg,
                        struct ron_err *err);
    enum ron_rc (*free_bytes)(const struct ron_env *env, const char *path, uint64_t *ret_bytes);
};

/* ---- the environment ------------------------------------------------------------------------- */

struct ron_env {
    struct ron_clock clock;
    uint64_t (*rand_u64)(
        const struct ron_env *env); /* unpredictable in production, seeded in the simulator */
    const struct ron_poller_ops *poller;
    const struct ron_net_ops *net;
    const struct ron_disk_ops *disk;
    void *host; /* the binding's own: the simulated machine, NULL in production */
};

/* Whether both were taken of one file, which was not changed in between. */
static inline bool ron_file_same(const struct ron_file_stat *a, const struct ron_file_stat *b)
{
    return a->device == b->device && a->number == b->number && a->size_bytes == b->size_bytes &&
           a->mtime_ms == b->mtime_ms && a->changed_ns == b->changed_ns;
}

static inline uint64_t ron_env_now_ns(const struct ron_env *env)
{
    return env->clock.mono_ns(env->clock.ctx);
}

static inline uint64_t ron_env_wall_ms(const struct ron_env *env)
{
    return env->clock.wall_ms(env->clock.ctx);
}
