/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - copies that are wiped; comparison in constant time. */
#include "ron/base/secret.h"

#include <string.h>

#include "ron/base/alloc.h"

void ron_wipe(void *memory, size_t len)
{
    if (len > 0) {
        explicit_bzero(memory, len);
    }
}

enum ron_rc ron_secret_set(struct ron_secret *s, const void *bytes, size_t len)
{
    uint8_t *copy;

    if (len > RON_SECRET_MAX) {
        return RON_LIMIT;
    }
    copy = ron_alloc(len);
    if (copy == NULL) {
        return RON_NOMEM;
    }
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    ron_secret_done(s);
    s->_bytes = copy;
    s->_len = len;
    return RON_OK;
}

void ron_secret_done(struct ron_secret *s)
{
    ron_wipe(s->_bytes, s->_len);
    ron_free(s->_bytes);
    *s = (struct ron_secret){0};
}

const uint8_t *ron_secret_reveal(const struct ron_secret *s)
{
    return s->_len == 0 ? NULL : s->_bytes;
}

size_t ron_secret_len(const struct ron_secret *s)
{
    return s->_len;
}

bool ron_secret_equal(const struct ron_secret *s, const void *bytes, size_t len)
{
    const volatile uint8_t *a = s->_bytes;
    const volatile uint8_t *b = bytes;
    uint8_t differs = 0;

    if (len != s->_len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        differs |= (uint8_t)(a[i] ^ b[i]);
    }
    return differs == 0;
}
