/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - durable appends a second that the disk gives: pwrite and fdatasync of one block after
 * another into a file that was filled with zeros, so that no sync has to write metadata.
 *
 * usage: probe FILE BLOCK_BYTES COUNT; prints appends a second. The file is removed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILL_BYTES = 1 << 20 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) {
        fail("clock_gettime");
    }
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(int fd, size_t bytes)
{
    static char zeros[FILL_BYTES];

    for (size_t at = 0; at < bytes; at += FILL_BYTES) {
        size_t len = bytes - at < FILL_BYTES ? bytes - at : FILL_BYTES;

        if (pwrite(fd, zeros, len, (off_t)at) != (ssize_t)len) {
            fail("fill");
        }
    }
    if (fsync(fd) != 0) {
        fail("fsync");
    }
}

int main(int argc, char **argv)
{
    size_t block = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    size_t count = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    char *bytes = calloc(1, block + 1);
    double start;
    int fd;

    if (block == 0 || count == 0 || bytes == NULL) {
        fprintf(stderr, "usage: probe FILE BLOCK_BYTES COUNT\n");
        return 2;
    }
    memset(bytes, 'x', block);
    fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) {
        fail(argv[1]);
    }
    fill(fd, block * count);
    start = now_s();
    for (size_t i = 0; i < count; i++) {
        if (pwrite(fd, bytes, block, (off_t)(i * block)) != (ssize_t)block || fdatasync(fd) != 0) {
            fail("append");
        }
    }
    printf("%.1f\n", (double)count / (now_s() - start));
    (void)unlink(argv[1]);
    free(bytes);
    return 0;
}
