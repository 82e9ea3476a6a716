/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/files.c - the store of an index in files: opening and reading.
 *
 * The newest journal that begins with a sound record tells what was committed; records follow each
 * other up to the first that a crash has cut. What its state does not name is removed. The next
 * commit begins a new journal, so nothing is ever written behind a cut record.
 *
 * Threads: the writer's, but for files_read, which has no state, and the copy (files_copy.c).
 * Failure: RON_CORRUPT for files that are shorter than the state says; codes of the disk ports. */
#include "ledger/index/files.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { NUMBER_DIGITS = 18 }; /* of a file; more would be a stranger's */

static const char *const kind_names[LED_FILE_KINDS] = {"journal-", "run-", "image-"};

static struct led_files *files_of(struct led_blobs *b)
{
    return RON_CONTAINER_OF(b, struct led_files, base);
}

/* ---- names ----------------------------------------------------------------------------------- */

void led__files_name(const struct led_files *s, enum led_file_kind kind, uint64_t number,
                     char path[RON_FILE_PATH_SIZE])
{
    (void)snprintf(path, RON_FILE_PATH_SIZE, "%s/%s%llu", s->path, kind_names[kind],
                   (unsigned long long)number);
}

/* Kind and number of a name; false: not one of ours. */
static bool parse_name(const char *name, enum led_file_kind *ret_kind, uint64_t *ret_number)
{
    for (int kind = 0; kind < LED_FILE_KINDS; kind++) {
        size_t len = strlen(kind_names[kind]);
        const char *digits = name + len;
        uint64_t number = 0;

        if (strncmp(name, kind_names[kind], len) != 0 || *digits == '\0' ||
            strlen(digits) > NUMBER_DIGITS) {
            continue;
        }
        for (; *digits >= '0' && *digits <= '9'; digits++) {
            number = number * 10 + (uint64_t)(*digits - '0');
        }
        *ret_kind = (enum led_file_kind)kind;
        *ret_number = number;
        return *digits == '\0';
    }
    return false;
}

struct listed {
    enum led_file_kind kind;
    uint64_t number;
};

struct listing {
    struct ron_buf found; /* struct listed */
};

static bool list_one(void *arg, const char *name, bool is_dir)
{
    struct listing *l = arg;
    struct listed one = {0};

    if (!is_dir && parse_name(name, &one.kind, &one.number)) {
        (void)ron_buf_append(&l->found, &one, sizeof one); /* looked at in list_files */
    }
    return true;
}

static enum ron_rc list_files(const struct ron_env *env, const char *path, struct listing *l,
                              struct ron_err *err)
{
    ron_buf_init(&l->found, LED_FILES_BUF);
    RON_TRY(env->disk->list(env, path, list_one, l, err));
    return ron_buf_error(&l->found);
}

static size_t listed_count(const struct listing *l)
{
    return ron_buf_len(&l->found) / sizeof(struct listed);
}

static struct listed listed_at(const struct listing *l, size_t i)
{
    struct listed one;

    memcpy(&one, ron_buf_data(&l->found) + i * sizeof one, sizeof one);
    return one;
}

/* ---- files and runs -------------------------------------------------------------------------- */

enum ron_rc led__files_open(struct led_files *s, enum led_file_kind kind, uint64_t number,
                            uint32_t flags, struct led_file **ret_file, struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    struct led_file *file = ron_alloc_zero(sizeof *file);
    enum ron_rc rc;

    if (file == NULL) {
        return RON_NOMEM;
    }
    led__files_name(s, kind, number, path);
    *file = (struct led_file){.kind = kind, .number = number, .fd = -1};
    rc = s->env->disk->open(s->env, path, RON_OPEN_READ | RON_OPEN_WRITE | flags, 0600, &file->fd,
                            err);
    if (rc != RON_OK) {
        ron_free(file);
        return rc;
    }
    ron_mutex_lock(&s->lock);
    file->next = s->files;
    s->files = file;
    ron_mutex_unlock(&s->lock);
    *ret_file = file;
    return RON_OK;
}

