/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/hook.h - a webhook as its provider would send it, to the running bridge; for `ron
 * webhook send` and `ron demo`.
 *
 * `ron up` switches on two providers, demo_github and demo_stripe, whose secrets it creates
 * in DATA/keys/NAME.secret; both verbs sign as one of them. */
#pragma once

#include "cli/base/net.h"

enum { CLI_SECRET_SIZE = 4096 };

#define CLI_HOOK_GITHUB "demo_github"
#define CLI_HOOK_STRIPE "demo_stripe"

struct cli_hook {
    const char *provider; /* its name in the settings of the bridge */
    const char *kind;     /* how it signs */
    const char *secret;
    size_t secret_len;
    const char *id;    /* of the delivery */
    const char *event; /* may be NULL */
    const char *type;  /* Content-Type */
    struct ron_buf *body;
    bool broken; /* sign, then change a byte */
    bool print;  /* the headers that are sent, to standard output */
    bool quiet;  /* a refusal is not told */
};

/* The kind of a provider that is named for it: "github" of "github" and of "demo_github". */
const char *cli_hook_kind(const char *provider);

/* The secret of `option` (--secret-file), else that which `ron up` made for the provider. Tells
 * what is wrong. */
int cli_hook_secret(const char *verb, const struct cli_system *sys, const char *option,
                    const char *provider, char ret_secret[CLI_SECRET_SIZE], size_t *ret_len);

/* As cli_call; the answer is done by the caller. */
int cli_hook_send(struct cli_client *c, const struct cli_hook *h, struct cli_answer *ret_answer);
