/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/cap_files.h - the files of `ron cap`: tokens in and out, and where a path leads. */
#pragma once

#include "ron/base/buf.h"
#include "ron/cap/cap.h"

enum {
    /* The longest token, CR and LF behind it, and one byte to see that it is longer. */
    CAP_INPUT_SIZE = RON_CAP_TEXT_MAX + 3,
};

/* The place that a path names, through links, which a replacement by rename would cut off:
 * `ret_real` has room for RON_FILE_PATH_SIZE. A path that is not there yet names itself. A mistake
 * is told and gives CLI_FAILED. */
int cap_real_path(const char *verb, const char *path, char *ret_real);

/* Reads a token from a file of any kind, or from standard input when `path` is NULL or "-", into
 * `text` of CAP_INPUT_SIZE; without the white space around it. CLI_FAILED after telling why. */
int cap_read_token(const char *verb, const char *path, char *text, struct ron_str *ret_token);

/* To a private file, which it replaces, or to standard output (NULL or "-"), with a line feed. */
int cap_write_token(const char *verb, const char *path, struct ron_buf *token);

/* A buffer to standard output. */
int cap_print(const char *verb, struct ron_buf *out);
