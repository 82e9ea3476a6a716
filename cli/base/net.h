/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/net.h - how verbs talk to the services: the kernel's HTTP client, waited for.
 *
 * A net has a supervisor on a thread of its own and one worker for the client; the verb stays on
 * its thread and waits. Calls may be made one after the other (cli_call) or many at once
 * (cli_call_start, cli_call_wait), of which at most CLI_CALLS_MAX are under way.
 *
 * An answer of 400 and more is an answer: its envelope is printed as one line that says what is
 * wrong, and its exit code follows from the status (cli.h). */
#pragma once

#include "cli/base/system.h"
#include "ron/http/client.h"

enum { CLI_CALLS_MAX = 256, CLI_ANSWER_MAX = 16 << 20, CLI_HEADERS_MAX = 12 };

struct cli_net;
struct cli_pending;

/* What every verb that talks to the system takes. */
struct cli_client {
    const char *data;
    const char *token_file;
    bool json;
    struct cli_system sys;
    char token[CLI_TOKEN_SIZE];
    struct cli_net *net;
    const char *verb;
};

#define CLI_CLIENT_OPTIONS(c)                                                                      \
    CLI_CHOICE("data", "DIR", "data directory (default: RON_DATA, else ron-data here or above)",   \
               &(c)->data, NULL),                                                                  \
        CLI_CHOICE("token-file", "FILE",                                                           \
                   "token to use (default: RON_TOKEN_FILE, else the operator's)",                  \
                   &(c)->token_file, NULL),                                                        \
        CLI_FLAG("json", "JSON output", &(c)->json)

/* Finds the system and its token and makes a net; tells what is wrong. Done in any case by
 * cli_client_done. */
int cli_client_open(struct cli_client *c, const char *verb);
void cli_client_done(struct cli_client *c);

struct cli_call {
    const char *service; /* "wallet" */
    const char *path;    /* with its query */
    enum ron_http_method method;
    struct ron_str body;      /* JSON unless content_type says otherwise */
    const char *content_type; /* [application/json] with a body */
    const char *idem;         /* Idempotency-Key, or NULL */
    bool no_token;
    const struct ron_http_fetch_header *more; /* at most CLI_HEADERS_MAX, sent too */
    size_t more_count;
    uint32_t timeout_ms;       /* [10000] */
    ron_http_fetch_sink *sink; /* gets the body of a good answer */
    void *sink_arg;
};

struct cli_answer {
    int status; /* 0: none came */
    enum ron_rc rc;
    struct ron_buf body;
    char message[RON_ERR_MSG_SIZE];
    uint64_t took_ms;
};

/* Asks and waits. CLI_OK: there is an answer below 400. Otherwise what is wrong was told, unless
 * `quiet`, and the code is the exit code. The answer is done by the caller in any case. */
int cli_call(struct cli_client *c, const struct cli_call *call, struct cli_answer *ret_answer);
int cli_call_quiet(struct cli_client *c, const struct cli_call *call,
                   struct cli_answer *ret_answer);
void cli_answer_done(struct cli_answer *a);

/* Many at once. Started calls are waited for in any order; each once. NULL: it could not be
 * started. */
struct cli_pending *cli_call_start(struct cli_client *c, const struct cli_call *call);
int cli_call_wait(struct cli_client *c, struct cli_pending *take_pending,
                  struct cli_answer *ret_answer);

/* One line on standard error: what the envelope of a refusal says. Returns the exit code. */
int cli_tell_refusal(const struct cli_client *c, const struct cli_call *call, struct cli_answer *a);

/* Prints the body and a line end. */
int cli_print_body(const struct cli_client *c, struct cli_answer *a);

/* A text as a part of a URL's path or query: all but unreserved characters as %XX. False: no
 * room. */
bool cli_url_escape(const char *text, char *out, size_t size);
