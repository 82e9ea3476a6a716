/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - a world in memory behind the ports of ron/base/env.h, whole from one seed.
 *
 * A `struct sim` holds machines (hosts), the links between them and one virtual clock. Each host
 * has a `struct ron_env` whose network and disk misbehave as the options say. The same seed and the
 * same program give the same run, event for event; sim_trace_hash proves it.
 *
 * Two ways to run:
 *   plain    sim_new outside weave: one thread, and the simulator owns the clock. A port that would
 *   take
 *            time moves the clock itself; sim_advance lets time pass. For tests of stores and
 *            protocols.
 *   fibers   sim_new inside weave_run_seeded: the clock is ron_mono_ns(), waits are waits of
 *   ron/sync, so
 *            the kernel's executor, channels and tasks run unchanged.
 *
 * What is injected and what is not: README.md.
 *
 * Ownership: the sim owns everything; sim_free ends it all. An env stays readable until then, even
 * after its machine died: its ports then fail (RON_IO for disk, RON_CLOSED for network), and a wait
 * of its pollers still honours wake and deadline, so that a program on a dead machine can be
 * stopped. Failure: a mistake of the test aborts. Nothing here goes through ron_alloc, so fault
 * sweeps and leak counts see only the code under test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/env.h"
#include "ron/base/rand.h"

/* The unit of torn writes, rot and bad sectors. */
enum { SIM_SECTOR_BYTES = 512 };

/* ---- options ---- */

/* X(name, kind, calm, low, high, meaning)
 * kind FAULT: off in half of all swarms, otherwise between low and high, each order of magnitude
 * alike; kind RANGE: always between low and high; kind FIXED: the calm value unless a test sets it.
 * _ppm is a chance per opportunity in parts per million. */
#define SIM_OPTS(X)                                                                                \
    X(net_delay_min_ns, RANGE, 50000, 1000, 1000000, "least time a segment travels")               \
    X(net_delay_max_ns, RANGE, 200000, 1000000, 50000000, "most time, faults aside")               \
    X(net_slow_ppm, FAULT, 0, 100, 100000, "a segment takes 10 to 100 times as long")              \
    X(net_loss_ppm, FAULT, 0, 100, 200000, "a segment is lost and sent again after 200 ms")        \
    X(net_reset_ppm, FAULT, 0, 10, 20000, "a connection is reset when it sends")                   \
    X(net_dup_connect_ppm, FAULT, 0, 100, 100000, "a connect arrives twice; the double dies")      \
    X(net_short_ppm, FAULT, 0, 1000, 500000, "a read or write moves fewer bytes than it could")    \
    X(net_clog_ppm, FAULT, 0, 10, 10000, "a link holds everything back for a while")               \
    X(net_clog_max_ns, RANGE, 0, 1000000, 1000000000, "longest clog")                              \
    X(net_cut_ppm, FAULT, 0, 10, 5000, "a link is cut, one way or both")                           \
    X(net_cut_max_ns, RANGE, 0, 1000000, 3000000000, "longest cut")                                \
    X(net_idle_wake_ppm, FAULT, 0, 100, 200000, "a poller's wait returns with nothing")            \
    X(net_no_fd_ppm, FAULT, 0, 10, 20000, "accept, connect or open: out of descriptors")           \
    X(net_buf_bytes, RANGE, 65536, 16, 262144, "what a connection holds in flight, one way")       \
    X(net_timeout_ns, FIXED, 15000000000, 0, 0, "unanswered for so long, a connection dies")       \
    X(disk_op_max_ns, RANGE, 20000, 1000, 1000000, "most time of a read, write or rename")         \
    X(disk_sync_max_ns, RANGE, 500000, 10000, 50000000, "most time of a sync")                     \
    X(disk_capacity_bytes, FIXED, 1073741824, 0, 0, "size of a disk")                              \
    X(disk_write_fail_ppm, FAULT, 0, 10, 10000, "a write fails half-way")                          \
    X(disk_full_ppm, FAULT, 0, 10, 10000, "a write finds the disk full half-way")                  \
    X(disk_sync_fail_ppm, FAULT, 0, 10, 10000, "a sync fails and its writes are forgotten")        \
    X(disk_meta_fail_ppm, FAULT, 0, 10, 10000, "a rename, link, remove, mkdir or list fails")      \
    X(disk_rot_ppm, FAULT, 0, 10, 5000, "a bit of a sector that is read has flipped")              \
    X(disk_bad_sector_ppm, FAULT, 0, 10, 5000, "a sector that is read has become unreadable")      \
    X(crash_apply_weight, RANGE, 1, 1, 100, "at power loss, an unsynced write is on disk")         \
    X(crash_drop_weight, FAULT, 1, 1, 100, "it is not")                                            \
    X(crash_tear_weight, FAULT, 0, 1, 100, "only a first part of its sectors is")                  \
    X(crash_garble_weight, FAULT, 0, 1, 100, "one of its sectors holds garbage")                   \
    X(crash_misdirect_weight, FAULT, 0, 1, 20, "it has landed elsewhere in the file")              \
    X(crash_wide_garble, FIXED, 0, 0, 0, "1: garbage takes the whole sector, neighbours too")      \
    X(crash_keep_meta_ppm, RANGE, 500000, 1, 1000000, "an unsynced change of a directory stays")   \
    X(wall_skew_max_ms, FAULT, 0, 1, 100000, "wall clocks start apart by up to so much")           \
    X(wall_jump_ppm, FAULT, 0, 10, 10000, "a wall clock jumps, either way, when it is read")

