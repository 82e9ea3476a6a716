/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/proof.c - proofs, tiles and receipts from the stored hashes and the journal.
 *
 * The stored hashes are derived and carry no checksum. So before anything made of them leaves the
 * house it is proven against the root of the head, which came from a checked frame: a root of the
 * past by a consistency proof, a proof by following it, the hashes of a tile by proving the nodes
 * above them. */
#include "ledger/read/priv.h"

#include <string.h>

#include "ledger/proof/receipt.h"
#include "ledger/proof/tile.h"

static enum ron_rc check_size(const struct led_reader *r, uint64_t size, struct ron_err *err)
{
    if (size > r->last_seq) {
        return ron_err_set(err, RON_NOTFOUND, "the tree has %llu leaves",
                           (unsigned long long)r->last_seq);
    }
    return RON_OK;
}

enum ron_rc led_read_root(struct led_reader *r, uint64_t size, struct ron_tree_hash *ret_root,
                          struct ron_err *err)
{
    const struct ron_tree_store *store = r->opts.hashes;
    struct ron_proof proof;
    struct ron_tree_hash root;
    enum ron_rc rc;

    err = led__read_err(r, err);
    RON_TRY(check_size(r, size, err));
    if (size == r->last_seq) {
        *ret_root = r->root;
        return RON_OK;
    }
    if (size == 0) {
        ron_tree_hash_empty(ret_root);
        return RON_OK;
    }
    proof.count = 0; /* the analyser does not see that a failed rc ends here */
    rc = ron_tree_root_at(store, size, &root, err);
    rc = rc == RON_OK ? ron_proof_consistency(store, size, r->last_seq, &proof, err) : rc;
    if (rc == RON_NOTFOUND) {
        /* The size is there, its hashes are not: they were lost with a failed write, and come back
         * with the next start. Whoever asks must not hear that there is no such thing. */
        return ron_err_set(err, RON_AGAIN, "the stored hashes end before the journal");
    }
    RON_TRY(led__read_checked(r, rc, err));
    if (!ron_proof_joins(proof.hashes, proof.count, size, r->last_seq, &root, &r->root)) {
        return led__read_damage(r, err, "stored hashes do not lead from size %llu to the head",
                                (unsigned long long)size);
    }
    *ret_root = root;
    return RON_OK;
}

/* The proof for the hash of an entry, followed to a root that is known to be good. */
static enum ron_rc prove(struct led_reader *r, const struct ron_tree_hash *leaf, uint64_t seq,
                         uint64_t size, const struct ron_tree_hash *root,
                         struct ron_proof *ret_proof, struct ron_err *err)
{
    RON_TRY(led__read_checked(r, ron_proof_inclusion(r->opts.hashes, seq - 1, size, ret_proof, err),
                              err));
    if (!ron_proof_includes(ret_proof->hashes, ret_proof->count, seq - 1, size, leaf, root)) {
        return led__read_damage(r, err, "stored hashes do not lead from entry %llu to the root",
                                (unsigned long long)seq);
    }
    return RON_OK;
}

static void write_proof(struct ron_json_writer *w, const struct ron_proof *proof)
{
    ron_json_open(w, "proof", '[');
    for (size_t i = 0; i < proof->count; i++) {
        led__read_json_hash(w, NULL, &proof->hashes[i]);
    }
    ron_json_close(w, ']');
}

/* The hash of the entry is a stored one too: the proof ends in the root with no other, so the frame
 * of the entry, of up to a thousand others, need not be found and read. */
enum ron_rc led_read_inclusion(struct led_reader *r, uint64_t seq, uint64_t size,
                               struct ron_buf *out, struct ron_err *err)
{
    const struct ron_tree_store *store = r->opts.hashes;
    size_t mark = ron_buf_len(out);
    struct ron_json_writer w;
    struct ron_proof proof;
    struct ron_tree_hash root;
    struct ron_tree_hash leaf;
    uint64_t place;

    err = led__read_err(r, err);
    size = size == 0 ? r->last_seq : size;
    RON_TRY(check_size(r, size, err));
    if (seq == 0 || seq > size) {
        return ron_err_set(err, RON_INVALID, "seq is 1 to size");
    }
    place = ron_tree_place(0, seq - 1);
    RON_TRY(led__read_checked(r, store->read(store->ctx, &place, 1, &leaf, err), err));
    RON_TRY(led_read_root(r, size, &root, err));
    RON_TRY(prove(r, &leaf, seq, size, &root, &proof, err));
    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "seq", seq);
    ron_json_u64(&w, "index", seq - 1);
    ron_json_u64(&w, "size", size);
    led__read_json_hash(&w, "leaf_hash", &leaf);
    led__read_json_hash(&w, "root", &root);
    write_proof(&w, &proof);
    ron_json_close(&w, '}');
    return led__read_finish(r, out, mark, RON_OK, err);
}

enum ron_rc led_read_consistency(struct led_reader *r, uint64_t from, uint64_t to,
                                 struct ron_buf *out, struct ron_err *err)
{
    size_t mark = ron_buf_len(out);
    struct ron_json_writer w;
    struct ron_proof proof;
    struct ron_tree_hash from_root;
    struct ron_tree_hash to_root;

