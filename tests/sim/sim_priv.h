/* SPDX-License-Identifier: Apache-2.0 */
/* sim_priv.h - the world inside: timers, machines, sockets, and how the parts meet.
 *
 * Rules between the parts:
 *   S1 A port starts with sim__enter (what is due happens) and ends with sim__leave (waiters are
 *   poked). In
 *      between nothing waits and nothing switches fibers, so the world is only seen whole.
 *   S2 What one machine does to another goes through a timer, never directly: effects have a time.
 *   S3 Objects that a timer may name (hosts, lives, sockets, pollers) stay until sim_free.
 *   S4 Random numbers of the network, of each disk and of the test come from streams of their
 *   own. */
#pragma once

#include "ron/base/list.h"
#include "ron/sync/sync.h"
#include "sim.h"

enum {
    SIM_FD_FIRST = 3,
    SIM_FDS_MAX = 512,         /* per process; enough to run out of on purpose */
    SIM_CHECKPOINT_EVERY = 64, /* events between two hashes of the state */
};

/* ---- memory: the simulator's own, cannot fail ---- */

void *sim__alloc(size_t size); /* zeroed */
void *sim__grow(void *ptr, size_t size);
void sim__free(void *ptr);

struct sim_bytes {
    uint8_t *at;
    size_t len;
    size_t cap;
};

/* Makes the length at least `len`, zero-filling. */
void sim__bytes_extend(struct sim_bytes *b, size_t len);
void sim__bytes_put(struct sim_bytes *b, size_t off, const void *data, size_t len);
void sim__bytes_copy(struct sim_bytes *to, const struct sim_bytes *from);
void sim__bytes_done(struct sim_bytes *b);

/* ---- core ---- */

typedef void sim_fire_fn(struct sim *sim, void *obj, uint64_t arg);

struct sim_timer {
    uint64_t at_ns;
    uint64_t seq; /* of creation: decides between equal times */
    sim_fire_fn *fire;
    void *obj;
    uint64_t arg;
};

struct sim_link {
    uint64_t cut_until_ns;
    uint64_t clog_until_ns;
};

struct sim {
    uint64_t seed;
    bool fibers;
    bool trace;
    uint64_t clock_ns; /* plain only */
    struct sim_opts opts;
    struct sim_opts opts_start; /* as they were when the run began, for reports */
    struct ron_rand rand_net;
    struct ron_rand rand_test;
    struct ron_rand rand_hosts; /* seeds the streams of new hosts */

    uint64_t count[SIM_EV_COUNT];
    uint64_t event_count;
    uint64_t hash;

    struct sim_timer *heap; /* smallest (at_ns, seq) first */
    size_t heap_count;
    size_t heap_cap;
    uint64_t timer_seq;

    struct sim_host *host[SIM_HOSTS_MAX];
    uint32_t host_count;
    struct sim_link link[SIM_HOSTS_MAX][SIM_HOSTS_MAX]; /* [from][to] */

    struct ron_list pollers; /* all of them, S3 */
    struct ron_list socks;   /* those that still matter */
    struct ron_list graves;  /* those that do not, S3 */
    uint32_t sock_seq;
};

void sim__timer(struct sim *sim, uint64_t at_ns, sim_fire_fn *fire, void *obj, uint64_t arg);
/* UINT64_MAX when there is none. */
uint64_t sim__next_timer_ns(const struct sim *sim);
void sim__pump(struct sim *sim);
void sim__enter(struct sim *sim);
void sim__leave(struct sim *sim);
/* Lets the calling fiber, or in plain mode the world, be busy for so long. */
void sim__spend(struct sim *sim, uint64_t ns);
/* Counts, hashes and prints an event. `host` may be NULL. */
void sim__event(struct sim *sim, enum sim_event ev, const struct sim_host *host, uint64_t a,
                uint64_t b);
uint64_t sim__hash_bytes(const void *data, size_t len);
uint64_t sim__mix(uint64_t hash, uint64_t value);
bool sim__chance(struct ron_rand *rand, uint64_t ppm);

/* ---- machines ---- */

struct sim_sock;
struct sim_inode;
struct sim_disk;

enum sim_fd_kind { SIM_FD_FREE, SIM_FD_FILE, SIM_FD_SOCK };

struct sim_fd {
    enum sim_fd_kind kind;
    uint32_t open_flags;
    bool holds_lock;
    struct sim_inode *inode;
    struct sim_sock *sock;
};

/* One life of a machine's process. */
struct sim_env {
    struct ron_env env;
    struct sim_host *host;
    struct sim_env *before; /* the life before this one */
    bool dead;
    uint32_t life;
    struct ron_rand rand;
    struct sim_fd fd[SIM_FDS_MAX];
};

struct sim_host {
    struct sim *sim;
    const char *name;
    uint32_t id;
    bool up;
    struct sim_env *env;
    struct ron_rand rand;
    int64_t wall_skew_ms;
    uint16_t port_next;
    struct sim_disk *disk;
    uint64_t disk_ops;
    uint64_t die_at_op; /* 0: not */
};

struct sim_env *sim__env(const struct ron_env *env);
/* The entry of an open descriptor of that kind; a wrong one is a mistake of the code under test. */
struct sim_fd *sim__fd(struct sim_env *se, int fd, enum sim_fd_kind kind);
/* A free entry, or -1 when descriptors have run out (also by chance). */
int sim__fd_take(struct sim_env *se);
void sim__fd_free(struct sim_env *se, int fd);

extern const struct ron_poller_ops sim__poller_ops;
extern const struct ron_net_ops sim__net_ops;
extern const struct ron_disk_ops sim__disk_ops;

/* ---- poller ---- */

/* Marks the pollers that wait beyond `at_ns`; sim__leave wakes them. */
void sim__poke_before(struct sim *sim, uint64_t at_ns);
void sim__poke_marked(struct sim *sim);
/* The descriptor is closed: forget it. */
void sim__pollers_forget(struct sim *sim, const struct sim_sock *sock);
void sim__pollers_free(struct sim *sim);

/* ---- network ---- */

/* What a level-triggered poller would report, and the number that changes with each edge. */
uint32_t sim__sock_ready(const struct sim *sim, const struct sim_sock *sock);
uint64_t sim__sock_edge(const struct sim_sock *sock);
/* All sockets of a life: closed with farewell, or silent as after a power loss. */
void sim__socks_end(struct sim_env *se, bool silent);
uint64_t sim__socks_digest(const struct sim *sim);
void sim__socks_free(struct sim *sim);

/* ---- disk ---- */

struct sim_disk *sim__disk_new(struct sim_host *host);
void sim__disk_free(struct sim_disk *disk);
/* A file descriptor of a life is gone. */
void sim__disk_fd_closed(struct sim_disk *disk, const struct sim_fd *f);
/* Decides the fate of everything unsynced. */
void sim__disk_power_loss(struct sim_disk *disk);
uint64_t sim__disk_digest(const struct sim_disk *disk);
