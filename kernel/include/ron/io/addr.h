/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h - network addresses as text, parsed strictly and written canonically.
 *
 * Place: io. Addresses travel through the program as text (configuration, logs, the network ports
 * of env.h); this is the one parser of that text. No system call and no name lookup happens here.
 *
 * Accepted forms, and nothing else:
 *   192.0.2.1:7200         IPv4, four decimal numbers without leading zeros
 *   [2001:db8::1]:7200     IPv6 in brackets, without a zone
 *   node-1.example:7200    a name: letters, digits and '-' in labels; the last label is no number
 *   unix:/run/ron/x.sock   absolute path of a Unix socket, without empty, "." or ".." components
 * A port is 0-65535 in decimal without sign, spaces or leading zeros.
 *
 * Codes: RON_INVALID for a malformed text, RON_LIMIT for one that is too long. The message quotes
 * what was wrong. Names are for callers that resolve (a blocking task); the network ports take
 * "localhost" and no other name.
 *
 * Threads: pure functions. Ownership: a ron_addr is a plain value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/env.h"
#include "ron/base/rc.h"

/* Room for a path in struct sockaddr_un, with its NUL. Also the bound of a host name here. */
enum { RON_ADDR_TEXT_SIZE = 108 };

enum ron_addr_kind {
    RON_ADDR_IPV4 = 1,
    RON_ADDR_IPV6,
    RON_ADDR_NAME,
    RON_ADDR_UNIX,
};

struct ron_addr {
    enum ron_addr_kind kind;
    uint16_t port;                 /* 0 for UNIX */
    uint8_t ip[16];                /* network order; IPV4 uses the first four bytes */
    char text[RON_ADDR_TEXT_SIZE]; /* NAME: the host; UNIX: the path; otherwise empty */
};

RON_MUST_USE enum ron_rc ron_addr_parse(const char *text, struct ron_addr *ret_addr,
                                        struct ron_err *err);

/* Writes the canonical text with its NUL. RON_LIMIT when `size` is too small; RON_ADDR_MAX is
 * enough. */
RON_MUST_USE enum ron_rc ron_addr_format(const struct ron_addr *addr, char *buf, size_t size);
