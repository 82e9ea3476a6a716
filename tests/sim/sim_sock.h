/* SPDX-License-Identifier: Apache-2.0 */
/* sim_sock.h - a stream socket of the simulator, shared by sim_link.c (what travels) and sim_net.c
 * (ports).
 *
 * A connection is two sockets that name each other. What one sends waits in its own `tx` queue
 * until it arrives at the other, in order. Room is counted at the sender: bytes sent and not yet
 * read by the other program, which also travels back as a segment. */
#pragma once

#include "ron/io/addr.h"
#include "sim_priv.h"

enum sim_sock_state {
    SIM_SOCK_LISTENING,
    SIM_SOCK_CONNECTING,
    SIM_SOCK_OPEN,
    SIM_SOCK_FAILED, /* err says how; also after a reset */
    SIM_SOCK_CLOSED, /* by its own program; what is in tx still travels */
};

enum sim_seg_kind {
    SIM_SEG_CONNECT,
    SIM_SEG_ACCEPT,
    SIM_SEG_DATA,
    SIM_SEG_ROOM, /* the receiver has read so many bytes */
    SIM_SEG_END,  /* nothing more will come */
    SIM_SEG_RESET,
};

struct sim_seg {
    struct sim_seg *next;
    enum sim_seg_kind kind;
    uint64_t at_ns;
    size_t len;
    uint8_t data[];
};

/* The end of a connect or the place of a listener. */
struct sim_place {
    struct sim_host *host;
    bool is_unix;
    bool any_address; /* listener: reachable from other machines */
    uint16_t port;
    char path[RON_ADDR_TEXT_SIZE];
};

struct sim_sock {
    struct ron_list_node node; /* in sim->socks or sim->graves */
    uint32_t id;
    enum sim_sock_state state;
    struct sim_env *env;
    struct sim_host *host;
    struct sim_place place; /* listener: its own; connecting side: where to */
    struct sim_sock *peer;
    enum ron_rc err;
    bool silent; /* its machine lost power: nothing is sent again */
    bool rx_end;
    bool tx_end;
    bool wants_room; /* a write found no room: the next room is an edge */
    uint64_t edge;

    struct sim_bytes rx;
    size_t rx_head;
    size_t unread; /* bytes sent that the peer's program has not read */

    struct sim_seg *tx_first;
    struct sim_seg *tx_last;
    uint64_t tx_last_at_ns;
    bool tx_armed;        /* a timer for tx_first exists */
    uint64_t stuck_at_ns; /* tx_first could not be delivered since; 0: it could */
    uint64_t retry_ns;

    /* Listener. */
    bool reuse_port;
    size_t backlog_max;
    size_t backlog_count;
    struct sim_sock **backlog;

    struct ron_addr local;
    struct ron_addr remote;
};

static inline size_t sim__rx_len(const struct sim_sock *sock)
{
    return sock->rx.len - sock->rx_head;
}

struct sim_sock *sim__sock_new(struct sim_env *se, enum sim_sock_state state);
/* Puts a segment on its way. */
void sim__send(struct sim *sim, struct sim_sock *from, enum sim_seg_kind kind, const void *data,
               size_t len);
/* The connection breaks on this side; what it had to send is lost. */
void sim__break(struct sim *sim, struct sim_sock *sock, enum ron_rc err);
/* A timer for a connect that nobody answers. */
void sim__arm_connect_timeout(struct sim *sim, struct sim_sock *sock);
/* The program has closed it: END, or RESET when bytes were left unread. */
void sim__sock_close(struct sim *sim, struct sim_sock *sock, bool at_once);
/* A listener that a connect to `place` reaches, or NULL. */
struct sim_sock *sim__find_listener(struct sim *sim, const struct sim_place *place, bool local);
