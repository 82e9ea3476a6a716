/* SPDX-License-Identifier: Apache-2.0 */
/* xml.c - one text out of an answer of an S3 server.
 *
 * No parser of XML: the answers that matter hold their value in one element without attributes or
 * children (<UploadId>, <Code>, <ETag>). What looks different is refused, so nothing of an answer
 * is guessed. Whoever uses the text still treats it as a stranger's. */
#include <string.h>

#include "s3_priv.h"

struct scan {
    const char *at;
    const char *end;
};

static const char *find(struct scan s, const char *what, size_t len)
{
    return (size_t)(s.end - s.at) >= len ? memmem(s.at, (size_t)(s.end - s.at), what, len) : NULL;
}

/* The place behind "<name>"; NULL when there is none. */
static const char *open_tag(struct scan s, const char *name)
{
    size_t len = strlen(name);
    const char *tag;

    while ((tag = find(s, name, len)) != NULL) {
        if (tag > s.at && tag[-1] == '<' && tag + len < s.end && tag[len] == '>') {
            return tag + len + 1;
        }
        s.at = tag + 1;
    }
    return NULL;
}

/* One character; 0: it is malformed. */
static char decode(struct scan *s)
{
    static const struct {
        const char *text;
        char c;
    } entities[] = {{"&quot;", '"'}, {"&amp;", '&'},   {"&lt;", '<'},
                    {"&gt;", '>'},   {"&apos;", '\''}, {"&#34;", '"'}};

    if (*s->at == '>') {
        return '\0';
    }
    if (*s->at != '&') {
        return *s->at++;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(entities); i++) {
        size_t len = strlen(entities[i].text);

        if ((size_t)(s->end - s->at) >= len && memcmp(s->at, entities[i].text, len) == 0) {
            s->at += len;
            return entities[i].c;
        }
    }
    return '\0';
}

enum ron_rc ron_s3_xml_text(const char *xml, size_t len, const char *name, char *ret_text,
                            size_t size)
{
    struct scan s = {xml, xml + len};
    size_t name_len = strlen(name);
    size_t used = 0;

    s.at = len > 0 ? open_tag(s, name) : NULL;
    if (s.at == NULL) {
        return RON_NOTFOUND;
    }
    while (s.at < s.end && *s.at != '<') {
        char c = decode(&s);

        if (c == '\0' || used + 1 >= size) {
            return RON_CORRUPT;
        }
        ret_text[used++] = c;
    }
    if ((size_t)(s.end - s.at) < name_len + 3 || s.at[1] != '/' ||
        memcmp(s.at + 2, name, name_len) != 0 || s.at[name_len + 2] != '>') {
        return RON_CORRUPT;
    }
    ret_text[used] = '\0';
    return RON_OK;
}