struct led_file *led__files_find(const struct led_files *s, enum led_file_kind kind,
                                 uint64_t number)
{
    struct led_file *file = s->files;

    while (file != NULL && (file->kind != kind || file->number != number)) {
        file = file->next;
    }
    return file;
}

struct led_file_run *led__files_run(const struct led_files *s, uint64_t id)
{
    struct led_file_run *run = s->runs;

    while (run != NULL && run->id != id) {
        run = run->next;
    }
    return run;
}

/* One that the state names: whole, and durable. */
static enum ron_rc open_named(struct led_files *s, enum led_file_kind kind, uint64_t number,
                              struct led_file **ret_file, struct ron_err *err)
{
    struct led_file *file = led__files_find(s, kind, number);

    if (file == NULL) {
        enum ron_rc rc = led__files_open(s, kind, number, 0, &file, err);

        if (rc != RON_OK) {
            return rc == RON_NOTFOUND ? RON_CORRUPT : rc;
        }
        rc = s->env->disk->size(s->env, file->fd, &file->len);
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "index: the size of %s%llu is not known", kind_names[kind],
                               (unsigned long long)number);
        }
        file->len_new = file->synced = file->len;
        file->named = true;
    }
    *ret_file = file;
    return RON_OK;
}

static enum ron_rc open_run_file(struct led_files *s, struct led_file_run *run,
                                 struct led_place place, struct ron_err *err)
{
    bool own = place.journal == 0;
    uint64_t len = (uint64_t)run->pieces * LED_PIECE_BYTES;

    if (own && run->pieces == 0) { /* a merge of which nothing is durable yet */
        return led__files_open(s, LED_FILE_RUN, run->id, RON_OPEN_CREATE | RON_OPEN_TRUNC,
                               &run->file, err);
    }
    RON_TRY(open_named(s, own ? LED_FILE_RUN : LED_FILE_JOURNAL, own ? run->id : place.journal,
                       &run->file, err));
    RON_ASSERT(run->file != NULL);
    if (place.base > run->file->len || len > run->file->len - place.base) {
        return ron_err_set(err, RON_CORRUPT, "index: run %llu is shorter than it was",
                           (unsigned long long)run->id);
    }
    if (own) { /* Behind it a crash may have left something. */
        run->file->len = run->file->len_new = run->file->synced = len;
    }
    return RON_OK;
}

static enum ron_rc files_open_run(struct led_blobs *b, uint64_t id, struct led_place place,
                                  uint32_t pieces, const struct led_run_file **ret_file,
                                  struct ron_err *err)
{
    struct led_files *s = files_of(b);
    struct led_file_run *run;
    enum ron_rc rc;

    if (led__files_run(s, id) != NULL) {
        return ron_err_set(err, RON_CORRUPT, "index: run %llu is named twice",
                           (unsigned long long)id);
    }
    run = ron_alloc_zero(sizeof *run);
    if (run == NULL) {
        return RON_NOMEM;
    }
    *run = (struct led_file_run){.id = id, .pieces = pieces, .pieces_new = pieces};
    rc = open_run_file(s, run, place, err);
    if (rc != RON_OK) {
        ron_free(run);
        return rc;
    }
    run->file->runs++;
    run->read = (struct led_run_file){.fd = run->file->fd, .base = place.base};
    run->next = s->runs;
    s->runs = run;
    *ret_file = &run->read;
    return RON_OK;
}

static struct led_place files_place(struct led_blobs *b, uint64_t id)
{
    const struct led_file_run *run = led__files_run(files_of(b), id);

    RON_ASSERT(run != NULL);
    return run->file->kind == LED_FILE_RUN
               ? (struct led_place){0}
               : (struct led_place){.journal = run->file->number, .base = run->read.base};
}

/* ---- reading --------------------------------------------------------------------------------- */

/* For the writer: what cannot be read is damaged, and is rebuilt at the next opening (X3). */
static enum ron_rc read_at(const struct ron_env *env, int fd, void *to, size_t len, uint64_t at,
                           size_t *ret_len, struct ron_err *err)
{
    enum ron_rc rc = env->disk->pread(env, fd, to, len, at, ret_len);

    return rc == RON_OK
               ? rc
               : ron_err_set(err, rc == RON_IO ? RON_CORRUPT : rc, "index: a file cannot be read");
}

