/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/up.h - `ron up`: all services as children of one process, on loopback, in one directory.
 *
 *     up.c     options; builds everything, runs it, takes it down
 *     table.c   the table of services and the command line of each
 *     setup.c   before anything runs: directory, lock, keys, tokens, packs, ports
 *     child.c   a task for each service: starts the process, reads what it says, ends it
 *     watch.c   a task that asks every service whether it is ready; the table; the run file
 *     log.c     the task that writes: merged log, terminal, run file
 *
 * `ron up` uses the kernel like a service does. A child is a task of the supervisor, so the
 * rules for tasks hold for processes: a child that ends is started again after 100 ms, doubling
 * to 5 s, and more than five ends in 60 s escalate: the ledger takes everything down (exit 3), any
 * other service stays down and is told of. Stages give the order of the end: doors to the outside
 * first, the ledger last, then the tasks that watch and write.
 *
 * Threads: children, watch and HTTP client are loop tasks of the one worker, so they share `struct
 * up` without a lock. What blocks (files, the terminal) is done by the task `scribe`, behind a
 * bounded queue that drops its oldest line: a stalled terminal delays no service.
 *
 * Invariants:
 *   U1. Only the holder of DATA/up.lock starts, writes or removes anything in DATA.
 *   U2. Nothing that takes writes starts before the ledger is known to be the one that the
 *       directory belongs to (DATA/ron.json).
 *   U3. Keys are never replaced: a key file that cannot be used stops the start. Tokens follow from
 *       keys and are replaced when they are invalid. */
#pragma once

#include "ron/http/client.h"
#include "ron/io/child.h"
#include "ron/io/file.h"
#include "ron/task/supervisor.h"

enum {
    UP_VKEY_SIZE = 384,        /* NAME+ID+BASE64 with the longest name */
    UP_ARGS_MAX = 160,         /* of one service: settings of a config file included */
    UP_ARGS_BYTES = 1 << 16,   /* all of them */
    UP_LINE_MAX = 4096,        /* of a child's log; a service writes no longer ones */
    UP_NOTES_MAX = 1024,       /* lines that wait to be written */
    UP_TAIL_MAX = 12,          /* lines kept of a child that does not come up */
    UP_PORT_BASE = 7000,       /* of the table's offsets */
    UP_RUN_FILE_MAX = 1 << 14, /* a row for each service */
    UP_DOCTOR_FREE_MIB = 400,  /* the ledger keeps 256 MiB free and makes segments of 16 MiB */
};

/* X(ID, "name", port offset, drain stage, waits for the ledger). The verb has the same name; a
 * service that the program does not have (base/verbs.h) is left out. */
#define UP_SERVICES(X)                                                                             \
    X(LEDGER, "ledger", 200, 3, false)                                                             \
    X(WALLET, "wallet", 100, 2, true)                                                              \
    X(REWARDER, "rewarder", 300, 1, true)                                                          \
    X(EDGE, "edge", 400, 0, false)                                                                 \
    X(INTEROP, "interop", 500, 0, true)                                                            \
    X(CONSOLE, "console", 0, 0, false)

enum up_id {
#define X(id, ...) UP_##id,
    UP_SERVICES(X)
#undef X
        UP_SERVICE_COUNT
};
enum { UP_STAGE_CLIENT = 4, UP_STAGE_WATCH = 5, UP_STAGE_SCRIBE = 6 };

/* X(ID, "text for people") */
#define UP_STATES(X)                                                                               \
    X(OFF, "off")                                                                                  \
    X(WAITING, "waiting")                                                                          \
    X(STARTING, "starting")                                                                        \
    X(READY, "ready")                                                                              \
    X(NOT_READY, "not ready")                                                                      \
    X(DOWN, "down")

enum up_state {
#define X(id, text) UP_STATE_##id,
    UP_STATES(X)
#undef X
};
const char *up_state_name(enum up_state state);

struct up_row {
    const char *name;
    uint32_t port_offset;
    uint32_t stage;
    bool after_ledger;
};
extern const struct up_row up_rows[UP_SERVICE_COUNT];

/* A command line, for exec. */
struct up_argv {
    const char *args[UP_ARGS_MAX + 2];
    size_t count;
    char *bytes; /* UP_ARGS_BYTES, where the texts are */
    size_t used;
};

/* Logs have these levels, most important first, as ron/obs/log.h names them. */
enum up_level { UP_ERROR, UP_WARN, UP_INFO, UP_DEBUG, UP_LEVEL_COUNT };
const char *up_level_name(enum up_level level);
/* Of a line of a service: its second word. INFO for anything else. */
enum up_level up_level_of(const char *line, size_t len);

struct up_opts {
    const char *data;
    const char *only; /* NULL: all */
    const char *config;
    const char *level;
    uint64_t port_base;
    bool json;
    bool adopt; /* take another ledger for this directory's own */
};

struct up;

#define UP_MAGIC 0x43555030u         /* "CUP0" */
#define UP_SERVICE_MAGIC 0x43555053u /* "CUPS" */

