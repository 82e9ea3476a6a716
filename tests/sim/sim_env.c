/* SPDX-License-Identifier: Apache-2.0 */
/* sim_env.c - machines and their lives: boot, kill, power loss, clocks, descriptors.
 *
 * Place: above core, disk and network. A host keeps its disk over its lives; each life has its own
 * env and table of descriptors, so that a program left over from an earlier life cannot touch the
 * present one.
 *
 * The monotonic clock is the same on all machines, because the waits of ron/sync know only one.
 * Wall clocks differ and jump. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rand_priv.h"
#include "ron/base/assert.h"
#include "sim_priv.h"
#include "support/rand.h"

/* 2024-01-01 in ms; any date that is not 1970 would do. */
static const uint64_t wall_start_ms = UINT64_C(1704067200000);

struct sim_env *sim__env(const struct ron_env *env)
{
    struct sim_env *se = env->host;

    RON_ASSERT_MSG(&se->env == env, "an env of the simulator must not be copied");
    return se;
}

static uint64_t mono_ns(void *ctx)
{
    const struct sim_env *se = ctx;

    return sim_now_ns(se->host->sim);
}

static uint64_t wall_ms(void *ctx)
{
    struct sim_env *se = ctx;
    struct sim_host *host = se->host;
    struct sim *sim = host->sim;

    if (sim__chance(&host->rand, sim->opts.wall_jump_ppm)) {
        /* Up to a minute: more than every tolerance in the program, less than a different date. */
        int64_t jump_ms = (int64_t)ron_rand_below(&host->rand, 120000) - 60000;
        host->wall_skew_ms += jump_ms;
        sim__event(sim, SIM_EV_WALL_JUMP, host, (uint64_t)(jump_ms + 60000), 0);
    }
    return wall_start_ms + sim_now_ns(sim) / RON_NS_PER_MS + (uint64_t)host->wall_skew_ms;
}

static uint64_t rand_u64(const struct ron_env *env)
{
    return ron_rand_u64(&sim__env(env)->rand);
}

static void start_life(struct sim_host *host)
{
    struct sim_env *se = sim__alloc(sizeof *se);

    se->host = host;
    se->before = host->env;
    se->life = host->env == NULL ? 1 : host->env->life + 1;
    se->rand = ron_rand_fork(&host->rand);
    se->env = (struct ron_env){
        .clock = {.mono_ns = mono_ns, .wall_ms = wall_ms, .ctx = se},
        .rand_u64 = rand_u64,
        .poller = &sim__poller_ops,
        .net = &sim__net_ops,
        .disk = &sim__disk_ops,
        .host = se,
    };
    host->env = se;
    host->up = true;
    sim__event(host->sim, SIM_EV_BOOT, host, se->life, 0);
}

struct sim_host *sim_host_new(struct sim *sim, const char *name)
{
    struct sim_host *host = sim__alloc(sizeof *host);
    uint64_t skew_max = sim->opts.wall_skew_max_ms;

    RON_ASSERT(sim->host_count < SIM_HOSTS_MAX);
    host->sim = sim;
    host->name = name;
    host->id = sim->host_count;
    host->rand = ron_rand_fork(&sim->rand_hosts);
    host->wall_skew_ms = (int64_t)ron_rand_below(&host->rand, 2 * skew_max + 1) - (int64_t)skew_max;
    host->port_next = 40000;
    host->disk = sim__disk_new(host);
    start_life(host);
    sim->host[sim->host_count++] = host;
    return host;
}

const char *sim_host_addr(const struct sim_host *host, uint16_t port, char buf[RON_ADDR_MAX])
{
    (void)snprintf(buf, RON_ADDR_MAX, "10.0.0.%" PRIu32 ":%u", host->id + 1, port);
    return buf;
}

const struct ron_env *sim_host_env(const struct sim_host *host)
{
    return &host->env->env;
}

bool sim_env_is_dead(const struct ron_env *env)
{
    return sim__env(env)->dead;
}

static void end_life(struct sim_host *host, bool silent)
{
    struct sim_env *se = host->env;

    RON_ASSERT_MSG(!se->dead, "%s is not running", host->name);
    se->dead = true;
    sim__socks_end(se, silent);
    for (int fd = 0; fd < SIM_FDS_MAX; fd++) {
        if (se->fd[fd].kind == SIM_FD_FILE) {
            sim__disk_fd_closed(host->disk, &se->fd[fd]);
        }
        se->fd[fd] = (struct sim_fd){0};
    }
    host->die_at_op = 0;
}

void sim_host_kill(struct sim_host *host)
{
    sim__event(host->sim, SIM_EV_KILL, host, host->env->life, 0);
    end_life(host, false);
    sim__leave(host->sim);
}

void sim_host_power_loss(struct sim_host *host)
{
    sim__event(host->sim, SIM_EV_POWER_LOSS, host, host->env->life, host->disk_ops);
    host->up = false;
    if (!host->env->dead) {
        end_life(host, true);
    }
    sim__disk_power_loss(host->disk);
}

const struct ron_env *sim_host_boot(struct sim_host *host)
{
    RON_ASSERT_MSG(host->env->dead, "%s is running", host->name);
    start_life(host);
    return &host->env->env;
}

void sim_host_power_loss_in(struct sim_host *host, uint64_t disk_ops)
{
    host->die_at_op = disk_ops == 0 ? 0 : host->disk_ops + disk_ops;
}

uint64_t sim_host_disk_ops(const struct sim_host *host)
{
    return host->disk_ops;
}

/* ---- descriptors ---- */

struct sim_fd *sim__fd(struct sim_env *se, int fd, enum sim_fd_kind kind)
{
    RON_ASSERT_MSG(fd >= SIM_FD_FIRST && fd < SIM_FDS_MAX, "descriptor %d is none", fd);
    RON_ASSERT_MSG(se->fd[fd].kind == kind, "descriptor %d is closed or of another kind", fd);
    return &se->fd[fd];
}

int sim__fd_take(struct sim_env *se)
{
    struct sim *sim = se->host->sim;

    if (sim__chance(&sim->rand_net, sim->opts.net_no_fd_ppm)) {
        sim__event(sim, SIM_EV_NO_FD, se->host, 0, 0);
        return -1;
    }
    for (int fd = SIM_FD_FIRST; fd < SIM_FDS_MAX; fd++) {
        if (se->fd[fd].kind == SIM_FD_FREE) {
            return fd;
        }
    }
    sim__event(sim, SIM_EV_NO_FD, se->host, 1, 0);
    return -1;
}

void sim__fd_free(struct sim_env *se, int fd)
{
    se->fd[fd] = (struct sim_fd){0};
}
