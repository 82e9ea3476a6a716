/* SPDX-License-Identifier: Apache-2.0 */
/* edge/stored/record.c - a record of a stored answer: one block, never changed, counted. */
#include <string.h>

#include "edge/stored/table.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum { RECORD_MAGIC = 0x65526563 }; /* "eRec" */

struct block {
    uint32_t magic;
    struct edg_stored stored;
    struct ron_au32 refs;
    size_t bytes;
    struct ron_http_field fields[];
};

static struct block *block_of(const struct edg_stored *stored)
{
    struct block *b =
        RON_CONTAINER_OF((struct edg_stored *)(uintptr_t)stored, struct block, stored);

    RON_CHECK_MAGIC(b, RECORD_MAGIC);
    return b;
}

/* Copies a text to the end of the block. */
static struct ron_str put_text(char **at, struct ron_str text)
{
    struct ron_str copy = {*at, text.len};

    if (text.len > 0) {
        memcpy(*at, text.ptr, text.len);
        *at += text.len;
    }
    return copy;
}

static size_t texts_len(const struct edg_stored *like)
{
    size_t len = like->target.len + like->vary.len + like->key.len;

    for (size_t i = 0; i < like->fields.count; i++) {
        len += like->fields.at[i].name.len + like->fields.at[i].value.len;
    }
    return len;
}

enum ron_rc edg_stored_new(const struct edg_stored *like, const struct edg_stored **ret_stored,
                           struct ron_err *err)
{
    size_t count = like->fields.count;
    size_t bytes;
    struct block *b;
    char *at;

    if (count > EDG_STORED_FIELDS_MAX) {
        return ron_err_set(err, RON_LIMIT, "response has more than %d header fields",
                           (int)EDG_STORED_FIELDS_MAX);
    }
    bytes = sizeof *b + count * sizeof b->fields[0] + texts_len(like);
    b = ron_alloc(bytes);
    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a cached response");
    }
    *b = (struct block){.magic = RECORD_MAGIC, .stored = *like, .bytes = bytes};
    ron_au32_store(&b->refs, 1);
    at = (char *)&b->fields[count];
    b->stored.target = put_text(&at, like->target);
    b->stored.vary = put_text(&at, like->vary);
    b->stored.key = put_text(&at, like->key);
    for (size_t i = 0; i < count; i++) {
        b->fields[i] = like->fields.at[i];
        b->fields[i].name = put_text(&at, like->fields.at[i].name);
        b->fields[i].value = put_text(&at, like->fields.at[i].value);
    }
    RON_ASSERT_MSG(at <= (char *)b + bytes, "T1: a record is one block");
    b->stored.fields.at = b->fields;
    *ret_stored = &b->stored;
    return RON_OK;
}

const struct edg_stored *edg_stored_ref(const struct edg_stored *stored)
{
    uint32_t had = ron_au32_add(&block_of(stored)->refs, 1);

    RON_ASSERT_MSG(had > 0, "T1: a reference comes from a holder");
    return stored;
}

void edg_stored_unref(const struct edg_stored *stored)
{
    if (stored != NULL) {
        struct block *b = block_of(stored);
        uint32_t had = ron_au32_add(&b->refs, UINT32_MAX); /* minus one */

        RON_ASSERT(had > 0);
        if (had == 1) {
            b->magic = 0;
            ron_free(b);
        }
    }
}

size_t edg_stored_bytes(const struct edg_stored *stored)
{
    return block_of(stored)->bytes;
}
