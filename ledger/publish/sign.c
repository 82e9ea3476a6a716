/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/sign.c - the signer: what is cached, what is published and kept, and what
 * witnesses add.
 *
 * Kept checkpoints are numbered from 0 in the order in which they were published; number n lies in
 * kept[n % LED_SIGN_KEPT]. A cosignature is verified on a copy without the lock; then the kept note
 * is replaced, unless another cosignature came in between: the copy is then made anew. Each such
 * turn spends one witness, so there are few. */
#include "ledger/publish/sign.h"

#include <stdio.h>
#include <string.h>

#include "ledger/publish/sign_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"
#include "ron/sync/sync.h"

enum {
    SIGNER_MAGIC = 0x6c736967,
    /* Name twice (255 each), size, root, and 68 bytes in base64. */
    OWN_NOTE_SIZE = 1024,
    CHECKPOINT_MODE = 0600, /* like all files of the data directory; it is served over HTTP */
};

#define COSIGNED_SUFFIX ".cosigned"
#define EM_DASH "\xe2\x80\x94 "

struct led_signer {
    uint32_t magic;
    const struct ron_env *env;
    char *path; /* of the checkpoint; NULL: memory only */
    char *cosigned_path;
    struct ron_note_signer key;
    struct ron_note_key witnesses[LED_SIGN_WITNESSES_MAX];
    size_t witness_count;
    bool loaded; /* fixed at the start, like the two below */
    uint64_t loaded_size;
    struct ron_tree_hash loaded_root;
    struct ron_au64 interval_ms;
    /* Of the thread that saves. */
    bool tried;
    uint64_t tried_ms;

    struct ron_mutex mu; /* guards what follows */
    bool has_head;
    uint64_t head_size;
    struct ron_tree_hash head_root;
    uint64_t last_size; /* the last one signed for a caller; last_len 0: none */
    struct ron_tree_hash last_root;
    size_t last_len;
    char last[OWN_NOTE_SIZE];
    uint64_t published; /* number of the next one */
    bool unsaved;       /* the newest has cosignatures that its file lacks */
    struct led_sign_note kept[LED_SIGN_KEPT];
    struct led_sign_note cosigned; /* G6; len 0: none yet */
    bool cosigned_unsaved;

    struct ron_stat signatures;
    struct ron_stat published_total; /* by this object */
    struct ron_stat cosignatures;
    struct ron_stat refused;
    struct ron_stat save_failures;
};

static struct ron_str text_of(const struct ron_buf *buf)
{
    return (struct ron_str){.ptr = (const char *)ron_buf_data(buf), .len = ron_buf_len(buf)};
}

static struct ron_str origin_of(const struct led_signer *s)
{
    return (struct ron_str){.ptr = s->key.key.name, .len = s->key.key.name_len};
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc read_witnesses(struct led_signer *s, const struct led_signer_opts *o,
                                  struct ron_err *err)
{
    if (o->witness_count > LED_SIGN_WITNESSES_MAX) {
        return ron_err_set(err, RON_LIMIT, "there are at most %d witnesses",
                           LED_SIGN_WITNESSES_MAX);
    }
    for (size_t i = 0; i < o->witness_count; i++) {
        struct ron_note_key *key = &s->witnesses[i];
        struct ron_err why = {0};

        if (ron_note_key_read(o->witnesses[i], key, &why) != RON_OK) {
            return ron_err_set(err, RON_INVALID, "witness %zu: %s", i + 1, why.msg);
        }
        if (key->type != RON_NOTE_COSIGNATURE) {
            return ron_err_set(err, RON_INVALID, "witness %zu: cosignatures have keys of type 4",
                               i + 1);
        }
        for (size_t j = 0; j < i; j++) {
            if (key->id == s->witnesses[j].id && strcmp(key->name, s->witnesses[j].name) == 0) {
                return ron_err_set(err, RON_INVALID, "witness %zu stands twice", i + 1);
            }
        }
    }
    s->witness_count = o->witness_count;
    return RON_OK;
}

/* Checks what a file held, and counts its good cosignatures. */
static enum ron_rc check_own(const struct led_signer *s, const char *path,
                             struct led_sign_note *kept, struct ron_err *err)
{
    struct led_checkpoint c = {0};
    struct led_note note = {0};
    struct ron_err why = {0};

