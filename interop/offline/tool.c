/* SPDX-License-Identifier: Apache-2.0 */
/* interop/offline/tool.c - samples of webhooks and their signatures, for `ron webhook`. */
#include <stdio.h>
#include <string.h>

#include "interop/offline/tool.h"
#include "interop/provider/sign.h"
#include "ron/base/alloc.h"
#include "ron/base/str.h"

_Static_assert((int)IOP_TOOL_FIELDS_MAX == (int)IOP_SIGNED_FIELDS &&
                   (int)IOP_TOOL_NAME_SIZE == (int)IOP_SIGNED_NAME_MAX &&
                   (int)IOP_TOOL_VALUE_SIZE == (int)IOP_SIGNED_VALUE_MAX,
               "the public sizes are those of the signer");

const char *const *iop_tool_kinds(void)
{
    /* GENERIC, the last, has no row of its own. */
    static const char *const kinds[] = {
#define X(name, slug, who) IOP_KIND_##name == IOP_KIND_GENERIC ? NULL : (slug),
        IOP_KINDS(X)
#undef X
    };

    return kinds;
}

static enum ron_rc find_kind(const char *name, enum iop_kind *ret_kind, struct ron_err *err)
{
    return iop_kind_find(name, ret_kind) && *ret_kind != IOP_KIND_GENERIC
               ? RON_OK
               : ron_err_set(err, RON_NOTFOUND, "unknown provider '%s'", name);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* In `body`, $E stands for the event, $I for the id, $S for the time in s and $M in ms. */
struct sample {
    const char *event;
    const char *body;
};

#define JSON_TYPE "application/json"
#define FORM_TYPE "application/x-www-form-urlencoded"

static const struct sample samples[IOP_KIND_GENERIC] = {
    [IOP_KIND_GITHUB] = {"push", "{\"ref\":\"refs/heads/main\",\"after\":\"$I\","
                                 "\"repository\":{\"full_name\":\"octo/hello\"},"
                                 "\"pusher\":{\"name\":\"octocat\"},\"pushed_at\":$S}"},
    [IOP_KIND_STRIPE] = {"payment_intent.succeeded",
                         "{\"id\":\"$I\",\"object\":\"event\",\"created\":$S,\"livemode\":false,"
                         "\"type\":\"$E\",\"data\":{\"object\":{\"id\":\"pi_$M\","
                         "\"object\":\"payment_intent\",\"amount\":2000,\"amount_received\":2000,"
                         "\"currency\":\"usd\",\"metadata\":{\"user\":\"alice\"},"
                         "\"status\":\"succeeded\"}}}"},
    [IOP_KIND_SLACK] = {"app_mention",
                        "{\"type\":\"event_callback\",\"team_id\":\"T0001\",\"event_id\":\"$I\","
                        "\"event_time\":$S,\"event\":{\"type\":\"$E\",\"user\":\"U0001\","
                        "\"text\":\"hello\",\"channel\":\"C0001\"}}"},
    [IOP_KIND_STANDARD] = {"invoice.paid", "{\"type\":\"$E\",\"timestamp\":$S,"
                                           "\"data\":{\"id\":\"inv_$M\",\"amount\":\"12.50\"}}"},
    [IOP_KIND_SHOPIFY] = {"orders/paid", "{\"id\":$M,\"name\":\"#1001\",\"currency\":\"EUR\","
                                         "\"total_price\":\"12.50\","
                                         "\"customer\":{\"id\":207119551}}"},
    [IOP_KIND_TWILIO] = {"message", "MessageSid=SM$M&From=%2B14158675309&To=%2B18005551212&"
                                    "Body=hello+there%21&NumMedia=0"},
    [IOP_KIND_DISCORD] = {"APPLICATION_AUTHORIZED",
                          "{\"version\":1,\"application_id\":\"1234\",\"type\":1,\"id\":\"$I\","
                          "\"event\":{\"type\":\"$E\",\"data\":{\"user\":{\"id\":\"80\"}}}}"},
    [IOP_KIND_LINEAR] = {"Issue", "{\"action\":\"create\",\"type\":\"$E\",\"data\":{\"id\":\"$I\","
                                  "\"title\":\"Hello\"},\"webhookTimestamp\":$M}"},
    [IOP_KIND_GITEA] = {"push", "{\"ref\":\"refs/heads/main\",\"after\":\"$I\","
                                "\"repository\":{\"full_name\":\"forge/hello\"},\"pushed_at\":$S}"},
    [IOP_KIND_ZOOM] = {"meeting.started",
                       "{\"event\":\"$E\",\"event_ts\":$M,\"payload\":{\"account_id\":\"A1\","
                       "\"object\":{\"id\":\"$I\",\"topic\":\"Hello\"}}}"},
    [IOP_KIND_META] = {"page", "{\"object\":\"$E\",\"entry\":[{\"id\":\"$I\",\"time\":$M,"
                               "\"messaging\":[{\"message\":{\"text\":\"hello\"}}]}]}"},
};

static void put_sample(struct ron_buf *out, const char *text, const char *event, const char *id,
                       int64_t now_ms)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "$");

        (void)ron_buf_append(out, text, len);
        text += len;
        if (*text == '\0') {
            return;
        }
        switch (text[1]) {
        case 'E':
            (void)ron_buf_append_text(out, event);
            break;
        case 'I':
            (void)ron_buf_append_text(out, id);
            break;
        case 'S':
            (void)ron_buf_append_fmt(out, "%lld", (long long)(now_ms / 1000));
            break;
        default:
            (void)ron_buf_append_fmt(out, "%lld", (long long)now_ms);
            break;
        }
        text += 2;
    }
}

