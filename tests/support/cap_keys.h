/* SPDX-License-Identifier: Apache-2.0 */
/* cap_keys.h - one random key that is nowhere but in memory. */
#pragma once

#include <sodium.h>

#include "cap/cap_priv.h"

static inline enum ron_rc ron_cap_keys_ephemeral(const struct ron_env *env,
                                                 struct ron_cap_keys **ret_keys,
                                                 struct ron_err *err)
{
    struct ron_cap_keys *keys = ron__cap_keys_new(err);
    uint8_t secret[RON_CAP_KEY_BYTES];

    if (keys == NULL) {
        return RON_NOMEM;
    }
    ron__cap_random(env, secret, sizeof secret);
    keys->count = 1;
    keys->keys[0].info =
        (struct ron_cap_key_info){.id = "memory", .created_s = ron_env_wall_ms(env) / RON_MS_PER_S};
    ron_cap_root(secret, sizeof secret, keys->keys[0].root);
    sodium_memzero(secret, sizeof secret);
    *ret_keys = keys;
    return RON_OK;
}