    if (led_checkpoint_open(led__sign_note_str(kept),
                            &(struct led_trust){.origin = origin_of(s),
                                                .log_keys = &s->key.key,
                                                .log_key_count = 1,
                                                .witness_keys = s->witnesses,
                                                .witness_key_count = s->witness_count},
                            &c, &why) != RON_OK) {
        return ron_err_set(err, RON_CONFLICT, "%s is not ours: %s", path, why.msg);
    }
    RON_TRY(led_note_read(led__sign_note_str(kept), &note, err));
    for (size_t i = 0; i < s->witness_count; i++) {
        enum led_note_verdict verdict = led_note_verify(&note, &s->witnesses[i], NULL);

        if (verdict == LED_NOTE_BAD) { /* it was good above */
            return ron_err_set(err, RON_NOMEM, "no memory to verify %s", path);
        }
        kept->witnesses += verdict == LED_NOTE_GOOD;
    }
    return RON_OK;
}

static enum ron_rc check_loaded(struct led_signer *s, struct ron_err *err)
{
    struct led_sign_note *kept = &s->kept[0];

    RON_TRY(check_own(s, s->path, kept, err));
    s->published = 1;
    s->loaded = true;
    s->loaded_size = kept->size;
    s->loaded_root = kept->root;
    s->has_head = true;
    s->head_size = kept->size;
    s->head_root = kept->root;
    return RON_OK;
}

/* G6. Only what was published is ever cosigned, so there is a checkpoint then, and a larger one is
 * of another journal. */
static enum ron_rc check_cosigned(struct led_signer *s, struct ron_err *err)
{
    if (s->cosigned.len == 0) {
        return RON_OK;
    }
    RON_TRY(check_own(s, s->cosigned_path, &s->cosigned, err));
    if (s->cosigned.size > s->loaded_size ||
        (s->cosigned.size == s->loaded_size &&
         !ron_tree_hash_equal(&s->cosigned.root, &s->loaded_root))) {
        return ron_err_set(err, RON_CONFLICT, "%s contradicts %s", s->cosigned_path, s->path);
    }
    return RON_OK;
}

/* Both names. */
static enum ron_rc set_paths(struct led_signer *s, const char *path, struct ron_err *err)
{
    size_t size = strlen(path) + sizeof COSIGNED_SUFFIX;

    s->path = ron_strdup(path);
    s->cosigned_path = ron_alloc(size);
    if (s->path == NULL || s->cosigned_path == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the signer");
    }
    (void)snprintf(s->cosigned_path, size, "%s" COSIGNED_SUFFIX, path);
    return RON_OK;
}

static enum ron_rc open_files(struct led_signer *s, const struct led_signer_opts *o,
                              struct ron_err *err)
{
    struct ron_err absent = {0};
    enum ron_rc rc = RON_NOTFOUND;