/* What can stand in a JSON string as it is. */
static bool is_plain(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '\\') {
            return false;
        }
    }
    return text[0] != '\0';
}

enum ron_rc iop_tool_sample(const char *kind, const char *event, const char *id,
                            int64_t now_unix_ms, struct ron_buf *body, const char **ret_type,
                            const char **ret_event, struct ron_err *err)
{
    enum iop_kind k;

    RON_TRY(find_kind(kind, &k, err));
    event = event == NULL ? samples[k].event : event;
    if (!is_plain(event) || !is_plain(id)) {
        return ron_err_set(err, RON_INVALID, "event and id must be plain text");
    }
    put_sample(body, samples[k].body, event, id, now_unix_ms);
    RON_TRY(ron_buf_error(body));
    *ret_type = k == IOP_KIND_TWILIO ? FORM_TYPE : JSON_TYPE;
    *ret_event = event;
    return RON_OK;
}

/* ---- signatures ------------------------------------------------------------------------------ */

enum ron_rc iop_tool_sign(const struct iop_tool_request *r, struct iop_tool_headers *ret_headers,
                          struct ron_err *err)
{
    struct iop_signer signer = {0};
    struct iop_signed fields = {0};
    uint8_t *scratch = NULL;
    enum iop_kind kind;
    enum ron_rc rc;

    RON_TRY(find_kind(r->kind, &kind, err));
    if (r->len > IOP_TOOL_BODY_MAX) {
        return ron_err_set(err, RON_LIMIT, "body too large");
    }
    scratch = ron_alloc(r->len + IOP_SCRATCH_EXTRA);
    if (scratch == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the body");
    }
    RON_GOTO(iop_signer_init(&signer, iop_scheme_of(kind), r->secret, r->secret_len, err), out);
    RON_GOTO(iop_sign(&signer,
                      &(struct iop_to_sign){
                          .id = ron_str_of(r->id),
                          .event = ron_str_of(r->event),
                          .now_unix_ms = r->now_unix_ms,
                          .url = ron_str_of(r->url),
                          .body = r->body,
                          .len = r->len,
                          .form = r->content_type != NULL &&
                                  strncmp(r->content_type, FORM_TYPE, sizeof FORM_TYPE - 1) == 0,
                          .scratch = scratch,
                          .scratch_size = r->len + IOP_SCRATCH_EXTRA},
                      &fields, err),
             out);
    ret_headers->count = fields.count;
    for (size_t i = 0; i < fields.count; i++) {
        memcpy(ret_headers->at[i].name, fields.fields[i].name, sizeof fields.fields[i].name);
        memcpy(ret_headers->at[i].value, fields.fields[i].value, sizeof fields.fields[i].value);
    }
out:
    iop_signer_done(&signer);
    ron_free(scratch);
    return rc;
}
