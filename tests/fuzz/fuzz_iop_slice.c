/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: slices of an object from somebody who may lie. The first four bytes are the range,
 * the rest is the slice.
 *
 * Property: whatever is handed out is the object's, at its place and inside the range, and a slice
 * that is accepted is the one that we would have made. */
#include <stdint.h>
#include <string.h>

#include "interop/object/bao.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LEN = 5000 }; /* five chunks, the last one shorter */

static uint8_t object[LEN];

static enum ron_rc content(void *arg, uint64_t off, const void *bytes, size_t len)
{
    const uint64_t *range = arg;

    RON_ASSERT(off + len <= LEN && memcmp(object + off, bytes, len) == 0);
    RON_ASSERT(off >= range[0] && off + len <= range[0] + range[1]);
    return RON_OK;
}

static enum ron_rc read_object(void *arg, uint64_t off, void *buf, size_t len)
{
    (void)arg;
    memcpy(buf, object + off, len);
    return RON_OK;
}

static enum ron_rc emit(void *arg, const void *bytes, size_t len)
{
    return ron_buf_append(arg, bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iop_bao *tree = NULL;
    struct ron_buf slice;
    struct ron_b3 root;
    uint64_t range[2];
    uint64_t told = 0;

    if (size < 4) {
        return 0;
    }
    for (size_t i = 0; i < LEN; i++) {
        object[i] = (uint8_t)(i % 251);
    }
    range[0] = (uint64_t)(data[0] << 8 | data[1]) % (LEN + 100);
    range[1] = (uint64_t)(data[2] << 8 | data[3]) % (LEN + 100);
    ron_buf_init(&slice, 1 << 16);
    RON_ASSERT(iop_bao_new(LEN, &tree, NULL) == RON_OK);
    RON_ASSERT(iop_bao_update(tree, object, LEN) == RON_OK);
    RON_ASSERT(iop_bao_final(tree, &root) == RON_OK);
    RON_ASSERT(iop_bao_slice(tree, range[0], range[1], read_object, NULL, emit, &slice, NULL) ==
               RON_OK);
    if (iop_bao_check(&root, range[0], range[1], data + 4, size - 4, content, range, &told, NULL) ==
        RON_OK) {
        RON_ASSERT(size - 4 == ron_buf_len(&slice) &&
                   memcmp(data + 8 + 4, ron_buf_data(&slice) + 8, ron_buf_len(&slice) - 8) == 0);
    }
    RON_ASSERT(iop_bao_check(&root, range[0], range[1], ron_buf_data(&slice), ron_buf_len(&slice),
                             content, range, &told, NULL) == RON_OK &&
               told == LEN);
    ron_buf_done(&slice);
    iop_bao_free(tree);
    return 0;
}