    if (o->checkpoint_path != NULL) {
        if (o->key_path == NULL) {
            return ron_err_set(err, RON_INVALID, "a checkpoint file needs a key file");
        }
        RON_TRY(set_paths(s, o->checkpoint_path, err));
        rc = led__sign_note_load(s->env, s->cosigned_path, &s->cosigned, &absent);
        if (rc != RON_OK && rc != RON_NOTFOUND) {
            return ron_err_set(err, rc, "%s", absent.msg);
        }
        rc = led__sign_note_load(s->env, s->path, &s->kept[0], &absent);
        if (rc != RON_OK && rc != RON_NOTFOUND) {
            return ron_err_set(err, rc, "%s", absent.msg);
        }
        if (rc == RON_NOTFOUND && s->cosigned.len > 0) {
            return ron_err_set(err, RON_CONFLICT, "%s is missing, and %s was published", s->path,
                               s->cosigned_path);
        }
    }
    RON_TRY(led__sign_key_open(o, rc == RON_OK, &s->key, err));
    if (rc != RON_OK) {
        return RON_OK;
    }
    RON_TRY(check_loaded(s, err));
    return check_cosigned(s, err);
}

enum ron_rc led_signer_new(const struct led_signer_opts *opts, struct led_signer **ret_signer,
                           struct ron_err *err)
{
    struct led_signer *s = ron_alloc_zero(sizeof *s);
    enum ron_rc rc;

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the signer");
    }
    s->magic = SIGNER_MAGIC;
    s->env = opts->env;
    ron_mutex_init(&s->mu, RON_RANK_SHARED, "led_signer");
    led_signer_set_interval(s, opts->interval_ms);
    rc = read_witnesses(s, opts, err);
    if (rc == RON_OK) {
        rc = open_files(s, opts, err);
    }
    if (rc != RON_OK) {
        led_signer_free(s);
        return rc;
    }
    *ret_signer = s;
    return RON_OK;
}

void led_signer_free(struct led_signer *s)
{
    if (s == NULL) {
        return;
    }
    RON_CHECK_MAGIC(s, SIGNER_MAGIC);
    ron_note_signer_done(&s->key); /* G4 */
    ron_mutex_done(&s->mu);
    ron_free(s->path);
    ron_free(s->cosigned_path);
    s->magic = 0;
    ron_free(s);
}

const struct ron_note_key *led_signer_key(const struct led_signer *s)
{
    return &s->key.key;
}

bool led_signer_loaded(const struct led_signer *s, uint64_t *ret_size,
                       struct ron_tree_hash *ret_root)
{
    if (s->loaded) {
        *ret_size = s->loaded_size;
        *ret_root = s->loaded_root;
    }
    return s->loaded;
}

void led_signer_set_interval(struct led_signer *s, uint64_t interval_ms)
{
    ron_au64_store(&s->interval_ms, interval_ms == 0 ? LED_SIGN_INTERVAL_DEFAULT_MS : interval_ms);
}

void led_signer_get_stats(const struct led_signer *s, struct led_signer_stats *ret_stats)
{
    ret_stats->signatures = ron_stat_get(&s->signatures);
    ret_stats->published = ron_stat_get(&s->published_total);
    ret_stats->cosignatures = ron_stat_get(&s->cosignatures);
    ret_stats->refused = ron_stat_get(&s->refused);
    ret_stats->save_failures = ron_stat_get(&s->save_failures);
}

/* ---- signing --------------------------------------------------------------------------------- */

void led_signer_set_head(struct led_signer *s, uint64_t size, const struct ron_tree_hash *root)
{
    ron_mutex_lock(&s->mu);
    if (!s->has_head || size > s->head_size) {
        s->has_head = true;
        s->head_size = size;
        s->head_root = *root;
    }
    ron_mutex_unlock(&s->mu);
}

/* The number of the kept checkpoint of that size, or `published`. With the lock held. */
static uint64_t find_kept(const struct led_signer *s, uint64_t size)
{
    for (uint64_t n = s->published; n-- > 0 && s->published - n <= LED_SIGN_KEPT;) {
        if (s->kept[n % LED_SIGN_KEPT].size == size) {
            return n;
        }
    }
    return s->published;
}

/* G1: whether a root was already given for this size, or the size is one that we are past. */
static bool contradicts(const struct led_signer *s, uint64_t size, const struct ron_tree_hash *root,
                        const struct led_sign_note *kept)
{
    if (s->loaded && (size < s->loaded_size ||
                      (size == s->loaded_size && !ron_tree_hash_equal(root, &s->loaded_root)))) {
        return true;
    }
    return (kept != NULL && !ron_tree_hash_equal(root, &kept->root)) ||
           (s->last_len > 0 && s->last_size == size && !ron_tree_hash_equal(root, &s->last_root)) ||
           (s->has_head && s->head_size == size && !ron_tree_hash_equal(root, &s->head_root));
}

