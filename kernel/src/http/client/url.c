/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/url.c - which URLs a target may be asked for, and which addresses it may
 * reach.
 *
 * URLs are read here first, by a narrower grammar than libcurl's, so that the two can only agree:
 *     scheme "://" host [ ":" port ] [ path ] [ "?" query ]
 * with http or https, a host as ron_addr_parse takes it (no user information, no escapes, no
 * shorthand numbers, no trailing dot), and a path and query of RFC 3986 with whole escapes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/client/priv.h"
#include "http/syntax/chars.h"
#include "ron/base/hex.h"
#include "ron/base/str.h"

enum { PORT_HTTP = 80, PORT_HTTPS = 443, AUTHORITY_MAX = RON_ADDR_TEXT_SIZE };

enum ron_rc ron__http_host_parse(const char *text, struct http_host *ret_host)
{
    struct http_host host = {0};
    char with_port[AUTHORITY_MAX + 8];
    int len;

    if (strncmp(text, "*.", 2) == 0) {
        host.below = true;
        text += 2;
    }
    /* A colon behind the brackets of IPv6, or in a name or IPv4 address, begins a port. */
    host.any_port = strchr(text[0] == '[' ? strchrnul(text, ']') : text, ':') == NULL;
    len = snprintf(with_port, sizeof with_port, "%s%s", text, host.any_port ? ":1" : "");
    if (len < 0 || (size_t)len >= sizeof with_port ||
        ron_addr_parse(with_port, &host.addr, NULL) != RON_OK || host.addr.port == 0 ||
        host.addr.kind == RON_ADDR_UNIX || (host.below && host.addr.kind != RON_ADDR_NAME)) {
        return RON_INVALID;
    }
    *ret_host = host;
    return RON_OK;
}

static bool host_matches(const struct http_host *host, const struct ron_addr *addr)
{
    size_t have;
    size_t want;

    if (host->addr.kind != addr->kind || (!host->any_port && host->addr.port != addr->port)) {
        return false;
    }
    if (addr->kind != RON_ADDR_NAME) {
        return memcmp(host->addr.ip, addr->ip, addr->kind == RON_ADDR_IPV4 ? 4 : 16) == 0;
    }
    if (!host->below) {
        return strcasecmp(host->addr.text, addr->text) == 0;
    }
    have = strlen(addr->text);
    want = strlen(host->addr.text);
    return have > want + 1 && addr->text[have - want - 1] == '.' &&
           strcasecmp(addr->text + have - want, host->addr.text) == 0;
}

bool ron__http_host_allowed(const struct ron_http_target *t, const struct ron_addr *addr)
{
    for (size_t i = 0; i < t->opts.host_count; i++) {
        if (host_matches(&t->hosts[i], addr)) {
            return true;
        }
    }
    return false;
}

bool ron__http_class_allowed(const struct ron_http_target *t, enum ron_ip_class c)
{
    switch (c) {
    case RON_IP_PUBLIC:
        return true;
    case RON_IP_LOOPBACK:
        return (t->opts.flags & RON_HTTP_TARGET_LOOPBACK) != 0;
    case RON_IP_PRIVATE:
        return (t->opts.flags & RON_HTTP_TARGET_PRIVATE) != 0;
    case RON_IP_LINK_LOCAL:
        return (t->opts.flags & RON_HTTP_TARGET_LINK_LOCAL) != 0;
    case RON_IP_SPECIAL:
    case RON_IP_CLASS_COUNT:
        break;
    }
    return false;
}

static bool rest_is_clean(struct ron_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((ron__http_char[(uint8_t)s.ptr[i]] & CH_URI) == 0) {
            return false;
        }
        if (s.ptr[i] == '%' &&
            (s.len - i < 3 || ron_hex_digit(s.ptr[i + 1]) < 0 || ron_hex_digit(s.ptr[i + 2]) < 0)) {
            return false;
        }
    }
    return true;
}

/* The scheme; *url is moved behind "://". */
static bool take_scheme(struct ron_str *url, bool *ret_https)
{
    static const struct ron_str schemes[] = {{"https://", 8}, {"http://", 7}};

    for (size_t i = 0; i < RON_ARRAY_LEN(schemes); i++) {
        if (url->len > schemes[i].len &&
            strncasecmp(url->ptr, schemes[i].ptr, schemes[i].len) == 0) {
            *ret_https = i == 0;
            url->ptr += schemes[i].len;
            url->len -= schemes[i].len;
            return true;
        }
    }
    return false;
}

/* The authority as an address, with the scheme's port if it has none. */
static bool read_authority(struct ron_str text, bool https, struct ron_addr *ret_addr)
{
    char full[AUTHORITY_MAX + 8];
    bool bare =
        text.len > 0 && (text.ptr[text.len - 1] == ']' || memchr(text.ptr, ':', text.len) == NULL);
    int len;

    if (text.len == 0 || text.len > AUTHORITY_MAX) {
        return false;
    }
    len = bare ? snprintf(full, sizeof full, "%.*s:%d", (int)text.len, text.ptr,
                          https ? PORT_HTTPS : PORT_HTTP)
               : snprintf(full, sizeof full, "%.*s", (int)text.len, text.ptr);
    return len > 0 && (size_t)len < sizeof full && strlen(full) == (size_t)len &&
           ron_addr_parse(full, ret_addr, NULL) == RON_OK && ret_addr->port != 0 &&
           ret_addr->kind != RON_ADDR_UNIX;
}

enum ron_rc ron__http_url_check(const struct ron_http_target *t, struct ron_str url,
                                struct http_url *ret_url, struct ron_err *err)
{
    struct http_url u = {0};
    struct ron_str rest = url;
    struct ron_str authority;

    if (url.len > FETCH_URL_MAX) {
        return ron_err_set(err, RON_INVALID, "a URL of %zu bytes", url.len);
    }
    if (!take_scheme(&rest, &u.https)) {
        return ron_err_set(err, RON_DENIED, "a URL must begin with https:// or http://");
    }
    if (!u.https && (t->opts.flags & RON_HTTP_TARGET_PLAIN) == 0) {
        return ron_err_set(err, RON_DENIED, "%s: only https is allowed", t->opts.name);
    }
    authority = (struct ron_str){rest.ptr, 0};
    while (authority.len < rest.len && strchr("/?#", rest.ptr[authority.len]) == NULL) {
        authority.len++;
    }
    rest = (struct ron_str){rest.ptr + authority.len, rest.len - authority.len};
    if (!read_authority(authority, u.https, &u.addr)) {
        return ron_err_set(err, RON_DENIED, "%s: the host of a URL is malformed", t->opts.name);
    }
    if (!ron__http_host_allowed(t, &u.addr)) {
        return ron_err_set(err, RON_DENIED, "%s: host '%.*s' is not on the list", t->opts.name,
                           (int)authority.len, authority.ptr);
    }
    if (!rest_is_clean(rest)) {
        return ron_err_set(err, RON_INVALID, "%s: the path of a URL is malformed", t->opts.name);
    }
    *ret_url = u;
    return RON_OK;
}