    err = led__read_err(r, err);
    to = to == 0 ? r->last_seq : to;
    RON_TRY(check_size(r, to, err));
    if (from > to) {
        return ron_err_set(err, RON_INVALID, "from is at most to");
    }
    RON_TRY(led_read_root(r, from, &from_root, err));
    RON_TRY(led_read_root(r, to, &to_root, err));
    RON_TRY(
        led__read_checked(r, ron_proof_consistency(r->opts.hashes, from, to, &proof, err), err));
    if (!ron_proof_joins(proof.hashes, proof.count, from, to, &from_root, &to_root)) {
        return led__read_damage(r, err, "stored hashes do not join sizes %llu and %llu",
                                (unsigned long long)from, (unsigned long long)to);
    }
    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "from", from);
    ron_json_u64(&w, "to", to);
    led__read_json_hash(&w, "from_root", &from_root);
    led__read_json_hash(&w, "to_root", &to_root);
    write_proof(&w, &proof);
    ron_json_close(&w, '}');
    return led__read_finish(r, out, mark, RON_OK, err);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Whether a node of the tree is under the head's root. Seen from a level, the tree is one over the
 * nodes of that level (the last of which may stand for fewer leaves), and the proof of any leaf
 * under a node goes through it: what is above the node is its own proof. */
static enum ron_rc check_node(struct led_reader *r, unsigned level, uint64_t index,
                              const struct ron_tree_hash *hash, struct ron_err *err)
{
    uint64_t nodes = (r->last_seq + (UINT64_C(1) << level) - 1) >> level;
    struct ron_proof proof;

    RON_TRY(led__read_checked(
        r, ron_proof_inclusion(r->opts.hashes, index << level, r->last_seq, &proof, err), err));
    if (proof.count < level || !ron_proof_includes(proof.hashes + level, proof.count - level, index,
                                                   nodes, hash, &r->root)) {
        return led__read_damage(r, err, "stored hash %llu of level %u is damaged",
                                (unsigned long long)index, level);
    }
    return RON_OK;
}

/* The hashes of a tile as perfect subtrees, the largest first; the node above each is checked. */
static enum ron_rc check_tile(struct led_reader *r, const struct led_tile *tile,
                              const struct ron_tree_hash *hashes, struct ron_err *err)
{
    struct ron_tree_hash work[LED_TILE_WIDTH];
    size_t done = 0;

    for (unsigned bit = LED_TILE_HEIGHT + 1; bit-- > 0;) {
        size_t count = (size_t)1 << bit;
        uint64_t first = tile->index * LED_TILE_WIDTH + done;

        if ((tile->width & count) == 0) {
            continue;
        }
        memcpy(work, hashes + done, count * sizeof *work);
        for (size_t left = count / 2; left > 0; left /= 2) {
            ron_tree_hash_nodes(work, left, work);
        }
        RON_TRY(
            check_node(r, LED_TILE_HEIGHT * (unsigned)tile->level + bit, first >> bit, work, err));
        done += count;
    }
    return RON_OK;
}

static enum ron_rc read_bundle(struct led_reader *r, const struct led_tile *tile,
                               struct ron_buf *out, struct ron_err *err)
{
    struct led_found found;
    uint64_t first;
    size_t count;

    RON_TRY(led_tile_range(tile, r->last_seq, &first, &count, err));
    for (size_t i = 0; i < count; i++) {
        RON_TRY(led_read_at(r, first + i + 1, &found, err));
        RON_TRY(led_bundle_add(out, found.stored.leaf.ptr, found.stored.leaf.len, err));
    }
    return RON_OK;
}

enum ron_rc led_read_tile(struct led_reader *r, struct ron_str path, struct ron_buf *out,
                          struct ron_err *err)
{
    struct ron_tree_hash hashes[LED_TILE_WIDTH];
    size_t mark = ron_buf_len(out);
    struct led_tile tile;
    enum ron_rc rc;

    err = led__read_err(r, err);
    if (led_tile_parse(path, &tile, err) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "no path of a tile");
    }
    if (tile.entries) {
        return led__read_finish(r, out, mark, read_bundle(r, &tile, out, err), err);
    }
    rc = led_tile_read(&tile, r->opts.hashes, r->last_seq, hashes, err);
    RON_TRY(led__read_checked(r, rc, err));
    RON_TRY(check_tile(r, &tile, hashes, err));
    RON_IGNORE(ron_buf_append(out, hashes, tile.width * sizeof *hashes)); /* sticks */
    return led__read_finish(r, out, mark, RON_OK, err);
}

/* ---- receipts -------------------------------------------------------------------------------- */

enum ron_rc led_read_receipt(struct led_reader *r, uint64_t seq, struct ron_str checkpoint,
                             struct ron_buf *out, struct ron_err *err)
{
    size_t mark = ron_buf_len(out);
    struct led_checkpoint signed_head;
    struct led_note note;
    struct led_found found;
    struct ron_proof proof;
    struct ron_tree_hash root;
    struct ron_tree_hash leaf;
    enum ron_rc rc;

    err = led__read_err(r, err);
    RON_TRY(led_read_at(r, seq, &found, err));
    if (led_note_read(checkpoint, &note, err) != RON_OK ||
        led_checkpoint_read(note.text, &signed_head, err) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "not a signed checkpoint");
    }
    if (seq > signed_head.size) {
        return ron_err_set(err, RON_AGAIN, "the checkpoint covers %llu entries",
                           (unsigned long long)signed_head.size);
    }
    RON_TRY(led_read_root(r, signed_head.size, &root, err));
    if (!ron_tree_hash_equal(&root, &signed_head.root)) {
        return led__read_damage(r, err, "the checkpoint of size %llu is of another journal",
                                (unsigned long long)signed_head.size);
    }
    ron_tree_hash_leaf(found.stored.leaf.ptr, found.stored.leaf.len, &leaf);
    RON_TRY(prove(r, &leaf, seq, signed_head.size, &root, &proof, err));
    rc = led_receipt_write(found.stored.leaf, seq - 1, &proof, checkpoint, out, err);
    return led__read_finish(r, out, mark, rc, err);
}
