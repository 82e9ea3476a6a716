/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/ledger.c - offline work on a ledger's data directory, while the service is down.
 *
 *     ron ledger verify --dir DIR      check the whole journal, change nothing
 *     ron ledger rebuild --dir DIR     rebuild index, hashes and images from the log
 *     ron ledger export --dir DIR      the journal as text on standard output
 *     ron ledger import --dir DIR      an NDJSON export from standard input into an empty ledger */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "ledger/ledger.h"
#include "ledger/offline/tool.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"
#include "ron/obs/trace.h"

#define OFFLINE_MAGIC 0x434f464cu /* "COFL" */

struct offline {
    uint32_t magic;
    const char *verb;
    struct led_tool_opts tool;
    const char *format;
    uint64_t from;
    uint64_t to;
    struct ron_progress bar;
    bool writes;       /* the export has begun */
    uint64_t in_bytes; /* of the import: read, and in the whole file (0: not known) */
    uint64_t in_size;
};

static int ended(struct offline *o, enum ron_rc rc, const struct ron_err *err)
{
    ron_progress_end(&o->bar);
    if (rc == RON_AGAIN) {
        fprintf(stderr, "ron %s: %s is in use by a running ledger; stop it first\n", o->verb,
                o->tool.dir);
    } else if (rc != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", o->verb, err->msg);
    }
    return rc == RON_OK ? CLI_OK : rc == RON_INVALID ? CLI_USAGE : CLI_FAILED;
}

/* Recovery may begin with an image, and an export in the middle: the rate counts from there on. */
static void show_progress(void *arg, uint64_t seq, uint64_t last)
{
    struct offline *o = RON_OBJ(arg, struct offline, OFFLINE_MAGIC);

    ron_progress_phase(&o->bar, o->writes ? "writing" : "checking", "entries", seq);
    ron_progress_at(&o->bar, seq, last);
}

static void print_report(const struct led_tool_report *r)
{
    char hex[65];

    ron_hex(r->root, 32, hex);
    printf("entries  %" PRIu64 "\nroot     %s\nsegments %" PRIu64 "\nbytes    %" PRIu64 "\n",
           r->entries, hex, r->segments, r->bytes);
    printf("checked  %" PRIu64 " entries in %" PRIu64 " ms\n", r->checked, r->took_ms);
}

static int verify(struct offline *o)
{
    struct led_tool_report r;
    struct ron_err err = {0};
    enum ron_rc rc = led_tool_verify(&o->tool, &r, &err);
    int code = ended(o, rc, &err);

    if (code == CLI_OK) {
        print_report(&r);
        printf("good\n");
    }
    return code;
}

static int rebuild(struct offline *o)
{
    struct led_tool_report r;
    struct ron_err err = {0};
    enum ron_rc rc = led_tool_rebuild(&o->tool, &r, &err);
    int code = ended(o, rc, &err);

    if (code == CLI_OK) {
        print_report(&r);
    }
    return code;
}

static enum ron_rc write_out(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    struct offline *o = RON_OBJ(arg, struct offline, OFFLINE_MAGIC);

    o->writes = true;
    return fwrite(bytes, 1, len, stdout) == len
               ? RON_OK
               : ron_err_set(err, RON_IO, "cannot write to standard output");
}

static int export_journal(struct offline *o)
{
    struct ron_err err = {0};
    enum ron_rc rc;

    o->bar.on = o->bar.on && isatty(STDOUT_FILENO) == 0; /* the text is not drawn over */
    rc = led_tool_export(&o->tool, o->format, o->from, o->to, write_out, o, &err);
    if (rc == RON_OK && fflush(stdout) != 0) {
        rc = ron_err_set(&err, RON_IO, "cannot write to standard output");
    }
    return ended(o, rc, &err);
}

static enum ron_rc read_in(void *arg, void *bytes, size_t size, size_t *ret_len,
                           struct ron_err *err)
{
    struct offline *o = RON_OBJ(arg, struct offline, OFFLINE_MAGIC);

