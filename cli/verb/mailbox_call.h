/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/mailbox_call.h - what the verbs of `ron mailbox` share: calls of the running bridge, its
 * answers read and printed. */
#pragma once

#include "cli/base/net.h"
#include "ron/base/arena.h"

enum {
    CLI_MESSAGE_MAX = 4 << 20, /* the largest that a bridge can be set to take */
    CLI_BOX_REQUEST_MAX = CLI_MESSAGE_MAX * 6 + 8192, /* every byte of it escaped */
    CLI_BOX_PAGE_MAX = 1000,                          /* messages of one answer */
};

struct cli_message {
    struct ron_str id;
    struct ron_str receipt;
    uint64_t delivery;
    uint64_t deliveries;
    uint64_t sent_ms;
    struct ron_str head;
    struct ron_str body;
    struct ron_str body_b64;
    struct ron_str reason;
    uint64_t present;
};
struct cli_topic {
    struct ron_str topic;
    uint64_t ready;
    uint64_t delayed;
    uint64_t leased;
    uint64_t dead;
    uint64_t bytes;
    uint64_t oldest_ms;
    uint64_t present;
};
/* Every answer of the mailbox, with the members that it has. */
struct cli_box_answer {
    struct ron_json_items messages;
    struct ron_json_items dead;
    struct ron_json_items topics;
    struct ron_json_items results;
    uint64_t accepted;
    bool duplicate;
    struct ron_str first_id;
    uint64_t done;
    uint64_t present;
};

/* A verb with its topic (NULL: all of them) and the last answer. */
struct cli_box {
    struct cli_client c;
    const char *verb;
    const char *topic;
    struct cli_answer a;
    struct ron_arena arena;
};

/* Finds the bridge; done by cli_box_done in any case. */
int cli_box_open(struct cli_box *b);
void cli_box_done(struct cli_box *b);

/* Asks for `what` of the topic: POST with a body, GET without. Refusals are told; returns the exit
 * code. */
int cli_box_call(struct cli_box *b, const char *what, struct ron_buf *body);

/* Reads the last answer into slices of it, which live until the next call. It is changed in place:
 * print it before when it is wanted as it came. */
int cli_box_read(struct cli_box *b, struct cli_box_answer *ret);

/* The time of an option in milliseconds; `text` NULL leaves *ms as it is. */
int cli_take_time(const char *verb, const char *option, const char *text, uint64_t *ms);

/* A received message or a dead letter. On a terminal control characters are replaced: a stranger
 * wrote them. */
void cli_print_message(const struct cli_message *m);
