/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/system.h - how the verbs find the running system: the run file that `ron up` keeps in
 * its data directory, and the operator's token next to it.
 *
 * The data directory is that of --data, else of RON_DATA, else `ron-data` in this folder or in the
 * nearest one above it. Where services run without `ron up`, RON_<SERVICE>_URL names one
 * (RON_WALLET_URL) and --token-file or RON_TOKEN_FILE the token. docs/formats/run-file.md has the
 * bytes. */
#pragma once

#include "ron/base/json.h"
#include "ron/io/file.h"

enum {
    CLI_SERVICES_MAX = 8,
    CLI_URL_SIZE = 128,
    CLI_RUN_FILE_MAX = 1 << 14,
    CLI_TOKEN_SIZE = 8448, /* the longest token, and room to see a longer one */
};

#define CLI_VKEY_FILE "ledger.vkey" /* the ledger's verifier key, NAME+ID+BASE64 */

struct cli_service {
    char name[16];
    char url[CLI_URL_SIZE];
    int32_t pid; /* 0: not running just now */
    uint64_t starts;
};

struct cli_system {
    char data[RON_FILE_PATH_SIZE]; /* "" when only the environment named services */
    int32_t pid;                   /* of `ron up`; 0 likewise */
    uint64_t started_ms;
    char ledger_uuid[40];
    struct cli_service services[CLI_SERVICES_MAX];
    size_t count;
};

/* The run file of a directory, whether its process lives or not. RON_NOTFOUND; RON_CORRUPT. */
RON_MUST_USE enum ron_rc cli_system_read(const char *data, struct cli_system *ret_system);

/* The data directory by the rule above; false when there is none (and no --data). `option` is the
 * value of --data, or NULL. */
bool cli_data_dir(const char *option, char ret_dir[RON_FILE_PATH_SIZE]);

/* A running system. CLI_UNREACHABLE after telling that there is none, and how to start one. */
int cli_system_find(const char *verb, const char *option, struct cli_system *ret_system);

/* The URL of a service; NULL when the system does not have it. */
const char *cli_service_url(const struct cli_system *sys, const char *name);

/* The token of --token-file, RON_TOKEN_FILE or the operator's, without its line end. CLI_OK, or
 * CLI_FAILED after telling why; a file that others may read is refused. */
int cli_token_read(const char *verb, const struct cli_system *sys, const char *option,
                   char ret_token[CLI_TOKEN_SIZE]);
