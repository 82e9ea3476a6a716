/* SPDX-License-Identifier: Apache-2.0 */
/* scn_cap.c - tokens verified while the keys are rotated.
 *
 * Expected in every schedule: a token of the present keys is allowed, one of keys that were put
 * away before the question is refused however often it was believed, and keys stay readable while
 * somebody holds them (released ones are wiped, so their magic would be gone). Afterwards nothing
 * of the first token is left in the verifier, whoever was about to remember it. */
#include <stdio.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/base/assert.h"
#include "ron/cap/verifier.h"
#include "scenario/scn.h"
#include "scenario/scn_env.h"

struct desk {
    struct ron_cap_ring ring;
    struct ron_cap_verifier *verifier;
    struct ron_au32 retired; /* set after the first keys were put away */
    char token[2][512];      /* of the first and of the second keys */
};

static struct ron_cap_keys *make_keys(const char *id)
{
    struct ron_cap_keys *keys = ron__cap_keys_new(NULL);

    RON_ASSERT(keys != NULL);
    keys->count = 1;
    (void)snprintf(keys->keys[0].info.id, sizeof keys->keys[0].info.id, "%s", id);
    ron_cap_root(id, strlen(id), keys->keys[0].root);
    return keys;
}

static void mint(const struct ron_cap_keys *keys, char *text, size_t size)
{
    const struct ron_str caveat = {.ptr = "aud = wallet", .len = 12};
    struct ron_buf out;
    enum ron_rc rc;

    ron_buf_init_over(&out, text, size);
    rc = ron_cap_mint(keys, &scn_env,
                      &(struct ron_cap_mint_opts){.caveats = &caveat, .caveat_count = 1}, &out,
                      NULL);
    RON_ASSERT(rc == RON_OK);
    (void)ron_buf_text(&out);
}

static enum ron_cap_why ask(struct desk *d, int which)
{
    const struct ron_cap_request request = {.audience = {.ptr = "wallet", .len = 6}};
    struct ron_str token = {.ptr = d->token[which], .len = strlen(d->token[which])};

    return ron_cap_verifier_check(d->verifier, token, &request, NULL);
}

static void ask_often(void *arg)
{
    struct desk *d = arg;
    bool was_allowed = false;

    for (uint32_t i = 0; i < scn_scale(2, 20000); i++) {
        bool retired = ron_au32_load(&d->retired) != 0;
        enum ron_cap_why why = ask(d, 0);

        SCN_CHECK(why == RON_CAP_OK || why == RON_CAP_UNKNOWN_KEY);
        SCN_CHECK(!retired || why == RON_CAP_UNKNOWN_KEY);
        scn_saw_if(was_allowed && why != RON_CAP_OK, 0);
        scn_saw_if(!retired && why != RON_CAP_OK, 1);
        was_allowed = why == RON_CAP_OK;
        if (retired) {
            SCN_CHECK(ask(d, 1) == RON_CAP_OK);
        }
    }
}

static void retire(void *arg)
{
    struct desk *d = arg;
    bool changed = ron_cap_ring_put(&d->ring, make_keys("second"));

    SCN_CHECK(changed);
    ron_au32_store(&d->retired, 1);
    (void)ron_cap_verifier_forget(d->verifier, 0);
}

static void cap_rotation(void)
{
    struct desk d = {0};
    struct ron_cap_keys *second = make_keys("second");
    struct ron_cap_verifier_stats st;
    const void *memory;
    size_t size = 0;
    enum ron_rc rc;

    scn_calm(true);
    ron_cap_ring_init(&d.ring, make_keys("first"));
    mint(d.ring.keys, d.token[0], sizeof d.token[0]);
    mint(second, d.token[1], sizeof d.token[1]);
    ron_cap_keys_unref(second);
    rc = ron_cap_verifier_new(
        &(struct ron_cap_verifier_opts){.env = &scn_env, .ring = &d.ring, .entries = 64},
        &d.verifier, NULL);
    RON_ASSERT(rc == RON_OK);
    scn_calm(false);
    scn_spawn("asker", ask_often, &d);
    scn_spawn("asker", ask_often, &d);
    scn_spawn("retirer", retire, &d);
    scn_join_all();
    scn_calm(true);
    SCN_CHECK(ask(&d, 0) == RON_CAP_UNKNOWN_KEY);
    SCN_CHECK(ask(&d, 1) == RON_CAP_OK);
    memory = ron__cap_verifier_memory(d.verifier, &size);
    SCN_CHECK(memmem(memory, size, d.token[0] + strlen(d.token[0]) - 40, 40) == NULL);
    st = ron_cap_verifier_stats(d.verifier);
    scn_saw_if(st.hits_total > 1, 2);
    scn_count(st.hits_total + st.misses_total);
    ron_cap_verifier_free(d.verifier);
    ron_cap_ring_done(&d.ring);
    scn_calm(false);
}

const struct scn scn_list[] = {
    {.name = "cap_rotation",
     .body = cap_rotation,
     .must_see = {"a token that was believed is refused", "the keys change under a question",
                  "what was verified is believed"},
     .stress_rounds = 20,
     .stress_messages = 100000},
    {0},
};
