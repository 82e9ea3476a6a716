/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/tls/ticket.c - keys of session tickets, replaced on time.
 *
 * Place: http; called by OpenSSL inside a handshake, on a worker.
 *
 * Two keys: the present one seals and opens, the one before only opens. After each period the
 * present becomes the one before, which is wiped first. OpenSSL's own key would live as long as the
 * context, and whoever learns it could open everything recorded until then. */
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <string.h>

#include "http/tls/lane.h"

static uint64_t now_ms(const struct ron_tls_ctx *ctx)
{
    return ron_env_now_ns(ctx->opts.env) / RON_NS_PER_MS;
}

static bool make_key(struct tls_ticket_key *key, uint64_t until_ms)
{
    key->until_ms = until_ms;
    return RAND_bytes(key->name, sizeof key->name) == 1 &&
           RAND_priv_bytes(key->cipher, sizeof key->cipher) == 1 &&
           RAND_priv_bytes(key->mac, sizeof key->mac) == 1;
}

enum ron_rc ron__tls_tickets_init(struct ron_tls_ctx *ctx)
{
    uint64_t period_ms = (uint64_t)ctx->opts.ticket_rotate_s * RON_MS_PER_S;

    uint64_t now = now_ms(ctx);

    ron_au64_store(&ctx->rotate_at_ms, now + period_ms);
    return make_key(&ctx->tickets[0], now + 2 * period_ms) ? RON_OK : RON_NOMEM;
}

/* Copies the key to seal with, or the one called `name`; 0 when there is none, 2 when it is not the
 * present one, so that the client should get a new ticket. */
static int pick_key(struct ron_tls_ctx *ctx, const unsigned char *name, bool seal,
                    struct tls_ticket_key *ret_key)
{
    uint64_t period_ms = (uint64_t)ctx->opts.ticket_rotate_s * RON_MS_PER_S;
    uint64_t now = now_ms(ctx);
    struct tls_ticket_key fresh = {0};
    int found = 0;

    /* Made outside the lock; for nothing when another worker is faster. */
    bool made = ron_au64_load(&ctx->rotate_at_ms) <= now && make_key(&fresh, now + 2 * period_ms);

    ron_mutex_lock(&ctx->mu);
    if (made && ron_au64_load(&ctx->rotate_at_ms) <= now) {
        OPENSSL_cleanse(&ctx->tickets[1], sizeof ctx->tickets[1]);
        ctx->tickets[1] = ctx->tickets[0];
        ctx->tickets[0] = fresh;
        ron_au64_store(&ctx->rotate_at_ms, now + period_ms);
    }
    for (int i = 0; i < (seal ? 1 : 2) && found == 0; i++) {
        const struct tls_ticket_key *key = &ctx->tickets[i];

        if (key->until_ms > now && (seal || memcmp(key->name, name, sizeof key->name) == 0)) {
            *ret_key = *key;
            found = i + 1;
        }
    }
    ron_mutex_unlock(&ctx->mu);
    OPENSSL_cleanse(&fresh, sizeof fresh);
    return found;
}

static bool set_keys(const struct tls_ticket_key *key, const unsigned char *iv,
                     EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int seal)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key->mac,
                                          sizeof key->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)(uintptr_t) "SHA256", 0),
        OSSL_PARAM_construct_end(),
    };

    return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->cipher, iv, seal) == 1 &&
           EVP_MAC_CTX_set_params(mac, params) == 1;
}

int ron__tls_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                        EVP_MAC_CTX *mac, int seal)
{
    struct ron_tls_ctx *ctx = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct tls_ticket_key key = {0};
    int found = pick_key(ctx, name, seal == 1, &key);

    if (found != 0 && seal == 1) {
        memcpy(name, key.name, sizeof key.name);
        if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1) {
            found = 0;
        }
    }
    if (found != 0 && !set_keys(&key, iv, cipher, mac, seal)) {
        found = seal == 1 ? -1 : 0;
    }
    OPENSSL_cleanse(&key, sizeof key);
    return found;
}
