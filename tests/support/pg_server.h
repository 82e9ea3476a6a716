/* SPDX-License-Identifier: Apache-2.0 */
/* pg_server.h - a PostgreSQL of its own for a test: a private cluster on a Unix socket.
 *
 * Needs Debian's postgresql-15, and root or the right to run initdb. pg_server_start returns false
 * where that is missing, and the test skips. */
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

#define PG_SERVER_BIN "/usr/lib/postgresql/15/bin"

struct pg_server {
    char dir[64];
    char conninfo[128];
};

/* As the user that may run a server; everything it says goes to a file. */
static inline int pg_server_run(const struct pg_server *s, const char *command)
{
    char line[1024];

    (void)snprintf(line, sizeof line,
                   geteuid() == 0 ? "su postgres -s /bin/sh -c '%s' >>%s/said 2>&1"
                                  : "sh -c '%s' >>%s/said 2>&1",
                   command, s->dir);
    return system(line); /* NOLINT: a fixed command of the test itself */
}

static inline int pg_server_ctl(const struct pg_server *s, const char *what)
{
    char command[512];

    (void)snprintf(command, sizeof command,
                   /* Tests end processes, not machines: nothing has to wait for a disk. */
                   PG_SERVER_BIN "/pg_ctl -D %s/data -w -l %s/log -o \"-c listen_addresses= -c "
                                 "fsync=off -c unix_socket_directories=%s\" %s",
                   s->dir, s->dir, s->dir, what);
    return pg_server_run(s, command);
}

static inline bool pg_server_start(struct pg_server *s)
{
    char command[512];

    *s = (struct pg_server){.dir = "/tmp/ron-pg-XXXXXX"};
    if (access(PG_SERVER_BIN "/initdb", X_OK) != 0 || mkdtemp(s->dir) == NULL) {
        return false;
    }
    (void)chmod(s->dir, 0777);
    (void)snprintf(command, sizeof command,
                   PG_SERVER_BIN "/initdb -D %s/data -A trust -U postgres --no-locale -E UTF8 "
                                 "--no-sync",
                   s->dir);
    if (pg_server_run(s, command) != 0 || pg_server_ctl(s, "start") != 0) {
        return false;
    }
    (void)snprintf(s->conninfo, sizeof s->conninfo, "host=%s user=postgres dbname=postgres",
                   s->dir);
    return true;
}

static inline void pg_server_stop(struct pg_server *s)
{
    char command[128];

    (void)pg_server_ctl(s, "-m immediate stop");
    (void)snprintf(command, sizeof command, "rm -rf %s", s->dir);
    if (system(command) != 0) { /* NOLINT */
        print_message("pg_server: %s was not removed\n", s->dir);
    }
}
