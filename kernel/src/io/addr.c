/* SPDX-License-Identifier: Apache-2.0 */
/* addr.c - the one parser and writer of addresses; contract in ron/io/addr.h.
 *
 * Place: io, without system calls, so that the simulator uses it too.
 *
 * Invariants:
 *   I1 parse(format(a)) equals a, and format(parse(t)) parses to the same value as t.
 *   I2 every refused text sets a message that quotes the offending part, cut to a bounded length.
 *
 * Threads: pure. Failure: RON_INVALID or RON_LIMIT; *ret_addr is untouched then. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/io_priv.h"
#include "ron/base/assert.h"
#include "ron/io/addr.h"

/* The longest part of a bad text that is quoted: enough to recognise it, too short to flood a
 * log. */
#define QUOTE_MAX "64"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum ron_rc parse_port(const char *text, uint16_t *ret_port, struct ron_err *err)
{
    uint32_t value = 0;
    size_t len = strlen(text);

    if (len == 0) {
        return ron_err_set(err, RON_INVALID, "the port is missing");
    }
    if (len > 5 || (len > 1 && text[0] == '0')) {
        return ron_err_set(err, RON_INVALID, "bad port '%." QUOTE_MAX "s'", text);
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i])) {
            return ron_err_set(err, RON_INVALID, "bad port '%." QUOTE_MAX "s'", text);
        }
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    if (value > UINT16_MAX) {
        return ron_err_set(err, RON_INVALID, "port %u is above 65535", value);
    }
    *ret_port = (uint16_t)value;
    return RON_OK;
}

/* Labels of 1-63 letters, digits and inner hyphens. The last one must hold something else than
 * digits, so that a mistyped IPv4 address is not taken for a name. */
static bool name_is_valid(const char *name)
{
    size_t label_len = 0;
    bool only_digits = true;

    for (size_t i = 0; name[i] != '\0'; i++) {
        char c = name[i];
        if (c == '.') {
            if (label_len == 0 || name[i - 1] == '-') {
                return false;
            }
            label_len = 0;
            only_digits = true;
            continue;
        }
        if (!is_digit(c)) {
            only_digits = false;
            if (!isalpha((unsigned char)c) && !(c == '-' && label_len > 0)) {
                return false;
            }
        }
        if (++label_len > 63) {
            return false;
        }
    }
    return label_len > 0 && !only_digits && name[strlen(name) - 1] != '-';
}

static enum ron_rc parse_unix(const char *path, struct ron_addr *addr, struct ron_err *err)
{
    size_t len = strlen(path);
    const char *part = path;

    if (len >= sizeof addr->text) {
        return ron_err_set(err, RON_LIMIT, "socket path has %zu bytes, at most %zu fit", len,
                           sizeof addr->text - 1);
    }
    if (path[0] != '/') {
        return ron_err_set(err, RON_INVALID, "socket path '%." QUOTE_MAX "s' is not absolute",
                           path);
    }
    while (*part == '/') {
        size_t part_len = strcspn(++part, "/");
        if (part_len == 0 || (part_len == 1 && part[0] == '.') ||
            (part_len == 2 && part[0] == '.' && part[1] == '.')) {
            return ron_err_set(err, RON_INVALID,
                               "socket path '%." QUOTE_MAX "s' has an empty, '.' or '..' component",
                               path);
        }
        part += part_len;
    }
    for (size_t i = 0; i < len; i++) {
        if (iscntrl((unsigned char)path[i])) {
            return ron_err_set(err, RON_INVALID, "socket path has a control character");
        }
    }
    addr->kind = RON_ADDR_UNIX;
    memcpy(addr->text, path, len + 1);
    return RON_OK;
}

static enum ron_rc parse_host(const char *host, struct ron_addr *addr, struct ron_err *err)
{
    if (inet_pton(AF_INET, host, addr->ip) == 1) {
        addr->kind = RON_ADDR_IPV4;
        return RON_OK;
    }
    if (host[0] == '\0') {
        return ron_err_set(err, RON_INVALID, "the host is missing");
    }
    if (!name_is_valid(host)) {
        return ron_err_set(err, RON_INVALID,
                           "'%." QUOTE_MAX "s' is neither an IPv4 address nor a name", host);
    }
    addr->kind = RON_ADDR_NAME;
    memcpy(addr->text, host, strlen(host) + 1);
    return RON_OK;
}

