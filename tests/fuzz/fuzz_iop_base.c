/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: base strings (Slack's v0:time:body, GitHub's prefix, Twilio's sorted form, templates
 * of the settings). The first byte chooses the kind or a template, the second the length of an id;
 * the rest is the id and the body.
 *
 * Properties of any input: what is signed is verified; the same with one bit of the body changed is
 * not, unless the scheme signs a form that means the same; two templates never panic, whatever
 * they are, and a sound one is walked in its order. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "interop/provider/priv.h"
#include "interop/provider/sign.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 4096 };
#define NOW_MS INT64_C(1700000000000)

static _Alignas(16) uint8_t scratch[BODY_MAX + IOP_SCRATCH_EXTRA];
static struct ron_http_head head;
static struct iop_signed fields;

static const char *sends(enum iop_kind kind)
{
    return kind == IOP_KIND_STANDARD  ? "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
           : kind == IOP_KIND_DISCORD ? "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031c"
                                        "ae7f60"
                                      : "It's a Secret to Everybody";
}

static const char *receives(enum iop_kind kind)
{
    return kind == IOP_KIND_DISCORD
               ? "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
               : sends(kind);
}

static void make_head(bool form)
{
    memset(&head, 0, sizeof head);
    for (size_t i = 0; i < fields.count; i++) {
        const struct iop_signed_field *f = &fields.fields[i];

        head.fields[head.field_count++] =
            (struct ron_http_field){{f->name, strlen(f->name)}, {f->value, strlen(f->value)}};
    }
    if (form) {
        head.fields[head.field_count++] = (struct ron_http_field){
            {"Content-Type", 12}, {"application/x-www-form-urlencoded", 33}};
    }
}

static enum iop_refusal receive(enum iop_kind kind, const uint8_t *body, size_t len,
                                struct iop_delivery *d)
{
    struct iop_provider p;
    struct iop_message m = {.target = {"/p", 2},
                            .body = body,
                            .len = len,
                            .now_unix_ms = NOW_MS,
                            .scratch = scratch,
                            .scratch_size = sizeof scratch};
    enum iop_refusal refusal;

    RON_ASSERT(iop_provider_init(&p, "x", iop_scheme_of(kind), NULL) == RON_OK);
    RON_ASSERT(iop_provider_add_key(&p, receives(kind), strlen(receives(kind)), NULL) == RON_OK);
    p.enabled = true;
    p.public_url = (struct ron_str){"https://h", 9};
    refusal = iop_check_head(&p, &head, NOW_MS, d);
    if (refusal == IOP_REFUSE_NONE) {
        refusal = iop_check_body(&p, &m, d);
    }
    iop_provider_done(&p);
    return refusal;
}

/* After the right signature the body may still be refused for what it says. */
static bool is_about_body(enum iop_refusal refusal)
{
    return refusal == IOP_REFUSE_NONE || refusal == IOP_REFUSE_TIME_MISSING ||
           refusal == IOP_REFUSE_TIME_FORM || refusal == IOP_REFUSE_CLOCK_SKEW ||
           refusal == IOP_REFUSE_ID_FORM || refusal == IOP_REFUSE_EVENT_FORM ||
           refusal == IOP_REFUSE_CHALLENGE_FORM;
}

static void check_kind(enum iop_kind kind, struct ron_str id, const uint8_t *body, size_t len)
{
    static uint8_t changed[BODY_MAX];
    bool form = kind == IOP_KIND_TWILIO;
    struct iop_signer s;
    struct iop_delivery d;
    enum iop_refusal refusal;

    RON_ASSERT(iop_signer_init(&s, iop_scheme_of(kind), sends(kind), strlen(sends(kind)), NULL) ==
               RON_OK);
    if (iop_sign(&s,
                 &(struct iop_to_sign){.id = id,
                                       .event = {"e", 1},
                                       .now_unix_ms = NOW_MS,
                                       .url = {"https://h/p", 11},
                                       .body = body,
                                       .len = len,
                                       .form = form,
                                       .scratch = scratch,
                                       .scratch_size = sizeof scratch},
                 &fields, NULL) != RON_OK) {
        return;
    }
    iop_signer_done(&s);
    make_head(form);
    RON_ASSERT(is_about_body(receive(kind, body, len, &d)));
    if (len == 0) {
        return;
    }
    memcpy(changed, body, len);
    changed[len / 2] ^= 1;
    refusal = receive(kind, changed, len, &d);
    RON_ASSERT(form || refusal == IOP_REFUSE_SIG_WRONG);
}

/* Any text as a template: refused, or all of its pieces are walked. */
static void check_template(const uint8_t *data, size_t size)
{
    char text[256];
    struct iop_scheme scheme = {.kind = IOP_KIND_GENERIC,
                                .sig_header = "X-S",
                                .base = text,
                                .ts_header = "X-T",
                                .id_header = "X-I"};
    struct iop_base_values v = {.timestamp = {"{timestamp}", 11},
                                .id = {"{id}", 4},
                                .url = {{"{url}", 5}, {"", 0}},
                                .body = {"{body}", 6}};
    struct iop_form_field field = {{"{form", 5}, {"}", 1}};
    struct iop_provider p;
    struct ron_str flat;

    size = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    if (iop_provider_init(&p, "x", &scheme, NULL) != RON_OK) {
        return;
    }
    /* Each value is the word that stands for it, so the base string is the template. */
    v.form = (struct iop_form){1, &field};
    flat = iop__base_flat(&p, &v, scratch, sizeof scratch);
    RON_ASSERT(ron_str_is(flat, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t id_len;

    if (size < 2 || size > BODY_MAX) {
        return 0;
    }
    if (data[0] % IOP_KIND_COUNT == IOP_KIND_GENERIC) {
        check_template(data + 1, size - 1);
        return 0;
    }
    id_len = data[1] < size - 2 ? data[1] : size - 2;
    check_kind((enum iop_kind)(data[0] % IOP_KIND_COUNT),
               (struct ron_str){(const char *)data + 2, id_len}, data + 2 + id_len,
               size - 2 - id_len);
    return 0;
}
