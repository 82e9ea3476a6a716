/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/demo_linux.c - a file in memory, for a pack that comes from the program itself. */
#include <sys/mman.h>
#include <unistd.h>

#include "edge/serve/demo.h"

int edg_memory_file(const void *bytes, size_t len)
{
    const char *at = bytes;
    int fd = memfd_create("ron-edge-sample", MFD_CLOEXEC);

    while (fd >= 0 && len > 0) {
        ssize_t n = write(fd, at, len);

        if (n <= 0) {
            (void)close(fd);
            return -1;
        }
        at += n;
        len -= (size_t)n;
    }
    return fd;
}

void edg_memory_file_close(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}
