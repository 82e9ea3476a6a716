/* SPDX-License-Identifier: Apache-2.0 */
/* replay_main.c - the main of a fuzz target in every build that has no libFuzzer.
 *
 * Purpose: runs the target over its stored corpus, so that every input ever found stays a
 * regression test under each compiler and sanitizer.
 * Place: linked with one tests/fuzz/fuzz_*.c; the fuzz preset links libFuzzer's main instead.
 *
 * Invariants
 *   R1 The target sees the bytes in a block of exactly their size, so that a read past the end is a
 *      fault and not a neighbour's byte.
 *   R2 A run without inputs fails: it would prove nothing.
 *
 * Threads: one. Failure: a file that cannot be read ends the run with exit code 1 and its name. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional in libFuzzer's interface: a target may leave it out, and the address is then null. */
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

/* Inputs beyond this are no regression tests but mistakes: libFuzzer itself stops at 1 MiB. */
enum { INPUT_MAX = 1 << 20, PATH_LEN_MAX = 4096 };

static void die(const char *path, const char *what)
{
    (void)fprintf(stderr, "replay: %s: %s\n", path, what);
    exit(1);
}

static void replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    /* malloc(0) may be null; one byte of room for nothing keeps R1 for every other size. */
    uint8_t *data = malloc(size > 0 ? size : 1);

    if (file == NULL || data == NULL) {
        die(path, strerror(errno));
    }
    if (fread(data, 1, size, file) != size) {
        die(path, "short read");
    }
    (void)fclose(file);
    /* The name goes out first: after a crash it is the last line. */
    (void)printf("replay: %s (%zu bytes)\n", path, size);
    (void)fflush(stdout);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
}

/* Replays a file or, one level deep, the files of a folder. Returns how many. */
static size_t replay(const char *path, int depth)
{
    struct stat st;
    size_t count = 0;

    if (stat(path, &st) != 0) {
        die(path, strerror(errno));
    }
    if (S_ISREG(st.st_mode)) {
        if (st.st_size > INPUT_MAX) {
            die(path, "larger than an input may be");
        }
        replay_file(path, (size_t)st.st_size);
        return 1;
    }
    if (!S_ISDIR(st.st_mode) || depth > 0) {
        return 0;
    }

    struct dirent **entries = NULL;
    int entry_count = scandir(path, &entries, NULL, alphasort);
    if (entry_count < 0) {
        die(path, strerror(errno));
    }
    for (int i = 0; i < entry_count; i++) {
        char child[PATH_LEN_MAX];
        if (snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name) >= PATH_LEN_MAX) {
            die(path, "path too long");
        }
        count += replay(child, depth + 1);
        free(entries[i]);
    }
    free(entries);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;

    if (LLVMFuzzerInitialize != NULL) {
        (void)LLVMFuzzerInitialize(&argc, &argv);
    }
    for (int i = 1; i < argc; i++) {
        count += replay(argv[i], 0);
    }
    if (count == 0) {
        (void)fprintf(stderr, "replay: no inputs; give a corpus folder or files\n");
        return 1;
    }
    (void)printf("replay: %zu inputs, no fault\n", count);
    return 0;
}
