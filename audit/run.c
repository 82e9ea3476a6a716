/* SPDX-License-Identifier: Apache-2.0 */
/* audit/run.c - the readings of an audit; the contract is in run.h. */
#include "audit/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    /* Entries that are read and hashed before the first of them is applied, so that memory has the
     * time to bring what it will look at. */
    WINDOW = 32,
};

struct run {
    const struct aud_options *opts;
    struct aud_result *r;
    struct aud_log log;
    struct aud_tree tree;
    bool lost; /* no root can be compared any more */
    bool cut;  /* it ended before the journal did, as asked */
    bool begun;
    uint64_t last_seq;
    struct aud_hash told_root; /* of the last frame, as it tells */
    struct aud_item items[WINDOW];
    size_t item_count;
    struct aud_seen *seen; /* of the second reading */
    uint64_t now_ms;       /* the same */
    uint64_t done_bytes;
    const char *reading;
};

/* ---- small things ---------------------------------------------------------------------------- */

static void fault(struct run *k, enum aud_rule rule, const struct aud_place *place,
                  const char *expected, const char *found)
{
    struct aud_finding *f = aud_find(&k->r->findings, rule, place);

    aud_say(f->expected, "%s", expected);
    aud_say(f->found, "%s", found);
}

static void fault_number(struct run *k, enum aud_rule rule, const struct aud_place *place,
                         uint64_t expected, uint64_t found)
{
    struct aud_finding *f = aud_find(&k->r->findings, rule, place);

    aud_say(f->expected, "%" PRIu64, expected);
    aud_say(f->found, "%" PRIu64, found);
}

static void fault_hash(struct run *k, enum aud_rule rule, const struct aud_place *place,
                       const struct aud_hash *expected, const struct aud_hash *found)
{
    struct aud_finding *f = aud_find(&k->r->findings, rule, place);

    aud_hex(expected->bytes, AUD_HASH_BYTES, f->expected);
    aud_hex(found->bytes, AUD_HASH_BYTES, f->found);
}

