/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no bytes that pass for records of an image break the loader, and what it takes is a book:
 * audited, and the same again after an image of its own.
 * Method: the input becomes the records of a single chunk with a good head. What is loaded is
 * written as an image and loaded into a third book: the same digest. */
#include <stdint.h>
#include <string.h>

#include "ledger/book/book.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/cas/b3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 80, SUM = 16, LAST_AT = 10, SEQ_AT = 16, LEN_AT = 24 };

static const struct led_book_opts opts = {.hash_key = "0123456789abcde",
                                          .accounts_max = 1000,
                                          .holds_max = 1000,
                                          .batch_max = 1,
                                          .undo_max = 8};
static uint8_t chunk[LED_IMAGE_CHUNK_MAX];

static struct led_book *new_book(void)
{
    struct led_book *book;

    RON_ASSERT(led_book_new(&opts, &book) == RON_OK);
    return book;
}

/* Writes an image of `from` and loads it into `into`, or keeps only the head of its first chunk. */
static void copy(struct led_book *from, struct led_book *into, uint8_t *ret_head)
{
    struct led_image_chunk c = {0};
    uint64_t seq;
    bool done = false;

    RON_ASSERT(led_book_image_begin(from, &seq) == RON_OK);
    while (!c.last) {
        RON_ASSERT(led_book_image_step(from, &c) == RON_OK);
        if (c.take_bytes == NULL) {
            continue;
        }
        if (into != NULL) {
            RON_ASSERT(led_book_load(into, c.take_bytes, c.len, &done, NULL) == RON_OK);
            RON_ASSERT(done == c.last);
        } else {
            memcpy(ret_head, c.take_bytes, HEAD);
        }
        ron_free(c.take_bytes);
    }
    led_book_image_end(from);
}

static size_t seal(const uint8_t *data, size_t size)
{
    static uint8_t head[HEAD];
    struct ron_b3 sum;

    if (head[0] == 0) {
        struct led_book *empty = new_book();

        copy(empty, NULL, head);
        led_book_free(empty);
    }
    size = size < sizeof chunk - HEAD ? size : sizeof chunk - HEAD;
    memcpy(chunk, head, HEAD);
    memcpy(chunk + HEAD, data, size);
    chunk[LAST_AT] = 1;
    chunk[SEQ_AT + 6] = 4; /* 1024 */
    chunk[LEN_AT + 1] = (uint8_t)(size >> 16);
    chunk[LEN_AT + 2] = (uint8_t)(size >> 8);
    chunk[LEN_AT + 3] = (uint8_t)size;
    memset(chunk + HEAD - SUM, 0, SUM);
    ron_b3_hash(chunk, HEAD + size, &sum);
    memcpy(chunk + HEAD - SUM, sum.bytes, SUM);
    return HEAD + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len = seal(data, size);
    struct led_book *book = new_book();
    struct ron_err err = {0};
    bool done = false;
    enum ron_rc rc = led_book_load(book, chunk, len, &done, &err);

    if (rc == RON_OK) {
        struct led_book *again = new_book();
        uint8_t digest[2][32];

        RON_ASSERT(done);
        RON_ASSERT(led_book_committed_seq(book) == 1024);
        copy(book, again, NULL);
        led_book_digest(book, digest[0]);
        led_book_digest(again, digest[1]);
        RON_ASSERT(memcmp(digest[0], digest[1], 32) == 0);
        led_book_free(again);
    } else {
        RON_ASSERT(rc == RON_CORRUPT || rc == RON_LIMIT);
        RON_ASSERT(err.msg[0] != '\0');
    }
    led_book_free(book);
    return 0;
}
