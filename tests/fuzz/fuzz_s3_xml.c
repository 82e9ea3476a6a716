/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_s3_xml.c - any bytes as the answer of an S3 server.
 *
 * Oracle: no byte outside the answer is read and none outside the room is written (sanitizers); a
 * text that is given ends inside the room, holds no NUL, and stands in the answer behind its tag;
 * without the tag there is none. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/s3/s3.h"
#include "s3/s3_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"Code", "ETag", "UploadId"};

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        char tag[16];
        int len = snprintf(tag, sizeof tag, "<%s>", names[i]);
        bool has = size > 0 && memmem(data, size, tag, (size_t)len) != NULL;
        char text[32];
        enum ron_rc rc;

        memset(text, 1, sizeof text);
        rc = ron_s3_xml_text((const char *)data, size, names[i], text, sizeof text);
        RON_ASSERT(rc == RON_OK || rc == RON_NOTFOUND || rc == RON_CORRUPT);
        RON_ASSERT(has == (rc != RON_NOTFOUND));
        RON_ASSERT(rc != RON_OK || memchr(text, 0, sizeof text) != NULL);
    }
    return 0;
}
