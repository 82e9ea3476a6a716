/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls.h - the TLS side of `ron http`: options, reload by SIGHUP, who the client is. */
#pragma once

#include "ron/base/json.h"
#include "ron/http/server.h"
#include "ron/http/tls.h"

/* As given on the command line; all NULL: plain HTTP. */
struct tls_args {
    const char *cert;
    const char *key;
    const char *client_ca;
    const char *client; /* "required" or "optional" */
    bool allow_tls12;
};

/* *ret_tls stays NULL when no TLS is asked for; else it is the caller's to free, even after a
 * failure. */
RON_MUST_USE enum ron_rc tls_build(const struct tls_args *args, const struct ron_env *env,
                                   struct ron_metrics *metrics, struct ron_tls_ctx **ret_tls,
                                   struct ron_err *err);
/* On SIGHUP; arg is the context, or NULL. Says on standard error what came of it. */
void tls_on_hangup(void *arg);
/* GET /peer: name, alternative names and fingerprint of the client's certificate. */
void tls_on_peer(struct ron_http_call *call, void *arg);
/* Member "tls" of /counters. */
void tls_write_counters(struct ron_json_writer *w, struct ron_tls_ctx *tls);
