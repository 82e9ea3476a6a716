/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - tree hashes in base64, and which text a note may contain. */
#include "ron/merkle/lines.h"

#include "ron/base/hex.h"
#include "ron/base/json.h"

bool ron_tree_hash_read(struct ron_str s, struct ron_tree_hash *ret_hash)
{
    uint8_t bytes[RON_TREE_HASH_BYTES];
    size_t len;

    if (s.len != RON_TREE_HASH_TEXT_LEN ||
        !ron_base64_read(s, RON_BASE64_PADDED, bytes, sizeof bytes, &len) ||
        len != RON_TREE_HASH_BYTES) {
        return false;
    }
    memcpy(ret_hash->bytes, bytes, sizeof bytes);
    return true;
}

enum ron_rc ron_tree_hash_write(struct ron_buf *out, const struct ron_tree_hash *hash)
{
    return ron_base64_write(out, hash->bytes, RON_TREE_HASH_BYTES);
}

bool ron_text_valid(struct ron_str s)
{
    const char *end = s.ptr + s.len;

    for (const char *p = s.ptr; p < end;) {
        size_t len = ron_utf8_len(p, end);

        if (len == 0 || ((unsigned char)*p < 0x20 && *p != '\n')) {
            return false;
        }
        p += len;
    }
    return true;
}