    *ret_len = fread(bytes, 1, size, stdin);
    if (ferror(stdin) != 0) {
        return ron_err_set(err, RON_IO, "cannot read standard input");
    }
    o->in_bytes += *ret_len;
    ron_progress_phase(&o->bar, "reading", "bytes", 0);
    ron_progress_at(&o->bar, o->in_bytes, o->in_size);
    return RON_OK;
}

static int import_journal(struct offline *o)
{
    struct led_tool_report r;
    struct ron_err err = {0};
    struct stat in;
    enum ron_rc rc;
    int code;

    if (fstat(STDIN_FILENO, &in) == 0 && S_ISREG(in.st_mode)) {
        o->in_size = (uint64_t)in.st_size;
    }
    rc = led_tool_import(&o->tool, read_in, o, &r, &err);
    code = ended(o, rc, &err);

    if (code == CLI_OK) {
        print_report(&r);
    }
    return code;
}

/* ---- the verb -------------------------------------------------------------------------------- */

struct sub {
    const char *name;
    const char *summary;
    int (*run)(struct offline *o);
};

static const struct sub subs[] = {
    {"verify",
     "Verifies the whole journal of a ledger without changing it.\n\n"
     "example:\n  ron ledger verify --dir /srv/backup/ledger",
     verify},
    {"rebuild",
     "Rebuilds index, hashes and images from the log.\n\n"
     "example:\n  ron ledger rebuild --dir ron-data/ledger",
     rebuild},
    {"export",
     "Writes the journal to standard output.\n\n"
     "examples:\n  ron ledger export --dir ron-data/ledger > journal.ndjson\n"
     "  ron ledger export --dir ron-data/ledger --format hledger | hledger -f- balance",
     export_journal},
    {"import",
     "Imports an NDJSON export from standard input into an empty directory.\n\n"
     "example:\n  ron ledger import --dir other-data/ledger < journal.ndjson",
     import_journal},
};

static int run_sub(const struct sub *sub, int argc, char **argv)
{
    char verb[32];
    struct offline o = {.magic = OFFLINE_MAGIC, .verb = verb, .format = "ndjson"};
    bool done = false;
    const struct cli_option options[] = {
        CLI_CHOICE("dir", "DIR", "data directory of the ledger (required)", &o.tool.dir, NULL),
        CLI_CHOICE("format", "NAME",
                   "export format: ndjson, hledger, ledger or beancount (default: ndjson)",
                   &o.format, NULL),
        CLI_NUMBER("from", "SEQ", "first entry to export", &o.from, 0, UINT64_MAX),
        CLI_NUMBER("to", "SEQ", "last entry to export; 0 for the end", &o.to, 0, UINT64_MAX),
    };
    int code;

    (void)snprintf(verb, sizeof verb, "ledger %s", sub->name);
    code = cli_parse(verb, sub->summary, options, RON_ARRAY_LEN(options), argc, argv, &done);
    if (code != CLI_OK || done) {
        return code;
    }
    if (o.tool.dir == NULL) {
        fprintf(stderr, "ron %s: missing --dir DIR\n", verb);
        return CLI_USAGE;
    }
    o.tool.progress = show_progress;
    o.tool.arg = &o;
    ron_progress_begin(&o.bar, ron_env_linux(), sub->name, "entries");
    return sub->run(&o);
}

int cli_ledger_verify(int argc, char **argv)
{
    return run_sub(&subs[0], argc, argv);
}

int cli_ledger_rebuild(int argc, char **argv)
{
    return run_sub(&subs[1], argc, argv);
}

int cli_ledger_export(int argc, char **argv)
{
    return run_sub(&subs[2], argc, argv);
}

int cli_ledger_import(int argc, char **argv)
{
    return run_sub(&subs[3], argc, argv);
}