static enum ron_rc files_read(const struct led_blobs *b, const struct led_run_file *file,
                              uint32_t piece, uint8_t bytes[LED_PIECE_BYTES], struct ron_err *err)
{
    const struct led_files *s = (const struct led_files *)b;
    size_t got = 0;
    enum ron_rc rc = s->env->disk->pread(s->env, file->fd, bytes, LED_PIECE_BYTES,
                                         file->base + (uint64_t)piece * LED_PIECE_BYTES, &got);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "index: a run cannot be read");
    }
    return got == LED_PIECE_BYTES
               ? RON_OK
               : ron_err_set(err, RON_CORRUPT, "index: a run is shorter than it was");
}

void led__files_reset_reads(struct led_files *s)
{
    s->in.file = NULL;
    s->in.len = 0;
    s->chunk_image = 0;
    s->tail_at = NULL;
}

static enum ron_rc get_piece(struct led_files *s, struct led_blob_key key,
                             const uint8_t **ret_bytes, struct ron_err *err)
{
    const struct led_file_run *run = led__files_run(s, key.a);
    const struct led_file *file;
    uint64_t at;

    if (run == NULL || key.b >= run->pieces_new) {
        return ron_err_set(err, RON_NOTFOUND, "index: no such piece");
    }
    file = run->file;
    at = run->read.base + key.b * LED_PIECE_BYTES;
    if (run->fresh && file == s->to) {
        *ret_bytes = ron_buf_data(&s->record) + (at - file->len);
        return RON_OK;
    }
    if (file == s->out.file && at + LED_PIECE_BYTES > file->len_new - s->out.len) {
        RON_TRY(led__files_flush(s, err));
    }
    if (s->in.file != file || at < s->in.at || at + LED_PIECE_BYTES > s->in.at + s->in.len) {
        bool follows = s->in.file == file && at == s->in.at + s->in.len;
        size_t want = follows ? LED_FILES_STREAM : LED_FILES_AHEAD;

        want = (size_t)RON_MIN((uint64_t)want, file->len_new - at);
        s->in.file = NULL;
        RON_TRY(read_at(s->env, file->fd, s->in.bytes, want, at, &s->in.len, err));
        if (s->in.len < LED_PIECE_BYTES) {
            return ron_err_set(err, RON_CORRUPT, "index: a run is shorter than it was");
        }
        s->in.file = file;
        s->in.at = at;
    }
    *ret_bytes = s->in.bytes + (at - s->in.at);
    return RON_OK;
}

static enum ron_rc get_tail(struct led_files *s, struct led_blob_key key, const uint8_t **ret_bytes,
                            size_t *ret_len, struct ron_err *err)
{
    if (s->tail_at == NULL || s->tail_tree != key.a || s->tail_number > key.b) {
        s->tail_at = s->tails[key.a].first;
        s->tail_tree = (uint32_t)key.a;
        s->tail_number = 0;
    }
    while (s->tail_at != NULL && s->tail_number < key.b) {
        s->tail_at = s->tail_at->next;
        s->tail_number++;
    }
    if (s->tail_at == NULL) {
        return ron_err_set(err, RON_CORRUPT, "index: a tail with missing blobs");
    }
    *ret_bytes = s->tail_at->bytes;
    *ret_len = s->tail_at->len;
    return RON_OK;
}

/* Chunks have a length before them, so they are read in order. */
static enum ron_rc read_chunk(struct led_files *s, const struct led_file *file, size_t *ret_len,
                              struct ron_err *err)
{
    uint32_t len = 0;
    size_t got = 0;

