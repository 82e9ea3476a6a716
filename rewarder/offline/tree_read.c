/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/tree_read.c - `ron reward tree check` and `ron reward tree proof`: a file of
 * either kind, known by its members. */
#include <string.h>

#include "rewarder/offline/tree.h"
#include "rewarder/tree/claims.h"
#include "ron/io/linux_env.h"

/* A file is kept in memory: 16 million leaves of an address and an amount are 3.8 GB. */
#define FILE_BYTES_MAX ((size_t)4 << 30)

/* One of the two. */
struct any {
    struct rwd_oz *oz;
    struct rwd_rp *rp;
};

static void any_free(struct any *tree)
{
    rwd_oz_free(tree->oz);
    rwd_rp_free(tree->rp);
}

/* Whether the object has the member; the text is JSON. */
static bool has_member(struct ron_str json, const char *wanted)
{
    struct ron_str name;
    struct ron_str value;
    size_t at = 0;

    while (at < json.len && json.ptr[at] != '{') {
        at++;
    }
    at++;
    while (rwd_json_next(json, &at, &name, &value)) {
        if (ron_str_is(name, wanted)) {
            return true;
        }
    }
    return false;
}

static enum ron_rc parse(char *text, size_t len, struct any *ret_tree, struct ron_err *err)
{
    struct ron_str json = {text, len};
    struct ron_json_error at = {0};

    if (ron_json_check(text, len, &at) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "%s at byte %zu", at.reason, at.at);
    }
    if (has_member(json, "nodeRewards")) {
        return rwd_rp_read(text, len, &ret_tree->rp, err);
    }
    if (has_member(json, "format")) {
        return rwd_oz_read(text, len, &ret_tree->oz, err);
    }
    return ron_err_set(err, RON_INVALID,
                       "neither a dump of OpenZeppelin ('format') nor a rewards file of Rocket "
                       "Pool ('nodeRewards')");
}

static enum ron_rc load(const char *path, struct any *ret_tree, struct ron_err *err)
{
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, FILE_BYTES_MAX);
    rc = ron_file_read_all(ron_env_linux(), path, &text, err);
    if (rc == RON_OK) {
        (void)ron_buf_text(&text);
        rc = parse(ron_buf_len(&text) == 0 ? (char[1]){0} : (char *)text.memory + text.head,
                   ron_buf_len(&text), ret_tree, err);
        if (rc != RON_OK) {
            ron_err_prefix(err, "%s", path);
        }
    }
    ron_buf_done(&text);
    return rc;
}

enum ron_rc rwd_tool_tree_check(const char *path, struct ron_buf *out, struct ron_err *err)
{
    struct any tree = {0};
    char root[RWD_HASH_TEXT];

    RON_TRY(load(path, &tree, err));
    rwd_hex_put((tree.oz != NULL ? rwd_oz_root(tree.oz) : rwd_rp_root(tree.rp))->bytes,
                RWD_KECCAK_BYTES, root);
    ron_buf_append_fmt(out, "good        %s\nroot        %.*s\nleaves      %zu\n",
                       tree.oz != NULL ? "OpenZeppelin standard-v1" : "Rocket Pool rewards",
                       RWD_HASH_TEXT, root,
                       tree.oz != NULL ? rwd_oz_count(tree.oz) : rwd_rp_count(tree.rp));
    any_free(&tree);
    return ron_buf_error(out);
}

/* ---- proofs ---------------------------------------------------------------------------------- */

static void put_hash(struct ron_json_writer *w, const char *name, const struct rwd_keccak *hash)
{
    char text[RWD_HASH_TEXT];

    rwd_hex_put(hash->bytes, RWD_KECCAK_BYTES, text);
    ron_json_str(w, name, (struct ron_str){text, sizeof text});
}

/* A line for each leaf; how many. */
static size_t prove_oz(const struct rwd_oz *oz, const uint8_t *address, struct ron_buf *out)
{
    struct ron_json_writer w;
    size_t found = 0;

    for (size_t i = 0; ron_buf_error(out) == RON_OK && rwd_oz_find(oz, address, &i); i++) {
        struct rwd_tree_proof proof;

        rwd_oz_prove(oz, i, &proof);
        ron_json_begin(&w, out);
        ron_json_open(&w, NULL, '{');
        ron_json_raw(&w, "value", rwd_oz_value(oz, i));
        ron_json_u64(&w, "treeIndex", rwd_oz_tree_index(oz, i));
        ron_json_open(&w, "proof", '[');
        for (size_t k = 0; k < proof.count; k++) {
            put_hash(&w, NULL, &proof.hashes[k]);
        }
        ron_json_close(&w, ']');
        put_hash(&w, "root", rwd_oz_root(oz));
        ron_json_close(&w, '}');
        ron_buf_append_byte(out, '\n');
        found++;
    }
    return found;
}

static size_t prove_rp(const struct rwd_rp *rp, const uint8_t *address, struct ron_buf *out)
{
    struct ron_json_writer w;
    char name[RWD_ADDRESS_TEXT + 1] = {0};
    size_t index;

    if (!rwd_rp_find(rp, address, &index)) {
        return 0;
    }
    rwd_hex_put(address, RWD_ADDRESS_BYTES, name);
    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "address", name);
    rwd_rp_put(rp, index, &w, "reward");
    put_hash(&w, "merkleRoot", rwd_rp_root(rp));
    ron_json_close(&w, '}');
    ron_buf_append_byte(out, '\n');
    return 1;
}

enum ron_rc rwd_tool_tree_prove(const char *path, const char *address, struct ron_buf *out,
                                struct ron_err *err)
{
    uint8_t wanted[RWD_ADDRESS_BYTES];
    struct any tree = {0};
    size_t found;

    if (!rwd_hex_get((struct ron_str){address, strlen(address)}, wanted, sizeof wanted)) {
        return ron_err_set(err, RON_INVALID, "'%s' is no address: 0x and 40 hex digits", address);
    }
    RON_TRY(load(path, &tree, err));
    found = tree.oz != NULL ? prove_oz(tree.oz, wanted, out) : prove_rp(tree.rp, wanted, out);
    any_free(&tree);
    if (ron_buf_error(out) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "the address has too many leaves to print");
    }
    return found > 0 ? RON_OK : ron_err_set(err, RON_NOTFOUND, "%s: no leaf of %s", path, address);
}
