/* SPDX-License-Identifier: Apache-2.0 */
/* log_priv.h - what log.c asks of log_line.c: one line as bytes. */
#pragma once

#include "ron/obs/log.h"

struct log_line {
    enum ron_log_format format;
    enum ron_log_level level;
    uint64_t wall_ms;
    const char *service;
    const char *task; /* NULL outside of any task */
    const char *message;
    uint64_t repeated; /* lines of this message left out before; 0: none */
    const struct ron_log_field *fields;
    size_t count;
};

/* Writes the line with its newline into `out` (RON_LOG_LINE_MAX bytes); returns its length. */
size_t ron__log_line(const struct log_line *line, char *out);

const char *ron_log_level_name(enum ron_log_level level);
