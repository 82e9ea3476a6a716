/* SPDX-License-Identifier: Apache-2.0 */
/* ipclass.h - what kind of machine an IP address reaches.
 *
 * For callers that connect on behalf of strangers: a name or address from outside must not reach
 * this host, its network or a cloud's metadata service. Addresses that carry an IPv4 address inside
 * (mapped, NAT64, 6to4) are judged by it. Of IPv6 only 2000::/3 without its special blocks is
 * public; everything unknown is SPECIAL (IANA registries of special-purpose addresses).
 *
 * Threads: pure. */
#pragma once

#include <stdint.h>

#include "ron/io/addr.h"

/* X(NAME, "text", "which") */
#define RON_IP_CLASSES(X)                                                                          \
    X(PUBLIC, "public", "everything else")                                                         \
    X(LOOPBACK, "loopback", "127.0.0.0/8, ::1")                                                    \
    X(PRIVATE, "private", "10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7, fec0::/10")           \
    X(LINK_LOCAL, "link_local",                                                                    \
      "169.254/16, fe80::/10, and the metadata addresses 100.100.100.200 and fd00:ec2::254")       \
    X(SPECIAL, "special", "unspecified, multicast, broadcast, documentation, reserved")

enum ron_ip_class {
#define X(name, text, doc) RON_IP_##name,
    RON_IP_CLASSES(X)
#undef X
        RON_IP_CLASS_COUNT
};

/* Network order. */
enum ron_ip_class ron_ip_class_v4(const uint8_t ip[4]);
enum ron_ip_class ron_ip_class_v6(const uint8_t ip[16]);
/* Of an IPV4 or IPV6 address; a Unix socket is LOOPBACK, a name SPECIAL (nobody knows yet). */
enum ron_ip_class ron_addr_ip_class(const struct ron_addr *addr);
