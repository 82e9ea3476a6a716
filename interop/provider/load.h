/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/load.h - the providers of the settings, with their secrets.
 *
 * Place: interop. [providers.NAME] is a provider that is reached at /webhooks/NAME. Its kind is
 * `kind`, or else what NAME says. Everything is off until `enabled` is set.
 *
 * Secrets come from the environment or from a file that nobody else may read, never from the
 * settings themselves. Two are live during a change: the present one and the next. An enabled
 * provider without one, with one shorter than IOP_SECRET_MIN, or with one that another enabled
 * provider has too, is no configuration: the load fails.
 *
 * Threads: a set never changes once made; a reload makes a new one. Loading blocks on files. */
#pragma once

#include "interop/provider/provider.h"
#include "ron/conf/conf.h"

enum {
    IOP_PROVIDERS_MAX = 64,
    IOP_SECRET_MIN = 8,   /* bytes; shorter ones can be guessed */
    IOP_SECRET_MAX = 4096 /* bytes of the file or variable */
};

/* Rows for the table of settings, group "providers". The service may add rows of its own behind
 * them. Keys are found by name, so their place is free. */
#define IOP_KIND_WORD(name, slug, who) "|" slug
#define IOP_PROVIDER_KEYS(X)                                                                       \
    X(IOP_P_ENABLED, "providers.*.enabled", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,              \
      "Whether deliveries from this provider are accepted.")                                       \
    X(IOP_P_KIND, "providers.*.kind", ENUM, "auto" IOP_KINDS(IOP_KIND_WORD), 0, 0, "auto",         \
      RON_CONF_RELOAD, "Signature scheme; auto uses the section name.")                            \
    X(IOP_P_SECRET_ENV, "providers.*.secret_env", STRING, "bytes", 0, 128, "", RON_CONF_RELOAD,    \
      "Environment variable with the secret (Discord: the public key).")                           \
    X(IOP_P_SECRET_FILE, "providers.*.secret_file", STRING, "bytes", 0, 1023, "", RON_CONF_RELOAD, \
      "File with the secret instead; must not be readable by group or others.")                    \
    X(IOP_P_NEXT_ENV, "providers.*.secret_env_next", STRING, "bytes", 0, 128, "", RON_CONF_RELOAD, \
      "Environment variable with a second live secret, for secret rotation.")                      \
    X(IOP_P_NEXT_FILE, "providers.*.secret_file_next", STRING, "bytes", 0, 1023, "",               \
      RON_CONF_RELOAD, "File with the second live secret instead.")                                \
    X(IOP_P_TOKEN_ENV, "providers.*.verify_token_env", STRING, "bytes", 0, 128, "",                \
      RON_CONF_RELOAD, "Environment variable with Meta's verify token.")                           \
    X(IOP_P_TOKEN_FILE, "providers.*.verify_token_file", STRING, "bytes", 0, 1023, "",             \
      RON_CONF_RELOAD, "File with Meta's verify token instead.")                                   \
    X(IOP_P_WINDOW, "providers.*.tolerance", DURATION, "", RON_CONF_S(1), RON_CONF_H(1), "300s",   \
      RON_CONF_RELOAD, "Maximum distance of a signed time from now, past or future.")              \
    X(IOP_P_URL, "providers.*.public_url", STRING, "bytes", 0, 512, "", RON_CONF_RELOAD,           \
      "Scheme, host and port of the URL that the provider calls (https://hooks.example.org); "     \
      "Twilio "                                                                                    \
      "signs it.")                                                                                 \
    X(IOP_P_SIG_HEADER, "providers.*.signature_header", STRING, "bytes", 0, 64, "",                \
      RON_CONF_RELOAD, "generic: header with the signature.")                                      \
    X(IOP_P_PREFIX, "providers.*.signature_prefix", STRING, "bytes", 0, 64, "", RON_CONF_RELOAD,   \
      "generic: prefix of the signature, such as sha256=; for the form pairs, its name.")          \
    X(IOP_P_FORM, "providers.*.signature_form", ENUM, "one|pairs", 0, 0, "one", RON_CONF_RELOAD,   \
      "generic: one signature, or t=...,v1=... pairs as in Stripe's scheme.")                      \
    X(IOP_P_ENCODING, "providers.*.encoding", ENUM, "hex|hex_upper|base64", 0, 0, "hex",           \
      RON_CONF_RELOAD, "generic: encoding of the signature.")                                      \
    X(IOP_P_HASH, "providers.*.hash", ENUM, "sha256|sha1|sha384|sha512", 0, 0, "sha256",           \
      RON_CONF_RELOAD,                                                                             \
      "generic: hash function of the HMAC; use sha1 only if the sender supports nothing else.")    \
    X(IOP_P_BASE, "providers.*.base", STRING, "bytes", 0, 256, "{body}", RON_CONF_RELOAD,          \
      "generic: signed text, with {body}, {timestamp}, {id}, {url}, {form}.")                      \
    X(IOP_P_TS_HEADER, "providers.*.timestamp_header", STRING, "bytes", 0, 64, "",                 \
      RON_CONF_RELOAD, "generic: header with the time; for the form pairs, its name.")             \
    X(IOP_P_TS_POINTER, "providers.*.timestamp_pointer", STRING, "bytes", 0, 256, "",              \
      RON_CONF_RELOAD, "generic: JSON pointer to the time in the body instead.")                   \
    X(IOP_P_TS_UNIT, "providers.*.timestamp_unit", ENUM, "s|ms", 0, 0, "s", RON_CONF_RELOAD,       \
      "generic: unit of the time, since 1970.")                                                    \
    X(IOP_P_ID_HEADER, "providers.*.id_header", STRING, "bytes", 0, 64, "", RON_CONF_RELOAD,       \
      "generic: header with the delivery id.")                                                     \
    X(IOP_P_ID_POINTER, "providers.*.id_pointer", STRING, "bytes", 0, 256, "", RON_CONF_RELOAD,    \
      "generic: JSON pointer to the delivery id instead.")                                         \
    X(IOP_P_EVENT_HEADER, "providers.*.event_header", STRING, "bytes", 0, 64, "", RON_CONF_RELOAD, \
      "generic: header with the event name.")                                                      \
    X(IOP_P_EVENT_POINTER, "providers.*.event_pointer", STRING, "bytes", 0, 256, "",               \
      RON_CONF_RELOAD, "generic: JSON pointer to the event name instead.")

struct iop_providers {
    struct ron_conf_snap *snap; /* a reference: texts of generic rows lie in it */
    size_t count;
    struct iop_provider at[IOP_PROVIDERS_MAX];
};

/* `variables` is the environment as conf.h has it; NULL for none. `env` reads the files.
 * RON_INVALID, RON_DENIED (a file open to others) and so on name the section and setting, never a
 * secret. */
RON_MUST_USE enum ron_rc iop_providers_new(const struct ron_env *env, struct ron_conf_snap *snap,
                                           const char *const *variables,
                                           struct iop_providers **ret_providers,
                                           struct ron_err *err);
void iop_providers_free(struct iop_providers *set);

/* By the name in the route; "slack_webhook" also means a section "slack". NULL when there is none;
 * one that is switched off is found, and refuses. */
const struct iop_provider *iop_providers_find(const struct iop_providers *set, struct ron_str name);

/* Reads a secret from the variable or the file that the two settings name; both empty leaves
 * `ret_secret` empty. One newline at the end of a file is not part of it. */
RON_MUST_USE enum ron_rc iop_secret_read(const struct ron_env *env, const char *const *variables,
                                         const char *env_name, const char *path,
                                         struct ron_secret *ret_secret, struct ron_err *err);
