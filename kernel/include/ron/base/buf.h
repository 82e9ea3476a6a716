/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - bounded byte buffer: append at the end, consume from the front.
 *
 * Place: base; under every reader and writer of bytes. The maximum is a parameter that cannot be
 * left out, because a buffer without one is a queue without a bound.
 *
 * Invariants:
 *   B1. len <= max, always. Growth doubles up to max and never past it.
 *   B2. The first failure sticks: later appends do nothing and return the same code. A caller may
 *       therefore append many pieces and check once at the end. ron_buf_clear removes it.
 *   B3. A failed append leaves the content as it was.
 *   B4. One byte beyond the content is kept for a NUL, so the content can always be read as a text.
 *
 * Codes: RON_LIMIT when max would be passed, RON_NOMEM when memory could not be obtained.
 * Threads: one at a time. Ownership: the buffer owns its memory unless it was made with init_over.
 * Pointers into the buffer are valid until the next call that is not a plain read.
 *
 * Reading from a socket:
 *     RON_TRY(ron_buf_reserve(&buf, 4096, &room));
 *     n = read(fd, room, 4096);
 *     ron_buf_commit(&buf, (size_t)n);      only after checking that n > 0
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

struct ron_buf {
    uint8_t *memory;
    size_t head; /* offset of the first byte of content */
    size_t len;
    size_t cap; /* bytes of memory usable for content; one more exists for the NUL */
    size_t max;
    size_t align; /* 0: that of any block */
    bool fixed;   /* memory belongs to the caller and cannot grow */
    enum ron_rc rc;
};

/* An empty buffer that may grow to max bytes (at least 1). Does not allocate. */
void ron_buf_init(struct ron_buf *buf, size_t max);

/* The same, with content that begins on a multiple of `align` (a power of two) as long as nothing
 * is consumed: for writes past the system's cache. */
void ron_buf_init_aligned(struct ron_buf *buf, size_t max, size_t align);

/* A buffer over memory of the caller; holds size - 1 bytes (B4). size is at least 2. Never uses the
 * heap, so the only failure is RON_LIMIT. */
void ron_buf_init_over(struct ron_buf *buf, void *memory, size_t size);

/* Releases the memory. Also fine on a struct of zeros. */
void ron_buf_done(struct ron_buf *buf);

/* Empties the buffer, forgets the failure, keeps the memory. */
void ron_buf_clear(struct ron_buf *buf);

/* Appends len bytes; bytes may be NULL when len is 0. They must not lie inside the buffer. */
enum ron_rc ron_buf_append(struct ron_buf *buf, const void *bytes, size_t len);
enum ron_rc ron_buf_append_byte(struct ron_buf *buf, uint8_t byte);

/* Appends a NUL-terminated text without its NUL. */
enum ron_rc ron_buf_append_text(struct ron_buf *buf, const char *text);

/* Appends formatted text, all of it or nothing. */
enum ron_rc ron_buf_append_fmt(struct ron_buf *buf, const char *fmt, ...) RON_PRINTF(2, 3);

/* Makes room for len bytes behind the content and points to it. The content stays the same. */
enum ron_rc ron_buf_reserve(struct ron_buf *buf, size_t len, uint8_t **ret_room) RON_MUST_USE;

/* Adds the first len bytes of the reserved room to the content. */
void ron_buf_commit(struct ron_buf *buf, size_t len);

/* Drops len bytes from the front; len is at most the length. */
void ron_buf_consume(struct ron_buf *buf, size_t len);

/* The content as a text: writes the NUL of B4. The content may itself contain NULs. */
const char *ron_buf_text(struct ron_buf *buf);

static inline const uint8_t *ron_buf_data(const struct ron_buf *buf)
{
    return buf->memory == NULL ? (const uint8_t *)"" : buf->memory + buf->head;
}

static inline size_t ron_buf_len(const struct ron_buf *buf)
{
    return buf->len;
}

/* RON_OK, or the first failure since init or clear. */
static inline enum ron_rc ron_buf_error(const struct ron_buf *buf)
{
    return buf->rc;
}
