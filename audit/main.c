/* SPDX-License-Identifier: Apache-2.0 */
/* audit/main.c - the program ron-audit: options, then a journal or a receipt, then the report.
 *
 * Exit codes: 0 good; 1 a rule is broken; 2 used wrongly; 3 could not read, or write the report. */
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/report.h"
#include "ron/base/alloc.h"
#include "ron/base/build.h"
#include "ron/base/nearest.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"

enum { EXIT_GOOD = 0, EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_UNREAD = 3 };

enum { KEY_FILE_MAX = 4096 }; /* a name of 255 bytes and a key, and some blanks */

#define DAY_MS UINT64_C(86400000)
#define HORIZON_MAX_S UINT64_C(315360000) /* ten years: no window of a ledger is longer */

struct settings {
    struct aud_options run;
    struct aud_offline_options receipt;
    struct aud_report report;
    struct aud_vkey key;
    struct aud_vkey witnesses[AUD_WITNESSES_MAX];
    size_t witness_count;
    bool done; /* help or version was shown */
};

static const char usage[] =
    "usage: ron-audit [options] DIR\n"
    "       ron-audit [options] --receipt FILE [--entry FILE]\n"
    "\n"
    "Reads the journal of a ledger in DIR/log and recomputes all of it, without the ledger's "
    "code;\n"
    "or verifies a receipt offline.\n"
    "\n"
    "options:\n"
    "  --key VKEY         the ledger's verifier key, NAME+ID+BASE64, or a file that holds it\n"
    "  --witness VKEY     a witness whose cosignature is required; may be repeated, up to 16\n"
    "  --checkpoint FILE  a checkpoint kept from earlier, which must be in the journal; may be\n"
    "                     repeated, up to 63. DIR/checkpoint and DIR/checkpoint.cosigned are "
    "looked at\n"
    "                     anyway\n"
    "  --from SEQ         count findings of this entry and later ones only\n"
    "  --to SEQ           look at batches that end with this entry or before it only\n"
    "  --horizon SECONDS  the ledger's horizon, 86400 unless it was configured\n"
    "  --receipt FILE     verify this receipt\n"
    "  --entry FILE       the entry that it must be for: canonical bytes or JSON\n"
    "  --unsigned         check the receipt's arithmetic alone, without --key: not who signed it\n"
    "  --balances         print all balances, sorted\n"
    "  --json             print one JSON object\n"
    "  --quiet            print findings only, and show no progress\n"
    "  --help             show this and exit\n"
    "  --version          show the version and exit\n"
    "\n"
    "exit codes: 0 good, 1 a rule is broken, 2 used wrongly, 3 could not read\n";

/* ---- options --------------------------------------------------------------------------------- */

RON_PRINTF(1, 2) static bool wrong(const char *fmt, ...)
{
    va_list args;

    fputs("ron-audit: ", stderr);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    fputs("; see 'ron-audit --help'\n", stderr);
    return false;
}

static bool set_number(const char *option, const char *value, uint64_t min, uint64_t max,
                       uint64_t *ret)
{
    uint64_t v = 0;

    for (const char *p = value; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v)) {
            v = 0;
            break;
        }
    }
    if (value[0] == '\0' || v < min || v > max) {
        fprintf(stderr,
                "ron-audit: %s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'\n",
                option, min, max, value);
        return false;
    }
    *ret = v;
    return true;
}

/* A key as it stands, or the file that holds it. */
static bool set_key(const struct ron_env *env, const char *option, const char *value,
                    struct aud_vkey *ret)
{
    struct ron_err err = {0};
    struct ron_buf buf;
    struct ron_str text = {value, strlen(value)};
    const char *fault;
    bool ok;

    ron_buf_init(&buf, KEY_FILE_MAX);
    if (strchr(value, '+') == NULL) {
        if (ron_file_read_all(env, value, &buf, &err) != RON_OK) {
            fprintf(stderr, "ron-audit: %s: %s\n", option, err.msg);
            ron_buf_done(&buf);
            return false;
        }
        text = (struct ron_str){(const char *)ron_buf_data(&buf), ron_buf_len(&buf)};
        while (text.len > 0 && strchr(" \n\r\t", text.ptr[text.len - 1]) != NULL) {
            text.len--;
        }
    }
    fault = aud_vkey_read(text, ret);
    ok = fault == NULL;
    if (!ok) {
        fprintf(stderr, "ron-audit: %s: %s\n", option, fault);
    }
    ron_buf_done(&buf);
    return ok;
}