struct sim_opts {
#define X(name, kind, calm, low, high, doc) uint64_t name;
    SIM_OPTS(X)
#undef X
};

/* No faults, moderate delays. */
struct sim_opts sim_opts_calm(void);
/* Drawn from the seed: some faults off, others at wildly different rates. */
struct sim_opts sim_opts_swarm(uint64_t seed);
/* Sets options from "name=value,name=value"; false when a name or value is not known. */
bool sim_opts_parse(struct sim_opts *opts, const char *text);

/* ---- what happened ---- */

/* X(NAME, "name in the trace") */
#define SIM_EVENTS(X)                                                                              \
    X(NOTE, "note")                                                                                \
    X(BOOT, "boot")                                                                                \
    X(KILL, "kill")                                                                                \
    X(POWER_LOSS, "power-loss")                                                                    \
    X(LISTEN, "listen")                                                                            \
    X(CONNECT, "connect")                                                                          \
    X(DUP_CONNECT, "dup-connect")                                                                  \
    X(REFUSE, "refuse")                                                                            \
    X(ACCEPT, "accept")                                                                            \
    X(SEND, "send")                                                                                \
    X(DELIVER, "deliver")                                                                          \
    X(READ, "read")                                                                                \
    X(SHORT, "short")                                                                              \
    X(SLOW, "slow")                                                                                \
    X(LOSS, "loss")                                                                                \
    X(CLOG, "clog")                                                                                \
    X(CUT, "cut")                                                                                  \
    X(HEAL, "heal")                                                                                \
    X(RETRY, "retry")                                                                              \
    X(RESET, "reset")                                                                              \
    X(GIVE_UP, "give-up")                                                                          \
    X(BACKLOG_FULL, "backlog-full")                                                                \
    X(BACKPRESSURE, "backpressure")                                                                \
    X(CLOSE, "close")                                                                              \
    X(IDLE_WAKE, "idle-wake")                                                                      \
    X(NO_FD, "no-fd")                                                                              \
    X(OPEN, "open")                                                                                \
    X(DISK_READ, "disk-read")                                                                      \
    X(DISK_WRITE, "disk-write")                                                                    \
    X(DISK_SYNC, "disk-sync")                                                                      \
    X(DISK_META, "disk-meta")                                                                      \
    X(DISK_SYNC_DIR, "disk-sync-dir")                                                              \
    X(WRITE_FAIL, "write-fail")                                                                    \
    X(DISK_FULL, "disk-full")                                                                      \
    X(SYNC_FAIL, "sync-fail")                                                                      \
    X(META_FAIL, "meta-fail")                                                                      \
    X(ROT, "rot")                                                                                  \
    X(BAD_SECTOR, "bad-sector")                                                                    \
    X(CRASH_APPLY, "crash-apply")                                                                  \
    X(CRASH_DROP, "crash-drop")                                                                    \
    X(CRASH_TEAR, "crash-tear")                                                                    \
    X(CRASH_GARBLE, "crash-garble")                                                                \
    X(CRASH_MISDIRECT, "crash-misdirect")                                                          \
    X(CRASH_KEEP_META, "crash-keep-meta")                                                          \
    X(CRASH_LOSE_META, "crash-lose-meta")                                                          \
    X(WALL_JUMP, "wall-jump")

