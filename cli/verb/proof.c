/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/proof.c - what the ledger proves: root, receipt, verify, audit, export, import.
 *
 * verify and audit hand over to `ron-audit`, which is installed next to this program and shares no
 * code with the ledger: an auditor must not trust the code that it checks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "cli/base/money.h"
#include "cli/base/net.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/io/child.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"
#include "ron/merkle/note_key.h"

enum {
    PATH_SIZE = 512,
    EXPORT_MS = 600000,
    AUDIT_ARGS = 12,
    VKEY_MAX = 1024,
    RECEIPT_MAX = 1 << 20,
};

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

/* ---- root ------------------------------------------------------------------------------------ */

struct head {
    uint64_t seq;
    struct ron_str root;
    uint64_t ts;
    uint64_t present;
};

static const struct ron_json_field head_fields[] = {
    RON_JSON_FIELD(struct head, seq, U64, .required = true),
    RON_JSON_FIELD(struct head, root, STRING, .required = true),
    RON_JSON_FIELD(struct head, ts, U64, .required = true),
};
static const struct ron_json_shape head_shape = {
    .fields = head_fields,
    .count = RON_ARRAY_LEN(head_fields),
    .present_offset = offsetof(struct head, present),
    .allow_unknown = true,
};

int cli_root(int argc, char **argv)
{
    struct cli_client c = {0};
    struct cli_answer a = {0};
    struct head h = {0};
    struct ron_json_error bad;
    bool checkpoint = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_FLAG("checkpoint", "print the signed checkpoint (C2SP tlog-checkpoint)", &checkpoint),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse("root",
                         "Prints the sequence number of the last durable entry and the tree "
                         "root, which\ncommits to every entry up to it.\n"
                         "\nexamples:\n  ron root\n  ron root --checkpoint > checkpoint",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cli_client_open(&c, "root");
    if (code == CLI_OK) {
        code = cli_call(&c,
                        &(struct cli_call){.service = "ledger",
                                           .path = checkpoint ? "/checkpoint" : "/head",
                                           .method = RON_HTTP_GET},
                        &a);
    }
    if (code == CLI_OK && (c.json || checkpoint)) {
        code = cli_print_body(&c, &a);
    } else if (code == CLI_OK) {
        char time[CLI_TIME_SIZE];

        if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a.body), ron_buf_len(&a.body),
                          &head_shape, NULL, &h, &bad) == RON_OK) {
            cli_format_time(h.ts, time);
            printf("entry %" PRIu64 "\nroot  %.*s\ntime  %s\n", h.seq, (int)h.root.len, h.root.ptr,
                   time);
        }
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}

/* ---- receipt --------------------------------------------------------------------------------- */

