/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the sending side signs, the receiving side takes, for every kind, and nothing that
 * differs from it by a byte of body, signature, time or id.
 * Method: the sample of each kind is signed, checked, and checked again with each change; random
 * bodies for the forms and for Ed25519. The signatures themselves are held against the providers'
 * own libraries by the system test of real senders. */
#include "unit/interop/hooks.h"

#include "interop/offline/tool.h"
#include "interop/provider/sign.h"

#define NOW_MS INT64_C(1700000000000)

static struct hook hook;

/* Secret of the sending side and of the receiving one. */
static const char *sends(const char *kind)
{
    return strcmp(kind, "standardwebhooks") == 0 ? "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
           : strcmp(kind, "discord") == 0
               ? "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
               : "a secret of everybody";
}

static const char *receives(const char *kind)
{
    /* The public half of the first key of RFC 8032. */
    return strcmp(kind, "discord") == 0
               ? "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
               : sends(kind);
}

struct sent {
    struct ron_buf body;
    char lines[4096];
};

static void sign_sample(const char *kind, struct sent *s)
{
    struct iop_tool_headers h = {0};
    struct ron_err err = {0};
    const char *type = NULL;
    const char *event = NULL;
    size_t len;

    ron_buf_init(&s->body, 65536);
    assert_int_equal(iop_tool_sample(kind, NULL, "id-1", NOW_MS, &s->body, &type, &event, &err),
                     RON_OK);
    assert_int_equal(
        iop_tool_sign(&(struct iop_tool_request){.kind = kind,
                                                 .secret = sends(kind),
                                                 .secret_len = strlen(sends(kind)),
                                                 .id = "id-1",
                                                 .event = event,
                                                 .url = "https://hooks.example.org/webhooks/here",
                                                 .content_type = type,
                                                 .body = ron_buf_data(&s->body),
                                                 .len = ron_buf_len(&s->body),
                                                 .now_unix_ms = NOW_MS},
                      &h, &err),
        RON_OK);
    len = (size_t)snprintf(s->lines, sizeof s->lines, "Content-Type: %s", type);
    for (size_t i = 0; i < h.count; i++) {
        len += (size_t)snprintf(s->lines + len, sizeof s->lines - len, "\n%s: %s", h.at[i].name,
                                h.at[i].value);
    }
    assert_true(len < sizeof s->lines);
}

static void receive(const char *kind)
{
    enum iop_kind k;

    assert_true(iop_kind_find(kind, &k));
    hook_provider(&hook, iop_scheme_of(k), receives(kind));
    hook.provider.public_url = (struct ron_str){"https://hooks.example.org", 25};
    hook.now_ms = NOW_MS;
}

static void test_sign__each_kind__taken_and_nothing_else(void **state)
{
    size_t kinds = 0;

    (void)state;
    for (const char *const *kind = iop_tool_kinds(); *kind != NULL; kind++, kinds++) {
        struct sent s;
        char body[4096];
        size_t len;

        sign_sample(*kind, &s);
        receive(*kind);
        hook_lines(&hook, s.lines);
        len = ron_buf_len(&s.body);
        assert_true(len < sizeof body);
        memcpy(body, ron_buf_data(&s.body), len);
        assert_int_equal(hook_check_bytes(&hook, body, len), IOP_REFUSE_NONE);
        assert_int_equal(hook.d.answer.status, 0);
        /* A byte of the body less, another, or one more. */
        assert_int_not_equal(hook_check_bytes(&hook, body, len - 1), IOP_REFUSE_NONE);
        body[len / 2] ^= 1;
        assert_int_not_equal(hook_check_bytes(&hook, body, len), IOP_REFUSE_NONE);
        body[len / 2] ^= 1;
        assert_int_equal(hook_check_bytes(&hook, body, len), IOP_REFUSE_NONE);
        /* Another secret. */
        ron_wipe(hook.provider.keys, sizeof hook.provider.keys);
        hook.provider.key_count = 0;
        assert_int_equal(hook_check_bytes(&hook, body, len), IOP_REFUSE_NO_SECRET);
        ron_buf_done(&s.body);
    }
    assert_int_equal(kinds, IOP_KIND_COUNT - 1);
}

