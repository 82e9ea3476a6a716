/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/name.c - the names of name.h: grammars, keys, folders.
 *
 * Invariants:
 *   I1. Keys are hashed as text with '|' between the parts, so that what a key stands for can be
 *       written down and hashed again with any BLAKE3 program. Only the salt may hold a '|', and it
 *       comes first; two different lists of parts therefore differ as text.
 *   I2. rwd_folder_epoch accepts exactly what rwd_epoch_folder writes.
 *
 * Failure: none but a refused name. */
#include "rewarder/input/name.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* 1..max characters of [A-Za-z0-9_.:-]. */
static bool name_ok(struct ron_str name, size_t max)
{
    if (name.len == 0 || name.len > max) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];

        if (!is_plain(c) && c != '.' && c != ':') {
            return false;
        }
    }
    return true;
}

static size_t folder_len(struct ron_str epoch)
{
    size_t len = 0;

    for (size_t i = 0; i < epoch.len; i++) {
        len += is_plain(epoch.ptr[i]) ? 1 : 3;
    }
    return len;
}

bool rwd_epoch_ok(struct ron_str epoch)
{
    return name_ok(epoch, RWD_EPOCH_MAX) && folder_len(epoch) <= RWD_FOLDER_MAX;
}

bool rwd_account_ok(struct ron_str account)
{
    if (account.len == 0 || account.len > RWD_ACCOUNT_MAX) {
        return false;
    }
    for (size_t i = 0; i < account.len; i++) {
        if (!rwd_account_char(account.ptr[i])) {
            return false;
        }
    }
    return true;
}

bool rwd_policy_id_ok(struct ron_str id)
{
    return name_ok(id, RWD_POLICY_ID_MAX);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void add_text(struct ron_b3_hasher *h, const char *text)
{
    ron_b3_update(h, text, strlen(text));
}

static void add_id(struct ron_b3_hasher *h, const struct ron_b3 *id)
{
    char text[RON_B3_ID_SIZE];

    ron_b3_format(id, text);
    ron_b3_update(h, text, RON_B3_ID_LEN);
}

static void add_number(struct ron_b3_hasher *h, struct ron_money number)
{
    char text[RON_MONEY_TEXT_SIZE];
    size_t len = ron_money_format(number, text);

    ron_b3_update(h, text, len);
}

void rwd_run_key(struct ron_str salt, struct ron_str epoch, const struct ron_b3 *policy_hash,
                 const struct ron_b3 *inputs_cid, struct ron_b3 *ret_key)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    ron_b3_update(&h, salt.ptr, salt.len);
    add_text(&h, "|");
    ron_b3_update(&h, epoch.ptr, epoch.len);
    add_text(&h, "|");
    add_id(&h, policy_hash);
    add_text(&h, "|");
    add_id(&h, inputs_cid);
    ron_b3_final(&h, ret_key);
}

/* `prefix` and as many digits of the hash as fill `len` characters. */
static void put_key(const struct ron_b3_hasher *h, const char *prefix, size_t len, char *ret_key)
{
    char hex[RON_B3_HEX_LEN];
    struct ron_b3 hash;
    size_t start = strlen(prefix);

    ron_b3_final(h, &hash);
    ron_b3_format_hex(&hash, hex);
    memcpy(ret_key, prefix, start);
    memcpy(ret_key + start, hex, len - start);
    ret_key[len] = '\0';
}

void rwd_intent_key(const struct ron_b3 *run_key, struct ron_str account, struct ron_money amount,
                    char ret_key[RWD_INTENT_KEY_SIZE])
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    add_text(&h, "svc-rewarder|settlement-intent|v2|");
    add_id(&h, run_key);
    add_text(&h, "|");
    ron_b3_update(&h, account.ptr, account.len);
    add_text(&h, "|");
    add_number(&h, amount);
    put_key(&h, "b3:", RWD_INTENT_KEY_LEN, ret_key);
}

void rwd_batch_key(const struct ron_b3 *run_key, uint64_t first, uint32_t count, uint32_t attempt,
                   char ret_key[RWD_BATCH_KEY_SIZE])
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    add_text(&h, "svc-rewarder|settlement-batch|v1|");
    add_id(&h, run_key);
    add_text(&h, "|");
    add_number(&h, ron_money_of(first));
    add_text(&h, "|");
    add_number(&h, ron_money_of(count));
    add_text(&h, "|");
    add_number(&h, ron_money_of(attempt));
    put_key(&h, "rew:", RWD_BATCH_KEY_LEN, ret_key);
}

void rwd_claim_key(struct ron_str salt, struct ron_str epoch, uint32_t attempt,
                   char ret_key[RWD_BATCH_KEY_SIZE])
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    add_text(&h, "svc-rewarder|epoch-claim|v1|");
    ron_b3_update(&h, salt.ptr, salt.len);
    add_text(&h, "|");
    ron_b3_update(&h, epoch.ptr, epoch.len);
    add_text(&h, "|");
    add_number(&h, ron_money_of(attempt));
    put_key(&h, "rew:", RWD_BATCH_KEY_LEN, ret_key);
}

/* ---- folders --------------------------------------------------------------------------------- */

void rwd_epoch_folder(struct ron_str epoch, char ret_name[RWD_FOLDER_SIZE])
{
    static const char digits[] = "0123456789ABCDEF";
    char *to = ret_name;

    RON_ASSERT(rwd_epoch_ok(epoch));
    for (size_t i = 0; i < epoch.len; i++) {
        unsigned char c = (unsigned char)epoch.ptr[i];

        if (is_plain((char)c)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    *to = '\0';
}

bool rwd_folder_epoch(const char *name, char ret_epoch[RWD_EPOCH_MAX + 1])
{
    char epoch[RWD_EPOCH_MAX + 1];
    size_t len = 0;

    while (*name != '\0') {
        char c = *name;

        if (len == RWD_EPOCH_MAX) {
            return false;
        }
        if (strncmp(name, "%2E", 3) == 0 || strncmp(name, "%3A", 3) == 0) {
            c = name[1] == '2' ? '.' : ':'; /* an epoch has no other character to be encoded */
            name += 2;
        } else if (!is_plain(c)) {
            return false;
        }
        epoch[len++] = c;
        name++;
    }
    if (!rwd_epoch_ok((struct ron_str){epoch, len})) {
        return false;
    }
    memcpy(ret_epoch, epoch, len);
    ret_epoch[len] = '\0';
    return true;
}