static enum ron_rc conflict(uint64_t size, struct ron_err *err)
{
    return ron_err_set(err, RON_CONFLICT, "a checkpoint of size %llu contradicts a published one",
                       (unsigned long long)size);
}

/* Signs into `out`, which lies over OWN_NOTE_SIZE bytes. Without the lock. */
static enum ron_rc sign(struct led_signer *s, uint64_t size, const struct ron_tree_hash *root,
                        struct ron_buf *out, struct ron_err *err)
{
    RON_TRY(led_checkpoint_sign(
        &(struct led_checkpoint){.origin = origin_of(s), .size = size, .root = *root}, &s->key, out,
        err));
    ron_stat_add(&s->signatures, 1);
    return RON_OK;
}

enum ron_rc led_signer_checkpoint(struct led_signer *s, uint64_t size,
                                  const struct ron_tree_hash *root, struct ron_buf *out,
                                  struct ron_err *err)
{
    char memory[LED_SIGN_NOTE_SIZE]; /* what is kept may carry cosignatures */
    struct ron_buf note;
    uint64_t n;
    bool bad;

    RON_CHECK_MAGIC(s, SIGNER_MAGIC);
    ron_buf_init_over(&note, memory, sizeof memory);
    ron_mutex_lock(&s->mu);
    n = find_kept(s, size);
    bad = contradicts(s, size, root, n < s->published ? &s->kept[n % LED_SIGN_KEPT] : NULL);
    if (!bad && n < s->published) {
        const struct led_sign_note *kept = &s->kept[n % LED_SIGN_KEPT];

        RON_IGNORE(ron_buf_append(&note, kept->bytes, kept->len)); /* fits */
    } else if (!bad && s->last_len > 0 && s->last_size == size) {
        RON_IGNORE(ron_buf_append(&note, s->last, s->last_len)); /* fits */
    }
    ron_mutex_unlock(&s->mu);
    if (bad) {
        return conflict(size, err);
    }
    if (ron_buf_len(&note) == 0) {
        RON_TRY(sign(s, size, root, &note, err));
        RON_ASSERT(ron_buf_len(&note) <= sizeof s->last); /* OWN_NOTE_SIZE */
        ron_mutex_lock(&s->mu);
        if (s->last_len == 0 || size > s->last_size) {
            s->last_size = size;
            s->last_root = *root;
            s->last_len = ron_buf_len(&note);
            memcpy(s->last, ron_buf_data(&note), s->last_len);
        }
        ron_mutex_unlock(&s->mu);
    }
    if (ron_buf_append(out, ron_buf_data(&note), ron_buf_len(&note)) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no room for a checkpoint");
    }
    return RON_OK;
}

static bool covers(const struct led_sign_note *n, size_t witnesses, uint64_t from, uint64_t to)
{
    return n->len > 0 && n->witnesses >= witnesses && n->size >= from && n->size <= to;
}

enum ron_rc led_signer_covering(struct led_signer *s, size_t witnesses, uint64_t from, uint64_t to,
                                struct ron_buf *out, struct ron_err *err)
{
    const struct led_sign_note *found = NULL;
    char bytes[LED_SIGN_NOTE_SIZE];
    size_t len = 0;

    ron_mutex_lock(&s->mu);
    for (uint64_t n = s->published;
         n-- > 0 && s->published - n <= LED_SIGN_KEPT && found == NULL;) {
        const struct led_sign_note *kept = &s->kept[n % LED_SIGN_KEPT];

        found = covers(kept, witnesses, from, to) ? kept : NULL;
    }
    if (found == NULL && covers(&s->cosigned, witnesses, from, to)) {
        found = &s->cosigned;
    }
    if (found != NULL) {
        len = found->len;
        memcpy(bytes, found->bytes, len);
    }
    ron_mutex_unlock(&s->mu);
    if (len == 0) {
        return ron_err_set(err, RON_NOTFOUND, "no recent checkpoint%s has %zu cosignatures",
                           from > 0 ? " that covers it" : "", witnesses);
    }
    if (ron_buf_append(out, bytes, len) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no room for a checkpoint");
    }
    return RON_OK;
}

