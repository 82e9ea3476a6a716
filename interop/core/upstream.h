/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/upstream.h - the services and places that are called: wallet, passport, mailbox,
 * storage, targets of forwards.
 *
 * Place: service, over the kernel's HTTP client: hosts fixed by the settings, addresses judged when
 * a socket is opened (no way to this host or its network unless allowed), deadlines, retries of
 * what is safe to repeat (50-100, then 200-400 ms, three tries), a breaker for each.
 *
 * A forward's host is known from the start: a reload that brings another one is refused. Each has
 * two targets, one of which may reach this host and its network; which one is used is the word of
 * the rule that is in force, so rules to one host do not lend each other what they are allowed.
 *
 * Threads: exchanges from blocking tasks, each with its own line of ends (struct iop_line). */
#pragma once

#include "interop/rule/policy.h"
#include "ron/app/app.h"
#include "ron/http/client.h"

enum {
    IOP_FORWARD_HOSTS_MAX = 24, /* two each of the kernel's 64 targets */
    IOP_BATCH_MAX = 16,         /* actions under way at one actor */
    IOP_URL_MAX = 2048 + 256,
};

struct iop_place {
    struct ron_http_target *outside; /* public addresses alone */
    struct ron_http_target *inside;  /* loopback and private ones, too */
    char names[2][24];               /* of the targets; theirs are borrowed */
    char host[256];
    bool plain;
};

struct iop_upstreams {
    struct ron_http_client *client; /* NULL: nobody is called */
    struct ron_http_target *wallet; /* NULL: none in the settings */
    struct ron_http_target *passport;
    struct ron_http_target *mailbox; /* NULL: the embedded one */
    struct ron_http_target *storage; /* NULL: the own store alone */
    size_t place_count;
    struct iop_place places[IOP_FORWARD_HOSTS_MAX];
};

/* Rules between settings. */
RON_MUST_USE enum ron_rc iop_upstreams_check(const struct ron_conf_snap *conf, struct ron_err *err);
/* Adds the client's task, stage 3. */
RON_MUST_USE enum ron_rc iop_upstreams_open(struct iop_upstreams *u, struct ron_app *app,
                                            const struct ron_conf_snap *conf, struct ron_err *err);
void iop_upstreams_close(struct iop_upstreams *u);
/* Of a rule that forwards; NULL: its host was not there at the start. */
struct ron_http_target *iop_upstreams_forward(const struct iop_upstreams *u,
                                              const struct ron_conf_snap *conf, uint32_t section);
/* Whether every forward of these settings has its place. RON_INVALID. */
RON_MUST_USE enum ron_rc iop_upstreams_cover(const struct iop_upstreams *u,
                                             const struct ron_conf_snap *conf, struct ron_err *err);

/* How an answer asks to be left alone: Retry-After in ms, 0 without. */
uint64_t iop_retry_after_ms(const struct ron_http_fetch *f, uint64_t now_wall_ms);
