/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what an origin sends arrives whole and in order at a worker that takes it when it likes,
 * and an end, a failure or a cancel is never missed.
 *
 * Method: the pipe alone between two threads of the test, one in the part of the client's task: a
 * piece that is refused is given again when the worker has room, as the client does it. */
#include "support/support.h"

#include <sched.h>

#include "edge/origin/pipe.h"
#include "ron/base/rand.h"
#include "ron/io/linux_env.h"

enum { WAIT_MS = 20000, TOTAL = 5 << 20 };

struct source {
    struct edg_pipe *pipe;
    struct ron_rand rand;
    const uint8_t *bytes;
};

static struct ron_deadline soon(void)
{
    return ron_deadline_after_ms(ron_mono_ns(), WAIT_MS);
}

/* Brings all bytes in pieces of random length, again and again when there is no room. */
static void bring(void *arg)
{
    struct source *s = arg;
    size_t at = 0;

    while (at < TOTAL) {
        size_t len = 1 + (size_t)ron_rand_below(&s->rand, RON_HTTP_PIECE_MAX);
        enum ron_rc rc;

        len = RON_MIN(len, TOTAL - at);
        rc = edg_pipe_sink(NULL, s->pipe, s->bytes + at, len);
        if (rc == RON_OK) {
            at += len;
        } else {
            RON_ASSERT(rc == RON_AGAIN);
            (void)sched_yield();
        }
    }
    edg_pipe_end(NULL, s->pipe);
}

static void test_pipe__random_pieces__arrive_whole_and_in_order(void **state)
{
    struct edg_pipe pipe;
    struct source s = {.pipe = &pipe};
    uint8_t *bytes = malloc(TOTAL);
    struct ron_thread *thread = NULL;
    struct ron_err err = {0};
    struct ron_str piece;
    size_t at = 0;
    enum ron_rc rc;

    (void)state;
    assert_non_null(bytes);
    ron_rand_seed(&s.rand, support_seed());
    ron_rand_bytes(&s.rand, bytes, TOTAL);
    s.bytes = bytes;
    assert_int_equal(edg_pipe_init(&pipe, &err), RON_OK);
    assert_int_equal(ron_thread_start(
                         &(struct ron_thread_opts){
                             .name = "origin", .may_block = true, .main = bring, .arg = &s},
                         &thread, NULL),
                     RON_OK);
    while ((rc = edg_pipe_next(&pipe, NULL, soon(), &piece)) == RON_OK) {
        assert_true(piece.len > 0 && at + piece.len <= TOTAL);
        assert_memory_equal(piece.ptr, bytes + at, piece.len);
        at += piece.len;
    }
    assert_int_equal(rc, RON_CLOSED);
    assert_int_equal(at, TOTAL);
    ron_thread_join(thread);
    edg_pipe_done(&pipe);
    free(bytes);
}

static void test_pipe__both_pieces_full__the_client_is_told_to_wait(void **state)
{
    struct edg_pipe pipe;
    struct ron_err err = {0};
    struct ron_str piece;

    (void)state;
    assert_int_equal(edg_pipe_init(&pipe, &err), RON_OK);
    assert_int_equal(edg_pipe_sink(NULL, &pipe, "one", 3), RON_OK);
    assert_int_equal(edg_pipe_sink(NULL, &pipe, "two!", 4), RON_OK);
    assert_int_equal(edg_pipe_sink(NULL, &pipe, "three", 5), RON_AGAIN);
    assert_true(pipe.starving);
    assert_int_equal(edg_pipe_next(&pipe, NULL, soon(), &piece), RON_OK);
    assert_true(ron_str_is(piece, "one"));
    /* Lent is not free. */
    assert_int_equal(edg_pipe_sink(NULL, &pipe, "three", 5), RON_AGAIN);
    assert_int_equal(edg_pipe_next(&pipe, NULL, soon(), &piece), RON_OK);
    assert_true(ron_str_is(piece, "two!"));
    assert_int_equal(edg_pipe_sink(NULL, &pipe, "three", 5), RON_OK);
    edg_pipe_end(NULL, &pipe);
    assert_int_equal(edg_pipe_next(&pipe, NULL, soon(), &piece), RON_OK);
    assert_true(ron_str_is(piece, "three"));
    assert_int_equal(edg_pipe_next(&pipe, NULL, soon(), &piece), RON_CLOSED);
    edg_pipe_reset(&pipe);
    assert_int_equal(edg_pipe_next(&pipe, NULL, ron_deadline_after_ms(ron_mono_ns(), 1), &piece),
                     RON_TIMEOUT);
    edg_pipe_done(&pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe__random_pieces__arrive_whole_and_in_order),
        cmocka_unit_test(test_pipe__both_pieces_full__the_client_is_told_to_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
