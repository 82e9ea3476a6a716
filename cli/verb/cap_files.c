/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/cap_files.c - tokens in and out; the contract is in cap_files.h.
 *
 * Tokens are read as streams, as people hand them over in pipes (<(...), /dev/stdin), which have no
 * size and no positions. They are written by ron_file_replace: private from the first byte, whole
 * or not at all. No message shows one. */
#include "cli/verb/cap_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "ron/io/file.h"
#include "ron/io/linux_env.h"

static bool is_standard(const char *path)
{
    return path == NULL || strcmp(path, "-") == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int cap_real_path(const char *verb, const char *path, char *ret_real)
{
    char real[PATH_MAX];
    struct stat st;
    const char *found = path;

    if (realpath(path, real) != NULL) {
        found = real;
    } else if (lstat(path, &st) == 0) {
        fprintf(stderr, "ron %s: %s is a dangling symbolic link\n", verb, path);
        return CLI_FAILED;
    }
    if (strlen(found) >= RON_FILE_PATH_SIZE) {
        fprintf(stderr, "ron %s: path too long: %zu bytes\n", verb, strlen(found));
        return CLI_FAILED;
    }
    memcpy(ret_real, found, strlen(found) + 1);
    return CLI_OK;
}

/* NULL after telling why. */
static FILE *open_stream(const char *verb, const char *path)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_err err = {0};
    int fd = -1;
    FILE *in;

    if (env->disk->open(env, path, RON_OPEN_READ, 0, &fd, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return NULL;
    }
    in = fdopen(fd, "r");
    if (in == NULL) {
        fprintf(stderr, "ron %s: cannot read %s\n", verb, path);
        env->disk->close(env, fd);
    }
    return in;
}

int cap_read_token(const char *verb, const char *path, char *text, struct ron_str *ret_token)
{
    bool standard = is_standard(path);
    FILE *in = standard ? stdin : open_stream(verb, path);
    struct ron_str token = {.ptr = text};
    bool bad = false;

    if (in == NULL) {
        return CLI_FAILED;
    }
    if (standard && isatty(STDIN_FILENO)) {
        fprintf(stderr, "ron %s: reading the token from the terminal; Ctrl-D ends it\n", verb);
    }
    token.len = fread(text, 1, CAP_INPUT_SIZE, in);
    if (ferror(in) != 0) {
        struct ron_err err = {0};

        RON_IGNORE(
            ron_err_set_sys(&err, RON_IO, errno, "cannot read the token")); /* for its text */
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        bad = true;
    }
    if (!standard) {
        (void)fclose(in); /* it was read alone */
    }
    if (bad) {
        return CLI_FAILED;
    }
    while (token.len > 0 && is_blank(token.ptr[token.len - 1])) {
        token.len--;
    }
    while (token.len > 0 && is_blank(token.ptr[0])) {
        token.ptr++;
        token.len--;
    }
    if (token.len == 0) {
        fprintf(stderr, "ron %s: no token in %s\n", verb,
                standard ? "standard input; give one there or with --in FILE" : path);
        return CLI_FAILED;
    }
    *ret_token = token;
    return CLI_OK;
}

int cap_print(const char *verb, struct ron_buf *out)
{
    size_t len = ron_buf_len(out);

    if (ron_buf_error(out) != RON_OK || fwrite(ron_buf_data(out), 1, len, stdout) != len ||
        fflush(stdout) != 0) {
        fprintf(stderr, "ron %s: cannot write to standard output\n", verb);
        return CLI_FAILED;
    }
    return CLI_OK;
}

int cap_write_token(const char *verb, const char *path, struct ron_buf *token)
{
    const struct ron_env *env = ron_env_linux();
    char real[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    struct ron_err err = {0};
    int code;

    ron_buf_append_byte(token, '\n');
    if (is_standard(path)) {
        return cap_print(verb, token);
    }
    /* A device or pipe would be replaced by a file, for everybody. */
    if (env->disk->stat(env, path, &st) == RON_OK && !st.is_file) {
        fprintf(stderr,
                "ron %s: %s is not a regular file; without --out the token goes to "
                "standard output\n",
                verb, path);
        return CLI_FAILED;
    }
    code = cap_real_path(verb, path, real);
    if (code != CLI_OK) {
        return code;
    }
    if (ron_file_replace(env, real, ron_buf_data(token), ron_buf_len(token), 0600, &err) !=
        RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    return CLI_OK;
}