/* "[v6]:port" when bracketed, else "host:port"; `colon` is the last one of the text. */
static enum ron_rc parse_inet(const char *text, const char *colon, struct ron_addr *addr,
                              struct ron_err *err)
{
    bool bracketed = text[0] == '[';
    const char *first = bracketed ? text + 1 : text;
    size_t len = (size_t)(colon - first);
    char host[RON_ADDR_TEXT_SIZE];

    if (bracketed) {
        if (colon - text < 2 || colon[-1] != ']') {
            return ron_err_set(err, RON_INVALID, "'%." QUOTE_MAX "s' lacks ']:' before the port",
                               text);
        }
        len--;
    }
    if (len >= sizeof host) {
        return ron_err_set(err, RON_LIMIT, "host has %zu bytes, at most %zu fit", len,
                           sizeof host - 1);
    }
    memcpy(host, first, len);
    host[len] = '\0';
    if (!bracketed && strchr(host, ':') != NULL) {
        return ron_err_set(err, RON_INVALID,
                           "write the IPv6 address of '%." QUOTE_MAX "s' in brackets", text);
    }
    if (bracketed) {
        if (inet_pton(AF_INET6, host, addr->ip) != 1) {
            return ron_err_set(err, RON_INVALID, "'%." QUOTE_MAX "s' is not an IPv6 address", host);
        }
        addr->kind = RON_ADDR_IPV6;
    } else {
        RON_TRY(parse_host(host, addr, err));
    }
    return parse_port(colon + 1, &addr->port, err);
}

enum ron_rc ron_addr_parse(const char *text, struct ron_addr *ret_addr, struct ron_err *err)
{
    static const char unix_prefix[] = "unix:";
    struct ron_addr addr = {0};
    const char *colon = NULL;

    RON_ASSERT(text != NULL);
    if (strncmp(text, unix_prefix, sizeof unix_prefix - 1) == 0) {
        RON_TRY(parse_unix(text + sizeof unix_prefix - 1, &addr, err));
        *ret_addr = addr;
        return RON_OK;
    }
    colon = strrchr(text, ':');
    if (colon == NULL) {
        return ron_err_set(err, RON_INVALID, "'%." QUOTE_MAX "s' has no port", text);
    }
    RON_TRY(parse_inet(text, colon, &addr, err));
    *ret_addr = addr;
    return RON_OK;
}

enum ron_rc ron_addr_format(const struct ron_addr *addr, char *buf, size_t size)
{
    char ip[INET6_ADDRSTRLEN];
    int len = -1;

    switch (addr->kind) {
    case RON_ADDR_IPV4:
        RON_ASSERT(inet_ntop(AF_INET, addr->ip, ip, sizeof ip) != NULL);
        len = snprintf(buf, size, "%s:%u", ip, addr->port);
        break;
    case RON_ADDR_IPV6:
        RON_ASSERT(inet_ntop(AF_INET6, addr->ip, ip, sizeof ip) != NULL);
        len = snprintf(buf, size, "[%s]:%u", ip, addr->port);
        break;
    case RON_ADDR_NAME:
        len = snprintf(buf, size, "%s:%u", addr->text, addr->port);
        break;
    case RON_ADDR_UNIX:
        len = snprintf(buf, size, "unix:%s", addr->text);
        break;
    }
    RON_ASSERT(len >= 0);
    return (size_t)len < size ? RON_OK : RON_LIMIT;
}

bool ron_addr_is_loopback(const struct ron_addr *addr)
{
    static const uint8_t v6_loopback[16] = {[15] = 1};

    switch (addr->kind) {
    case RON_ADDR_IPV4:
        return addr->ip[0] == 127;
    case RON_ADDR_IPV6:
        return memcmp(addr->ip, v6_loopback, sizeof v6_loopback) == 0;
    case RON_ADDR_NAME:
        return strcmp(addr->text, "localhost") == 0;
    case RON_ADDR_UNIX:
        return true;
    }
    return false;
}
