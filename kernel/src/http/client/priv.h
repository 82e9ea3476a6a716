/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/priv.h - records of the HTTP client; private to http.
 *
 *             start (any thread)        the client's task
 *     NEW ---------------------> inbox ------------------> RUNNING --answer, fault--> ENDED
 *                                                            ^  |                       ^
 *                                             retry_timer    |  v retry                 |
 *                                                          WAITING --cancel, stop-------+
 *
 * Invariants:
 *   F1 A fetch that is not ENDED holds a place in its target's and its client's gate, and one
 *      reference for the client; it is in `inbox` or in `active`.
 *   F2 `easy` is in the multi handle exactly while RUNNING. Handles are added and removed between
 *      calls of libcurl, never inside its callbacks.
 *   F3 A breaker ticket is out exactly while RUNNING, if the target has a breaker.
 *   F4 After `ended` is set (under `mu`) nobody puts the fetch into the inbox again.
 *
 * Fields are owned by the client's task unless they say otherwise. */
#pragma once

#include <curl/curl.h>

#include "ron/base/list.h"
#include "ron/guard/gate.h"
#include "ron/http/client.h"
#include "ron/io/addr.h"
#include "ron/io/ipclass.h"

enum {
    CLIENT_MAGIC = 0x48434c49,
    TARGET_MAGIC = 0x48544152,
    FETCH_MAGIC = 0x48464554,
    FETCH_URL_MAX = 8192,         /* what servers commonly take */
    FETCH_LINES_MAX = 64 * 1024,  /* headers that a caller adds */
    FETCH_BODY_MAX = 64 << 20,    /* a larger one has a source */
    CLIENT_IDLE_EASY_MAX = 64,    /* handles kept for the next fetches; each has some KiB */
    CLIENT_IDLE_CONN_MAX_S = 60,  /* most servers close idle connections about then */
    CLIENT_TLS_FILE_MAX = 1 << 20 /* PEM bundles are a few hundred KiB at most */
};

struct http_host {
    bool below; /* "*.": names below addr.text */
    bool any_port;
    struct ron_addr addr;
};

struct http_op {
    struct ron_stat calls; /* any thread */
    struct ron_stat tries;
    struct ron_stat io_timeouts;
    struct ron_retry_stats retry;
    struct ron_stat ended[RON_HTTP_FETCH_REASON_COUNT];
};

struct ron_http_target {
    uint32_t magic;
    struct ron_http_client *client;
    struct ron_http_target_opts opts; /* without pointers to what was copied; defaults filled in */
    char *unix_path;
    struct http_host *hosts;
    struct ron_retry_curve retry;
    bool has_breaker;
    struct ron_breaker breaker;
    struct ron_gate gate;
    struct ron_buf ca;
    struct ron_buf cert;
    struct ron_buf key;
    struct http_op ops[RON_HTTP_OPS_MAX];
    struct ron_stat denied; /* any thread */
    struct ron_stat bytes_in;
    struct ron_stat connections;
    char entry_name[RON_REG_NAME_MAX + 1];
    bool registered;
    struct ron_reg_entry entry;
};

struct ron_http_client {
    uint32_t magic;
    struct ron_http_client_opts opts;
    size_t target_count;
    struct ron_http_target *targets[RON_HTTP_TARGETS_MAX];
    struct ron_gate gate;
    struct ron_au32 fetches; /* that exist */
    struct ron_mutex mu;     /* guards inbox, task, closed, and asked and ended of each fetch */
    struct ron_list inbox;
    struct ron_task *task; /* while it runs */
    bool closed;
    struct ron_single_writer owner; /* of all that follows: the task */
    CURLM *multi;
    struct ron_timer timer; /* libcurl's */
    struct ron_list active;
    struct ron_rand rand;
    size_t idle_count;
    CURL *idle[CLIENT_IDLE_EASY_MAX];
};

enum fetch_asked { ASK_START = 1u << 0, ASK_CANCEL = 1u << 1, ASK_RESUME = 1u << 2 };
enum fetch_state { FETCH_NEW, FETCH_RUNNING, FETCH_WAITING, FETCH_ENDED };

/* Where a URL leads. */
struct http_url {
    bool https;
    struct ron_addr addr;
};

struct ron_http_fetch {
    uint32_t magic;
    struct ron_http_target *target;
    struct ron_au32 refs;
    struct ron_http_fetch_opts opts; /* texts are not valid any more: see url, lines, body_out */
    struct ron_buf url;              /* as text; changed by redirects */
    struct http_url origin;          /* of the first one */
    struct ron_buf lines;            /* headers to send, each with its NUL */
    struct ron_buf body_out;
    uint64_t started_ns;
    struct ron_deadline deadline;

    struct ron_list_node inbox; /* client's mu */
    uint32_t asked;             /* client's mu */
    bool ended;                 /* client's mu */

    struct ron_list_node active;
    enum fetch_state state;
    CURL *easy;
    struct curl_slist *slist;
    struct ron_timer timer; /* RUNNING: end of the try; WAITING: start of the next */
    struct ron_retry retry;
    struct ron_breaker_ticket ticket;
    uint32_t redirects;
    bool foreign;        /* redirected to another origin: credentials stay at home */
    size_t sent;         /* of body_out */
    bool source_used;    /* the source gave a byte: there is no second try */
    bool sunk;           /* the sink took a byte: likewise */
    bool head_whole;     /* the empty line behind the last head has come */
    bool in_body;        /* of the answer; later header lines are its trailer */
    bool denied_address; /* a socket was refused */
    bool too_large;      /* a limit of the answer */
    bool gave_up;        /* sink or source */
    uint64_t header_bytes;
    uint64_t body_bytes;
    struct ron_buf head_in; /* header lines of the last answer, each with LF */
    struct ron_buf body_in;
    char curl_text[CURL_ERROR_SIZE];
    struct ron_http_fetch_result result;
};

/* url.c */
enum ron_rc ron__http_host_parse(const char *text, struct http_host *ret_host);
bool ron__http_host_allowed(const struct ron_http_target *t, const struct ron_addr *addr);
/* RON_DENIED, RON_INVALID. */
enum ron_rc ron__http_url_check(const struct ron_http_target *t, struct ron_str url,
                                struct http_url *ret_url, struct ron_err *err);
bool ron__http_class_allowed(const struct ron_http_target *t, enum ron_ip_class c);

/* fetch.c */
void ron__http_fetch_unref(struct ron_http_fetch *f);
enum ron_rc ron__http_rc_of_status(int status);
uint64_t ron__http_retry_after_ms(const struct ron_http_fetch *f, uint64_t wall_s);

/* curl.c; on the client's task */
CURL *ron__http_easy_get(struct ron_http_client *c);
void ron__http_easy_put(struct ron_http_client *c, CURL *easy);
/* All options of one try; the handle is f->easy. False: no memory, or libcurl refuses. */
bool ron__http_easy_prepare(struct ron_http_fetch *f);
enum ron_http_fetch_reason ron__http_reason_of(const struct ron_http_fetch *f, CURLcode code);

/* run.c; on the client's task */
enum ron_rc ron__http_client_start(struct ron_task *task, void *arg);
enum ron_rc ron__http_client_handle(struct ron_task *task, void *arg, void **items, size_t count);
void ron__http_client_stop(struct ron_task *task, void *arg);
/* A piece of a body moved: a patient call has its time anew. Also inside libcurl's callbacks. */
void ron__http_fetch_moved(struct ron_http_fetch *f);
/* Ends everything that is queued or under way. */
void ron__http_client_drop_all(struct ron_http_client *c);
