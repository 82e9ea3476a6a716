/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/reward.c - `ron reward`: epoch payouts computed and checked from files.
 *
 *     ron reward compute ...        a run from a snapshot and a policy
 *     ron reward verify ...         a published run recomputed and compared
 *     ron reward proof ...          the proof of one payee
 *     ron reward check-proof FILE   the same checked, with nothing else in hand
 *     ron reward key new|show FILE  keys that sign runs and policies
 *     ron reward policy sign|show FILE
 *     ron reward snapshot FILE      the canonical form of a snapshot
 *     ron reward tree ...           reward_tree.c
 *
 * Exit codes: 0 done or good, 1 failed, different or in quarantine, 2 used wrongly. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "rewarder/offline/tool.h"
#include "ron/base/assert.h"
#include "ron/base/env.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum {
    OUT_MAX = 1 << 17, /* a signed policy is the longest */
    PARTS_MAX = 1024,
};

/* ---- streams --------------------------------------------------------------------------------- */

/* An input that is a file, or standard input for "-". */
#define STREAM_MAGIC 0x43535452u /* "CSTR" */

struct stream {
    uint32_t magic;
    FILE *file;
    const char *name;
};

static int stream_open(const char *verb, const char *path, struct stream *s)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_err err = {0};
    int fd = -1;

    *s = (struct stream){.magic = STREAM_MAGIC, .file = stdin, .name = "standard input"};
    if (strcmp(path, "-") == 0) {
        return CLI_OK;
    }
    s->name = path;
    if (env->disk->open(env, path, RON_OPEN_READ, 0, &fd, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    s->file = fdopen(fd, "r");
    if (s->file == NULL) {
        env->disk->close(env, fd);
        fprintf(stderr, "ron %s: cannot read %s\n", verb, path);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static void stream_close(struct stream *s)
{
    if (s->file != NULL && s->file != stdin) {
        (void)fclose(s->file);
    }
    s->file = NULL;
}

static enum ron_rc stream_read(void *arg, void *bytes, size_t size, size_t *ret_len,
                               struct ron_err *err)
{
    struct stream *s = RON_OBJ(arg, struct stream, STREAM_MAGIC);
    size_t len = fread(bytes, 1, size, s->file);

    if (ferror(s->file) != 0) {
        return ron_err_set(err, RON_IO, "cannot be read");
    }
    *ret_len = len;
    return RON_OK;
}

static struct rwd_tool_in input(struct stream *s)
{
    return (struct rwd_tool_in){.name = s->name, .read = stream_read, .arg = s};
}

static enum ron_rc stdout_write(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)arg;
    return fwrite(bytes, 1, len, stdout) == len
               ? RON_OK
               : ron_err_set(err, RON_IO, "cannot write to standard output");
}

/* Tells what came out of a tool: the text on `to`, or the failure. */
static int told(const char *verb, enum ron_rc rc, const struct ron_err *err, struct ron_buf *out,
                FILE *to)
{
    if (rc != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err->msg[0] != '\0' ? err->msg : ron_rc_doc(rc));
    } else if (fwrite(ron_buf_data(out), 1, ron_buf_len(out), to) != ron_buf_len(out) ||
               fflush(to) != 0) {
        fprintf(stderr, "ron %s: cannot write to standard output\n", verb);
        rc = RON_IO;
    }
    ron_buf_done(out);
    return rc == RON_OK ? CLI_OK : CLI_FAILED;
}

/* ---- progress -------------------------------------------------------------------------------- */

static void draw(void *arg, const char *phase, uint64_t done, uint64_t rows)
{
    struct ron_progress *bar = arg;

    ron_progress_phase(bar, phase, "rows", 0);
    ron_progress_at(bar, done, rows);
}

/* ---- compute and verify ---------------------------------------------------------------------- */

struct run_words {
    const char *snapshot;
    const char *policy;
    uint64_t parts;
    struct rwd_tool_run run;
};

#define RUN_OPTIONS(w)                                                                             \
    CLI_WORD("snapshot", "FILE", "snapshot file; - for standard input; .gz and .zst are unpacked", \
             &(w)->snapshot),                                                                      \
        CLI_WORD("policy", "FILE", "policy file, bare or signed", &(w)->policy),                   \
        CLI_WORD("policy-key", "ID=HEX", "public key of a signed policy", &(w)->run.policy_key),   \
        CLI_WORD("salt", "TEXT", "salt of the run key (default: svc-rewarder|v1)",                 \
                 &(w)->run.salt),                                                                  \
        CLI_WORD("carry-run", "DIR", "directory of the run whose residual is carried over",        \
                 &(w)->run.carry_run),                                                             \
        CLI_NUMBER("parts", "N", "number of parts to process the rows in; same result",            \
                   &(w)->parts, 1, PARTS_MAX)

static int needed(const char *verb, const char *const *values, const char *const *names,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NULL) {
            fprintf(stderr, "ron %s: missing --%s; see 'ron %s --help'\n", verb, names[i], verb);
            return CLI_USAGE;
        }
    }
    return CLI_OK;
}