static bool set_witness(struct settings *s, const char *value)
{
    if (s->witness_count == AUD_WITNESSES_MAX) {
        return wrong("more than 16 witnesses");
    }
    return set_key(s->run.env, "--witness", value, &s->witnesses[s->witness_count++]);
}

static bool set_checkpoint(struct settings *s, const char *value)
{
    if (s->run.checkpoint_count == RON_ARRAY_LEN(s->run.checkpoints)) {
        return wrong("more than 63 checkpoints");
    }
    s->run.checkpoints[s->run.checkpoint_count++] = value;
    return true;
}

static bool set_ledger_key(struct settings *s, const char *value)
{
    s->run.key = &s->key;
    return set_key(s->run.env, "--key", value, &s->key);
}

static bool set_from(struct settings *s, const char *value)
{
    return set_number("--from", value, 1, INT64_MAX, &s->run.from_seq);
}

static bool set_to(struct settings *s, const char *value)
{
    return set_number("--to", value, 1, INT64_MAX, &s->run.to_seq);
}

static bool set_horizon(struct settings *s, const char *value)
{
    uint64_t seconds;

    if (!set_number("--horizon", value, 1, HORIZON_MAX_S, &seconds)) {
        return false;
    }
    s->run.horizon_ms = seconds * 1000;
    return true;
}

static bool set_receipt(struct settings *s, const char *value)
{
    s->receipt.receipt = value;
    return true;
}

static bool set_entry(struct settings *s, const char *value)
{
    s->receipt.entry = value;
    return true;
}

static bool set_unsigned(struct settings *s, const char *value)
{
    (void)value;
    return s->receipt.unsigned_ = true;
}

static bool set_balances(struct settings *s, const char *value)
{
    (void)value;
    return s->report.balances = true;
}

static bool set_json(struct settings *s, const char *value)
{
    (void)value;
    return s->report.json = true;
}

static bool set_quiet(struct settings *s, const char *value)
{
    (void)value;
    return s->report.quiet = true;
}

static bool show_help(struct settings *s, const char *value)
{
    (void)value;
    fputs(usage, stdout);
    return s->done = true;
}

static bool show_version(struct settings *s, const char *value)
{
    (void)value;
    printf("ron-audit %s (%s)\n", ron_version(), ron_build_id());
    return s->done = true;
}

static const struct option {
    const char *name;
    bool takes_value;
    bool (*set)(struct settings *s, const char *value);
} options[] = {
    {"--key", true, set_ledger_key},
    {"--witness", true, set_witness},
    {"--checkpoint", true, set_checkpoint},
    {"--from", true, set_from},
    {"--to", true, set_to},
    {"--horizon", true, set_horizon},
    {"--receipt", true, set_receipt},
    {"--entry", true, set_entry},
    {"--unsigned", false, set_unsigned},
    {"--balances", false, set_balances},
    {"--json", false, set_json},
    {"--quiet", false, set_quiet},
    {"--help", false, show_help},
    {"-h", false, show_help},
    {"--version", false, show_version},
};

static bool unknown_option(const char *word)
{
    const char *names[RON_ARRAY_LEN(options)];
    const char *near;

    for (size_t i = 0; i < RON_ARRAY_LEN(options); i++) {
        names[i] = options[i].name;
    }
    near = ron_nearest(word, names, RON_ARRAY_LEN(names));
    if (near != NULL) {
        fprintf(stderr, "ron-audit: unknown option '%s'; did you mean '%s'?\n", word, near);
        return false;
    }
    return wrong("unknown option '%s'", word);
}

/* Sets the option at argv[*at]; moves *at past a separate value. */
static bool parse_option(struct settings *s, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    const char *value = strchr(word, '=');
    size_t len = value != NULL ? (size_t)(value - word) : strlen(word);

    for (size_t i = 0; i < RON_ARRAY_LEN(options); i++) {
        const struct option *o = &options[i];

        if (strlen(o->name) != len || memcmp(o->name, word, len) != 0) {
            continue;
        }
        if (!o->takes_value) {
            return value == NULL ? o->set(s, NULL) : wrong("%s takes no value", o->name);
        }
        if (value != NULL) {
            return o->set(s, value + 1);
        }
        return *at + 1 < argc ? o->set(s, argv[++*at]) : wrong("%s needs a value", o->name);
    }
    return unknown_option(word);
}

