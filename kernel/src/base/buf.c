/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - bounded byte buffer. The rules B1 to B4 are in the header.
 *
 * Place: base.
 *
 *     memory     head          head + len              cap   cap + 1
 *       | consumed | content ... | room                  | NUL |
 *
 * Making room, in this order: use the room behind the content; else move the content to the front
 * when that frees at least as much as it moves (so that the cost stays linear in the bytes that
 * went through) or when the buffer cannot grow; else double the memory.
 * Failure: sticks in `rc` (B2); content and memory stay as they were (B3).
 */
#include "ron/base/buf.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* One small message or header line; below this, growing step by step is not worth it. */
#define CAP_FIRST 256

/* Leaves room for the arithmetic of doubling and of the NUL. */
#define MAX_MAX (PTRDIFF_MAX / 4)

static void check(const struct ron_buf *buf)
{
    RON_ASSERT_MSG(buf->len <= buf->max, "B1");
    RON_ASSERT_SLOW(buf->cap <= buf->max);
    RON_ASSERT_SLOW(buf->head + buf->len <= buf->cap);
    RON_ASSERT_SLOW(RON_IMPLIES(buf->memory == NULL, buf->cap == 0));
}

static enum ron_rc fail(struct ron_buf *buf, enum ron_rc rc)
{
    buf->rc = rc; /* B2 */
    return rc;
}

void ron_buf_init(struct ron_buf *buf, size_t max)
{
    RON_ASSERT(max > 0);
    RON_ASSERT(max <= MAX_MAX);
    *buf = (struct ron_buf){.max = max};
}

void ron_buf_init_aligned(struct ron_buf *buf, size_t max, size_t align)
{
    RON_ASSERT(align > 0 && (align & (align - 1)) == 0);
    ron_buf_init(buf, max);
    buf->align = align;
}

void ron_buf_init_over(struct ron_buf *buf, void *memory, size_t size)
{
    RON_ASSERT(memory != NULL);
    RON_ASSERT_MSG(size >= 2, "one byte of content and its NUL");
    RON_ASSERT(size <= MAX_MAX);
    *buf = (struct ron_buf){.memory = memory, .cap = size - 1, .max = size - 1, .fixed = true};
}

void ron_buf_done(struct ron_buf *buf)
{
    if (!buf->fixed) {
        ron_free(buf->memory);
    }
    memset(buf, 0, sizeof(*buf));
}

void ron_buf_clear(struct ron_buf *buf)
{
    buf->head = 0;
    buf->len = 0;
    buf->rc = RON_OK;
}

static void compact(struct ron_buf *buf)
{
    memmove(buf->memory, buf->memory + buf->head, buf->len);
    buf->head = 0;
}

/* Moves the content to a larger block. False when there is none; then nothing changed. */
static bool grow(struct ron_buf *buf, size_t want)
{
    size_t cap = buf->cap == 0 ? CAP_FIRST : buf->cap * 2;

    while (cap < want) {
        cap *= 2; /* want <= max <= MAX_MAX, so this ends before it overflows */
    }
    cap = RON_MIN(cap, buf->max);
    uint8_t *memory = buf->align == 0 ? ron_alloc(cap + 1) : ron_alloc_aligned(buf->align, cap + 1);

    if (memory == NULL) {
        return false;
    }
    if (buf->len > 0) {
        memcpy(memory, buf->memory + buf->head, buf->len);
    }
    ron_free(buf->memory);
    buf->memory = memory;
    buf->cap = cap;
    buf->head = 0;
    return true;
}

/* Makes sure that len bytes fit behind the content. */
static enum ron_rc make_room(struct ron_buf *buf, size_t len)
{
    check(buf);
    if (buf->rc != RON_OK) {
        return buf->rc;
    }
    if (len > buf->max - buf->len) {
        return fail(buf, RON_LIMIT); /* keeps B1 */
    }
    size_t want = buf->len + len;

    if (buf->memory != NULL && buf->head + want <= buf->cap) {
        return RON_OK;
    }
    bool fits = buf->memory != NULL && want <= buf->cap;

    if (fits && (buf->head >= buf->len || buf->cap == buf->max)) {
        compact(buf);
        return RON_OK;
    }
    if (!grow(buf, want)) {
        if (!fits) {
            return fail(buf, RON_NOMEM);
        }
        compact(buf); /* slower, but it needs no memory */
    }
    return RON_OK;
}

enum ron_rc ron_buf_append(struct ron_buf *buf, const void *bytes, size_t len)
{
    RON_TRY(make_room(buf, len));
    if (len > 0) {
        memcpy(buf->memory + buf->head + buf->len, bytes, len);
        buf->len += len;
    }
    return RON_OK;
}

enum ron_rc ron_buf_append_byte(struct ron_buf *buf, uint8_t byte)
{
    return ron_buf_append(buf, &byte, 1);
}

enum ron_rc ron_buf_append_text(struct ron_buf *buf, const char *text)
{
    return ron_buf_append(buf, text, strlen(text));
}

RON_PRINTF(2, 0)
static enum ron_rc append_vfmt(struct ron_buf *buf, const char *fmt, va_list args)
{
    va_list again;
    size_t room = 0;
    char *at = NULL;

    check(buf);
    if (buf->rc != RON_OK) {
        return buf->rc;
    }
    if (buf->memory != NULL) {
        at = (char *)buf->memory + buf->head + buf->len;
        room = buf->cap - buf->head - buf->len + 1; /* B4: the NUL has its place */
    }
    va_copy(again, args);
    int printed = vsnprintf(at, room, fmt, args);

    if (printed >= 0 && (size_t)printed >= room) {
        enum ron_rc rc = make_room(buf, (size_t)printed);

        if (rc != RON_OK) {
            va_end(again);
            return rc;
        }
        at = (char *)buf->memory + buf->head + buf->len;
        printed = vsnprintf(at, (size_t)printed + 1, fmt, again);
    }
    va_end(again);
    if (printed < 0) {
        return fail(buf, RON_INVALID); /* a wide character that has no encoding */
    }
    buf->len += (size_t)printed;
    return RON_OK;
}

enum ron_rc ron_buf_append_fmt(struct ron_buf *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    enum ron_rc rc = append_vfmt(buf, fmt, args);
    va_end(args);
    return rc;
}

enum ron_rc ron_buf_reserve(struct ron_buf *buf, size_t len, uint8_t **ret_room)
{
    RON_ASSERT(len > 0);
    RON_TRY(make_room(buf, len));
    *ret_room = buf->memory + buf->head + buf->len;
    return RON_OK;
}

void ron_buf_commit(struct ron_buf *buf, size_t len)
{
    check(buf);
    RON_ASSERT_MSG(len <= buf->cap - buf->head - buf->len, "commit of more than was reserved");
    buf->len += len;
}

void ron_buf_consume(struct ron_buf *buf, size_t len)
{
    check(buf);
    RON_ASSERT_MSG(len <= buf->len, "consume of more than there is");
    buf->head += len;
    buf->len -= len;
    if (buf->len == 0) {
        buf->head = 0; /* costs nothing and keeps all room behind the content */
    }
}

const char *ron_buf_text(struct ron_buf *buf)
{
    if (buf->memory == NULL) {
        return "";
    }
    buf->memory[buf->head + buf->len] = '\0'; /* B4 */
    return (const char *)buf->memory + buf->head;
}