/* Each header in turn: left out, twice, with another last character. */
static void test_sign__each_header__matters(void **state)
{
    (void)state;
    for (const char *const *kind = iop_tool_kinds(); *kind != NULL; kind++) {
        struct sent s;
        size_t count;

        sign_sample(*kind, &s);
        receive(*kind);
        hook_lines(&hook, s.lines);
        count = hook.head.field_count;
        for (size_t i = 1; i < count; i++) {
            struct ron_http_field *f = hook.head.fields;
            struct ron_http_field saved = f[i];
            bool must = memmem(saved.name.ptr, saved.name.len, "ignature", 8) != NULL ||
                        memmem(saved.name.ptr, saved.name.len, "Hmac", 4) != NULL ||
                        memmem(saved.name.ptr, saved.name.len, "imestamp", 8) != NULL ||
                        memcmp(saved.name.ptr, "webhook-id", 10) == 0;

            f[count] = saved;
            hook.head.field_count = (uint32_t)count + 1;
            assert_int_equal(hook_check_bytes(&hook, ron_buf_data(&s.body), ron_buf_len(&s.body)),
                             IOP_REFUSE_HEADER_TWICE);
            hook.head.field_count = (uint32_t)count;
            f[i].name = (struct ron_str){"X-Other", 7};
            assert_int_equal(hook_check_bytes(&hook, ron_buf_data(&s.body), ron_buf_len(&s.body)) !=
                                 IOP_REFUSE_NONE,
                             must);
            f[i] = saved;
        }
        ron_buf_done(&s.body);
    }
}

static void test_sign__random_forms__signed_and_taken(void **state)
{
    struct ron_rand rand = support_rand();
    static const char alphabet[] = "ab%2B%0a+=&&==cd%c3%A4";

    (void)state;
    for (size_t round = 0; round < 3000; round++) {
        static _Alignas(16) uint8_t scratch[HOOK_SCRATCH];
        struct iop_signer signer;
        struct iop_signed fields;
        char body[64];
        char lines[1024];
        size_t len = (size_t)ron_rand_below(&rand, sizeof body);
        enum ron_rc rc;

        for (size_t i = 0; i < len; i++) {
            body[i] = alphabet[ron_rand_below(&rand, sizeof alphabet - 1)];
        }
        receive("twilio");
        assert_int_equal(iop_signer_init(&signer, iop_scheme_of(IOP_KIND_TWILIO), sends("twilio"),
                                         strlen(sends("twilio")), NULL),
                         RON_OK);
        rc = iop_sign(&signer,
                      &(struct iop_to_sign){.id = {"x", 1},
                                            .now_unix_ms = NOW_MS,
                                            .url = {"https://hooks.example.org/webhooks/here", 39},
                                            .body = body,
                                            .len = len,
                                            .form = true,
                                            .scratch = scratch,
                                            .scratch_size = sizeof scratch},
                      &fields, NULL);
        if (rc != RON_OK) {
            RON_IGNORE(snprintf(lines, sizeof lines,
                                "Content-Type: application/x-www-form-urlencoded\n"
                                "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8="));
            hook_lines(&hook, lines);
            assert_int_equal(hook_check_bytes(&hook, body, len), IOP_REFUSE_BODY_FORM);
            continue;
        }
        RON_IGNORE(snprintf(lines, sizeof lines,
                            "Content-Type: application/x-www-form-urlencoded\n%s: %s",
                            fields.fields[1].name, fields.fields[1].value));
        hook_lines(&hook, lines);
        assert_int_equal(hook_check_bytes(&hook, body, len), IOP_REFUSE_NONE);
        iop_signer_done(&signer);
    }
}

static void test_sign__keys__of_their_form(void **state)
{
    static const struct {
        enum iop_kind kind;
        const char *secret;
        bool good;
    } rows[] = {
        {IOP_KIND_STANDARD, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true},
        {IOP_KIND_STANDARD, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true},
        {IOP_KIND_STANDARD, "whsec_", false},
        {IOP_KIND_STANDARD, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", false}, /* stray bits */
        {IOP_KIND_STANDARD, "whsec_MfKQ*r8G", false},
        {IOP_KIND_STANDARD, "whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", false},
        {IOP_KIND_STANDARD, "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", true},
        {IOP_KIND_STANDARD, "whsk_MfKQ", false},
        {IOP_KIND_DISCORD, "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         true},
        {IOP_KIND_DISCORD, "9D61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         false},
        {IOP_KIND_GITHUB, "", false},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct iop_signer s;
        struct ron_err err = {0};
        enum ron_rc rc = iop_signer_init(&s, iop_scheme_of(rows[i].kind), rows[i].secret,
                                         strlen(rows[i].secret), &err);

        assert_int_equal(rc, rows[i].good ? RON_OK : RON_INVALID);
        assert_null(strstr(err.msg, "MfKQ"));
        iop_signer_done(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sign__each_kind__taken_and_nothing_else),
        cmocka_unit_test(test_sign__each_header__matters),
        cmocka_unit_test(test_sign__random_forms__signed_and_taken),
        cmocka_unit_test(test_sign__keys__of_their_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
