/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/provider.h - who sends webhooks, and how each of them proves it.
 *
 * Place: interop, the pure part of a delivery's way. A provider is a row of a table (struct
 * iop_scheme): which headers, what is signed, with what, how it is written. The code below knows
 * schemes, not providers; a provider of the settings (kind = "generic") is a row like the others.
 *
 *     listener   iop_check_head   headers, their form, the time window      -> iop_delivery
 *     worker     iop_check_body   the signature over the bytes as received  -> id, event, answer
 *
 * Rules
 *   V1. A delivery is verified when one signature of the scheme's algorithm is right under one live
 *       key. Schemes that the row does not name count as absent: no downgrade.
 *   V2. No key: every delivery is refused (NO_SECRET).
 *   V3. A header that stands twice, or does not have its exact form, is refused before any
 *       signature is computed. So is a body with a Content-Encoding: what is signed are the bytes
 *       that the sender hashed.
 *   V4. Signatures are compared in a time that does not depend on their content; all live keys are
 *       equal.
 *   V5. Where the scheme signs a time, it lies within the window on both sides, bounds included.
 *   V6. What is read out of the body (id, event, time, challenge) is read after the signature was
 *       right.
 *   V7. Nothing allocates. A signature or digest leaves this module in no form; `sig_alg` does.
 *
 * Threads: a provider is made once and then read by all. A delivery belongs to one job. */
#pragma once

#include "interop/provider/mac.h"
#include "interop/provider/pointer.h"
#include "ron/base/secret.h"
#include "ron/cas/b3.h"
#include "ron/http/parse.h"

enum {
    IOP_PROVIDER_NAME_MAX = 64,
    IOP_KEYS_MAX = 2,       /* live at once: the present one and the next */
    IOP_SIGS_MAX = 8,       /* of one delivery; senders put as many as they have keys */
    IOP_SIG_BYTES_MAX = 64, /* Ed25519, HMAC-SHA512 */
    IOP_SIG_HEADER_MAX = 2048,
    IOP_ID_MAX = 256,
    IOP_EVENT_MAX = 128,
    IOP_ANSWER_MAX = 512,
    IOP_BASE_PIECES = 12,     /* of a base string's template */
    IOP_FORM_FIELDS = 512,    /* fields of a signed form; Twilio sends some 30 */
    IOP_SCRATCH_EXTRA = 32768 /* what scratch memory has beyond the largest body */
};

/* ---- the table ------------------------------------------------------------------------------- */

/* X(NAME, "slug in routes and settings", "who it is") */
#define IOP_KINDS(X)                                                                               \
    X(GITHUB, "github", "GitHub")                                                                  \
    X(STRIPE, "stripe", "Stripe")                                                                  \
    X(SLACK, "slack", "Slack")                                                                     \
    X(STANDARD, "standardwebhooks", "Standard Webhooks, Svix")                                     \
    X(SHOPIFY, "shopify", "Shopify")                                                               \
    X(TWILIO, "twilio", "Twilio")                                                                  \
    X(DISCORD, "discord", "Discord")                                                               \
    X(LINEAR, "linear", "Linear")                                                                  \
    X(GITEA, "gitea", "Gitea, Forgejo")                                                            \
    X(ZOOM, "zoom", "Zoom")                                                                        \
    X(META, "meta", "Meta (Facebook, Instagram, WhatsApp)")                                        \
    X(GENERIC, "generic", "any other provider, described by its settings")

enum iop_kind {
#define X(name, slug, who) IOP_KIND_##name,
    IOP_KINDS(X)
#undef X
        IOP_KIND_COUNT
};

enum iop_sig_form {
    IOP_FORM_ONE,   /* prefix and one signature: "sha256=..." */
    IOP_FORM_PAIRS, /* "t=1,v1=...,v1=...,v0=...": Stripe */
    IOP_FORM_WORDS, /* "v1,... v1a,...": Standard Webhooks; the word decides the algorithm */
};

#define IOP_ENCODINGS(X) X(HEX, "hex") X(HEX_UPPER, "hex_upper") X(BASE64, "base64")

enum iop_encoding {
#define X(name, word) IOP_##name,
    IOP_ENCODINGS(X)
#undef X
};

enum iop_alg { IOP_ALG_HMAC, IOP_ALG_ED25519, IOP_ALG_BY_KEY };

enum iop_secret_form {
    IOP_SECRET_TEXT,   /* the bytes as they are */
    IOP_SECRET_WHSEC,  /* "whsec_" + base64: HMAC; "whpk_" + base64: Ed25519 */
    IOP_SECRET_PUBLIC, /* 64 hex digits of an Ed25519 key */
};

