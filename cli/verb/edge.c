/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/edge.c - what `ron edge` does with packs while no service runs.
 *
 *     ron edge verify FILE...   look at whole packs and report
 *     ron edge tile FILE Z/X/Y  the bytes of a tile on standard output
 *     ron edge sample FILE      write the sample pack
 *
 * Exit codes: 0 every file is good, 1 one is not or cannot be read, 2 used wrongly. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli.h"
#include "edge/offline/tool.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"

/* A hash goes over the bytes of the file; the other parts count what they look at. */
static bool draw(void *arg, const char *phase, uint64_t done, uint64_t total)
{
    struct ron_progress *bar = arg;

    ron_progress_phase(bar, phase, strcmp(phase, "hash") == 0 ? "bytes" : "steps", 0);
    ron_progress_at(bar, done, total);
    return true;
}

/* Prints what a tool said, or why it could not. */
static int told(const char *verb, enum ron_rc rc, const struct ron_err *err, struct ron_buf *out)
{
    if (rc != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err->msg[0] != '\0' ? err->msg : ron_rc_doc(rc));
    } else if (fwrite(ron_buf_data(out), 1, ron_buf_len(out), stdout) != ron_buf_len(out) ||
               fflush(stdout) != 0) {
        fprintf(stderr, "ron %s: cannot write to standard output\n", verb);
        rc = RON_IO;
    }
    ron_buf_done(out);
    return rc == RON_OK ? CLI_OK : CLI_FAILED;
}

static int verify_one(const char *file, bool json, bool hash)
{
    const char *slash = strrchr(file, '/');
    struct ron_progress bar;
    const struct edg_tool_watch watch = {.show = draw, .arg = &bar};
    struct ron_err err = {0};
    struct ron_buf out;
    bool good = false;
    enum ron_rc rc;
    int code;

    ron_progress_begin(&bar, ron_env_linux(), slash == NULL ? file : slash + 1, "steps");
    ron_buf_init(&out, EDG_TOOL_REPORT_MAX);
    rc = edg_tool_verify(file, json, hash, bar.on ? &watch : NULL, &out, &good, &err);
    ron_progress_end(&bar);
    code = told("edge verify", rc, &err, &out);
    return good ? code : CLI_FAILED;
}

/* Moves the words other than options after the options, in their order; returns how many. */
static int split_files(int argc, char **argv)
{
    int files = 0;

    for (int i = 1; i < argc - files;) {
        char *word = argv[i];

        if (word[0] == '-' && word[1] != '\0') {
            i++;
            continue;
        }
        memmove(&argv[i], &argv[i + 1], sizeof *argv * (size_t)(argc - i - 1));
        argv[argc - 1] = word;
        files++;
    }
    return files;
}

int cli_edge_verify(int argc, char **argv)
{
    bool json = false;
    bool hash = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_FLAG("json", "one line of JSON per file", &json),
        CLI_FLAG("hash", "print the hash of each file (its ETag)", &hash),
    };
    int files = split_files(argc, argv);
    int code = cli_parse("edge verify",
                         "Verifies whole packs (PMTiles 3, MBTiles): every directory and row,\n"
                         "counts, and the hash in FILE.b3, if present (as written by b3sum).\n"
                         "Exit status 0 if every FILE is intact, 1 if one is not.\n\n"
                         "example:\n  ron edge verify planet.pmtiles hills.mbtiles",
                         options, RON_ARRAY_LEN(options), argc - files, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (files == 0) {
        fprintf(stderr, "ron edge verify: missing FILE; see 'ron edge verify --help'\n");
        return CLI_USAGE;
    }
    for (int i = argc - files; i < argc; i++) {
        int one = verify_one(argv[i], json, hash);

        code = one != CLI_OK ? one : code;
    }
    return code;
}

/* "Z/X/Y" and nothing else. */
static bool parse_zxy(const char *text, uint64_t ret[3])
{
    for (int i = 0; i < 3; i++) {
        char *end = NULL;

        if (*text < '0' || *text > '9') {
            return false;
        }
        errno = 0;
        ret[i] = strtoull(text, &end, 10);
        if (errno != 0 || *end != (i < 2 ? '/' : '\0')) {
            return false;
        }
        text = end + 1;
    }
    return true;
}

int cli_edge_tile(int argc, char **argv)
{
    struct ron_err err = {0};
    struct ron_buf out;
    uint64_t at[3];
    bool done = false;
    int files = split_files(argc, argv);
    int code = cli_parse("edge tile",
                         "Writes the bytes of the tile Z/X/Y of the pack FILE to standard output,\n"
                         "as stored. Exit status 1 if the pack has no such tile.\n\n"
                         "example:\n  ron edge tile world.pmtiles 0/0/0 | gunzip > tile.mvt",
                         NULL, 0, argc - files, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (files != 2 || !parse_zxy(argv[argc - 1], at)) {
        fprintf(stderr, "ron edge tile: missing FILE or Z/X/Y; see 'ron edge tile --help'\n");
        return CLI_USAGE;
    }
    ron_buf_init(&out, EDG_TOOL_TILE_MAX);
    return told("edge tile", edg_tool_tile(argv[argc - 2], at[0], at[1], at[2], &out, &err), &err,
                &out);
}

int cli_edge_sample(int argc, char **argv)
{
    struct ron_err err = {0};
    struct ron_buf out;
    bool done = false;
    int files = split_files(argc, argv);
    int code = cli_parse("edge sample",
                         "Writes the sample pack to FILE: a coarse world map in vector tiles,\n"
                         "zooms 0 to 4. The bytes are always the same. Never replaces a file.\n\n"
                         "example:\n  ron edge sample world.pmtiles",
                         NULL, 0, argc - files, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (files != 1) {
        fprintf(stderr, "ron edge sample: missing FILE; see 'ron edge sample --help'\n");
        return CLI_USAGE;
    }
    ron_buf_init(&out, EDG_TOOL_REPORT_MAX);
    return told("edge sample", edg_tool_sample(argv[argc - 1], &out, &err), &err, &out);
}
