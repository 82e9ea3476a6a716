/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/table.c - the rows: how each provider signs, from its own documentation.
 *
 * Place: interop; data and lookups. What a row leaves out is absent. Where a provider has an older,
 * weaker scheme beside the one below (GitHub's X-Hub-Signature with SHA-1, Stripe's v0), the row
 * does not name it, and so it cannot be used. */
#include <string.h>

#include "interop/provider/provider.h"
#include "ron/base/assert.h"

static const struct iop_scheme schemes[IOP_KIND_COUNT] = {
    [IOP_KIND_GITHUB] = {.sig_header = "X-Hub-Signature-256",
                         .prefix = "sha256=",
                         .base = "{body}",
                         .id_header = "X-GitHub-Delivery",
                         .event_header = "X-GitHub-Event"},
    [IOP_KIND_STRIPE] = {.form = IOP_FORM_PAIRS,
                         .sig_header = "Stripe-Signature",
                         .prefix = "v1",
                         .ts_name = "t",
                         .base = "{timestamp}.{body}",
                         .id_pointer = "/id",
                         .event_pointer = "/type"},
    [IOP_KIND_SLACK] = {.sig_header = "X-Slack-Signature",
                        .prefix = "v0=",
                        .base = "v0:{timestamp}:{body}",
                        .ts_header = "X-Slack-Request-Timestamp",
                        .id_pointer = "/event_id",
                        .event_pointer = "/event/type",
                        .challenge = IOP_CHALLENGE_SLACK},
    [IOP_KIND_STANDARD] = {.alg = IOP_ALG_BY_KEY,
                           .form = IOP_FORM_WORDS,
                           .encoding = IOP_BASE64,
                           .secret = IOP_SECRET_WHSEC,
                           .sig_header = "webhook-signature",
                           .sig_alias = "svix-signature",
                           .base = "{id}.{timestamp}.{body}",
                           .ts_header = "webhook-timestamp",
                           .ts_alias = "svix-timestamp",
                           .id_header = "webhook-id",
                           .id_alias = "svix-id",
                           .event_pointer = "/type"},
    [IOP_KIND_SHOPIFY] = {.encoding = IOP_BASE64,
                          .sig_header = "X-Shopify-Hmac-Sha256",
                          .base = "{body}",
                          .id_header = "X-Shopify-Webhook-Id",
                          .event_header = "X-Shopify-Topic"},
    [IOP_KIND_TWILIO] = {.hash = IOP_SHA1,
                         .encoding = IOP_BASE64,
                         .sig_header = "X-Twilio-Signature",
                         .base = "{url}{form}",
                         .id_header = "I-Twilio-Idempotency-Token"},
    [IOP_KIND_DISCORD] = {.alg = IOP_ALG_ED25519,
                          .secret = IOP_SECRET_PUBLIC,
                          .sig_header = "X-Signature-Ed25519",
                          .base = "{timestamp}{body}",
                          .ts_header = "X-Signature-Timestamp",
                          .id_pointer = "/id",
                          .event_pointer = "/event/type",
                          .challenge = IOP_CHALLENGE_DISCORD},
    [IOP_KIND_LINEAR] = {.sig_header = "Linear-Signature",
                         .base = "{body}",
                         .ts_pointer = "/webhookTimestamp",
                         .ts_ms = true,
                         .id_header = "Linear-Delivery",
                         .event_header = "Linear-Event"},
    [IOP_KIND_GITEA] = {.sig_header = "X-Gitea-Signature",
                        .sig_alias = "X-Forgejo-Signature",
                        .base = "{body}",
                        .id_header = "X-Gitea-Delivery",
                        .id_alias = "X-Forgejo-Delivery",
                        .event_header = "X-Gitea-Event",
                        .event_alias = "X-Forgejo-Event"},
    [IOP_KIND_ZOOM] = {.sig_header = "x-zm-signature",
                       .prefix = "v0=",
                       .base = "v0:{timestamp}:{body}",
                       .ts_header = "x-zm-request-timestamp",
                       .event_pointer = "/event",
                       .challenge = IOP_CHALLENGE_ZOOM},
    [IOP_KIND_META] = {.sig_header = "X-Hub-Signature-256",
                       .prefix = "sha256=",
                       .base = "{body}",
                       .event_pointer = "/object",
                       .challenge = IOP_CHALLENGE_META},
};

const struct iop_scheme *iop_scheme_of(enum iop_kind kind)
{
    RON_ASSERT(kind < IOP_KIND_GENERIC);
    return &schemes[kind];
}

static const char *const slugs[] = {
#define X(name, slug, who) slug,
    IOP_KINDS(X)
#undef X
};

const char *iop_kind_slug(enum iop_kind kind)
{
    RON_ASSERT(kind < IOP_KIND_COUNT);
    return slugs[kind];
}

bool iop_kind_find(const char *slug, enum iop_kind *ret_kind)
{
    static const struct {
        const char *name;
        enum iop_kind kind;
    } others[] = {
        {"slack_webhook", IOP_KIND_SLACK}, {"slack_webhooks", IOP_KIND_SLACK},
        {"svix", IOP_KIND_STANDARD},       {"standard_webhooks", IOP_KIND_STANDARD},
        {"forgejo", IOP_KIND_GITEA},       {"facebook", IOP_KIND_META},
        {"whatsapp", IOP_KIND_META},       {"instagram", IOP_KIND_META},
    };

    for (size_t i = 0; i < IOP_KIND_COUNT; i++) {
        if (strcmp(slug, slugs[i]) == 0) {
            *ret_kind = (enum iop_kind)i;
            return true;
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(others); i++) {
        if (strcmp(slug, others[i].name) == 0) {
            *ret_kind = others[i].kind;
            return true;
        }
    }
    return false;
}

const struct iop_refusal_row *iop_refusal_row(enum iop_refusal refusal)
{
    static const struct iop_refusal_row rows[] = {
#define X(name, error, label, message) {label, message},
        IOP_REFUSALS(X)
#undef X
    };

    RON_ASSERT(refusal < IOP_REFUSAL_COUNT);
    return &rows[refusal];
}