/* Opens the inputs and runs one of the two with a bar when a person looks on. */
static int run_tool(const char *verb, const struct run_words *w, bool verify)
{
    struct rwd_tool_run run = w->run;
    struct ron_progress bar;
    const struct rwd_tool_watch watch = {.show = draw, .arg = &bar};
    uint64_t begin_ns = ron_env_now_ns(ron_env_linux());
    struct stream snapshot = {0};
    struct stream policy = {0};
    struct ron_err err = {0};
    struct ron_buf out;
    bool good = true;
    enum ron_rc rc;
    int code;

    if (strcmp(w->snapshot, "-") == 0 && strcmp(w->policy, "-") == 0) {
        fprintf(stderr, "ron %s: only one of snapshot and policy can be standard input\n", verb);
        return CLI_USAGE;
    }
    code = stream_open(verb, w->policy, &policy);
    if (code == CLI_OK) {
        code = stream_open(verb, w->snapshot, &snapshot);
    }
    if (code != CLI_OK) {
        stream_close(&policy);
        return code;
    }
    ron_progress_begin(&bar, ron_env_linux(), verify ? "verify" : "compute", "rows");
    run.snapshot = input(&snapshot);
    run.policy = input(&policy);
    run.parts = (uint32_t)w->parts;
    run.watch = bar.on ? &watch : NULL;
    ron_buf_init(&out, OUT_MAX);
    rc = verify ? rwd_tool_verify(&run, &out, &err) : rwd_tool_compute(&run, &out, &good, &err);
    stream_close(&policy);
    stream_close(&snapshot);
    ron_progress_end(&bar);
    code = told(verb, rc, &err, &out, stdout);
    if (code == CLI_OK) {
        fprintf(stderr, "%s in %" PRIu64 " ms\n",
                verify ? "good: every byte matches,"
                : good ? "computed"
                       : "quarantined",
                (ron_env_now_ns(ron_env_linux()) - begin_ns) / RON_NS_PER_MS);
    }
    return good ? code : CLI_FAILED;
}