enum sim_event {
#define X(name, text) SIM_EV_##name,
    SIM_EVENTS(X)
#undef X
        SIM_EV_COUNT
};

/* ---- the world ---- */

struct sim;
struct sim_host;

/* `opts` NULL draws them by swarm from the seed. RON_SIM_OPTS in the environment overrides single
 * ones, and RON_SIM_TRACE=1 prints one line per event to standard error. */
struct sim *sim_new(uint64_t seed, const struct sim_opts *opts);
void sim_free(struct sim *sim);

uint64_t sim_now_ns(const struct sim *sim);
/* Plain only: lets that much time pass; what is due happens. */
void sim_advance(struct sim *sim, uint64_t ns);
/* The options in force; may be changed at any time. */
struct sim_opts *sim_options(struct sim *sim);
/* A stream of the test's own: drawing from it does not disturb the faults. */
struct ron_rand *sim_rand(struct sim *sim);
/* Puts a line of the test into trace and hash. */
void sim_note(struct sim *sim, const char *what, uint64_t a, uint64_t b);

uint64_t sim_count(const struct sim *sim, enum sim_event event);
/* Over all events so far and the state of the world every 64 events. */
uint64_t sim_trace_hash(const struct sim *sim);

/* Prints the seed, the options and how to run it again, then ends the run as failed. */
__attribute__((noreturn)) void sim_fail(const struct sim *sim, const char *file, int line,
                                        const char *expr);
#define SIM_CHECK(sim, cond) ((cond) ? (void)0 : sim_fail((sim), __FILE__, __LINE__, #cond))

/* ---- machines ---- */

enum { SIM_HOSTS_MAX = 16 }; /* more than any test of five services needs */

/* A machine with an empty disk, booted. `name` is kept. Its address is 10.0.0.N, N = 1, 2, ... */
struct sim_host *sim_host_new(struct sim *sim, const char *name);
/* "10.0.0.1:7200" */
const char *sim_host_addr(const struct sim_host *host, uint16_t port, char buf[RON_ADDR_MAX]);
/* The environment of the present life of the machine. */
const struct ron_env *sim_host_env(const struct sim_host *host);
bool sim_env_is_dead(const struct ron_env *env);

/* The process dies: its descriptors are closed, its unsynced writes stay in the page cache. */
void sim_host_kill(struct sim_host *host);
/* The machine dies: peers are told nothing; unsynced writes and directory changes meet their
 * fate. */
void sim_host_power_loss(struct sim_host *host);
/* The next life of a machine that was killed or lost power. */
const struct ron_env *sim_host_boot(struct sim_host *host);
/* Power is lost in the n-th disk operation from now (1 = the next one), before, within or after it.
 * 0 takes it back. */
void sim_host_power_loss_in(struct sim_host *host, uint64_t disk_ops);
/* Disk operations of this machine so far: the range for the function above. */
uint64_t sim_host_disk_ops(const struct sim_host *host);

/* ---- network faults on demand ---- */

/* Nothing passes from one to the other until healed; the reverse way is not touched. */
void sim_cut(struct sim_host *from, struct sim_host *to);
void sim_heal(struct sim_host *from, struct sim_host *to);
/* Ends all cuts and clogs, of chance or of demand. */
void sim_heal_all(struct sim *sim);
/* What is sent from now on arrives after that time at the earliest. */
void sim_clog(struct sim_host *from, struct sim_host *to, uint64_t until_ns);
/* Resets every connection between the two. */
void sim_reset(struct sim_host *a, struct sim_host *b);

/* ---- disk faults on demand ---- */

/* Both abort when there is no such file or byte. */
void sim_disk_flip_bit(struct sim_host *host, const char *path, uint64_t off, unsigned bit);
void sim_disk_bad_sector(struct sim_host *host, const char *path, uint64_t off);
/* Hides or shows rot, bad sectors, garbage and misdirected writes: hidden, the disk reads as a
 * perfect disk would after the same crashes. */
void sim_disk_show_faults(struct sim_host *host, bool show);
