/* SPDX-License-Identifier: Apache-2.0 */
/* process_linux.c - /proc/self/stat, /proc/stat, getrusage and the descriptor directory.
 *
 * Nothing here is required for service: what cannot be read stays 0 and is not shown. */
#include "ron/io/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/sys_linux.h"
#include "ron/base/clock.h"

/* Reads a small file as a text; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = RON_SYS("open", EMFILE, open(path, O_RDONLY | O_CLOEXEC));
    ssize_t n;

    if (fd < 0) {
        return false;
    }
    n = RON_SYS("read", EIO, read(fd, text, size - 1));
    ron__sys_close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t number_at(const char *p)
{
    uint64_t n = 0;

    while (*p == ' ') {
        p++;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        n = n * 10 + (uint64_t)(*p - '0');
    }
    return n;
}

/* Field `n` of /proc/self/stat, counted from 3 as proc(5) does: the fields after the name, which
 * itself may hold spaces and brackets. */
static const char *stat_field(const char *text, int n)
{
    const char *p = strrchr(text, ')');

    for (int i = 2; p != NULL && i < n; i++) {
        p = strchr(p + 1, ' ');
    }
    return p;
}

static uint64_t boot_unix_s(void)
{
    char text[4096]; /* the line stands after those of the processors, so look at the end too */
    int fd = RON_SYS("open", EMFILE, open("/proc/stat", O_RDONLY | O_CLOEXEC));
    uint64_t found = 0;
    size_t kept = 0;

    while (fd >= 0 && found == 0) {
        ssize_t n = RON_SYS("read", EIO, read(fd, text + kept, sizeof text - 1 - kept));
        const char *at;

        if (n <= 0) {
            break;
        }
        kept += (size_t)n;
        text[kept] = '\0';
        at = strstr(text, "btime ");
        if (at != NULL && strchr(at, '\n') != NULL) {
            found = number_at(at + 6);
        } else if (kept > 64) { /* keep a tail that may hold the start of the line */
            memmove(text, text + kept - 64, 64);
            kept = 64;
        }
    }
    if (fd >= 0) {
        ron__sys_close(fd);
    }
    return found;
}

static void read_stat(struct ron_process *p)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t boot_s;
    char text[1024];
    const char *at;

    if (!read_text("/proc/self/stat", text, sizeof text)) {
        return;
    }
    at = stat_field(text, 20);
    p->threads = at == NULL ? 0 : number_at(at);
    at = stat_field(text, 23);
    p->virtual_bytes = at == NULL ? 0 : number_at(at);
    at = stat_field(text, 24);
    p->resident_bytes = at == NULL ? 0 : number_at(at) * page;
    at = stat_field(text, 22);
    boot_s = boot_unix_s();
    if (at != NULL && boot_s > 0 && ticks > 0) {
        uint64_t start = number_at(at);

        p->start_unix_ns = boot_s * RON_NS_PER_S + start / ticks * RON_NS_PER_S +
                           start % ticks * RON_NS_PER_S / ticks;
    }
}

static uint64_t count_fds(void)
{
    uint64_t count = 0;
    struct stat st;
    DIR *dir;

    /* Newer systems say it without a walk. */
    if (RON_SYS("stat", EACCES, stat("/proc/self/fd", &st)) == 0 && st.st_size > 0) {
        return (uint64_t)st.st_size;
    }
    dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    (void)closedir(dir);              /* only read from */
    return count > 0 ? count - 1 : 0; /* without the directory itself */
}

void ron_process_read(struct ron_process *ret_process)
{
    struct rusage usage;
    struct rlimit limit;

    *ret_process = (struct ron_process){0};
    read_stat(ret_process);
    ret_process->fds = count_fds();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        ret_process->fds_max = limit.rlim_cur;
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        ret_process->cpu_ns =
            ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * RON_NS_PER_S +
            ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
    }
}
