/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cas_name.c - any bytes as a content id, and as the name of a file in a folder of the store.
 *
 * Oracle: a text that is read comes back as itself; a text that is refused leaves the result
 * untouched; a name is an object exactly when it is the digits of an id that belongs in that
 * folder; and every 32 bytes survive the way through both forms. The store keeps no index file, so
 * these two forms are all it reads. */
#include <stdint.h>
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/assert.h"
#include "ron/cas/b3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ron_b3 marked(void)
{
    struct ron_b3 id;

    memset(&id, 0x5a, sizeof id);
    return id;
}

static void check_id(const char *text, size_t len)
{
    struct ron_b3 id = marked();
    struct ron_b3 before = id;
    char back[RON_B3_ID_SIZE];

    if (ron_b3_parse(text, len, &id, NULL) == RON_OK) {
        ron_b3_format(&id, back);
        RON_ASSERT(len == RON_B3_ID_LEN);
        RON_ASSERT(memcmp(back, text, len) == 0);
    } else {
        RON_ASSERT(ron_b3_equal(&id, &before));
    }
}

static void check_name(const uint8_t *data, size_t size)
{
    unsigned top = data[0];
    unsigned leaf = data[1];
    struct ron_b3 id = marked();
    struct ron_b3 other;
    char name[256]; /* longest name of a file, with its NUL */
    size_t len = size - 2 < sizeof name - 1 ? size - 2 : sizeof name - 1;
    bool is_id;

    memcpy(name, data + 2, len);
    name[len] = '\0';
    is_id = ron_b3_parse_hex(name, strlen(name), &other);
    if (ron__cas_name_parse(name, top, leaf, &id)) {
        RON_ASSERT(is_id);
        RON_ASSERT(ron_b3_equal(&id, &other));
        RON_ASSERT(id.bytes[0] == top);
        RON_ASSERT(id.bytes[1] == leaf);
    } else {
        RON_ASSERT(!is_id || other.bytes[0] != top || other.bytes[1] != leaf);
    }
}

static void check_value(const uint8_t *value)
{
    struct ron_b3 id;
    struct ron_b3 back;
    char text[RON_B3_ID_SIZE];

    memcpy(id.bytes, value, sizeof id.bytes);
    ron_b3_format(&id, text);
    RON_ASSERT(strlen(text) == RON_B3_ID_LEN);
    RON_ASSERT(ron_b3_parse(text, RON_B3_ID_LEN, &back, NULL) == RON_OK);
    RON_ASSERT(ron_b3_equal(&id, &back));
    RON_ASSERT(ron__cas_name_parse(text + 3, id.bytes[0], id.bytes[1], &back));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_id((const char *)data, size);
    if (size >= 2) {
        check_name(data, size);
    }
    if (size >= RON_B3_BYTES) {
        check_value(data);
    }
    return 0;
}