enum ron_rc led_signer_published(struct led_signer *s, size_t witnesses, struct ron_buf *out,
                                 struct ron_err *err)
{
    return led_signer_covering(s, witnesses, 0, UINT64_MAX, out, err);
}

/* ---- witnesses ------------------------------------------------------------------------------- */

/* What a body says: for which checkpoint, and its lines. */
struct offer {
    bool whole;          /* a note */
    struct ron_str text; /* of a note */
    uint64_t size;       /* of lines alone: as the caller said */
    struct ron_str lines;
};

static enum ron_rc read_offer(struct ron_str body, uint64_t size, struct offer *ret,
                              struct ron_err *err)
{
    struct led_note note = {0};
    struct ron_str front = body;

    if (body.len >= LED_SIGN_NOTE_SIZE) {
        return ron_err_set(err, RON_LIMIT, "cosignatures have less than %d bytes",
                           LED_SIGN_NOTE_SIZE);
    }
    if (ron_str_skip(&front, RON_STR_LIT(EM_DASH))) {
        *ret = (struct offer){.size = size, .lines = body};
        return RON_OK;
    }
    RON_TRY(led_note_read(body, &note, err));
    *ret = (struct offer){
        .whole = true,
        .text = note.text,
        .lines = {.ptr = body.ptr + note.text.len + 1, .len = body.len - note.text.len - 1}};
    return RON_OK;
}

/* The text of a kept note ends before its empty line. */
static bool has_text(const struct led_sign_note *kept, struct ron_str text)
{
    return kept->len > text.len + 1 && memcmp(kept->bytes, text.ptr, text.len) == 0 &&
           kept->bytes[text.len] == '\n';
}

/* With the lock held: the number of the checkpoint that is meant, or `published`. */
static uint64_t find_offered(const struct led_signer *s, const struct offer *o)
{
    if (!o->whole && o->size == LED_SIGN_NEWEST && s->published > 0) {
        return s->published - 1;
    }
    if (!o->whole) {
        return find_kept(s, o->size);
    }
    for (uint64_t n = s->published; n-- > 0 && s->published - n <= LED_SIGN_KEPT;) {
        if (has_text(&s->kept[n % LED_SIGN_KEPT], o->text)) {
            return n;
        }
    }
    return s->published;
}

/* Whether the note has exactly this signature line; no line of a text begins with that dash and a
 * blank, because an origin has no blanks. */
static bool has_line(struct ron_str note, struct ron_str line)
{
    struct ron_str front = line;
    struct ron_str other;

    if (!ron_str_skip(&front, RON_STR_LIT(EM_DASH))) {
        return false;
    }
    while (ron_str_line(&note, &other)) {
        if (ron_str_equal(other, line)) {
            return true;
        }
    }
    return false;
}

/* Whether a signature line carries the log's own name. */
static bool is_own(const struct led_signer *s, struct ron_str line)
{
    return ron_str_skip(&line, RON_STR_LIT(EM_DASH)) && ron_str_skip(&line, origin_of(s)) &&
           ron_str_skip(&line, RON_STR_LIT(" "));
}

/* Attaches the lines to a copy of the note; those that it has already are passed over, which is
 * also how our own line in a whole note is. Lines of unknown keys are passed over too, as C2SP
 * signed-note wants it: a witness brings its note to several logs, with whatever others signed. */
static enum ron_rc attach_all(const struct led_signer *s, const struct offer *o,
                              struct ron_buf *note, size_t *ret_count, struct ron_err *err)
{
    struct ron_str rest = o->lines;
    size_t count = 0;
    bool known = false;
    bool strangers = false;

