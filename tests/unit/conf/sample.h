/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - a table with every type, a secret, a required key and groups; for tests of conf. */
#pragma once

#include "support/support.h"

#include "ron/conf/conf.h"

#define SAMPLE_CONF(X)                                                                             \
    X(SAMPLE_DRAIN, "drain_deadline", DURATION, "", RON_CONF_S(1), RON_CONF_S(5), "3s",            \
      RON_CONF_RELOAD, "How long a shutdown may drain.")                                           \
    X(SAMPLE_LISTEN, "http.listen", STRING, "", 1, 64, "127.0.0.1:7301", RON_CONF_FIXED,           \
      "Address of the service.")                                                                   \
    X(SAMPLE_RATE, "limits.rate", INT, "requests/s", 0, 100000, "500", RON_CONF_RELOAD,            \
      "Requests per second and client; 0 is off.")                                                 \
    X(SAMPLE_BODY, "limits.max_body", SIZE, "", 1, RON_CONF_GIB(1), "1MiB", RON_CONF_RELOAD,       \
      "Largest body.")                                                                             \
    X(SAMPLE_BALANCE, "limits.balance", INT, "", -10, 10, "-1", RON_CONF_FIXED,                    \
      "A number that may be negative.")                                                            \
    X(SAMPLE_FORMAT, "log.format", ENUM, "json|text", 0, 0, "json", RON_CONF_RELOAD,               \
      "Shape of log lines | one of two.")                                                          \
    X(SAMPLE_HOSTS, "log.hosts", LIST, "", 0, 4, "a, b", RON_CONF_RELOAD, "Names of hosts.")       \
    X(SAMPLE_AMNESIA, "amnesia.enabled", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                  \
      "Leave nothing on disk.")                                                                    \
    X(SAMPLE_TOKEN, "auth.token", STRING, "", 0, 64, "", RON_CONF_RELOAD | RON_CONF_SECRET,        \
      "Token of the upstream.")                                                                    \
    X(SAMPLE_ORIGIN_URL, "origins.*.url", STRING, "", 1, 128, NULL, RON_CONF_RELOAD,               \
      "Where to fetch from.")                                                                      \
    X(SAMPLE_ORIGIN_TRIES, "origins.*.tries", INT, "", 1, 9, "3", RON_CONF_RELOAD, "How often.")   \
    X(SAMPLE_ORIGIN_CA, "origins.*.tls.ca", STRING, "", 0, 128, "", RON_CONF_RELOAD,               \
      "Certificate authority.")                                                                    \
    X(SAMPLE_PEER_ADDR, "peers.*.addr", STRING, "", 1, 64, "none", RON_CONF_FIXED, "A peer.")

enum { SAMPLE_CONF(RON_CONF_ID) SAMPLE_COUNT };

static const struct ron_conf_key sample_keys[] = {SAMPLE_CONF(RON_CONF_ROW)};

/* A rule between two keys. */
static inline enum ron_rc sample_check(const struct ron_conf_snap *snap, struct ron_err *err)
{
    if (ron_conf_bool(snap, SAMPLE_AMNESIA) && ron_conf_int(snap, SAMPLE_BALANCE) == 7) {
        return ron_err_set(err, RON_INVALID, "amnesia.enabled excludes limits.balance = 7");
    }
    if (ron_conf_int(snap, SAMPLE_RATE) == 66666) {
        return ron_err_set(err, RON_CONFLICT, "never this rate");
    }
    return RON_OK;
}

static const struct ron_conf_alias sample_aliases[] = {
    {"ingress.drain_secs", "drain_deadline", "s"},
    {"ingress.body_bytes", "limits.max_body", "B"},
    {"shape", "log.format", ""},
};

static const struct ron_conf_table sample_table = {.service = "wallet",
                                                   .keys = sample_keys,
                                                   .key_count = SAMPLE_COUNT,
                                                   .aliases = sample_aliases,
                                                   .alias_count = RON_ARRAY_LEN(sample_aliases),
                                                   .check = sample_check};

/* Loads from a TOML text; NULL when it is refused, and then `err` says why. */
static inline struct ron_conf_snap *sample_load(const char *text, struct ron_err *err)
{
    struct ron_conf_sources sources = {.path = "w.toml", .text = text};
    struct ron_conf_snap *snap = NULL;
    enum ron_rc rc = ron_conf_load(NULL, &sample_table, &sources, &snap, err);

    assert_int_equal(rc == RON_OK, snap != NULL);
    return snap;
}

static inline struct ron_conf_snap *sample_good(const char *text)
{
    struct ron_err err = {0};
    struct ron_conf_snap *snap = sample_load(text, &err);

    if (snap == NULL) {
        fail_msg("refused: %s", err.msg);
    }
    return snap;
}