enum iop_challenge {
    IOP_CHALLENGE_NONE,
    IOP_CHALLENGE_SLACK,   /* url_verification: the challenge comes back */
    IOP_CHALLENGE_DISCORD, /* PING: PONG */
    IOP_CHALLENGE_ZOOM,    /* endpoint.url_validation: an HMAC of a token comes back */
    IOP_CHALLENGE_META,    /* GET with hub.challenge */
};

/* A row. Texts that are NULL are absent. An alias is a second name of a header: either may be
 * there; when both are, they must say the same. */
struct iop_scheme {
    enum iop_kind kind;
    enum iop_alg alg;
    enum iop_hash hash;
    enum iop_sig_form form;
    enum iop_encoding encoding;
    enum iop_secret_form secret;
    enum iop_challenge challenge;
    const char *sig_header;
    const char *sig_alias;
    const char *prefix;    /* ONE: in front of the value; PAIRS: the name of a signature */
    const char *ts_name;   /* PAIRS: the name of the time */
    const char *base;      /* what is signed: text with {body} {timestamp} {id} {url} {form} */
    const char *ts_header; /* whole decimal digits */
    const char *ts_alias;
    const char *ts_pointer; /* or in the body, as a number */
    bool ts_ms;             /* milliseconds instead of seconds */
    const char *id_header;
    const char *id_alias;
    const char *id_pointer;
    const char *event_header;
    const char *event_alias;
    const char *event_pointer;
};

/* The rows of all kinds but GENERIC. */
const struct iop_scheme *iop_scheme_of(enum iop_kind kind);
const char *iop_kind_slug(enum iop_kind kind);
/* By slug or by another name that people use ("svix", "forgejo", "slack_webhook"). False when there
 * is none. */
bool iop_kind_find(const char *slug, enum iop_kind *ret_kind);

/* ---- a provider ------------------------------------------------------------------------------ */

struct iop_live_key {
    enum iop_alg alg; /* HMAC or ED25519 */
    struct iop_mac_key mac;
    uint8_t public_key[32];
};

struct iop_base_piece {
    enum iop_base_kind {
        IOP_BASE_TEXT,
        IOP_BASE_BODY,
        IOP_BASE_TIMESTAMP,
        IOP_BASE_ID,
        IOP_BASE_URL,
        IOP_BASE_FORM
    } kind;
    struct ron_str text;
};

struct iop_provider {
    char name[IOP_PROVIDER_NAME_MAX]; /* of its section: the name in the route */
    struct iop_scheme scheme;
    struct iop_base_piece base[IOP_BASE_PIECES];
    size_t base_count;
    bool enabled;
    int64_t window_ms;
    struct ron_str public_url; /* "https://host" without path: what {url} begins with */
    struct iop_live_key keys[IOP_KEYS_MAX];
    size_t key_count;
    struct ron_secret verify_token; /* META */
};

/* A provider without keys. `scheme` and its texts outlive it. RON_INVALID for a row that is not
 * sound: an unknown or missing {piece}, {timestamp} without a header for it. */
RON_MUST_USE enum ron_rc iop_provider_init(struct iop_provider *p, const char *name,
                                           const struct iop_scheme *scheme, struct ron_err *err);
/* Wipes the keys. */
void iop_provider_done(struct iop_provider *p);
/* Adds a live key. RON_INVALID for a secret that is empty or not of its form, RON_EXISTS for one
 * that is there already, RON_FULL. No message quotes it. */
RON_MUST_USE enum ron_rc iop_provider_add_key(struct iop_provider *p, const void *secret,
                                              size_t len, struct ron_err *err);
/* Whether both have a live key in common: a delivery to one would be good at the other. */
bool iop_provider_shares_key(const struct iop_provider *a, const struct iop_provider *b);

/* ---- deliveries ------------------------------------------------------------------------------ */

/* X(NAME, ERROR, "label", "message"). ERROR is a row of core/error.h, which maps it
 * (iop_refusal_error); the label is for audit records and logs. */
