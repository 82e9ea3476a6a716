/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/log.c - the task `scribe` of `ron up`: everything that blocks.
 *
 * It writes the merged log (DATA/log/ron.log, moved to ron.log.1 at 8 MiB), the lines that a person
 * wants to see to standard output, and the files of DATA that change while the system runs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/base/system.h"
#include "cli/up/up.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/merkle/note_key.h"

enum {
    LOG_BYTES_MAX = 8 << 20, /* of each of the two files */
    SAY_MAX = 1024,
    FILES_MAX = 8, /* that may wait at once; more would be the same ones again */
};

enum note_kind { NOTE_LINE, NOTE_FILE, NOTE_PRINT, NOTE_VERIFIER };

#define NOTE_MAGIC 0x434e4f54u /* "CNOT" */

struct note {
    uint32_t magic;
    enum note_kind kind;
    enum up_level level;
    bool show;
    char name[16]; /* NOTE_FILE */
    size_t len;
    char text[];
};

const char *up_level_name(enum up_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    return names[level];
}

enum up_level up_level_of(const char *line, size_t len)
{
    static const char *const words[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    const char *blank = memchr(line, ' ', len);

    for (size_t i = 0; blank != NULL && i < RON_ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(line + len - blank) > n && memcmp(blank + 1, words[i], n) == 0) {
            return (enum up_level)i;
        }
    }
    return UP_INFO;
}

/* ---- from the worker ------------------------------------------------------------------------- */

static void free_note(struct note *n)
{
    if (n != NULL) {
        n->magic = 0;
        ron_free(n);
    }
}

static void drop_note(void *item, void *arg)
{
    (void)arg;
    free_note(RON_OBJ(item, struct note, NOTE_MAGIC));
}

/* What makes room is a line, if it may be: a file that was not written would be missed. */
static void put_note(struct up *up, struct note *take_note)
{
    struct note *n = take_note;

    for (int turn = 0; n != NULL && turn < FILES_MAX; turn++) {
        void *evicted = NULL;

        if (ron_chan_try_send(up->notes, n, &evicted) != RON_OK) {
            break;
        }
        n = evicted == NULL ? NULL : RON_OBJ(evicted, struct note, NOTE_MAGIC);
        if (n != NULL && n->kind == NOTE_LINE) {
            break; /* lost, and counted by the channel */
        }
    }
    free_note(n);
}

static struct note *new_note(enum note_kind kind, const void *text, size_t len)
{
    struct note *n = ron_alloc(sizeof *n + len + 1);

    if (n != NULL) {
        *n = (struct note){.magic = NOTE_MAGIC, .kind = kind, .len = len};
        memcpy(n->text, text, len);
        n->text[len] = '\0';
    }
    return n;
}

void up_log_line(struct up *up, enum up_level level, const char *text, size_t len)
{
    struct note *n = new_note(NOTE_LINE, text, len);

    if (n != NULL) {
        n->level = level;
        /* Before the table only errors: the table is the first thing to see, and services that
         * start warn of each other's absence. */
        n->show = level <= up->shown && (ron_au32_load(&up->announced) != 0 || level == UP_ERROR);
        put_note(up, n);
    }
}

void up_say(struct up *up, enum up_level level, const char *fmt, ...)
{
    static const char *const words[] = {"ERROR", "WARN ", "INFO ", "DEBUG"};
    uint64_t now_ms = ron_env_wall_ms(up->env);
    time_t now_s = (time_t)(now_ms / RON_MS_PER_S);
    char text[SAY_MAX];
    struct tm tm;
    va_list args;
    size_t len;
    int n;

    if (gmtime_r(&now_s, &tm) == NULL) {
        return;
    }
    len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    len += (size_t)snprintf(text + len, sizeof text - len,
                            ".%03uZ %s up: ", (unsigned)(now_ms % RON_MS_PER_S), words[level]);
    va_start(args, fmt);
    n = vsnprintf(text + len, sizeof text - len, fmt, args);
    va_end(args);
    if (n > 0) {
        len = RON_MIN(len + (size_t)n, sizeof text - 1);
        up_log_line(up, level, text, len);
    }
}

