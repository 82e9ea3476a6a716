/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/sql.h - the tables and statements of the mailbox, as data for ron/sql/sql.h.
 * Private to file_posix.c and sql.c. */
#pragma once

#include "ron/sql/sql.h"

enum iop__stmt {
    IOP__META_GET,
    IOP__META_SECRET,
    IOP__META_ID,
    IOP__TOPIC_ADD,
    IOP__TOPIC_DROP,
    IOP__TOPIC_LIST,
    IOP__MSG_ADD,
    IOP__MSG_DROP,
    IOP__MSG_MOVE,
    IOP__MSG_GET,   /* one, of SQLite */
    IOP__MSG_FETCH, /* many, of PostgreSQL */
    IOP__MSG_LIST,
    IOP__MSG_DEAD,
    IOP__SEEN_ADD,
    IOP__SEEN_LIST,
    IOP__SEEN_OLD,
    IOP__SEEN_DROP,
    IOP__TARGET_CLEAR, /* before TARGET; nothing in PostgreSQL */
    IOP__TARGET,
    IOP__TARGET_GET,
    IOP__STMT_COUNT
};

/* Everything but env, path, dsn and open_tries. */
extern const struct ron_sql_opts iop__sql_opts;