    RON_TRY(read_at(s->env, file->fd, &len, sizeof len, s->chunk_at, &got, err));
    if (got < sizeof len || len > LED_INDEX_CHUNK_MAX + sizeof(uint32_t)) {
        return ron_err_set(err, RON_CORRUPT, "index: an image with a chunk of impossible size");
    }
    if (s->chunk == NULL) {
        s->chunk = ron_alloc(LED_INDEX_CHUNK_MAX + sizeof(uint32_t));
        if (s->chunk == NULL) {
            return RON_NOMEM;
        }
    }
    RON_TRY(read_at(s->env, file->fd, s->chunk, len, s->chunk_at + sizeof len, &got, err));
    if (got < len) {
        return ron_err_set(err, RON_CORRUPT, "index: an image is shorter than it was");
    }
    s->chunk_at += sizeof len + len;
    s->chunk_next++;
    *ret_len = len;
    return RON_OK;
}

static enum ron_rc get_chunk(struct led_files *s, struct led_blob_key key,
                             const uint8_t **ret_bytes, size_t *ret_len, struct ron_err *err)
{
    struct led_file *file = NULL;

    RON_TRY(open_named(s, LED_FILE_IMAGE, key.a, &file, err));
    RON_ASSERT(file != NULL);
    if (s->chunk_image != key.a || s->chunk_next > key.b) {
        s->chunk_image = key.a;
        s->chunk_next = 0;
        s->chunk_at = 0;
    }
    do {
        RON_TRY(read_chunk(s, file, ret_len, err));
    } while (s->chunk_next <= key.b);
    *ret_bytes = s->chunk;
    return RON_OK;
}

static enum ron_rc files_get(struct led_blobs *b, struct led_blob_key key,
                             const uint8_t **ret_bytes, size_t *ret_len, struct ron_err *err)
{
    struct led_files *s = files_of(b);

    switch ((enum led_blob_kind)key.kind) {
    case LED_BLOB_STATE:
        *ret_bytes = s->state;
        *ret_len = s->state_len;
        return s->state != NULL ? RON_OK : ron_err_set(err, RON_NOTFOUND, "index: no state");
    case LED_BLOB_TAIL:
        return get_tail(s, key, ret_bytes, ret_len, err);
    case LED_BLOB_IMAGE:
        return get_chunk(s, key, ret_bytes, ret_len, err);
    case LED_BLOB_PIECE:
        *ret_len = LED_PIECE_BYTES;
        return get_piece(s, key, ret_bytes, err);
    }
    return RON_INVALID;
}

/* ---- tails ----------------------------------------------------------------------------------- */

void led__tails_clear(struct led_file_tails *tails)
{
    while (tails->first != NULL) {
        struct led_file_tail *next = tails->first->next;

        ron_free(tails->first);
        tails->first = next;
    }
    tails->last = NULL;
}

enum ron_rc led__tails_add(struct led_file_tails *tails, const void *bytes, uint32_t len)
{
    struct led_file_tail *tail = ron_alloc(sizeof *tail + len);

    if (tail == NULL) {
        return RON_NOMEM;
    }
    tail->next = NULL;
    tail->len = len;
    memcpy(tail->bytes, bytes, len);
    if (tails->last != NULL) {
        tails->last->next = tail;
    } else {
        tails->first = tail;
    }
    tails->last = tail;
    return RON_OK;
}

/* ---- reading back ---------------------------------------------------------------------------- */

static enum ron_rc take_record(struct led_files *s, const struct led_record *r, struct ron_err *err)
{
    const uint8_t *at = r->tail;
    uint8_t *state = ron_alloc(r->state_len);

    if (state == NULL) {
        return RON_NOMEM;
    }
    memcpy(state, r->state, r->state_len);
    ron_free(s->state);
    s->state = state;
    s->state_len = r->state_len;
    for (uint32_t t = 0; t < LED_TREES; t++) {
        if ((r->cleared & (1u << t)) != 0) {
            led__tails_clear(&s->tails[t]);
        }
    }
    for (uint32_t i = 0; i < r->tails; i++) {
        uint32_t tree;
        uint32_t len;

        if (!led__record_tail(r, &at, &tree, &len)) {
            return ron_err_set(err, RON_CORRUPT, "index: a record that no writer makes");
        }
        RON_TRY(led__tails_add(&s->tails[tree], at, len));
        at += len;
    }
    return RON_OK;
}