#define IOP_REFUSALS(X)                                                                            \
    X(NONE, NONE, "none", "")                                                                      \
    X(DISABLED, POLICY_BLOCKED, "disabled", "provider is disabled")                                \
    X(NO_SECRET, POLICY_BLOCKED, "no_secret", "provider has no secret")                            \
    X(SIG_MISSING, UNAUTH, "signature_missing", "missing signature header")                        \
    X(SIG_SCHEME, UNAUTH, "signature_scheme", "no signature with an accepted scheme")              \
    X(SIG_WRONG, UNAUTH, "signature_wrong", "signature verification failed")                       \
    X(TOKEN_WRONG, UNAUTH, "token_wrong", "verify token does not match")                           \
    X(HEADER_TWICE, MALFORMED, "header_twice", "duplicate or contradictory header")                \
    X(SIG_FORM, MALFORMED, "signature_form", "malformed signature header")                         \
    X(SIG_MANY, MALFORMED, "signature_many", "too many signatures")                                \
    X(TIME_MISSING, MALFORMED, "time_missing", "missing delivery time")                            \
    X(TIME_FORM, MALFORMED, "time_form", "malformed delivery time")                                \
    X(ID_MISSING, MALFORMED, "id_missing", "missing delivery id")                                  \
    X(ID_FORM, MALFORMED, "id_form", "malformed delivery id")                                      \
    X(EVENT_FORM, MALFORMED, "event_form", "malformed event name")                                 \
    X(ENCODED, MALFORMED, "content_encoding", "Content-Encoding is not accepted on webhooks")      \
    X(BODY_FORM, MALFORMED, "body_form", "body does not match the provider's format")              \
    X(CHALLENGE_FORM, MALFORMED, "challenge_form", "malformed challenge")                          \
    X(CLOCK_SKEW, CLOCK_SKEW, "clock_skew", "delivery time is outside the tolerance")

enum iop_refusal {
#define X(name, error, label, message) IOP_REFUSE_##name,
    IOP_REFUSALS(X)
#undef X
        IOP_REFUSAL_COUNT
};

struct iop_refusal_row {
    const char *label;
    const char *message;
};
const struct iop_refusal_row *iop_refusal_row(enum iop_refusal refusal);

/* What the sender is to be answered instead of the usual 202, and instead of any action. */
struct iop_answer {
    int status; /* 0: no challenge, an ordinary delivery */
    const char *content_type;
    size_t len;
    char body[IOP_ANSWER_MAX];
};

struct iop_sig {
    enum iop_alg alg;
    uint8_t bytes[IOP_SIG_BYTES_MAX];
};

/* Filled in two steps; all that outlives the request's memory is copied into it. */
struct iop_delivery {
    /* iop_check_head */
    uint32_t sig_count;
    struct iop_sig sigs[IOP_SIGS_MAX];
    char ts[24]; /* as sent: part of the base string */
    size_t ts_len;
    bool form; /* Content-Type says a form */
    /* both */
    int64_t ts_unix_ms; /* 0: the scheme signs none */
    size_t id_len;      /* 0: none */
    char id[IOP_ID_MAX];
    bool id_signed; /* covered by the signature; a bare header is not */
    size_t event_len;
    char event[IOP_EVENT_MAX];
    /* iop_check_body, once verified */
    const char *sig_alg; /* "hmac-sha256"; NULL: not verified */
    uint32_t key_index;  /* which live key it was */
    bool has_canonical;  /* the signature does not bind the bytes of the body, but this hash */
    struct ron_b3 canonical;
    struct iop_answer answer;
};

/* What the listener knows. Sets everything of `ret`. */
enum iop_refusal iop_check_head(const struct iop_provider *p, const struct ron_http_head *head,
                                int64_t now_unix_ms, struct iop_delivery *ret);

struct iop_message {
    struct ron_str target; /* as sent; for {url} */
    const void *body;
    size_t len;
    int64_t now_unix_ms;
    void *scratch; /* len + IOP_SCRATCH_EXTRA bytes, only while the call lasts */
    size_t scratch_size;
};

/* After iop_check_head returned NONE. RON_LIMIT is no case: too little scratch is an assertion. */
enum iop_refusal iop_check_body(const struct iop_provider *p, const struct iop_message *m,
                                struct iop_delivery *d);

/* Whether iop_check_body uses scratch at all for this provider. */
bool iop_provider_needs_scratch(const struct iop_provider *p);

/* A GET to the route: META's subscription. The query is as sent. */
enum iop_refusal iop_check_get(const struct iop_provider *p, struct ron_str query,
                               struct iop_answer *ret_answer);

/* Keys of de-duplication. The first, of what is signed, decides whether a delivery is a duplicate;
 * the second, of an unsigned id that whoever replays a delivery can change, decides nothing and is
 * there for who looks for a retry whose body changed. Neither reveals a digest of the provider
 * (they are BLAKE3 with a context of their own). Returns 1 or 2. */
size_t iop_delivery_keys(const struct iop_delivery *d, const char *provider,
                         const struct ron_b3 *body, struct ron_b3 ret_keys[2]);
