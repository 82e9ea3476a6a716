/* SPDX-License-Identifier: Apache-2.0 */
/* pg_array.c - arrays in the binary form of PostgreSQL; the contract is in ron/pg/pg_array.h.
 *
 *     int32 dimensions (0: empty), int32 0 (no nulls), int32 type of the elements,
 *     int32 how many, int32 1 (the first index), then per element int32 length and its bytes */
#include "ron/pg/pg_array.h"

#include "ron/base/assert.h"
#include "ron/base/bytes.h"

/* Built-in types have fixed numbers: of an element, and of an array of it. */
static const struct {
    uint32_t element;
    uint32_t array;
} types[] = {[RON_PG_INT8] = {20, 1016}, [RON_PG_BYTEA] = {17, 1001}, [RON_PG_TEXT] = {25, 1009}};

void ron_pg_array_init(struct ron_pg_array *a, enum ron_pg_kind kind)
{
    *a = (struct ron_pg_array){.kind = kind};
    ron_buf_init(&a->buf, RON_PG_ARRAY_BYTES_MAX);
}

void ron_pg_array_done(struct ron_pg_array *a)
{
    ron_buf_done(&a->buf);
    a->count = 0;
}

void ron_pg_array_clear(struct ron_pg_array *a, size_t keep)
{
    if (a->failed || ron_buf_len(&a->buf) > keep) {
        enum ron_pg_kind kind = a->kind;

        ron_pg_array_done(a);
        ron_pg_array_init(a, kind);
        return;
    }
    ron_buf_clear(&a->buf);
    a->count = 0;
}

/* Room for an element behind its length; NULL: there is none. */
static uint8_t *room_for(struct ron_pg_array *a, size_t len)
{
    size_t head = ron_buf_len(&a->buf) == 0 ? RON_PG_ARRAY_HEAD : 0;
    uint8_t *room = NULL;

    if (a->failed || len > RON_PG_ARRAY_BYTES_MAX ||
        ron_buf_reserve(&a->buf, head + 4 + len, &room) != RON_OK) {
        a->failed = true;
        return NULL;
    }
    if (head > 0) {
        memset(room, 0, head);
    }
    (void)ron_put_be32(room + head, (uint32_t)len);
    ron_buf_commit(&a->buf, head + 4 + len);
    a->count++;
    return room + head + 4;
}

void ron_pg_array_u64(struct ron_pg_array *a, uint64_t value)
{
    uint8_t *room = room_for(a, 8);

    RON_ASSERT(a->kind == RON_PG_INT8);
    if (room != NULL) {
        (void)ron_put_be64(room, value);
    }
}

void ron_pg_array_bytes(struct ron_pg_array *a, const void *data, size_t len)
{
    uint8_t *room = room_for(a, len);

    RON_ASSERT(a->kind != RON_PG_INT8);
    if (room != NULL && len > 0) {
        memcpy(room, data, len);
    }
}

enum ron_rc ron_pg_array_param(struct ron_pg_array *a, struct ron_pg_param *ret_param)
{
    uint8_t *head = NULL;

    if (ron_buf_len(&a->buf) == 0 && !a->failed) {
        a->failed = ron_buf_reserve(&a->buf, RON_PG_ARRAY_HEAD, &head) != RON_OK;
        if (!a->failed) {
            memset(head, 0, RON_PG_ARRAY_HEAD);
            ron_buf_commit(&a->buf, RON_PG_ARRAY_HEAD);
        }
    }
    if (a->failed) {
        return RON_NOMEM;
    }
    head = (uint8_t *)(uintptr_t)ron_buf_data(&a->buf); /* ours: what it points to is not const */
    (void)ron_put_be32(head, a->count > 0 ? 1 : 0);
    (void)ron_put_be32(head + 8, types[a->kind].element);
    (void)ron_put_be32(head + 12, a->count);
    (void)ron_put_be32(head + 16, 1);
    *ret_param = (struct ron_pg_param){
        .data = head, .len = ron_buf_len(&a->buf), .type = types[a->kind].array};
    if (a->count == 0) {
        ret_param->len = 12; /* an array of no dimension ends here */
    }
    return RON_OK;
}