void up_log_verifier(struct up *up)
{
    struct note *n = new_note(NOTE_VERIFIER, "", 0);

    if (n != NULL) {
        put_note(up, n);
    } else {
        ron_au32_store(&up->verifier_known, 1); /* no key will come; do not wait for it */
    }
}

void up_log_file(struct up *up, const char *name, const void *bytes, size_t len)
{
    struct note *n = new_note(NOTE_FILE, bytes, len);

    if (n != NULL) {
        (void)snprintf(n->name, sizeof n->name, "%s", name);
        put_note(up, n);
    }
}

void up_print(struct up *up, struct ron_buf *take_text)
{
    struct note *n = new_note(NOTE_PRINT, ron_buf_data(take_text), ron_buf_len(take_text));

    ron_buf_done(take_text);
    if (n != NULL) {
        put_note(up, n);
    }
}

void up_tail_keep(struct up_service *s, const char *text, size_t len)
{
    char *copy = ron_alloc(len + 1);

    if (copy == NULL) {
        return;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (s->tail_count == UP_TAIL_MAX) {
        ron_free(s->tail[0]);
        memmove(&s->tail[0], &s->tail[1], sizeof s->tail[0] * (UP_TAIL_MAX - 1));
        s->tail_count--;
    }
    s->tail[s->tail_count++] = copy;
}

void up_tail_drop(struct up_service *s)
{
    while (s->tail_count > 0) {
        ron_free(s->tail[--s->tail_count]);
    }
}

/* ---- the task -------------------------------------------------------------------------------- */

static void open_log(struct up *up)
{
    const struct ron_disk_ops *disk = up->env->disk;
    char path[RON_FILE_PATH_SIZE + 16];
    struct ron_err err = {0};

    (void)snprintf(path, sizeof path, "%s/log/ron.log", up->data);
    up->log.bytes = 0;
    if (disk->open(up->env, path, RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &up->log.fd, &err) !=
            RON_OK ||
        disk->size(up->env, up->log.fd, &up->log.bytes) != RON_OK) {
        fprintf(stderr, "ron up: cannot write the log: %s\n", err.msg);
    }
}

static void close_log(struct up *up)
{
    if (up->log.fd >= 0) {
        up->env->disk->close(up->env, up->log.fd);
        up->log.fd = -1;
    }
}

static void turn_log(struct up *up)
{
    char path[RON_FILE_PATH_SIZE + 16];
    char old[RON_FILE_PATH_SIZE + 16];
    struct ron_err err = {0};

    close_log(up);
    (void)snprintf(path, sizeof path, "%s/log/ron.log", up->data);
    (void)snprintf(old, sizeof old, "%s/log/ron.log.1", up->data);
    RON_IGNORE(up->env->disk->rename(up->env, path, old, &err)); /* then the file grows on */
    open_log(up);
}

static void write_log(struct up *up, struct ron_buf *text)
{
    struct ron_err err = {0};

    if (ron_buf_len(text) == 0 || up->log.fd < 0) {
        return;
    }
    if (up->log.bytes >= LOG_BYTES_MAX) {
        turn_log(up);
    }
    if (up->log.fd >= 0 &&
        up->env->disk->pwrite(up->env, up->log.fd, ron_buf_data(text), ron_buf_len(text),
                              up->log.bytes, &err) == RON_OK) {
        up->log.bytes += ron_buf_len(text);
    }
}

static void show_line(const struct up *up, const struct note *n)
{
    static const char *const paint[] = {"\033[31m", "\033[33m", "", "\033[2m"};

    if (up->colour && paint[n->level][0] != '\0') {
        printf("%s%s\033[0m\n", paint[n->level], n->text);
    } else {
        printf("%s\n", n->text);
    }
}

static void write_file(struct up *up, const struct note *n)
{
    char path[RON_FILE_PATH_SIZE + 20];
    struct ron_err err = {0};

    (void)snprintf(path, sizeof path, "%s/%s", up->data, n->name);
    if (ron_file_replace(up->env, path, n->text, n->len, 0600, &err) != RON_OK) {
        fprintf(stderr, "ron up: %s\n", err.msg);
    }
}

static void read_verifier(struct up *up)
{
    char path[RON_FILE_PATH_SIZE + 32];
    struct ron_note_signer signer;
    struct ron_err err = {0};
    struct ron_buf text;

    (void)snprintf(path, sizeof path, "%s/" UP_SIGNING_KEY, up->data);
    if (ron_note_signer_load(up->env, path, &signer, &err) == RON_OK) {
        ron_buf_init_over(&text, up->vkey, sizeof up->vkey);
        (void)ron_note_key_write(&signer.key, &text);
        ron_note_signer_done(&signer);
        if (ron_buf_error(&text) != RON_OK || ron_buf_len(&text) + 2 > sizeof up->vkey) {
            up->vkey[0] = '\0';
        } else {
            size_t len = ron_buf_len(&text);

            (void)snprintf(path, sizeof path, "%s/" CLI_VKEY_FILE, up->data);
            memcpy(up->vkey + len, "\n", 2);
            if (ron_file_replace(up->env, path, up->vkey, len + 1, 0644, &err) != RON_OK) {
                fprintf(stderr, "ron up: %s\n", err.msg);
            }
            up->vkey[len] = '\0';
        }
    }
    ron_au32_store(&up->verifier_known, 1);
}

static enum ron_rc scribe_start(struct ron_task *t, void *arg)
{
    (void)t;
    open_log(RON_OBJ(arg, struct up, UP_MAGIC));
    return RON_OK;
}

static enum ron_rc scribe_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct up *up = RON_OBJ(arg, struct up, UP_MAGIC);
    struct ron_buf text;

    (void)t;
    ron_buf_init(&text, LOG_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct note *n = RON_OBJ(items[i], struct note, NOTE_MAGIC);

        if (n->kind == NOTE_LINE) {
            ron_buf_append(&text, n->text, n->len);
            ron_buf_append_byte(&text, '\n');
            if (n->show) {
                show_line(up, n);
            }
        } else if (n->kind == NOTE_FILE) {
            write_file(up, n);
        } else if (n->kind == NOTE_VERIFIER) {
            read_verifier(up);
        } else {
            (void)fwrite(n->text, 1, n->len, stdout);
        }
        free_note(n);
    }
    (void)fflush(stdout);
    write_log(up, &text);
    ron_buf_done(&text);
    return RON_OK;
}

static void scribe_stop(struct ron_task *t, void *arg)
{
    (void)t;
    close_log(RON_OBJ(arg, struct up, UP_MAGIC));
}

enum ron_rc up_log_add(struct up *up, struct ron_err *err)
{
    up->log.fd = -1;
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = up->registry,
                                                 .env = up->env,
                                                 .name = "notes",
                                                 .producers = "services, watch",
                                                 .consumers = "scribe",
                                                 .drop_text = "oldest line is lost and counted",
                                                 .capacity = UP_NOTES_MAX,
                                                 .policy = RON_CHAN_DROP_OLDEST,
                                                 .wake_batch = 1,
                                                 .drop = drop_note},
                         &up->notes, err));
    return ron_sup_add(up->sup,
                       &(struct ron_task_def){.name = "scribe",
                                              .kind = "writer",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = UP_STAGE_SCRIBE,
                                              .input = up->notes,
                                              .start = scribe_start,
                                              .handle = scribe_handle,
                                              .stop = scribe_stop,
                                              .arg = up},
                       &up->scribe, err);
}
