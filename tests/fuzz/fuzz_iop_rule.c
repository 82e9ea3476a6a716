/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: JSON pointers and conditions of rules. A line is a condition, the rest a document.
 *
 * Oracle for pointers: jansson's tree, walked here. Properties of conditions: "exists" and
 * "missing" exclude each other, "=" and "!=" too; "<" and ">=" never hold together. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop/rule/rule.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *step_into(json_t *at, const char *step, size_t len)
{
    char name[IOP_POINTER_MAX];
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        name[n++] = step[i] != '~' ? step[i] : step[++i] == '0' ? '~' : '/';
    }
    name[n] = '\0';
    if (json_is_object(at)) {
        return json_object_get(at, name);
    }
    if (!json_is_array(at) || n == 0 || n > 9 || (name[0] == '0' && n > 1) ||
        strspn(name, "0123456789") != n) {
        return NULL;
    }
    return json_array_get(at, (size_t)strtoul(name, NULL, 10));
}

static void check_found(json_t *want, const struct iop_value *value)
{
    char *raw = malloc(value->raw.len + 3);
    size_t len = value->raw.len;
    json_t *got;

    RON_ASSERT(raw != NULL);
    if (value->kind == IOP_STRING) {
        raw[0] = '"';
        memcpy(raw + 1, value->raw.ptr, len);
        raw[len + 1] = '"';
        len += 2;
    } else {
        memcpy(raw, value->raw.ptr, len);
    }
    got = json_loadb(raw, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    RON_ASSERT(got != NULL && json_equal(got, want));
    json_decref(got);
    free(raw);
}

static void check_pointer(const struct iop_doc *doc, const char *pointer)
{
    json_t *tree = json_loadb(doc->text.ptr, doc->text.len,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    json_t *at = tree;
    struct iop_value value;
    enum iop_found found;

    if (tree == NULL) {
        return; /* members twice, or numbers that jansson does not take */
    }
    found = iop_pointer_find(doc, pointer, &value);
    RON_ASSERT(found != IOP_TWICE);
    while (*pointer == '/' && at != NULL) {
        size_t len = strcspn(pointer + 1, "/");

        at = step_into(at, pointer + 1, len);
        pointer += 1 + len;
    }
    RON_ASSERT((found == IOP_FOUND) == (at != NULL));
    if (at != NULL) {
        check_found(at, &value);
    }
    json_decref(tree);
}

static bool holds_as(struct iop_cond c, enum iop_cond_op op, const struct iop_doc *doc)
{
    c.op = op;
    return iop_cond_holds(&c, doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *eol = size == 0 ? NULL : memchr(text, '\n', size);
    struct iop_cond c;
    struct iop_doc doc;

    if (eol == NULL ||
        iop_cond_parse((struct ron_str){text, (size_t)(eol - text)}, &c, NULL) != RON_OK) {
        return 0;
    }
    (void)iop_doc_init(&doc, eol + 1, size - (size_t)(eol + 1 - text));
    if (doc.text.len > 0) {
        check_pointer(&doc, c.pointer);
    }
    RON_ASSERT(!holds_as(c, IOP_COND_EXISTS, &doc) || !holds_as(c, IOP_COND_MISSING, &doc));
    RON_ASSERT(!holds_as(c, IOP_COND_EQ, &doc) || !holds_as(c, IOP_COND_NE, &doc));
    if (c.op >= IOP_COND_LT) {
        bool less = holds_as(c, IOP_COND_LT, &doc);
        bool not_less = holds_as(c, IOP_COND_GE, &doc);

        RON_ASSERT(!less || !not_less);
        RON_ASSERT((less || not_less) ==
                   (holds_as(c, IOP_COND_LE, &doc) || holds_as(c, IOP_COND_GT, &doc)));
    }
    return 0;
}
