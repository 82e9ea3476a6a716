/* SPDX-License-Identifier: Apache-2.0 */
/* ipclass.c - tables of special-purpose address blocks; the first match counts. */
#include "ron/io/ipclass.h"

#include <string.h>

#include "ron/base/macros.h"

struct block {
    uint8_t bytes[16];
    uint8_t bits;
    enum ron_ip_class c;
};

static const struct block v4_blocks[] = {
    {{100, 100, 100, 200}, 32, RON_IP_LINK_LOCAL},
    {{127}, 8, RON_IP_LOOPBACK},
    {{10}, 8, RON_IP_PRIVATE},
    {{172, 16}, 12, RON_IP_PRIVATE},
    {{192, 168}, 16, RON_IP_PRIVATE},
    {{100, 64}, 10, RON_IP_PRIVATE},
    {{169, 254}, 16, RON_IP_LINK_LOCAL},
    {{0}, 8, RON_IP_SPECIAL},
    {{192, 0, 0}, 24, RON_IP_SPECIAL},
    {{192, 0, 2}, 24, RON_IP_SPECIAL},
    {{192, 88, 99}, 24, RON_IP_SPECIAL},
    {{198, 18}, 15, RON_IP_SPECIAL},
    {{198, 51, 100}, 24, RON_IP_SPECIAL},
    {{203, 0, 113}, 24, RON_IP_SPECIAL},
    {{224}, 3, RON_IP_SPECIAL}, /* multicast, reserved and broadcast: 224.0.0.0 to the end */
};

static const struct block v6_blocks[] = {
    {{[15] = 1}, 128, RON_IP_LOOPBACK},
    {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}, 128, RON_IP_LINK_LOCAL},
    {{0xfc}, 7, RON_IP_PRIVATE},
    {{0xfe, 0xc0}, 10, RON_IP_PRIVATE},
    {{0xfe, 0x80}, 10, RON_IP_LINK_LOCAL},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, RON_IP_SPECIAL},
    {{0x20, 0x01, 0x00}, 23, RON_IP_SPECIAL}, /* Teredo, ORCHID and other protocols */
    {{0x3f, 0xff, 0x00}, 20, RON_IP_SPECIAL},
    {{0x20}, 3, RON_IP_PUBLIC},
};

/* IPv6 blocks with an IPv4 address inside, and where it begins. */
static const struct {
    uint8_t bytes[12];
    uint8_t bits;
    uint8_t at;
} carriers[] = {
    {{[10] = 0xff, [11] = 0xff}, 96, 12},         /* mapped */
    {{0x00, 0x64, 0xff, 0x9b}, 96, 12},           /* NAT64 */
    {{[8] = 0xff, [9] = 0xff, [10] = 0}, 96, 12}, /* translated, RFC 2765 */
    {{0x20, 0x02}, 16, 2},                        /* 6to4 */
};

static bool in_block(const uint8_t *ip, const uint8_t *bytes, uint8_t bits)
{
    uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));

    return memcmp(ip, bytes, bits / 8u) == 0 &&
           (bits % 8 == 0 || ((ip[bits / 8] ^ bytes[bits / 8]) & mask) == 0);
}

enum ron_ip_class ron_ip_class_v4(const uint8_t ip[4])
{
    for (size_t i = 0; i < RON_ARRAY_LEN(v4_blocks); i++) {
        if (in_block(ip, v4_blocks[i].bytes, v4_blocks[i].bits)) {
            return v4_blocks[i].c;
        }
    }
    return RON_IP_PUBLIC;
}

enum ron_ip_class ron_ip_class_v6(const uint8_t ip[16])
{
    for (size_t i = 0; i < RON_ARRAY_LEN(carriers); i++) {
        if (in_block(ip, carriers[i].bytes, carriers[i].bits)) {
            return ron_ip_class_v4(ip + carriers[i].at);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(v6_blocks); i++) {
        if (in_block(ip, v6_blocks[i].bytes, v6_blocks[i].bits)) {
            return v6_blocks[i].c;
        }
    }
    return RON_IP_SPECIAL;
}

enum ron_ip_class ron_addr_ip_class(const struct ron_addr *addr)
{
    switch (addr->kind) {
    case RON_ADDR_IPV4:
        return ron_ip_class_v4(addr->ip);
    case RON_ADDR_IPV6:
        return ron_ip_class_v6(addr->ip);
    case RON_ADDR_UNIX:
        return RON_IP_LOOPBACK;
    case RON_ADDR_NAME:
        break;
    }
    return RON_IP_SPECIAL;
}
