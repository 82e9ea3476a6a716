/* SPDX-License-Identifier: Apache-2.0 */
/* console/conf.h - the settings of `ron console`. docs/reference/console.md is generated from it.
 *
 * Place: console. */
#pragma once

#include "ron/app/app.h"

/* X(NAME, "name"): the services that a console may show, in the order of its pages. */
#define CON_SERVICES(X)                                                                            \
    X(LEDGER, "ledger")                                                                            \
    X(WALLET, "wallet")                                                                            \
    X(REWARDER, "rewarder")                                                                        \
    X(EDGE, "edge")                                                                                \
    X(INTEROP, "interop")

enum con_service {
#define X(name, text) CON_##name,
    CON_SERVICES(X)
#undef X
        CON_SERVICE_COUNT
};

#define CON_KEYS_SERVICE(X, id, name)                                                              \
    X(CON_URL_##id, "services." name ".url", STRING, "bytes", 0, 255, "", RON_CONF_FIXED,          \
      "Base URL of this service, such as http://127.0.0.1:7200; empty: the console does without.") \
    X(CON_TOKEN_##id, "services." name ".token_file", STRING, "bytes", 0, 4095, "",                \
      RON_CONF_FIXED,                                                                              \
      "File (0600) with the capability under which the console reads this service; a reload "      \
      "reads it anew. Empty: none is sent.")

#define CON_CONF(X)                                                                                \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7000")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "64KiB")                                                  \
    RON_APP_KEYS_TIMEOUTS(X, "10s")                                                                \
    RON_APP_KEYS_REST(X)                                                                           \
    X(CON_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 4095, "", RON_CONF_FIXED,                 \
      "Key file of the capabilities that may ask for links (aud console; scope console.read or "   \
      "console.operate). Required. A reload reads it anew.")                                       \
    X(CON_POLL, "console.poll", DURATION, "", 250, RON_CONF_M(1), "1s", RON_CONF_FIXED,            \
      "How often each service is asked while somebody watches; ten times as long while nobody "    \
      "does.")                                                                                     \
    X(CON_LINK_TTL, "console.link_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_H(24), "10m",        \
      RON_CONF_FIXED, "How long a link that was asked for may be opened, once.")                   \
    X(CON_SESSION_TTL, "console.session_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_H(744), "12h", \
      RON_CONF_FIXED,                                                                              \
      "How long a browser that opened a link may use the console; never longer than the "          \
      "capability that asked for the link.")                                                       \
    X(CON_CALL_TIMEOUT, "console.call_timeout", DURATION, "", 100, RON_CONF_M(1), "2s",            \
      RON_CONF_FIXED, "Time for one call to a service.")                                           \
    X(CON_ANSWER_MAX, "console.answer_bytes", SIZE, "", 1024, RON_CONF_MIB(64), "4MiB",            \
      RON_CONF_FIXED, "Bytes of one answer of a service; a larger one is refused.")                \
    CON_KEYS_SERVICE(X, LEDGER, "ledger")                                                          \
    X(CON_LEDGER_VKEY, "services.ledger.verifier_key", STRING, "bytes", 0, 512, "",                \
      RON_CONF_FIXED,                                                                              \
      "Verifier key of the ledger, NAME+ID+BASE64, with which pages check receipts; empty: who "   \
      "checks one gives it.")                                                                      \
    CON_KEYS_SERVICE(X, WALLET, "wallet")                                                          \
    X(CON_WRITE_WALLET, "services.wallet.write_token_file", STRING, "bytes", 0, 4095, "",          \
      RON_CONF_FIXED,                                                                              \
      "File (0600) with the capability under which operators issue, transfer and burn from the "   \
      "console; empty: the console only reads.")                                                   \
    CON_KEYS_SERVICE(X, REWARDER, "rewarder")                                                      \
    CON_KEYS_SERVICE(X, EDGE, "edge")                                                              \
    CON_KEYS_SERVICE(X, INTEROP, "interop")

enum { CON_CONF(RON_CONF_ID) CON_CONF_COUNT };

extern const struct ron_conf_table con_conf_table;

const char *con_service_name(enum con_service svc);