    while (rest.len > 0) {
        struct ron_str line;
        enum ron_rc rc;

        if (!ron_str_line(&rest, &line)) {
            line = rest;
            rest.len = 0;
        }
        if (has_line(text_of(note), line)) {
            known = known || !is_own(s, line);
            continue;
        }
        rc = led_note_attach(note, line, s->witnesses, s->witness_count, err);
        if (rc == RON_NOTFOUND) {
            strangers = true;
            continue;
        }
        RON_TRY(rc);
        count++;
    }
    if (count == 0 && strangers && !known) {
        return ron_err_set(err, RON_NOTFOUND, "no signature is by a known witness");
    }
    if (count == 0) {
        return ron_err_set(err, RON_EXISTS, "there is no new cosignature");
    }
    *ret_count = count;
    return RON_OK;
}

/* G6. With the lock held. */
static void pick_cosigned(struct led_signer *s)
{
    const struct led_sign_note *best = NULL;

    for (uint64_t n = s->published; n-- > 0 && s->published - n <= LED_SIGN_KEPT;) {
        const struct led_sign_note *kept = &s->kept[n % LED_SIGN_KEPT];

        if (kept->witnesses > (best != NULL ? best->witnesses : 0)) {
            best = kept;
        }
    }
    if (best != NULL && (best->size != s->cosigned.size || best->len != s->cosigned.len)) {
        s->cosigned = *best;
        s->cosigned_unsaved = true;
    }
}

/* One turn. RON_AGAIN: another cosignature came in between. */
static enum ron_rc cosign_once(struct led_signer *s, const struct offer *o, size_t *ret_count,
                               struct ron_err *err)
{
    char memory[LED_SIGN_NOTE_SIZE];
    struct led_sign_note *kept;
    struct ron_buf note;
    size_t was_len = 0;
    size_t count = 0;
    uint64_t n;
    enum ron_rc rc = RON_OK;

    ron_buf_init_over(&note, memory, sizeof memory);
    ron_mutex_lock(&s->mu);
    n = find_offered(s, o);
    kept = &s->kept[n % LED_SIGN_KEPT];
    if (n < s->published) {
        was_len = kept->len;
        RON_IGNORE(ron_buf_append(&note, kept->bytes, kept->len)); /* fits */
    }
    ron_mutex_unlock(&s->mu);
    if (was_len == 0) {
        return ron_err_set(err, RON_CONFLICT, "this is not a checkpoint that waits for witnesses");
    }
    RON_TRY(attach_all(s, o, &note, &count, err));
    ron_mutex_lock(&s->mu);
    if (s->published - n > LED_SIGN_KEPT) {
        rc = RON_CONFLICT;
    } else if (kept->len != was_len) {
        rc = RON_AGAIN;
    } else {
        kept->len = (uint32_t)ron_buf_len(&note);
        memcpy(kept->bytes, ron_buf_data(&note), kept->len);
        kept->witnesses += (uint32_t)count;
        s->unsaved = s->unsaved || n + 1 == s->published;
        pick_cosigned(s);
    }
    ron_mutex_unlock(&s->mu);
    if (rc == RON_CONFLICT) {
        return ron_err_set(err, rc, "this checkpoint is no longer kept");
    }
    *ret_count = count;
    return rc;
}