static int write_out(const char *verb, const char *file, struct cli_client *c, struct cli_answer *a)
{
    struct ron_err err = {0};

    if (file == NULL || strcmp(file, "-") == 0) {
        return cli_print_body(c, a);
    }
    if (ron_file_replace(ron_env_linux(), file, ron_buf_data(&a->body), ron_buf_len(&a->body), 0644,
                         &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    return CLI_OK;
}

int cli_receipt(int argc, char **argv)
{
    struct cli_client c = {0};
    struct cli_answer a = {0};
    const char *id = NULL;
    const char *out = NULL;
    struct cli_words words = {.words = &id, .min = 1, .max = 1};
    char escaped[PATH_SIZE / 2];
    char path[PATH_SIZE];
    bool done = false;
    bool is_seq;
    const struct cli_option options[] = {
        CLI_WORD("out", "FILE", "output file (default: - for standard output)", &out),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words(
        "receipt",
        "Prints a proof that an entry is in the ledger, by its txid or sequence number.\n"
        "`ron verify` and `ron-audit` verify it offline (C2SP tlog-proof).\n"
        "\nexample:\n  ron receipt tx_7277a17837fe26d0a69d1ba2d9db9c5d --out receipt.txt",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (!cli_url_escape(id, escaped, sizeof escaped)) {
        fprintf(stderr, "ron receipt: invalid transaction id; expected 'tx_' and 32 hex digits\n");
        return CLI_USAGE;
    }
    is_seq = id[strspn(id, "0123456789")] == '\0';
    (void)snprintf(path, sizeof path, is_seq ? "/receipt/%s" : "/v1/receipts/%s", escaped);
    code = cli_client_open(&c, "receipt");
    if (code == CLI_OK) {
        code = cli_call(&c,
                        &(struct cli_call){.service = is_seq ? "ledger" : "wallet",
                                           .path = path,
                                           .method = RON_HTTP_GET},
                        &a);
    }
    if (code == CLI_OK) {
        code = write_out("receipt", out, &c, &a);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}

/* ---- verify and audit ------------------------------------------------------------------------ */

/* Becomes ron-audit; returns only when that cannot be run. */
static int become_auditor(const char *verb, const char **args, size_t count)
{
    char path[RON_FILE_PATH_SIZE + 16];
    char *list[AUDIT_ARGS + 2];
    struct ron_err err = {0};
    char *slash;

    if (ron_program_path(path, RON_FILE_PATH_SIZE, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    slash = strrchr(path, '/');
    memcpy(slash == NULL ? path : slash + 1, "ron-audit", sizeof "ron-audit");
    list[0] = path;
    for (size_t i = 0; i < count; i++) {
        list[i + 1] = (char *)(uintptr_t)args[i];
    }
    list[count + 1] = NULL;
    execv(path, list);
    (void)ron_err_set_sys(&err, RON_IO, errno, "%s", path);
    fprintf(stderr, "ron %s: cannot run ron-audit: %s\n", verb, err.msg);
    return CLI_FAILED;
}

/* The key of this instance, if the receipt belongs to its ledger: the receipt then has the key's
 * name on a line of its own. False: it does not, or there is no key. */
static bool own_key(const char *data, const char *file, char ret_path[RON_FILE_PATH_SIZE + 16])
{
    char dir[RON_FILE_PATH_SIZE];
    struct ron_note_key key;
    struct ron_buf text;
    struct ron_buf receipt;
    struct ron_err err = {0};
    char line[RON_NOTE_NAME_MAX + 3];
    bool own = false;

    if (!cli_data_dir(data, dir)) {
        return false;
    }
    (void)snprintf(ret_path, RON_FILE_PATH_SIZE + 16, "%s/" CLI_VKEY_FILE, dir);
    ron_buf_init(&text, VKEY_MAX);
    ron_buf_init(&receipt, RECEIPT_MAX);
    if (ron_file_read_all(ron_env_linux(), ret_path, &text, &err) == RON_OK &&
        ron_file_read_all(ron_env_linux(), file, &receipt, &err) == RON_OK &&
        ron_note_key_read((struct ron_str){ron_buf_text(&text), strcspn(ron_buf_text(&text), "\n")},
                          &key, &err) == RON_OK) {
        (void)snprintf(line, sizeof line, "\n%s\n", key.name);
        own = strstr(ron_buf_text(&receipt), line) != NULL;
    }
    ron_buf_done(&receipt);
    ron_buf_done(&text);
    return own;
}

int cli_verify(int argc, char **argv)
{
    const char *file = NULL;
    const char *key = NULL;
    const char *entry = NULL;
    const char *data = NULL;
    const char *args[AUDIT_ARGS];
    char path[RON_FILE_PATH_SIZE + 16];
    struct cli_words words = {.words = &file, .min = 1, .max = 1};
    size_t count = 0;
    bool no_key = false;
    bool json = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("key", "VKEY", "verifier key of the ledger, or a file that contains it", &key),
        CLI_WORD("entry", "FILE", "entry that the receipt must prove", &entry),
        CLI_WORD("data", "DIR", "data directory with ledger.vkey (default: as for other verbs)",
                 &data),
        CLI_FLAG("unsigned", "verify the proof without a signature", &no_key),
        CLI_FLAG("json", "JSON output", &json),
    };
    int code = cli_parse_words(
        "verify",
        "Verifies a receipt offline with `ron-audit`. The signature is verified with the ledger's\n"
        "verifier key: the one of --key, or, for a receipt of this instance, the one that `ron "
        "up`\n"
        "keeps as ledger.vkey. Without a key the receipt is not accepted. --unsigned verifies "
        "that\n"
        "the entry is in the tree of the checkpoint, but not the signature. Exit status 0 if the\n"
        "receipt is valid, 1 otherwise.\n"
        "\nexamples:\n  ron verify receipt.txt\n  ron verify receipt.txt --key ledger.vkey",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    args[count++] = "--receipt";
    args[count++] = file;
    if (no_key) {
        args[count++] = "--unsigned";
    } else if (key == NULL && own_key(data, file, path)) {
        key = path;
    }
    if (key != NULL) {
        args[count++] = "--key";
        args[count++] = key;
    }
    if (entry != NULL) {
        args[count++] = "--entry";
        args[count++] = entry;
    }
    if (json) {
        args[count++] = "--json";
    }
    return become_auditor("verify", args, count);
}

int cli_audit(int argc, char **argv)
{
    const char *dir = NULL;
    const char *data = NULL;
    const char *args[AUDIT_ARGS];
    struct cli_words words = {.words = &dir, .min = 0, .max = 1};
    char room[RON_FILE_PATH_SIZE + 16];
    size_t count = 0;
    bool balances = false;
    bool json = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("data", "DIR", "data directory (default: RON_DATA, else ron-data here or above)",
                 &data),
        CLI_FLAG("balances", "print all balances, sorted", &balances),
        CLI_FLAG("json", "JSON output", &json),
    };
    int code = cli_parse_words(
        "audit",
        "Recomputes the whole journal of a ledger with `ron-audit`, which shares no code with\n"
        "the ledger: every hash, root, balance and rule. Also works while the ledger runs. Exit\n"
        "status 0 if the journal is valid, 1 if a rule is violated.\n"
        "\nexamples:\n  ron audit\n  ron audit /srv/backup/ledger --json",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (dir == NULL) {
        char found[RON_FILE_PATH_SIZE];

        if (!cli_data_dir(data, found)) {
            fprintf(stderr, "ron audit: no data directory found; name the ledger directory: "
                            "ron audit DIR\n");
            return CLI_UNREACHABLE;
        }
        (void)snprintf(room, sizeof room, "%s/ledger", found);
        dir = room;
    }
    if (balances) {
        args[count++] = "--balances";
    }
    if (json) {
        args[count++] = "--json";
    }
    args[count++] = dir;
    return become_auditor("audit", args, count);
}

/* ---- export and import ----------------------------------------------------------------------- */

#define EXPORT_MAGIC 0x43455850u /* "CEXP" */

struct export_state {
    uint32_t magic;
    FILE *out;
    struct ron_progress bar;
    uint64_t from;
    uint64_t lines;
    uint64_t total;
    bool failed;
};

/* On the client's task; files and terminals are waited for there, as nothing else happens. */
static enum ron_rc export_piece(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    struct export_state *e = RON_OBJ(arg, struct export_state, EXPORT_MAGIC);
    const char *at = bytes;

    (void)f;
    if (fwrite(bytes, 1, len, e->out) != len) {
        e->failed = true;
        return RON_IO;
    }
    for (size_t left = len; left > 0;) {
        const char *end = memchr(at, '\n', left);

        if (end == NULL) {
            break;
        }
        e->lines++;
        left -= (size_t)(end - at) + 1;
        at = end + 1;
    }
    ron_progress_at(&e->bar, e->lines, e->total);
    return RON_OK;
}

static uint64_t head_seq(struct cli_client *c)
{
    struct cli_answer a = {0};
    struct head h = {0};
    struct ron_json_error bad;

    if (cli_call_quiet(
            c, &(struct cli_call){.service = "ledger", .path = "/head", .method = RON_HTTP_GET},
            &a) == CLI_OK) {
        RON_IGNORE(ron_json_scan((char *)(uintptr_t)ron_buf_text(&a.body), ron_buf_len(&a.body),
                                 &head_shape, NULL, &h, &bad)); /* then the bar has no end */
    }
    cli_answer_done(&a);
    return h.seq;
}

static FILE *open_file(const char *verb, const char *path, uint32_t flags, const char *mode)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_err err = {0};
    int fd = -1;
    FILE *f;

    if (env->disk->open(env, path, flags, 0600, &fd, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return NULL;
    }
    f = fdopen(fd, mode);
    if (f == NULL) {
        env->disk->close(env, fd);
    }
    return f;
}

/* How many lines there will be; 0: not known. */
static uint64_t lines_from(uint64_t first, uint64_t last)
{
    return first <= last ? last - first + 1 : 0;
}

static int export_to(struct cli_client *c, const char *path, const char *format,
                     struct export_state *e)
{
    struct cli_answer a = {0};
    bool ndjson = strcmp(format, "ndjson") == 0;
    int code;

    ron_progress_begin(&e->bar, ron_env_linux(), "export", "lines");
    e->bar.on = e->bar.on && isatty(fileno(e->out)) == 0; /* the text is not drawn over */
    e->total = ndjson ? lines_from(e->from, head_seq(c)) : 0;
    code = cli_call(c,
                    &(struct cli_call){.service = "ledger",
                                       .path = path,
                                       .method = RON_HTTP_GET,
                                       .timeout_ms = EXPORT_MS,
                                       .sink = export_piece,
                                       .sink_arg = e},
                    &a);
    ron_progress_end(&e->bar);
    if (code == CLI_OK && (e->failed || fflush(e->out) != 0)) {
        fprintf(stderr, "ron export: cannot write the output\n");
        code = CLI_FAILED;
    }
    cli_answer_done(&a);
    return code;
}

int cli_export(int argc, char **argv)
{
    static const char *const formats[] = {"ndjson", "hledger", "ledger", "beancount", NULL};
    struct cli_client c = {0};
    struct export_state e = {.magic = EXPORT_MAGIC, .out = stdout};
    const char *format = "ndjson";
    const char *out = NULL;
    uint64_t from = 1;
    char path[PATH_SIZE];
    bool done = false;
    const struct cli_option options[] = {
        CLI_CHOICE("format", "ndjson|hledger|ledger|beancount", "output format (default: ndjson)",
                   &format, formats),
        CLI_WORD("out", "FILE", "output file (default: - for standard output)", &out),
        CLI_NUMBER("from", "SEQ", "first entry", &from, 1, UINT64_MAX),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse("export",
                         "Exports the whole journal of the running ledger: as NDJSON for\n"
                         "`ron import`, or as a journal for a plain-text accounting program.\n"
                         "\nexamples:\n  ron export --out journal.ndjson\n"
                         "  ron export --format hledger | hledger -f - balance",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    (void)snprintf(path, sizeof path, "/export?format=%s&from=%" PRIu64, format, from);
    e.from = from;
    code = cli_client_open(&c, "export");
    if (code == CLI_OK && out != NULL && strcmp(out, "-") != 0) {
        e.out = open_file("export", out, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC, "w");
        code = e.out == NULL ? CLI_FAILED : CLI_OK;
    }
    if (code == CLI_OK) {
        code = export_to(&c, path, format, &e);
    }
    cli_client_done(&c);
    if (e.out != NULL && e.out != stdout && fclose(e.out) != 0 && code == CLI_OK) {
        fprintf(stderr, "ron export: cannot write %s\n", out);
        code = CLI_FAILED;
    }
    if (code == CLI_OK && e.out != stdout) {
        fprintf(stderr, "exported %" PRIu64 " lines to %s\n", e.lines, out);
    }
    return code;
}

int cli_import(int argc, char **argv)
{
    const char *file = NULL;
    const char *into = NULL;
    struct cli_words words = {.words = &file, .min = 1, .max = 1};
    char dir[RON_FILE_PATH_SIZE + 16];
    char verb[] = "import";
    char option[] = "--dir";
    char *args[] = {verb, option, dir, NULL};
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("into", "DIR", "data directory for `ron up --data`, without a ledger", &into),
    };
    int code =
        cli_parse_words("import",
                        "Imports an NDJSON export into an empty data directory and verifies\n"
                        "every entry. - is standard input.\n"
                        "\nexample:\n  ron import journal.ndjson --into other-data",
                        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (into == NULL) {
        fprintf(stderr, "ron import: missing --into DIR; see 'ron import --help'\n");
        return CLI_USAGE;
    }
    if (strcmp(file, "-") != 0) {
        FILE *in = open_file("import", file, RON_OPEN_READ, "r");

        if (in == NULL) {
            return CLI_FAILED;
        }
        if (dup2(fileno(in), STDIN_FILENO) < 0) {
            fprintf(stderr, "ron import: cannot read %s\n", file);
            return CLI_FAILED;
        }
    }
    (void)snprintf(dir, sizeof dir, "%s/ledger", into);
    return cli_ledger_import(3, args);
}