static enum ron_rc take_records(struct led_files *s, uint64_t journal, const struct ron_buf *bytes,
                                bool *ret_any, struct ron_err *err)
{
    const uint8_t *at = ron_buf_data(bytes);
    size_t left = ron_buf_len(bytes);
    struct led_record record;

    for (uint64_t number = 0; led__record_open(at, left, journal, number, &record); number++) {
        RON_TRY(take_record(s, &record, err));
        *ret_any = true;
        at += record.len;
        left -= (size_t)record.len;
    }
    return RON_OK;
}

static enum ron_rc load_journal(struct led_files *s, uint64_t number, bool *ret_any,
                                struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    struct led_file *file;
    struct ron_buf bytes;
    enum ron_rc rc;

    led__files_name(s, LED_FILE_JOURNAL, number, path);
    rc = s->env->disk->stat(s->env, path, &st);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "index: %s cannot be looked at", path);
    }
    if (st.size_bytes > LED_FILES_BUF) {
        return RON_OK; /* not one that a commit has made */
    }
    ron_buf_init(&bytes, LED_FILES_BUF);
    rc = ron_file_read_all(s->env, path, &bytes, err);
    if (rc == RON_OK) {
        rc = take_records(s, number, &bytes, ret_any, err);
    } else if (rc == RON_IO) {
        rc = RON_OK; /* what cannot be read is damaged */
    }
    ron_buf_done(&bytes);
    /* It stays until the next one is durable. */
    return rc == RON_OK && *ret_any ? open_named(s, LED_FILE_JOURNAL, number, &file, err) : rc;
}

static enum ron_rc load_newest(struct led_files *s, const struct listing *l, struct ron_err *err)
{
    uint64_t below = UINT64_MAX;
    bool any = false;

    while (!any) {
        uint64_t newest = 0;

        for (size_t i = 0; i < listed_count(l); i++) {
            struct listed one = listed_at(l, i);

            if (one.kind == LED_FILE_JOURNAL && one.number < below && one.number > newest) {
                newest = one.number;
            }
        }
        if (newest == 0) {
            return RON_OK;
        }
        s->journal_next = RON_MAX(s->journal_next, newest + 1);
        below = newest;
        RON_TRY(load_journal(s, newest, &any, err));
    }
    return RON_OK;
}

static enum ron_rc files_tidy(struct led_blobs *b, uint64_t image, struct ron_err *err)
{
    struct led_files *s = files_of(b);
    struct listing l;
    enum ron_rc rc = list_files(s->env, s->path, &l, err);

    for (size_t i = 0; rc == RON_OK && i < listed_count(&l); i++) {
        struct listed one = listed_at(&l, i);
        char path[RON_FILE_PATH_SIZE];

        if (one.kind == LED_FILE_IMAGE ? one.number == image
                                       : led__files_find(s, one.kind, one.number) != NULL) {
            continue;
        }
        led__files_name(s, one.kind, one.number, path);
        RON_IGNORE(s->env->disk->remove(s->env, path, NULL)); /* the next opening tries again */
    }
    ron_buf_done(&l.found);
    return rc;
}

