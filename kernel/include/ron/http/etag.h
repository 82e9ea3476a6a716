/* SPDX-License-Identifier: Apache-2.0 */
/* etag.h - entity tags and conditional requests (RFC 9110 8.8.3 and 13).
 *
 * Threads: pure. Ownership: tags borrow the text they were read from. */
#pragma once

#include "ron/http/parse.h"

struct ron_http_etag {
    struct ron_str opaque; /* between the quotes */
    bool weak;             /* W/ in front */
};

#define RON_HTTP_NO_MTIME UINT64_MAX

/* One tag and nothing else. RON_INVALID. */
RON_MUST_USE enum ron_rc ron_http_etag_parse(struct ron_str text, struct ron_http_etag *ret_etag);

/* Whether a list ("*", or tags with commas) has the tag; NULL: there is no representation, and
 * nothing matches. RON_INVALID for a malformed list, wherever its fault is. */
RON_MUST_USE enum ron_rc ron_http_etag_in(struct ron_str list, const struct ron_http_etag *etag,
                                          bool strong, bool *ret_in);

enum ron_http_precond {
    RON_HTTP_PROCEED,
    RON_HTTP_NOT_MODIFIED,        /* 304; GET and HEAD only */
    RON_HTTP_PRECONDITION_FAILED, /* 412 */
};

/* If-Match, else If-Unmodified-Since, then If-None-Match, else If-Modified-Since, in the order of
 * RFC 9110 13.2.2. `etag` may be NULL and mtime_s RON_HTTP_NO_MTIME: without either there is no
 * representation, and "*" matches nothing; with the date alone "*" matches and no tag does. `now_s`
 * is the time of the request. A malformed If-Match fails, as does one that cannot be read whole,
 * and a malformed If-None-Match of a method that writes: what was to be protected is not known. Of
 * a method that reads it is ignored, as are dates that are not valid. OPTIONS has no conditions. */
enum ron_http_precond ron_http_precondition(const struct ron_http_head *head,
                                            const struct ron_http_etag *etag, uint64_t mtime_s,
                                            uint64_t now_s);
