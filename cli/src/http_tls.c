/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls.c - the TLS side of `ron http`; contract in http_tls.h.
 *
 * Place: cli. The reload runs on the thread that takes signals, which may block. */
#include "http_tls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PEER_TEXT_MAX = 65536 };

enum ron_rc tls_build(const struct tls_args *args, const struct ron_env *env,
                      struct ron_metrics *metrics, struct ron_tls_ctx **ret_tls,
                      struct ron_err *err)
{
    struct ron_tls_opts o = {.env = env,
                             .cert_file = args->cert,
                             .key_file = args->key,
                             .client_ca_file = args->client_ca,
                             .allow_tls12 = args->allow_tls12};

    if (args->cert == NULL && args->key == NULL) {
        return args->client_ca == NULL && args->client == NULL && !args->allow_tls12
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID, "TLS needs --tls-cert and --tls-key");
    }
    if (args->client != NULL) {
        o.client = strcmp(args->client, "optional") == 0 ? RON_TLS_CLIENT_OPTIONAL
                                                         : RON_TLS_CLIENT_REQUIRED;
    }
    RON_TRY(ron_tls_ctx_new(&o, ret_tls, err));
    return ron_tls_ctx_collect(*ret_tls, metrics, err);
}

void tls_on_hangup(void *arg)
{
    struct ron_tls_ctx *tls = arg;
    struct ron_tls_cert cert;
    struct ron_err err = {0};

    if (tls == NULL) {
        return;
    }
    if (ron_tls_ctx_reload(tls, &err) != RON_OK) {
        (void)fprintf(stderr, "ron http: reload failed, old certificate kept: %s\n", err.msg);
        return;
    }
    ron_tls_ctx_cert(tls, &cert);
    (void)fprintf(stderr,
                  "ron http: reloaded, certificate %" PRIu64 " \"%s\" ends in %" PRId64 " s\n",
                  cert.generation, cert.subject, ron_tls_ctx_expiry_s(tls));
}

void tls_on_peer(struct ron_http_call *call, void *arg)
{
    struct ron_tls_peer peer;
    struct ron_json_writer w;
    struct ron_buf out;
    char print[2 * RON_TLS_FINGERPRINT_BYTES + 1];

    (void)arg;
    if (!ron_http_tls_peer(call, &peer)) {
        ron_http_answer(call, 200, "application/json", "{}", 2);
        return;
    }
    for (size_t i = 0; i < RON_TLS_FINGERPRINT_BYTES; i++) {
        (void)snprintf(print + 2 * i, 3, "%02x", (unsigned)peer.fingerprint[i]);
    }
    ron_buf_init(&out, PEER_TEXT_MAX);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "common_name", peer.common_name);
    ron_json_text(&w, "sha256", print);
    ron_json_open(&w, "names", '[');
    for (size_t i = 0; i < peer.name_count; i++) {
        ron_json_text(&w, NULL, peer.names[i].text);
    }
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    ron_http_answer(call, 200, "application/json", ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
}

void tls_write_counters(struct ron_json_writer *w, struct ron_tls_ctx *tls)
{
    struct ron_tls_counters c;

    ron_tls_ctx_counters(tls, &c);
    ron_json_open(w, "tls", '{');
    ron_json_u64(w, "full", c.full);
    ron_json_u64(w, "resumed", c.resumed);
    ron_json_u64(w, "open", c.shaking);
    ron_json_u64(w, "truncated", c.truncated);
    ron_json_u64(w, "reloads", c.reloads);
    ron_json_u64(w, "reload_failures", c.reload_failures);
    ron_json_i64(w, "expiry_seconds", ron_tls_ctx_expiry_s(tls));
    ron_json_open(w, "failures", '{');
    for (int i = 0; i < RON_TLS_FAIL_COUNT; i++) {
        ron_json_u64(w, ron_tls_failure_label((enum ron_tls_failure)i), c.failures[i]);
    }
    ron_json_close(w, '}');
    ron_json_close(w, '}');
}
