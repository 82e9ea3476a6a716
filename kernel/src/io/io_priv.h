/* SPDX-License-Identifier: Apache-2.0 */
/* io_priv.h - what the files of this folder share with the simulator and the tests. */
#pragma once

#include "ron/io/addr.h"
#include "ron/io/progress.h"

/* Whether only this machine can be reached by it: 127.0.0.0/8, ::1, localhost, a Unix socket. */
bool ron_addr_is_loopback(const struct ron_addr *addr);

/* The line that `at` draws at that time. */
void ron_progress_text(const struct ron_progress *p, uint64_t done, uint64_t total, uint64_t now_ns,
                       char ret_text[RON_PROGRESS_SIZE]);
