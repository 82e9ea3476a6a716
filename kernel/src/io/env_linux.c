/* SPDX-License-Identifier: Apache-2.0 */
/* env_linux.c - the ports bound to Linux: clocks, randomness, the table of errno values.
 *
 * Place: io. Not part of the model build, where tests/sim provides the environment.
 *
 * Randomness: each thread keeps a small pool filled by getrandom(2), so that an id costs a copy and
 * not a system call. Bytes are wiped as they are handed out, so a later memory disclosure does not
 * reveal them. The pool is not reseeded in a forked child: this program forks only to exec at once,
 * and nothing draws in between.
 *
 * Threads: everything here may be called from all of them.
 * Failure: rand_u64 has no way to fail. getrandom on a kernel that has it fails only before the
 * system is seeded, for which it waits; a failure that repeats means we could only make guessable
 * ids, so it ends the program. */
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "ron/sync/sync.h"
#include "sys_linux.h"

enum {
    /* getrandom never returns short up to 256 bytes, and 32 numbers amortise the call well. */
    RAND_POOL_BYTES = 256,
    /* Tolerates one injected or odd failure; more means that there is no entropy source. */
    RAND_TRIES = 3,
};

struct rand_pool {
    uint8_t bytes[RAND_POOL_BYTES];
    size_t left; /* unused bytes are at the front */
};

static _Thread_local struct rand_pool rand_pool;

enum ron_rc ron__rc_of_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EFBIG:
        return RON_LIMIT;
    case ENOENT:
        return RON_NOTFOUND;
    case EEXIST:
    case EADDRINUSE:
    case ENOTEMPTY:
        return RON_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return RON_DENIED;
    case EPIPE:
    case ECONNRESET:
        return RON_CLOSED;
    case EAGAIN:
        return RON_AGAIN;
    case ETIMEDOUT:
        return RON_TIMEOUT;
    case ENOMEM:
    case ENOBUFS:
        return RON_NOMEM;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
        return RON_INVALID;
    default:
        return RON_IO;
    }
}

void ron__sys_close(int fd)
{
    int saved = errno;

    /* Linux releases the descriptor whatever close returns; a retry could hit somebody else's. */
    (void)close(fd);
    errno = saved;
}

static uint64_t mono_ns(void *ctx)
{
    (void)ctx;
    return ron_mono_ns();
}

static uint64_t wall_ms(void *ctx)
{
    struct timespec ts;

    (void)ctx;
    /* Cannot fail: the clock exists and the pointer is good. */
    RON_ASSERT(clock_gettime(CLOCK_REALTIME, &ts) == 0);
    /* A wall clock set before 1970 reads as 1970: a label must not become a huge number. */
    if (ts.tv_sec < 0) {
        return 0;
    }
    return (uint64_t)ts.tv_sec * RON_MS_PER_S + (uint64_t)ts.tv_nsec / RON_NS_PER_MS;
}

static void rand_fill(struct rand_pool *pool)
{
    for (int try = 0; try < RAND_TRIES; try++) {
        ssize_t got = RON_SYS("getrandom", EAGAIN, getrandom(pool->bytes, sizeof pool->bytes, 0));
        if (got == (ssize_t)sizeof pool->bytes) {
            pool->left = sizeof pool->bytes;
            return;
        }
    }
    RON_ASSERT_MSG(false, "getrandom fails (errno %d): no secure identifiers can be made", errno);
}

static uint64_t rand_u64(const struct ron_env *env)
{
    struct rand_pool *pool = &rand_pool;
    uint64_t value;
    uint8_t *from;

    (void)env;
    if (pool->left < sizeof value) {
        rand_fill(pool);
    }
    pool->left -= sizeof value;
    from = pool->bytes + pool->left;
    memcpy(&value, from, sizeof value);
    explicit_bzero(from, sizeof value);
    return value;
}

const struct ron_env *ron_env_linux(void)
{
    static const struct ron_env env = {
        .clock = {.mono_ns = mono_ns, .wall_ms = wall_ms},
        .rand_u64 = rand_u64,
        .poller = &ron__poller_linux,
        .net = &ron__net_linux,
        .disk = &ron__disk_linux,
    };

    return &env;
}