struct up_service {
    uint32_t magic;
    struct up *up;
    const struct up_row *row;
    bool on;
    char url[64];
    char addr[32];
    struct up_argv argv;
    struct ron_task *task;
    struct ron_child child;
    struct ron_io out_io;
    struct ron_io end_io;
    enum up_state state;
    char cause[192]; /* of NOT_READY and DOWN */
    bool ended;      /* the process did, and the task has not taken notice yet */
    bool told_to_stop;
    bool was_ready; /* since `ron up` began */
    struct ron_child_end end;
    struct ron_http_fetch *asking;
    uint32_t starts;
    char line[UP_LINE_MAX]; /* the beginning of one that is not whole yet */
    size_t line_len;
    char *tail[UP_TAIL_MAX]; /* the last lines, while it was never ready */
    size_t tail_count;
};

/* How far the start is. Belongs to the worker. */
struct up_progress {
    struct ron_http_fetch *checkpoint; /* asks the ledger for its identity */
    struct ron_http_fetch *link;       /* asks the console for a link */
    bool ledger_known;                 /* U2 */
    bool verifier_told;                /* the console may start: it has the ledger's public key */
    bool linked;                       /* the console answered, or there is none */
    char console_link[256];
    bool told_late;
    uint64_t look_at_ms; /* the next time that all are asked */
};

/* The merged log. Belongs to the scribe. */
struct up_log {
    int fd;
    uint64_t bytes;
};

struct up {
    uint32_t magic;
    struct up_opts opts;
    const struct ron_env *env;
    char data[RON_FILE_PATH_SIZE]; /* absolute */
    char program[RON_FILE_PATH_SIZE];
    int lock_fd;
    enum up_level shown; /* on the terminal */
    bool colour;
    uint64_t begin_ns;
    uint64_t begin_ms; /* wall clock */
    int32_t pid;
    char board_key[80]; /* public halves of the rewarder's keys, 64 hex digits */
    char attest_key[80];
    char token[8448]; /* the operator's */
    char uuid[40];    /* of the directory's ledger; "" before its first start */

    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_chan *notes;
    struct ron_http_client *client;
    struct ron_http_target *target;
    struct ron_task *watch;
    struct ron_task *scribe;

    /* The worker's own. */
    struct up_service services[UP_SERVICE_COUNT];
    struct up_progress progress;
    /* The table was printed: all were ready once. Read by the supervisor too. */
    struct ron_au32 announced;
    bool failed; /* the exit status is CLI_FAILED */

    /* The scribe has looked for the ledger's public key: it is in `vkey`, or that is "". */
    struct ron_au32 verifier_known;
    char vkey[UP_VKEY_SIZE];

    struct up_log log;
};

#define UP_SIGNING_KEY "ledger/signing.key" /* of the ledger that `ron up` starts */

/* ---- table.c ------------------------------------------------------------------------------ */

/* Which services run: those of --only and what they need. CLI_OK, or a mistake told. */
int up_choose(struct up *up);
/* Command lines of all that run, from the table and the file of --config. */
int up_command_lines(struct up *up);
void up_argv_done(struct up_argv *argv);
/* Adds a text; the same key again (`--key=...`) replaces it. False: no room. */
bool up_argv_add(struct up_argv *argv, const char *fmt, ...) RON_PRINTF(2, 3);
/* Lets the console, which has not started yet, tell browsers the ledger's verifier key. */
void up_table_verifier(struct up *up, const char *vkey);

/* ---- setup.c ------------------------------------------------------------------------------ */

/* Each says what is wrong and what to do about it, and returns CLI_FAILED. */
int up_setup_data(struct up *up);  /* directory, lock, ron.json */
int up_setup_keys(struct up *up);  /* and tokens */
int up_setup_packs(struct up *up); /* and folders */
int up_setup_ports(struct up *up);
/* Removes the run file, gives the lock back. */
void up_setup_done(struct up *up);

/* ---- child.c ------------------------------------------------------------------------------ */

enum ron_rc up_child_add(struct up *up, struct up_service *s, struct ron_err *err);
/* Starts those that waited for the ledger. */
void up_child_go(struct up *up);

/* ---- watch.c ------------------------------------------------------------------------------ */

enum ron_rc up_watch_add(struct up *up, struct ron_err *err);
/* A child was started, ended or changed: the run file is rewritten. */
void up_watch_changed(struct up *up);
/* Stops everything; the exit code will be CLI_FAILED. */
void up_fail(struct up *up);

/* ---- log.c -------------------------------------------------------------------------------- */

enum ron_rc up_log_add(struct up *up, struct ron_err *err);
/* Lines of a service, and of `ron up` itself. Never waits. */
void up_log_line(struct up *up, enum up_level level, const char *text, size_t len);
void up_say(struct up *up, enum up_level level, const char *fmt, ...) RON_PRINTF(3, 4);
/* The content of a file of DATA, written whole: "run.json", "ron.json". Never waits. */
void up_log_file(struct up *up, const char *name, const void *bytes, size_t len);
/* Has the ledger's public key looked for, with which the console's pages and `ron verify` verify
 * receipts. A ledger whose signing.key_file lies elsewhere keeps it to itself. */
void up_log_verifier(struct up *up);
/* To standard output, as it is: the table. */
void up_print(struct up *up, struct ron_buf *take_text);
/* Last lines of a service that did not come up, on standard error. */
void up_tail_keep(struct up_service *s, const char *text, size_t len);
void up_tail_drop(struct up_service *s);