static bool check_together(const struct settings *s)
{
    bool receipt = s->receipt.receipt != NULL;

    if (receipt == (s->run.dir != NULL)) {
        return receipt ? wrong("a receipt or a directory, not both")
                       : wrong("a directory or --receipt is needed");
    }
    if (s->receipt.entry != NULL && !receipt) {
        return wrong("--entry goes with --receipt");
    }
    if (s->receipt.unsigned_ && (!receipt || s->run.key != NULL)) {
        return wrong("--unsigned goes with --receipt, without --key");
    }
    if (receipt && (s->run.from_seq != 0 || s->run.to_seq != 0 || s->run.checkpoint_count > 0 ||
                    s->report.balances)) {
        return wrong("--from, --to, --checkpoint and --balances go with a directory");
    }
    if (s->run.to_seq != 0 && s->run.from_seq > s->run.to_seq) {
        return wrong("--from is above --to");
    }
    return true;
}

static bool parse(struct settings *s, int argc, char **argv)
{
    for (int at = 1; at < argc && !s->done; at++) {
        if (argv[at][0] == '-' && argv[at][1] != '\0') {
            if (!parse_option(s, argc, argv, &at)) {
                return false;
            }
        } else if (s->run.dir != NULL) {
            return wrong("one directory at a time, not '%s' too", argv[at]);
        } else {
            s->run.dir = argv[at];
        }
    }
    return s->done || check_together(s);
}

/* ---- progress -------------------------------------------------------------------------------- */

static void show_bar(void *arg, const char *what, uint64_t done, uint64_t all)
{
    struct ron_progress *bar = arg;

    ron_progress_phase(bar, what, "bytes", 0);
    ron_progress_at(bar, done, all);
}

/* ---- work ------------------------------------------------------------------------------------ */

static int verdict(const struct aud_findings *findings, enum ron_rc written)
{
    bool ok = written == RON_OK && fflush(stdout) == 0 && ferror(stdout) == 0;

    if (!ok) {
        fprintf(stderr, "ron-audit: the report could not be written\n");
        return EXIT_UNREAD;
    }
    return findings->total == 0 ? EXIT_GOOD : EXIT_BROKEN;
}

static int fail(const struct ron_err *err)
{
    fprintf(stderr, "ron-audit: %s\n", err->msg);
    return EXIT_UNREAD;
}

static int audit(struct settings *s)
{
    struct aud_result *r = ron_alloc_zero(sizeof *r);
    struct ron_progress bar;
    struct ron_err err = {0};
    int code;

    if (r == NULL) {
        fprintf(stderr, "ron-audit: out of memory\n");
        return EXIT_UNREAD;
    }
    ron_progress_begin(&bar, s->run.env, "audit", "bytes");
    if (bar.on && !s->report.quiet) {
        s->run.progress = show_bar;
        s->run.progress_arg = &bar;
    }
    if (aud_run(&s->run, r, &err) == RON_OK) {
        ron_progress_end(&bar);
        code = verdict(&r->findings, aud_report_run(&s->report, r));
    } else {
        ron_progress_end(&bar);
        code = fail(&err);
    }
    aud_result_done(r);
    ron_free(r);
    return code;
}

static int check_receipt(struct settings *s)
{
    struct aud_offline *o = ron_alloc_zero(sizeof *o);
    struct ron_err err = {0};
    int code;

    if (o == NULL) {
        fprintf(stderr, "ron-audit: out of memory\n");
        return EXIT_UNREAD;
    }
    if (aud_offline_check(&s->receipt, o, &err) == RON_OK) {
        code = verdict(&o->findings,
                       aud_report_offline(&s->report, o, s->witnesses, s->witness_count));
    } else {
        code = fail(&err);
    }
    aud_offline_done(o);
    ron_free(o);
    return code;
}

int main(int argc, char **argv)
{
    static struct settings s; /* keys and checkpoints: too much for a stack */

    s.run.env = s.receipt.env = ron_env_linux();
    s.run.horizon_ms = DAY_MS;
    s.report.out = stdout;
    if (sodium_init() < 0) {
        fprintf(stderr, "ron-audit: libsodium cannot start\n");
        return EXIT_UNREAD;
    }
    if (!parse(&s, argc, argv)) {
        return EXIT_USAGE;
    }
    if (s.done) {
        return EXIT_GOOD;
    }
    s.report.key = s.run.key != NULL;
    s.receipt.key = s.run.key;
    s.run.witnesses = s.receipt.witnesses = s.witnesses;
    s.run.witness_count = s.receipt.witness_count = s.witness_count;
    return s.receipt.receipt != NULL ? check_receipt(&s) : audit(&s);
}
