/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a slice proves its range and nothing else: the root is the content id, what was made is
 * accepted, and one changed, missing or extra byte is refused.
 * Method: objects around every border (chunk, group, powers of two) with many ranges; the root
 * against the library's own hash; every byte of small slices flipped, cut or added. */
#include <unistd.h>

#include "interop/object/bao.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "support/support.h"

struct object {
    uint8_t *bytes;
    size_t len;
    struct iop_bao *tree;
    struct ron_b3 root;
};

static void make(struct object *o, size_t len, size_t piece)
{
    struct ron_b3 whole;

    *o = (struct object){.bytes = ron_alloc(len + 1), .len = len};
    assert_non_null(o->bytes);
    for (size_t i = 0; i < len; i++) {
        o->bytes[i] = (uint8_t)(i % 251);
    }
    assert_int_equal(iop_bao_new(len, &o->tree, NULL), RON_OK);
    for (size_t at = 0; at < len; at += piece) {
        assert_int_equal(iop_bao_update(o->tree, o->bytes + at, RON_MIN(piece, len - at)), RON_OK);
    }
    assert_int_equal(iop_bao_update(o->tree, "x", 1), RON_LIMIT);
    assert_int_equal(iop_bao_final(o->tree, &o->root), RON_OK);
    ron_b3_hash(o->bytes, len, &whole);
    assert_memory_equal(o->root.bytes, whole.bytes, sizeof whole.bytes); /* O1 */
}

static void drop(struct object *o)
{
    iop_bao_free(o->tree);
    ron_free(o->bytes);
}

static enum ron_rc read_object(void *arg, uint64_t off, void *buf, size_t len)
{
    const struct object *o = arg;

    RON_ASSERT(off + len <= o->len);
    memcpy(buf, o->bytes + off, len);
    return RON_OK;
}

static enum ron_rc emit(void *arg, const void *bytes, size_t len)
{
    return ron_buf_append(arg, bytes, len);
}

struct proven {
    const struct object *o;
    uint64_t next;
    bool right;
};

static enum ron_rc content(void *arg, uint64_t off, const void *bytes, size_t len)
{
    struct proven *p = arg;

    p->right = p->right && off == p->next && memcmp(p->o->bytes + off, bytes, len) == 0;
    p->next = off + len;
    return RON_OK;
}

static void round_trip(struct object *o, uint64_t start, uint64_t len)
{
    struct proven p = {.o = o, .next = RON_MIN(start, (uint64_t)o->len), .right = true};
    uint64_t end = RON_MIN(len > UINT64_MAX - start ? UINT64_MAX : start + len, (uint64_t)o->len);
    struct ron_buf slice;
    uint64_t told = 0;

    ron_buf_init(&slice, 16 << 20);
    assert_int_equal(iop_bao_slice(o->tree, start, len, read_object, o, emit, &slice, NULL),
                     RON_OK);
    assert_int_equal(ron_buf_len(&slice), iop_bao_slice_len(o->len, start, len));
    assert_int_equal(iop_bao_check(&o->root, start, len, ron_buf_data(&slice), ron_buf_len(&slice),
                                   content, &p, &told, NULL),
                     RON_OK);
    assert_int_equal(told, o->len);
    assert_true(p.right);
    assert_int_equal(p.next, RON_MAX(end, RON_MIN(start, (uint64_t)o->len)));
    ron_buf_done(&slice);
}

static const size_t borders[] = {0,     1,     63,    64,     65,     1023,   1024,  1025,
                                 2047,  2048,  2049,  3072,   4096,   4097,   15360, 16383,
                                 16384, 16385, 17408, 32768,  32769,  49152,  49153, 65536,
                                 65537, 81920, 98304, 131072, 131073, 200000, 262145};