static void tell_progress(struct run *k, uint64_t bytes)
{
    k->done_bytes += bytes;
    if (k->opts->progress != NULL) {
        k->opts->progress(k->opts->progress_arg, k->reading, k->done_bytes, k->log.bytes);
    }
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void check_cosignatures(struct run *k, const struct aud_note *note,
                               const struct aud_place *place)
{
    const struct aud_options *o = k->opts;

    for (size_t i = 0; i < o->witness_count; i++) {
        enum aud_verdict verdict = aud_note_verify(note, &o->witnesses[i], NULL);

        if (verdict != AUD_SIGNED) {
            struct aud_finding *f = aud_find(&k->r->findings, AUD_RULE_SIGNATURE, place);

            aud_say(f->expected, "a cosignature of %s", o->witnesses[i].name);
            aud_say(f->found, verdict == AUD_FORGED ? "one that does not verify" : "none");
        }
    }
}

static void check_signature(struct run *k, const struct aud_note *note,
                            const struct aud_place *place, struct aud_shown_checkpoint *shown)
{
    const struct aud_options *o = k->opts;
    enum aud_verdict verdict;

    if (o->key != NULL) {
        verdict = aud_note_verify(note, o->key, NULL);
        shown->signed_ = verdict == AUD_SIGNED;
        if (!shown->signed_) {
            fault(k, AUD_RULE_SIGNATURE, place, "a signature of the key that was given",
                  verdict == AUD_FORGED ? "one that does not verify" : "none");
        }
    }
}

static void take_checkpoint(struct run *k, const char *path, bool cosigned, struct ron_str bytes)
{
    struct aud_result *r = k->r;
    struct aud_shown_checkpoint *shown = &r->checkpoints[r->checkpoint_count];
    struct aud_place place = {.file = path};
    struct aud_checkpoint c;
    struct aud_note note;
    const char *wrong = aud_note_read(bytes, &note);

    wrong = wrong != NULL ? wrong : aud_checkpoint_read(note.text, &c);
    if (wrong != NULL) {
        fault(k, AUD_RULE_CHECKPOINT, &place, "a signed checkpoint", wrong);
        return;
    }
    *shown = (struct aud_shown_checkpoint){.size = c.size, .root = c.root};
    (void)snprintf(shown->path, sizeof shown->path, "%s", path);
    if (k->opts->key != NULL &&
        !aud_str_equal(c.origin, (struct ron_str){k->opts->key->name, k->opts->key->name_len})) {
        fault(k, AUD_RULE_CHECKPOINT, &place, "the key's name as origin", "another origin");
    }
    check_signature(k, &note, &place, shown);
    if (cosigned) {
        check_cosignatures(k, &note, &place);
    }
    r->checkpoint_count++;
}

/* `cosigned`: the witnesses must have signed it. RON_NOTFOUND says nothing in `err`. */
static enum ron_rc load_checkpoint(struct run *k, const char *path, bool cosigned,
                                   struct ron_err *err)
{
    struct ron_err said = {0};
    struct ron_buf buf;
    enum ron_rc rc;

    ron_buf_init(&buf, AUD_NOTE_MAX);
    rc = ron_file_read_all(k->opts->env, path, &buf, &said);
    if (rc == RON_OK) {
        take_checkpoint(k, path, cosigned,
                        (struct ron_str){(const char *)ron_buf_data(&buf), ron_buf_len(&buf)});
    } else if (rc != RON_NOTFOUND) {
        rc = ron_err_set(err, rc, "%s cannot be read: %s", path, said.msg);
    }
    ron_buf_done(&buf);
    return rc;
}

/* The ledger publishes faster than witnesses sign, and keeps what they signed beside its newest
 * checkpoint. Without that file the newest is what they must have signed. */
static enum ron_rc load_checkpoints(struct run *k, struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc cosigned;
    enum ron_rc rc;

    (void)snprintf(path, sizeof path, "%s/checkpoint.cosigned", k->opts->dir);
    cosigned = load_checkpoint(k, path, true, err);
    if (cosigned != RON_NOTFOUND) {
        RON_TRY(cosigned);
    }
    (void)snprintf(path, sizeof path, "%s/checkpoint", k->opts->dir);
    rc = load_checkpoint(k, path, cosigned == RON_NOTFOUND, err);
    if (rc != RON_NOTFOUND) {
        RON_TRY(rc);
    }
    for (size_t i = 0; i < k->opts->checkpoint_count; i++) {
        rc = load_checkpoint(k, k->opts->checkpoints[i], true, err);
        if (rc == RON_NOTFOUND) {
            return ron_err_set(err, rc, "%s cannot be read: there is no such file",
                               k->opts->checkpoints[i]);
        }
        RON_TRY(rc);
    }
    return RON_OK;
}

/* The tree has just grown: is it the one that a checkpoint is about? */
static void meet_checkpoints(struct run *k, const struct aud_place *place)
{
    struct aud_result *r = k->r;

    for (size_t i = 0; i < r->checkpoint_count; i++) {
        struct aud_shown_checkpoint *c = &r->checkpoints[i];
        struct aud_hash root;

        if (c->size == k->tree.size && !k->lost) {
            aud_tree_root(&k->tree, &root);
            c->met = aud_hash_equal(&root, &c->root);
            if (!c->met) {
                fault_hash(k, AUD_RULE_CHECKPOINT, place, &c->root, &root);
            }
        }
    }
}

static void miss_checkpoints(struct run *k, const struct aud_place *place)
{
    for (size_t i = 0; i < k->r->checkpoint_count; i++) {
        const struct aud_shown_checkpoint *c = &k->r->checkpoints[i];

        if (c->size > k->last_seq && !k->cut) {
            struct aud_finding *f = aud_find(&k->r->findings, AUD_RULE_CHECKPOINT, place);

            aud_say(f->expected, "%" PRIu64 " entries, as a signed checkpoint tells", c->size);
            aud_say(f->found, "%" PRIu64, k->last_seq);
        }
    }
}

/* ---- the first reading ----------------------------------------------------------------------- */

static enum ron_rc flush(struct run *k)
{
    size_t count = k->item_count;

    k->item_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (k->items[i].e.kind != 0) {
            aud_book_prefetch(&k->r->book, &k->items[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        RON_TRY(aud_book_apply(&k->r->book, &k->items[i]));
    }
    return RON_OK;
}

static enum ron_rc take_entry(struct run *k, const struct aud_iter *it,
                              const struct aud_place *place)
{
    struct aud_item *item = &k->items[k->item_count++];
    struct aud_hash leaf;
    const char *wrong;

    item->links = it->links;
    item->place = (struct aud_place){place->file, place->offset, it->seq};
    item->now_ms = it->record.now_ms;
    item->flags = it->record.flags;
    item->ends_record = it->entries_left == 0;
    aud_hash_leaf(it->leaf.ptr, it->leaf.len, &leaf);
    aud_tree_add(&k->tree, &leaf);
    if (RON_UNLIKELY(k->r->checkpoint_count > 0)) {
        meet_checkpoints(k, &item->place);
    }
    k->last_seq = it->seq;
    k->r->entries++;
    wrong = aud_entry_read((const uint8_t *)it->leaf.ptr, it->leaf.len, &item->e);
    if (RON_UNLIKELY(wrong != NULL)) {
        item->e.kind = 0;
        fault(k, AUD_RULE_ENTRY, &item->place, "the canonical bytes of an entry", wrong);
    } else {
        aud_book_prepare(&k->r->book, item);
    }
    return k->item_count == WINDOW ? flush(k) : RON_OK;
}

static enum ron_rc take_record(struct run *k, const struct aud_iter *it)
{
    k->r->records++;
    k->r->cancels += it->record.kind == AUD_RECORD_CANCEL;
    return it->record.idem_id.len > 0 ? aud_unique_idem(&k->r->book.unique, it->record.idem_id)
                                      : RON_OK;
}

/* Whether the record holds an entry behind the last that is wanted. A batch is looked at whole or
 * not at all, because only whole ones leave sums that hold. */
static bool is_beyond(const struct run *k, const struct aud_iter *it)
{
    return k->opts->to_seq != 0 && it->seq + it->record.count > k->opts->to_seq;
}

/* RON_CANCELLED behind the last batch that is wanted. */
static enum ron_rc take_content(struct run *k, const struct aud_frame *frame,
                                const struct aud_place *place)
{
    struct aud_iter it;
    enum ron_rc rc = RON_OK;

    aud_iter_begin(&it, frame);
    while (rc == RON_OK) {
        switch (aud_iter_next(&it)) {
        case AUD_STEP_RECORD:
            if (is_beyond(k, &it)) {
                k->cut = true;
                RON_TRY(flush(k));
                return RON_CANCELLED;
            }
            rc = take_record(k, &it);
            break;
        case AUD_STEP_ENTRY:
            rc = take_entry(k, &it, place);
            break;
        case AUD_STEP_END:
            return flush(k);
        case AUD_STEP_BAD:
            fault(k, AUD_RULE_RECORD, &(struct aud_place){place->file, place->offset, it.seq},
                  "records of entries", it.fault);
            k->lost = true;
            return flush(k);
        }
    }
    return rc;
}

/* Whether the frame goes on where the journal stands. */
static void check_chain(struct run *k, const struct aud_frame *f, const struct aud_place *place)
{
    struct aud_result *r = k->r;

    if (memcmp(f->uuid, r->uuid, AUD_UUID_SIZE) != 0) {
        fault(k, AUD_RULE_UUID, place, "the uuid of the first segment", "another one");
    }
    if (r->frames > 0 && f->epoch < r->last_epoch) {
        fault_number(k, AUD_RULE_EPOCH, place, r->last_epoch, f->epoch);
    }
    if (f->seq_first != k->last_seq + 1) {
        fault_number(k, AUD_RULE_SEQ, place, k->last_seq + 1, f->seq_first);
        k->last_seq = f->seq_first - 1;
        k->lost = true;
    }
    if (!aud_hash_equal(&f->prev_root, &k->told_root)) {
        fault_hash(k, AUD_RULE_PREV_ROOT, place, &k->told_root, &f->prev_root);
    }
}

static enum ron_rc on_frame(void *arg, const struct aud_frame *f, const struct aud_place *place)
{
    struct run *k = arg;
    struct aud_result *r = k->r;
    struct aud_hash root;

    check_chain(k, f, place);
    if (r->frames == 0) {
        r->first_ms = f->time_ms;
        r->first_epoch = f->epoch;
    }
    r->frames++;
    r->last_ms = f->time_ms;
    r->last_epoch = f->epoch;
    k->told_root = f->new_root;
    RON_TRY(take_content(k, f, place));
    k->last_seq = f->seq_first - 1 + f->entries;
    if (!k->lost) {
        aud_tree_root(&k->tree, &root);
        if (!aud_hash_equal(&root, &f->new_root)) {
            fault_hash(k, AUD_RULE_ROOT, place, &root, &f->new_root);
            k->lost = true;
        }
    }
    tell_progress(k, f->size);
    return RON_OK;
}

static enum ron_rc on_segment(void *arg, const struct aud_segment_head *h,
                              const struct aud_place *place)
{
    struct run *k = arg;

    if (!k->begun) {
        k->begun = true;
        memcpy(k->r->uuid, h->uuid, AUD_UUID_SIZE);
    } else if (memcmp(h->uuid, k->r->uuid, AUD_UUID_SIZE) != 0) {
        fault(k, AUD_RULE_UUID, place, "the uuid of the first segment", "another one");
    }
    if (h->seq_first != k->last_seq + 1) {
        fault_number(k, AUD_RULE_SEQ, place, k->last_seq + 1, h->seq_first);
    }
    if (!aud_hash_equal(&h->prev_root, &k->told_root)) {
        fault_hash(k, AUD_RULE_PREV_ROOT, place, &k->told_root, &h->prev_root);
    }
    tell_progress(k, AUD_SEGMENT_HEAD);
    return RON_OK;
}

/* ---- the other readings ---------------------------------------------------------------------- */

/* Announces what every Reverse names. */
static enum ron_rc gather_frame(void *arg, const struct aud_frame *f, const struct aud_place *place)
{
    struct run *k = arg;
    struct aud_iter it;
    enum aud_step step;
    struct aud_entry e;

    (void)place;
    aud_iter_begin(&it, f);
    while ((step = aud_iter_next(&it)) <= AUD_STEP_ENTRY) {
        if (step == AUD_STEP_ENTRY && it.leaf.ptr[2] == AUD_REVERSE &&
            aud_entry_read((const uint8_t *)it.leaf.ptr, it.leaf.len, &e) == NULL) {
            RON_TRY(aud_book_want(&k->r->book, e.ref));
        }
    }
    tell_progress(k, f->size);
    return RON_OK;
}

/* Compares what seems to stand twice. */
static enum ron_rc compare_frame(void *arg, const struct aud_frame *f,
                                 const struct aud_place *place)
{
    struct run *k = arg;
    struct aud_iter it;
    enum aud_step step;
    struct aud_entry e;

    aud_iter_begin(&it, f);
    while ((step = aud_iter_next(&it)) <= AUD_STEP_ENTRY) {
        struct aud_place at = {place->file, place->offset, it.seq};

        if (step == AUD_STEP_RECORD && is_beyond(k, &it)) {
            return RON_CANCELLED;
        }
        k->now_ms = RON_MAX(k->now_ms, it.record.now_ms);
        if (step == AUD_STEP_RECORD && it.record.idem_id.len > 0) {
            at.seq = it.seq + 1;
            RON_TRY(aud_seen_idem(k->seen, it.record.idem_id, &at));
        } else if (step == AUD_STEP_ENTRY &&
                   aud_entry_read((const uint8_t *)it.leaf.ptr, it.leaf.len, &e) == NULL) {
            RON_TRY(aud_seen_entry(k->seen, &e, k->now_ms, &at));
        }
    }
    tell_progress(k, f->size);
    return RON_OK;
}

/* One reading. The last segment is longer than what it holds, so its end is told here. */
static enum ron_rc walk_log(struct run *k, struct aud_walk *walk, struct ron_err *err)
{
    RON_TRY(aud_log_walk(&k->log, walk, err));
    if (k->done_bytes < k->log.bytes) {
        tell_progress(k, k->log.bytes - k->done_bytes);
    }
    return RON_OK;
}

static enum ron_rc read_quietly(struct run *k, const char *reading,
                                enum ron_rc (*each)(void *, const struct aud_frame *,
                                                    const struct aud_place *),
                                struct ron_err *err)
{
    struct aud_walk walk = {.on_frame = each, .arg = k};

    k->reading = reading;
    k->done_bytes = 0;
    k->r->readings++;
    return walk_log(k, &walk, err);
}

static enum ron_rc compare_suspects(struct run *k, struct ron_err *err)
{
    struct aud_seen seen;
    enum ron_rc rc;

    if (k->r->book.unique.suspect_count == 0) {
        return RON_OK;
    }
    aud_seen_init(&seen, &k->r->book.unique, &k->r->findings);
    k->seen = &seen;
    rc = read_quietly(k, "comparing", compare_frame, err);
    k->seen = NULL;
    aud_seen_done(&seen);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void begin(struct run *k)
{
    struct aud_result *r = k->r;

    k->tree.size = 0;
    k->tree.depth = 0;
    aud_tree_root(&k->tree, &k->told_root);
    k->lost = k->begun = k->cut = false;
    k->last_seq = 0;
    k->item_count = 0;
    k->done_bytes = 0;
    k->reading = "auditing";
    r->frames = r->records = r->cancels = r->entries = 0;
    r->findings.kept = 0;
    r->findings.total = 0;
    r->checkpoint_count = 0;
    r->readings++;
}

static enum ron_rc read_all(struct run *k, struct aud_walk *walk, struct ron_err *err)
{
    static const struct aud_place start;

    begin(k);
    RON_TRY(load_checkpoints(k, err));
    meet_checkpoints(k, &start);
    *walk = (struct aud_walk){
        .findings = &k->r->findings, .on_segment = on_segment, .on_frame = on_frame, .arg = k};
    return walk_log(k, walk, err);
}

static enum ron_rc new_book(struct run *k, struct ron_err *err)
{
    const struct ron_env *env = k->opts->env;
    struct aud_seed seed = {{env->rand_u64(env), env->rand_u64(env) | 1}};

    if (aud_book_init(&k->r->book, &seed, k->opts->horizon_ms, &k->r->findings) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory for the book");
    }
    return RON_OK;
}

static enum ron_rc run_all(struct run *k, struct ron_err *err)
{
    struct aud_walk walk;
    enum ron_rc rc;

    RON_TRY(new_book(k, err));
    rc = read_all(k, &walk, err);
    if (rc == RON_AGAIN) {
        aud_book_done(&k->r->book);
        RON_TRY(new_book(k, err));
        RON_TRY(read_quietly(k, "gathering", gather_frame, err));
        aud_book_refs_known(&k->r->book);
        rc = read_all(k, &walk, err);
    }
    RON_TRY(rc);
    k->r->bytes = walk.read_bytes;
    k->r->torn_bytes = walk.torn_bytes;
    k->r->damaged = walk.damaged;
    k->r->last_seq = k->last_seq;
    k->r->open_holds = k->r->book.holds.live;
    k->r->memory_bytes = aud_book_bytes(&k->r->book);
    k->r->root_known = !k->lost;
    aud_tree_root(&k->tree, &k->r->root);
    miss_checkpoints(k, &walk.end);
    aud_book_finish(&k->r->book, &walk.end);
    RON_TRY(compare_suspects(k, err));
    aud_findings_sort(&k->r->findings);
    return RON_OK;
}

enum ron_rc aud_run(const struct aud_options *opts, struct aud_result *result, struct ron_err *err)
{
    struct run *k RON_AUTO_FREE = ron_alloc_zero(sizeof *k);
    uint64_t start_ns = ron_env_now_ns(opts->env);
    char dir[RON_FILE_PATH_SIZE];
    enum ron_rc rc;

    if (k == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to begin");
    }
    if (snprintf(dir, sizeof dir, "%s/log", opts->dir) >= (int)sizeof dir) {
        return ron_err_set(err, RON_LIMIT, "path too long");
    }
    k->opts = opts;
    k->r = result;
    result->findings.from_seq = opts->from_seq;
    RON_TRY(aud_log_open(opts->env, dir, &k->log, err));
    result->segments = k->log.segment_count;
    rc = run_all(k, err);
    aud_log_done(&k->log);
    result->took_ns = ron_env_now_ns(opts->env) - start_ns;
    if (rc != RON_OK && err != NULL && err->rc == RON_OK) {
        (void)ron_err_set(err, rc, "%s", ron_rc_doc(rc));
    }
    return rc;
}

void aud_result_done(struct aud_result *result)
{
    aud_book_done(&result->book);
}
