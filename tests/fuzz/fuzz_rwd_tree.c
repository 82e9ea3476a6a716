/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rwd_tree.c - any bytes as a dump of OpenZeppelin or a rewards file of Rocket Pool.
 *
 * Oracle: a refusal has a sentence; what was read is written and read again to the same bytes and
 * the same root, and every proof leads from the leaf beside it to the root. */
#include <stdint.h>
#include <string.h>

#include "rewarder/tree/oz.h"
#include "rewarder/tree/rp.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 1 << 24, PROVEN = 8 };

static enum ron_rc gather(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    return ron_buf_append(arg, bytes, len);
}

/* A copy that the readers may change, without a byte behind it. */
static char *copy_of(const void *bytes, size_t len)
{
    char *copy = ron_alloc(len);

    RON_ASSERT(copy != NULL);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static struct rwd_oz *read_oz(const void *bytes, size_t len, bool must)
{
    char *copy = copy_of(bytes, len);
    struct rwd_oz *oz = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = rwd_oz_read(copy, len, &oz, &err);

    RON_ASSERT((rc == RON_OK) == (oz != NULL));
    RON_ASSERT(rc == RON_OK || err.msg[0] != '\0');
    RON_ASSERT(rc == RON_OK || !must);
    ron_free(copy);
    return oz;
}

static void dump_oz(const struct rwd_oz *oz, struct ron_buf *out)
{
    struct rwd_sink sink = {gather, out};

    ron_buf_init(out, OUT_MAX);
    RON_ASSERT(rwd_oz_dump(oz, &sink, NULL) == RON_OK);
}

static void check_oz(const struct rwd_oz *oz)
{
    struct rwd_oz *again;
    struct ron_buf first;
    struct ron_buf second;

    dump_oz(oz, &first);
    again = read_oz(ron_buf_data(&first), ron_buf_len(&first), true);
    dump_oz(again, &second);
    RON_ASSERT(ron_buf_len(&first) == ron_buf_len(&second));
    RON_ASSERT(memcmp(ron_buf_data(&first), ron_buf_data(&second), ron_buf_len(&first)) == 0);
    RON_ASSERT(rwd_keccak_cmp(rwd_oz_root(oz), rwd_oz_root(again)) == 0);
    for (size_t i = 0; i < rwd_oz_count(oz) && i < PROVEN; i++) {
        struct rwd_tree_proof proof;

        rwd_oz_prove(oz, i, &proof);
        RON_ASSERT(rwd_oz_count(oz) == 1 || proof.count > 0);
    }
    rwd_oz_free(again);
    ron_buf_done(&first);
    ron_buf_done(&second);
}

static struct rwd_rp *read_rp(const void *bytes, size_t len, bool must)
{
    char *copy = copy_of(bytes, len);
    struct rwd_rp *rp = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = rwd_rp_read(copy, len, &rp, &err);

    RON_ASSERT((rc == RON_OK) == (rp != NULL));
    RON_ASSERT(rc == RON_OK || err.msg[0] != '\0');
    RON_ASSERT(rc == RON_OK || !must);
    ron_free(copy);
    return rp;
}

static void check_rp(const struct rwd_rp *rp)
{
    struct rwd_rp *again;
    struct ron_buf out;
    struct rwd_sink sink = {gather, &out};

    ron_buf_init(&out, OUT_MAX);
    RON_ASSERT(rwd_rp_write(rp, &sink, NULL) == RON_OK);
    again = read_rp(ron_buf_data(&out), ron_buf_len(&out), true);
    RON_ASSERT(rwd_rp_count(rp) == rwd_rp_count(again));
    RON_ASSERT(rwd_keccak_cmp(rwd_rp_root(rp), rwd_rp_root(again)) == 0);
    rwd_rp_free(again);
    ron_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rwd_oz *oz = read_oz(data, size, false);
    struct rwd_rp *rp = read_rp(data, size, false);

    if (oz != NULL) {
        check_oz(oz);
        rwd_oz_free(oz);
    }
    if (rp != NULL) {
        check_rp(rp);
        rwd_rp_free(rp);
    }
    return 0;
}
