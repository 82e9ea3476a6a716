/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/priv.h - what receiving and signing share: base strings, signed forms,
 * encodings. */
#pragma once

#include "interop/provider/provider.h"

/* ---- encodings ------------------------------------------------------------------------------- */

/* Exactly 2 * len digits of that case, or exactly the base64 of len bytes, padded and canonical. */
bool iop__decode_exact(enum iop_encoding encoding, struct ron_str text, uint8_t *out, size_t len);
/* Base64 of any length up to `size` bytes, with its padding or without. */
bool iop__base64_read(struct ron_str text, uint8_t *out, size_t size, size_t *ret_len);
/* Writes the text and a NUL, and returns its length. `size` has room for it. */
size_t iop__encode(enum iop_encoding encoding, const uint8_t *bytes, size_t len, char *out,
                   size_t size);

/* 1 to `max` visible ASCII characters. */
bool iop__is_visible(struct ron_str text, size_t max);

/* ---- forms ----------------------------------------------------------------------------------- */

struct iop_form_field {
    struct ron_str name;
    struct ron_str value;
};

struct iop_form {
    size_t count;
    struct iop_form_field *fields; /* in scratch, as are their texts */
};

/* Decodes a form into scratch and sorts it by name, then value; a pair that stands twice is there
 * once. False: a broken escape or more than IOP_FORM_FIELDS. */
bool iop__form_read(struct ron_str body, void *scratch, size_t size, struct iop_form *ret_form);

/* ---- base strings ---------------------------------------------------------------------------- */

struct iop_base_values {
    struct ron_str timestamp;
    struct ron_str id;
    struct ron_str url[2]; /* one after the other */
    struct ron_str body;
    struct iop_form form;
};

typedef void iop_base_fn(void *arg, const void *bytes, size_t len);

/* Gives the pieces of the base string to `fn`, one after the other. */
void iop__base_walk(const struct iop_provider *p, const struct iop_base_values *values,
                    iop_base_fn *fn, void *arg);
bool iop__base_has(const struct iop_provider *p, enum iop_base_kind kind);

void iop__base_mac(const struct iop_provider *p, const struct iop_base_values *values,
                   const struct iop_mac_key *key, uint8_t ret_bytes[IOP_MAC_BYTES_MAX]);
/* The base string as one text in scratch. */
struct ron_str iop__base_flat(const struct iop_provider *p, const struct iop_base_values *values,
                              void *scratch, size_t size);

/* ---- challenges ------------------------------------------------------------------------------ */

/* After the signature was right. NONE with `answer.status` 0: an ordinary delivery. */
enum iop_refusal iop__challenge(const struct iop_provider *p, const struct iop_live_key *key,
                                const struct iop_doc *doc, struct iop_answer *answer);

/* ---- the time window ------------------------------------------------------------------------- */

enum iop_refusal iop__check_time(const struct iop_provider *p, struct ron_str text, int64_t now_ms,
                                 int64_t *ret_ms);