int cli_reward_compute(int argc, char **argv)
{
    struct run_words w = {.parts = 1};
    uint64_t seq = UINT64_MAX;
    bool done = false;
    bool dry = false;
    const struct cli_option options[] = {
        CLI_WORD("epoch", "ID", "name of the epoch", &w.run.epoch),
        RUN_OPTIONS(&w),
        CLI_WORD("out", "DIR", "directory of all runs; created if missing", &w.run.out_dir),
        CLI_FLAG("dry-run", "print the result without writing files", &dry),
        CLI_WORD("ledger-root", "HEX", "ledger root at the time of the snapshot",
                 &w.run.ledger_root),
        CLI_NUMBER("ledger-seq", "N", "sequence number of --ledger-root", &seq, 0, UINT64_MAX - 1),
        CLI_WORD("key", "FILE", "key file that signs the commitment", &w.run.key_file),
    };
    int code = cli_parse(
        "reward compute",
        "Computes the payouts of an epoch and writes them to a self-contained\n"
        "directory: run.json, commitment, payouts.ndjson, payouts.index, payouts.tree.\n\n"
        "example:\n"
        "  ron reward compute --epoch 2026-w46 --snapshot usage.ndjson.zst \\\n"
        "      --policy policy.json --out runs --key reward.key",
        options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code =
        needed("reward compute",
               (const char *const[]){w.run.epoch, w.snapshot, w.policy, dry ? "" : w.run.out_dir},
               (const char *const[]){"epoch", "snapshot", "policy", "out"}, 4);
    if (code != CLI_OK) {
        return code;
    }
    if ((w.run.ledger_root != NULL) != (seq != UINT64_MAX) || (dry && w.run.out_dir != NULL)) {
        fprintf(stderr,
                dry && w.run.out_dir != NULL
                    ? "ron reward compute: --out cannot be combined with --dry-run\n"
                    : "ron reward compute: --ledger-root and --ledger-seq require each other\n");
        return CLI_USAGE;
    }
    w.run.ledger_seq = w.run.ledger_root == NULL ? 0 : seq;
    return run_tool("reward compute", &w, false);
}

int cli_reward_verify(int argc, char **argv)
{
    struct run_words w = {.parts = 1};
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("run", "DIR", "directory of the run", &w.run.run_dir),
        RUN_OPTIONS(&w),
        CLI_WORD("public-key", "HEX", "key that must have signed the commitment",
                 &w.run.public_key),
    };
    int code = cli_parse("reward verify",
                         "Recomputes a published run and compares every file byte by byte. Exit\n"
                         "status 0 if all match, 1 with a list of the differences otherwise.\n\n"
                         "example:\n"
                         "  ron reward verify --run runs/2026-w46 --snapshot usage.ndjson.zst \\\n"
                         "      --policy policy.json",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = needed("reward verify", (const char *const[]){w.run.run_dir, w.snapshot, w.policy},
                  (const char *const[]){"run", "snapshot", "policy"}, 3);
    return code == CLI_OK ? run_tool("reward verify", &w, true) : code;
}

/* ---- one document ---------------------------------------------------------------------------- */

/* The verbs below take one FILE, before or behind the options. It is taken out of argv; NULL after
 * a help text or a mistake, with *ret_code set. */
static const char *file_of(const char *verb, const char *summary, const struct cli_option *options,
                           size_t count, int argc, char **argv, int *ret_code)
{
    const char *file = NULL;
    bool done = false;
    int kept = 1;
    int at = 1;

    if (argc > 1 && (argv[1][0] != '-' || argv[1][1] == '\0')) {
        file = argv[at++]; /* before */
    } else if (argc > 1 && (argv[argc - 1][0] != '-' || argv[argc - 1][1] == '\0') &&
               (argc == 2 || strncmp(argv[argc - 2], "--", 2) != 0 ||
                strchr(argv[argc - 2], '=') != NULL)) {
        file = argv[--argc]; /* behind */
    }
    while (at < argc) {
        argv[kept++] = argv[at++];
    }
    *ret_code = cli_parse(verb, summary, options, count, kept, argv, &done);
    if (*ret_code != CLI_OK || done) {
        return NULL;
    }
    if (file == NULL) {
        fprintf(stderr, "ron %s: missing FILE; see 'ron %s --help'\n", verb, verb);
        *ret_code = CLI_USAGE;
    }
    return file;
}

int cli_reward_proof(int argc, char **argv)
{
    const char *dir = NULL;
    const char *account = NULL;
    bool done = false;
    struct ron_err err = {0};
    struct ron_buf out;
    enum ron_rc rc;
    const struct cli_option options[] = {
        CLI_WORD("run", "DIR", "directory of the run", &dir),
        CLI_WORD("account", "NAME", "payee", &account),
    };
    int code = cli_parse("reward proof",
                         "Writes the proof of one payee's payout to standard output.\n\n"
                         "example:\n"
                         "  ron reward proof --run runs/2026-w46 --account acct_a > proof.json",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code == CLI_OK && !done) {
        code = needed("reward proof", (const char *const[]){dir, account},
                      (const char *const[]){"run", "account"}, 2);
    }
    if (code != CLI_OK || done) {
        return code;
    }
    ron_buf_init(&out, OUT_MAX);
    rc = rwd_tool_prove(dir, account, &out, &err);
    return told("reward proof", rc, &err, &out, stdout);
}

/* What a tool says of the document in FILE (- is standard input) and of one more word. */
static int tell_of(const char *name, const char *file,
                   enum ron_rc (*tool)(const struct rwd_tool_in *in, const char *word,
                                       struct ron_buf *out, struct ron_err *err),
                   const char *word)
{
    struct stream s;
    struct rwd_tool_in in;
    struct ron_err err = {0};
    struct ron_buf out;
    enum ron_rc rc;
    int code = stream_open(name, file, &s);

    if (code != CLI_OK) {
        return code;
    }
    in = input(&s);
    ron_buf_init(&out, OUT_MAX);
    rc = tool(&in, word, &out, &err);
    stream_close(&s);
    return told(name, rc, &err, &out, stdout);
}

int cli_reward_check_proof(int argc, char **argv)
{
    const char *public_key = NULL;
    const struct cli_option options[] = {
        CLI_WORD("public-key", "HEX", "key that must have signed the commitment", &public_key),
    };
    int code;
    const char *file = file_of("reward check-proof",
                               "Verifies the payout proof in FILE (- is standard input) offline.\n"
                               "Exit status 0 if the proof is valid.\n\n"
                               "example:\n  ron reward check-proof proof.json",
                               options, RON_ARRAY_LEN(options), argc, argv, &code);

    return file == NULL ? code
                        : tell_of("reward check-proof", file, rwd_tool_check_proof, public_key);
}

int cli_reward_key_new(int argc, char **argv)
{
    const char *key_id = "reward";
    struct ron_err err = {0};
    struct ron_buf out;
    enum ron_rc rc;
    const struct cli_option options[] = {
        CLI_WORD("key-id", "ID", "key id (default: reward)", &key_id),
    };
    int code;
    const char *file =
        file_of("reward key new",
                "Creates a key in FILE, mode 0600, and prints its public key. Never\n"
                "replaces a file.\n\nexample:\n"
                "  ron reward key new reward.key --key-id rewarder-2026",
                options, RON_ARRAY_LEN(options), argc, argv, &code);

    if (file == NULL) {
        return code;
    }
    ron_buf_init(&out, OUT_MAX);
    rc = rwd_tool_key_new(file, key_id, &out, &err);
    return told("reward key new", rc, &err, &out, stdout);
}

int cli_reward_key_show(int argc, char **argv)
{
    struct ron_err err = {0};
    struct ron_buf out;
    enum ron_rc rc;
    int code;
    const char *file =
        file_of("reward key show",
                "Prints the id and the public key of the key in FILE.\n\nexample:\n  ron "
                "reward key show reward.key",
                NULL, 0, argc, argv, &code);

    if (file == NULL) {
        return code;
    }
    ron_buf_init(&out, OUT_MAX);
    rc = rwd_tool_key_show(file, &out, &err);
    return told("reward key show", rc, &err, &out, stdout);
}

int cli_reward_policy_sign(int argc, char **argv)
{
    const char *key = NULL;
    const char *key_id = NULL;
    struct stream s;
    struct rwd_tool_in in;
    struct ron_err err = {0};
    struct ron_buf out;
    enum ron_rc rc;
    const struct cli_option options[] = {
        CLI_WORD("key", "FILE", "key file that signs", &key),
        CLI_WORD("key-id", "ID", "key id (default: the one in the key file)", &key_id),
    };
    int code;
    const char *file = file_of("reward policy sign",
                               "Signs the policy in FILE (- is standard input) and writes the\n"
                               "signed document to standard output.\n\nexample:\n"
                               "  ron reward policy sign --key gov.key policy.json > signed.json",
                               options, RON_ARRAY_LEN(options), argc, argv, &code);

    if (file == NULL) {
        return code;
    }
    code =
        needed("reward policy sign", (const char *const[]){key}, (const char *const[]){"key"}, 1);
    if (code == CLI_OK) {
        code = stream_open("reward policy sign", file, &s);
    }
    if (code != CLI_OK) {
        return code;
    }
    in = input(&s);
    ron_buf_init(&out, OUT_MAX);
    rc = rwd_tool_policy_sign(&in, key, key_id, &out, &err);
    stream_close(&s);
    return told("reward policy sign", rc, &err, &out, stdout);
}

int cli_reward_policy_show(int argc, char **argv)
{
    const char *key = NULL;
    const struct cli_option options[] = {
        CLI_WORD("policy-key", "ID=HEX", "public key that must have signed it", &key),
    };
    int code;
    const char *file = file_of("reward policy show",
                               "Prints the canonical hash and the members of the policy in FILE\n"
                               "(- is standard input).\n\nexample:\n"
                               "  ron reward policy show policy.json",
                               options, RON_ARRAY_LEN(options), argc, argv, &code);

    return file == NULL ? code : tell_of("reward policy show", file, rwd_tool_policy_show, key);
}

int cli_reward_snapshot(int argc, char **argv)
{
    struct stream s;
    struct rwd_tool_in in;
    struct ron_err err = {0};
    struct ron_buf out;
    enum ron_rc rc;
    int code;
    const char *file = file_of("reward snapshot",
                               "Writes the canonical form of the snapshot in FILE (- is standard\n"
                               "input) to standard output and its content id to standard error.\n\n"
                               "example:\n  ron reward snapshot usage.ndjson.zst > usage.ndjson",
                               NULL, 0, argc, argv, &code);

    if (file == NULL) {
        return code;
    }
    code = stream_open("reward snapshot", file, &s);
    if (code != CLI_OK) {
        return code;
    }
    in = input(&s);
    ron_buf_init(&out, OUT_MAX);
    rc = rwd_tool_snapshot(&in, stdout_write, NULL, &out, &err);
    if (rc == RON_OK && fflush(stdout) != 0) {
        rc = ron_err_set(&err, RON_IO, "cannot write to standard output");
    }
    stream_close(&s);
    return told("reward snapshot", rc, &err, &out, stderr);
}