enum ron_rc led_index_remove(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct listing l;
    enum ron_rc rc = list_files(env, path, &l, err);

    for (size_t i = 0; rc == RON_OK && i < listed_count(&l); i++) {
        struct listed one = listed_at(&l, i);
        char file[RON_FILE_PATH_SIZE + 32];

        (void)snprintf(file, sizeof file, "%s/%s%llu", path, kind_names[one.kind],
                       (unsigned long long)one.number);
        rc = env->disk->remove(env, file, err);
        rc = rc == RON_NOTFOUND ? RON_OK : rc;
    }
    /* What is gone must not come back beside a new index. */
    if (rc == RON_OK && listed_count(&l) > 0) {
        rc = env->disk->sync_dir(env, path, err);
    }
    ron_buf_done(&l.found);
    return rc == RON_NOTFOUND ? RON_OK : rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint64_t files_bytes(const struct led_blobs *b)
{
    return ron_stat_get(&((const struct led_files *)b)->bytes);
}

static void free_files(struct led_files *s, struct led_file *file)
{
    while (file != NULL) {
        struct led_file *next = file->next;

        if (file->fd >= 0) {
            s->env->disk->close(s->env, file->fd);
        }
        ron_free(file);
        file = next;
    }
}

static void files_close(struct led_blobs *b)
{
    struct led_files *s = files_of(b);

    led__files_abort(b);
    RON_ASSERT_MSG(s->copies == 0, "a copy outlives its index");
    while (s->runs != NULL) {
        struct led_file_run *next = s->runs->next;

        ron_free(s->runs);
        s->runs = next;
    }
    free_files(s, s->files);
    free_files(s, s->gone);
    for (uint32_t t = 0; t < LED_TREES; t++) {
        led__tails_clear(&s->tails[t]);
    }
    ron_mutex_done(&s->lock);
    ron_buf_done(&s->record);
    ron_free(s->state);
    ron_free(s->out.bytes);
    ron_free(s->in.bytes);
    ron_free(s->chunk);
    ron_free(s);
}

static enum ron_rc open_into(struct led_files *s, const struct led_index_opts *opts,
                             struct ron_err *err)
{
    struct listing l;
    struct ron_file_stat st;
    enum ron_rc rc;

    s->out.bytes = ron_alloc(LED_FILES_WRITE);
    s->in.bytes = ron_alloc(LED_FILES_STREAM);
    if (s->out.bytes == NULL || s->in.bytes == NULL) {
        return RON_NOMEM;
    }
    if ((size_t)snprintf(s->path, sizeof s->path, "%s", opts->path) >= sizeof s->path) {
        return ron_err_set(err, RON_LIMIT, "index: the path is too long");
    }
    rc = s->env->disk->stat(s->env, s->path, &st);
    if (rc == RON_NOTFOUND) {
        return ron_mkdirs(s->env, s->path, 0700, err);
    }
    if (rc != RON_OK || !st.is_dir) {
        return ron_err_set(err, rc != RON_OK ? rc : RON_INVALID, "index: %s is not a folder",
                           s->path);
    }
    rc = list_files(s->env, s->path, &l, err);
    if (rc == RON_OK) {
        rc = load_newest(s, &l, err);
    }
    ron_buf_done(&l.found);
    return rc;
}

enum ron_rc led__blobs_open_files(const struct led_index_opts *opts, struct led_blobs **ret_store,
                                  struct ron_err *err)
{
    /* About eight flushes: then their runs are merged, and the journal is not needed any more. */
    enum { JOURNAL_BYTES_A_KEY = 128, JOURNAL_KEYS = 65536, JOURNAL_MIN = 64 << 10 };
    static const struct led_blobs_ops ops = {
        .put = led__files_put,
        .del = led__files_del,
        .get = files_get,
        .commit = led__files_commit,
        .abort = led__files_abort,
        .make_run = led__files_make_run,
        .place = files_place,
        .sync_run = led__files_sync_run,
        .open_run = files_open_run,
        .tidy = files_tidy,
        .read = files_read,
        .copy = led__files_copy,
        .bytes = files_bytes,
        .close = files_close,
    };
    struct led_files *s = ron_alloc_zero(sizeof *s);
    uint64_t keys = opts->run_entries == 0 ? JOURNAL_KEYS : opts->run_entries;
    enum ron_rc rc;

    if (s == NULL) {
        return RON_NOMEM;
    }
    s->base.ops = &ops;
    s->env = opts->env;
    s->journal_next = 1;
    s->journal_max = RON_MAX(keys * JOURNAL_BYTES_A_KEY, (uint64_t)JOURNAL_MIN);
    ron_mutex_init(&s->lock, RON_RANK_SHARED, "index files");
    ron_buf_init(&s->record, LED_FILES_BUF);
    rc = open_into(s, opts, err);
    if (rc != RON_OK) {
        files_close(&s->base);
        return rc;
    }
    *ret_store = &s->base;
    return RON_OK;
}