enum ron_rc led_signer_cosign(struct led_signer *s, struct ron_str body, uint64_t size,
                              size_t *ret_count, struct ron_err *err)
{
    struct offer offer = {0};
    size_t count = 0;
    enum ron_rc rc = read_offer(body, size, &offer, err);

    if (rc == RON_OK) {
        /* Ends: each turn but the last spends a witness of a note, and there are no new notes with
         * the same text. */
        do {
            rc = cosign_once(s, &offer, &count, err);
        } while (rc == RON_AGAIN);
    }
    if (rc != RON_OK) {
        ron_stat_add(&s->refused, 1);
        return rc;
    }
    ron_stat_add(&s->cosignatures, count);
    *ret_count = count;
    return RON_OK;
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* What has to be written, as a copy. */
struct to_save {
    bool fresh;    /* a new checkpoint, to be signed */
    bool more;     /* the newest one again, with more cosignatures */
    uint64_t size; /* fresh */
    struct ron_tree_hash root;
};

static struct to_save what_to_save(struct led_signer *s, struct ron_buf *note)
{
    struct to_save t = {0};

    ron_mutex_lock(&s->mu);
    const struct led_sign_note *newest =
        s->published > 0 ? &s->kept[(s->published - 1) % LED_SIGN_KEPT] : NULL;

    t.fresh = s->has_head && (newest == NULL || s->head_size > newest->size);
    t.more = !t.fresh && newest != NULL && s->unsaved;
    t.size = s->head_size;
    t.root = s->head_root;
    if (t.more) {
        RON_IGNORE(ron_buf_append(note, newest->bytes, newest->len)); /* fits */
    }
    ron_mutex_unlock(&s->mu);
    return t;
}

/* The file holds `note`. */
static void saved(struct led_signer *s, const struct to_save *t, const struct ron_buf *note)
{
    ron_mutex_lock(&s->mu);
    if (t->fresh) {
        struct led_sign_note *kept = &s->kept[s->published % LED_SIGN_KEPT];

        kept->size = t->size;
        kept->root = t->root;
        kept->witnesses = 0;
        kept->len = (uint32_t)ron_buf_len(note);
        memcpy(kept->bytes, ron_buf_data(note), kept->len);
        s->published++;
        s->unsaved = false;
        pick_cosigned(s); /* one has left */
        ron_stat_bump(&s->published_total, 1);
    } else {
        s->unsaved = s->kept[(s->published - 1) % LED_SIGN_KEPT].len != ron_buf_len(note);
    }
    ron_mutex_unlock(&s->mu);
}

static enum ron_rc save_newest(struct led_signer *s, struct ron_err *err)
{
    char memory[LED_SIGN_NOTE_SIZE];
    struct ron_buf note;
    struct to_save t;

    ron_buf_init_over(&note, memory, sizeof memory);
    t = what_to_save(s, &note);
    if (!t.fresh && !t.more) {
        return RON_OK;
    }
    if (t.fresh) {
        RON_TRY(sign(s, t.size, &t.root, &note, err));
    }
    if (s->path != NULL) { /* G2 */
        RON_TRY(ron_file_replace(s->env, s->path, ron_buf_data(&note), ron_buf_len(&note),
                                 CHECKPOINT_MODE, err));
    }
    saved(s, &t, &note);
    return RON_OK;
}

/* G6. After the newest: a note is cosigned once it was published. */
static enum ron_rc save_cosigned(struct led_signer *s, struct ron_err *err)
{
    char bytes[LED_SIGN_NOTE_SIZE];
    uint64_t size;
    size_t len = 0;

    ron_mutex_lock(&s->mu);
    size = s->cosigned.size;
    if (s->cosigned_unsaved) {
        len = s->cosigned.len;
        memcpy(bytes, s->cosigned.bytes, len);
    }
    ron_mutex_unlock(&s->mu);
    if (len == 0 || s->path == NULL) {
        return RON_OK;
    }
    RON_TRY(ron_file_replace(s->env, s->cosigned_path, bytes, len, CHECKPOINT_MODE, err));
    ron_mutex_lock(&s->mu);
    s->cosigned_unsaved = s->cosigned.size != size || s->cosigned.len != len;
    ron_mutex_unlock(&s->mu);
    return RON_OK;
}

enum ron_rc led_signer_save(struct led_signer *s, struct ron_err *err)
{
    enum ron_rc rc;

    RON_CHECK_MAGIC(s, SIGNER_MAGIC);
    s->tried = true;
    s->tried_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;
    rc = save_newest(s, err);
    if (rc == RON_OK) {
        rc = save_cosigned(s, err);
    }
    if (rc != RON_OK) {
        ron_stat_add(&s->save_failures, 1);
    }
    return rc;
}

enum ron_rc led_signer_save_due(struct led_signer *s, struct ron_err *err)
{
    uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;

    if (s->tried && now_ms - s->tried_ms < ron_au64_load(&s->interval_ms)) {
        return RON_OK;
    }
    return led_signer_save(s, err);
}