static void test_bao__every_border__proven(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(borders); i++) {
        struct object o;
        size_t len = borders[i];

        make(&o, len, 1 + (size_t)ron_rand_below(&rand, 70000));
        round_trip(&o, 0, len);
        round_trip(&o, 0, 0);
        round_trip(&o, 0, UINT64_MAX);
        round_trip(&o, len, 1);
        round_trip(&o, len + 5000, 10);
        round_trip(&o, UINT64_MAX, UINT64_MAX);
        for (int k = 0; k < 20; k++) {
            uint64_t start = ron_rand_below(&rand, len + 2);

            round_trip(&o, start, ron_rand_below(&rand, len + 2));
            round_trip(&o, start & ~UINT64_C(1023), 1024);
        }
        drop(&o);
    }
}

static void test_bao__one_byte_changed_missing_or_extra__refused(void **state)
{
    static const struct {
        size_t len, start, range;
    } cases[] = {{0, 0, 1}, {1, 0, 1}, {1025, 1024, 1}, {5000, 1500, 1000}, {40000, 20000, 10}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct object o;
        struct ron_buf slice;
        uint64_t told = 0;
        uint8_t *bytes;
        size_t len;

        make(&o, cases[i].len, 1000);
        ron_buf_init(&slice, 1 << 20);
        assert_int_equal(iop_bao_slice(o.tree, cases[i].start, cases[i].range, read_object, &o,
                                       emit, &slice, NULL),
                         RON_OK);
        assert_int_equal(ron_buf_append(&slice, "x", 1), RON_OK);
        bytes = (uint8_t *)(uintptr_t)ron_buf_data(&slice);
        len = ron_buf_len(&slice) - 1;
        for (size_t cut = 0; cut <= len + 1; cut++) {
            struct proven p = {.o = &o, .next = 0, .right = true};
            enum ron_rc rc = iop_bao_check(&o.root, cases[i].start, cases[i].range, bytes, cut,
                                           content, &p, &told, NULL);

            assert_int_equal(rc, cut == len ? RON_OK : RON_CORRUPT);
        }
        for (size_t k = 8; k < len; k++) {
            struct proven p = {.o = &o, .next = cases[i].start, .right = true};

            bytes[k] ^= 1;
            assert_int_equal(iop_bao_check(&o.root, cases[i].start, cases[i].range, bytes, len,
                                           content, &p, &told, NULL),
                             RON_CORRUPT);
            assert_true(p.right); /* O2: what was handed out before was right */
            bytes[k] ^= 1;
        }
        ron_buf_done(&slice);
        drop(&o);
    }
}

static void test_bao__length_at_the_end__cannot_be_lied_about(void **state)
{
    struct object o;
    struct ron_buf slice;
    uint64_t told = 0;

    (void)state;
    make(&o, 5000, 5000);
    ron_buf_init(&slice, 1 << 20);
    assert_int_equal(iop_bao_slice(o.tree, 9999, 1, read_object, &o, emit, &slice, NULL), RON_OK);
    for (uint64_t lie = 0; lie < 12000; lie++) {
        struct proven p = {.o = &o, .next = 0, .right = true};
        uint8_t *bytes = (uint8_t *)(uintptr_t)ron_buf_data(&slice);
        enum ron_rc rc;

        memcpy(bytes, &lie, sizeof lie);
        rc = iop_bao_check(&o.root, 9999, 1, bytes, ron_buf_len(&slice), content, &p, &told, NULL);
        assert_int_equal(rc, lie == 5000 ? RON_OK : RON_CORRUPT);
    }
    ron_buf_done(&slice);
    drop(&o);
}

static void test_bao__object_changed__not_served(void **state)
{
    struct object o;
    struct ron_buf slice;

    (void)state;
    make(&o, 100000, 4096);
    o.bytes[50000] ^= 1;
    ron_buf_init(&slice, 1 << 20);
    assert_int_equal(iop_bao_slice(o.tree, 50000, 1, read_object, &o, emit, &slice, NULL),
                     RON_CORRUPT);
    ron_buf_done(&slice);
    drop(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bao__every_border__proven),
        cmocka_unit_test(test_bao__one_byte_changed_missing_or_extra__refused),
        cmocka_unit_test(test_bao__length_at_the_end__cannot_be_lied_about),
        cmocka_unit_test(test_bao__object_changed__not_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
