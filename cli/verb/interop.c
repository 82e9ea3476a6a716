/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/interop.c - `ron interop verify FILE`: checks an audit trail offline.
 *
 * Exit status: 0 the chain holds, 1 it does not or the file cannot be read, 2 usage error. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/base/cli.h"
#include "interop/audit/verify.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"

static void print_json(const struct ron_interop_audit_report *r, bool good)
{
    printf("{\"good\":%s,\"records\":%" PRIu64 ",\"first_seq\":%" PRIu64 ",\"last_seq\":%" PRIu64
           ",\"dropped\":%" PRIu64 ",\"torn\":%s,\"last_hash\":\"%s\",\"bad_line\":%" PRIu64 "}\n",
           good ? "true" : "false", r->records, r->first_seq, r->last_seq, r->dropped,
           r->torn ? "true" : "false", r->last_hash, r->bad_line);
}

static void print_text(const char *file, const struct ron_interop_audit_report *r, bool good)
{
    printf("%s\n  records  %" PRIu64 ", seq %" PRIu64 " to %" PRIu64 "\n", file, r->records,
           r->first_seq, r->last_seq);
    if (r->dropped > 0) {
        printf("  dropped  %" PRIu64 " according to the records: the sink was too slow\n",
               r->dropped);
    }
    if (r->torn) {
        printf("  end      incomplete last line, as after a crash\n");
    }
    if (r->records > 0) {
        printf("  last     %s\n", r->last_hash);
    }
    if (good) {
        printf("GOOD: the chain is intact\n");
    } else {
        printf("BAD: line %" PRIu64 ": %s\n", r->bad_line, r->why);
    }
}

int cli_interop_verify(int argc, char **argv)
{
    struct ron_interop_audit_report report = {0};
    struct ron_err err = {0};
    bool json = false;
    bool done = false;
    const struct cli_option options[] = {CLI_FLAG("json", "one line of JSON", &json)};
    const char *file = NULL;
    struct cli_words words = {.words = &file, .min = 1, .max = 1};
    int code = cli_parse_words(
        "interop verify",
        "Verifies the hash chain of an audit trail of the bridge (audit.sink = file).\n"
        "To detect missing lines at the end, compare `last` with a hash that was\n"
        "kept elsewhere. Exit status 0 if the chain is intact, 1 otherwise.\n\n"
        "example:\n  ron interop verify ron-data/interop/audit.jsonl",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);
    enum ron_rc rc;

    if (code != CLI_OK || done) {
        return code;
    }
    rc = ron_interop_audit_verify(ron_env_linux(), file, &report, &err);
    if (rc != RON_OK && rc != RON_CORRUPT) {
        fprintf(stderr, "ron interop verify: %s\n", err.msg);
        return CLI_FAILED;
    }
    if (json) {
        print_json(&report, rc == RON_OK);
    } else {
        print_text(file, &report, rc == RON_OK);
    }
    return rc == RON_OK && fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}
