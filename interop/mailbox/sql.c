/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/sql.c - the tables and statements of the mailbox, in the dialects of SQLite and
 * PostgreSQL. The layouts are in docs/formats/interop-mailbox.md.
 *
 * Messages are appended by rising id and mostly deleted in the same order, so the tree of SQLite
 * grows at one end, shrinks at the other, and a group of commits touches few pages besides its own.
 * PostgreSQL gets a group as one statement with an array for each column. */
#include "interop/mailbox/sql.h"

enum {
    APPLICATION_ID = 0x496f7042, /* "IopB" */
    LAYOUT = 1,
};

/* Pages of 16 KiB hold three deliveries of 4 KiB. The log is folded into the file at 16 MiB. */
static const char pragmas[] = "PRAGMA page_size=16384;PRAGMA cache_size=-65536;"
                              "PRAGMA wal_autocheckpoint=1024;PRAGMA journal_size_limit=67108864";

static const char schema[] =
    "CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one=1),secret BLOB NOT NULL,"
    "last_id INTEGER NOT NULL) STRICT;"
    "CREATE TABLE topics(id INTEGER PRIMARY KEY,name TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE messages(id INTEGER PRIMARY KEY,topic INTEGER NOT NULL,dead INTEGER NOT NULL,"
    "deliveries INTEGER NOT NULL,due_ms INTEGER NOT NULL,sent_ms INTEGER NOT NULL,"
    "sum INTEGER NOT NULL,reason BLOB NOT NULL,head BLOB NOT NULL,body BLOB NOT NULL) STRICT;"
    "CREATE INDEX dead ON messages(topic,id) WHERE dead=1;"
    "CREATE TABLE seen(id INTEGER PRIMARY KEY,at_ms INTEGER NOT NULL,key BLOB NOT NULL) STRICT;"
    "CREATE TABLE targets(name TEXT PRIMARY KEY NOT NULL,off_ms INTEGER NOT NULL,"
    "reason BLOB NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO meta(one,secret,last_id) VALUES(1,x'',0);";

static const char step_1[] =
    "CREATE TABLE interop_box(one int4 PRIMARY KEY CHECK(one=1),layout int4 NOT NULL,"
    "epoch int8 NOT NULL,commits int8 NOT NULL,last_id int8 NOT NULL,secret bytea NOT NULL)"
    " WITH (fillfactor=10);"
    "CREATE TABLE interop_topics(id int8 PRIMARY KEY,name text COLLATE \"C\" NOT NULL UNIQUE);"
    "CREATE TABLE interop_messages(id int8 PRIMARY KEY,topic int8 NOT NULL,dead int8 NOT NULL,"
    "deliveries int8 NOT NULL,due_ms int8 NOT NULL,sent_ms int8 NOT NULL,sum bytea NOT NULL,"
    "reason bytea NOT NULL,head bytea NOT NULL,body bytea NOT NULL);"
    "ALTER TABLE interop_messages ALTER body SET STORAGE EXTERNAL;"
    "CREATE INDEX interop_dead ON interop_messages(topic,id) WHERE dead=1;"
    "CREATE TABLE interop_seen(id int8 PRIMARY KEY,at_ms int8 NOT NULL,key bytea NOT NULL);"
    "CREATE TABLE interop_targets(name bytea PRIMARY KEY,is_off int8 NOT NULL,"
    "off_ms int8 NOT NULL,reason bytea NOT NULL);"
    "INSERT INTO interop_box(one,layout,epoch,commits,last_id,secret) VALUES(1,1,0,0,0,'')";
static const char *const steps[] = {step_1};

/* The arrays of the gathered statements, in their order: $3 META_ID; $4 and $5 TOPIC_ADD; $6
 * TOPIC_DROP; $7 to $13 MSG_ADD; $14 MSG_DROP; $15 to $19 MSG_MOVE; $20 to $22 SEEN_ADD; $23 and
 * $24 SEEN_DROP; $25 to $28 TARGET. Of two that switch one target in one group the later one
 * counts. */
static const char write_sql[] =
    "WITH own AS (UPDATE interop_box SET commits=$2+1,"
    "last_id=greatest(last_id,(SELECT max(v) FROM unnest($3::int8[]) v)) "
    "WHERE one=1 AND epoch=$1 AND commits=$2 RETURNING 1),"
    "a AS (INSERT INTO interop_topics(id,name) SELECT v.* FROM own,unnest($4::int8[],$5::text[])"
    " AS v(id,name)),"
    "h AS (DELETE FROM interop_topics USING own WHERE id=ANY($6::int8[])),"
    "b AS (INSERT INTO interop_messages(id,topic,dead,deliveries,due_ms,sent_ms,sum,reason,head,"
    "body) SELECT v.id,v.topic,0,0,v.due,v.sent,int8send(v.sum),'',v.head,v.body FROM own,"
    "unnest($7::int8[],$8::int8[],$9::int8[],$10::int8[],$11::int8[],$12::bytea[],$13::bytea[])"
    " AS v(id,topic,due,sent,sum,head,body)),"
    "c AS (DELETE FROM interop_messages USING own WHERE id=ANY($14::int8[])),"
    "d AS (UPDATE interop_messages m SET dead=v.dead,deliveries=v.count,due_ms=v.due,"
    "reason=v.reason FROM own,unnest($15::int8[],$16::int8[],$17::int8[],$18::int8[],$19::bytea[])"
    " AS v(id,dead,count,due,reason) WHERE m.id=v.id),"
    "e AS (INSERT INTO interop_seen(id,at_ms,key) SELECT v.* FROM own,"
    "unnest($20::int8[],$21::int8[],$22::bytea[]) AS v(id,at_ms,key)),"
    "f AS (DELETE FROM interop_seen s USING own,unnest($23::int8[],$24::int8[]) AS v(id,before) "
    "WHERE s.id<=v.id AND s.at_ms<v.before),"
    "g AS (INSERT INTO interop_targets(name,is_off,off_ms,reason) "
    "SELECT DISTINCT ON (v.name) v.name,v.is_off,v.off_ms,v.reason FROM own,"
    "unnest($25::bytea[],$26::int8[],$27::int8[],$28::bytea[]) WITH ORDINALITY"
    " AS v(name,is_off,off_ms,reason,n) ORDER BY v.name,v.n DESC "
    "ON CONFLICT(name) DO UPDATE SET is_off=excluded.is_off,off_ms=excluded.off_ms,"
    "reason=excluded.reason) "
    "SELECT count(*) FROM own";

#define MSG_COLUMNS "topic,sent_ms,sum,reason,head,body"
#define LIST_COLUMNS "id,topic,dead,deliveries,due_ms,sent_ms,"

static const struct ron_sql_stmt stmts[IOP__STMT_COUNT] = {
    [IOP__META_GET] = {.sqlite = "SELECT last_id,secret FROM meta WHERE one=1",
                       .pg = "SELECT last_id,secret FROM interop_box WHERE one=1",
                       .visible = 2},
    /* The first owner draws the secret; a later one keeps it. */
    [IOP__META_SECRET] = {.sqlite = "UPDATE meta SET secret=?1 WHERE one=1 AND secret=x''",
                          .pg = "UPDATE interop_box SET secret=$1 WHERE one=1 AND secret=''"},
    [IOP__META_ID] = {.sqlite = "UPDATE meta SET last_id=?1 WHERE last_id<?1",
                      .form = RON_SQL_GATHER,
                      .kinds = "i"},
    [IOP__TOPIC_ADD] = {.sqlite = "INSERT INTO topics(id,name) VALUES(?1,?2)",
                        .form = RON_SQL_GATHER,
                        .kinds = "it"},
    [IOP__TOPIC_DROP] = {.sqlite = "DELETE FROM topics WHERE id=?1",
                         .form = RON_SQL_GATHER,
                         .kinds = "i"},
    [IOP__TOPIC_LIST] = {.sqlite = "SELECT id,name FROM topics WHERE id>?1 ORDER BY id LIMIT ?2",
                         .pg = "SELECT id,name FROM interop_topics WHERE id>$1 ORDER BY id "
                               "LIMIT $2",
                         .visible = 2},
    [IOP__MSG_ADD] = {.sqlite = "INSERT INTO messages(id,topic,dead,deliveries,due_ms,sent_ms,sum,"
                                "reason,head,body) VALUES(?1,?2,0,0,?3,?4,?5,x'',?6,?7)",
                      .form = RON_SQL_GATHER,
                      .kinds = "iiiiibb"},
    [IOP__MSG_DROP] = {.sqlite = "DELETE FROM messages WHERE id=?1",
                       .form = RON_SQL_GATHER,
                       .kinds = "i"},
    [IOP__MSG_MOVE] = {.sqlite = "UPDATE messages SET dead=?2,deliveries=?3,due_ms=?4,reason=?5 "
                                 "WHERE id=?1",
                       .form = RON_SQL_GATHER,
                       .kinds = "iiiib"},
    [IOP__MSG_GET] = {.sqlite = "SELECT id," MSG_COLUMNS " FROM messages WHERE id=?1",
                      .visible = 7},
    /* The row of the box comes with them, and only for its owner: a superseded process hands
     * nothing out. */
    [IOP__MSG_FETCH] = {.pg = "SELECT m.id," MSG_COLUMNS " FROM interop_box b LEFT JOIN "
                              "interop_messages m ON m.id=ANY($2::int8[]) "
                              "WHERE b.one=1 AND b.epoch=$1",
                        .visible = 7},
    [IOP__MSG_LIST] = {.sqlite = "SELECT " LIST_COLUMNS "length(head)+length(body) "
                                 "FROM messages WHERE id>?1 ORDER BY id LIMIT ?2",
                       .pg = "SELECT " LIST_COLUMNS "(length(head)+length(body))::int8 "
                             "FROM interop_messages WHERE id>$1 ORDER BY id LIMIT $2",
                       .visible = 7},
    [IOP__MSG_DEAD] = {.sqlite = "SELECT id FROM messages WHERE dead=1 AND topic=?1 AND id>?2 "
                                 "ORDER BY id LIMIT ?3",
                       .pg = "SELECT id FROM interop_messages WHERE dead=1 AND topic=$1 AND id>$2 "
                             "ORDER BY id LIMIT $3",
                       .visible = 1},
    [IOP__SEEN_ADD] = {.sqlite = "INSERT INTO seen(id,at_ms,key) VALUES(?1,?2,?3)",
                       .form = RON_SQL_GATHER,
                       .kinds = "iib"},
    [IOP__SEEN_LIST] = {.sqlite = "SELECT id,at_ms,key FROM seen WHERE id>?1 ORDER BY id LIMIT ?2",
                        .pg = "SELECT id,at_ms,key FROM interop_seen WHERE id>$1 ORDER BY id "
                              "LIMIT $2",
                        .visible = 3},
    [IOP__SEEN_OLD] = {.sqlite = "SELECT coalesce(max(id),0),count(*) FROM (SELECT id,at_ms FROM "
                                 "seen ORDER BY id LIMIT ?2) WHERE at_ms<?1",
                       .pg = "SELECT coalesce(max(id),0)::int8,count(*) FROM (SELECT id,at_ms "
                             "FROM interop_seen ORDER BY id LIMIT $2) v WHERE at_ms<$1",
                       .visible = 2},
    [IOP__SEEN_DROP] = {.sqlite = "DELETE FROM seen WHERE id<=?1 AND at_ms<?2",
                        .form = RON_SQL_GATHER,
                        .kinds = "ii"},
    [IOP__TARGET_CLEAR] = {.sqlite = "DELETE FROM targets WHERE name=?1"},
    [IOP__TARGET] = {.sqlite = "INSERT INTO targets(name,off_ms,reason) SELECT ?1,?3,?4 "
                               "WHERE ?2=1",
                     .form = RON_SQL_GATHER,
                     .kinds = "biib"},
    [IOP__TARGET_GET] = {.sqlite = "SELECT reason FROM targets WHERE name=?1",
                         .pg = "SELECT reason FROM interop_targets WHERE name=$1 AND is_off=1",
                         .visible = 1},
};

const struct ron_sql_opts iop__sql_opts = {
    .name = "mailbox",
    .stmts = stmts,
    .stmt_count = IOP__STMT_COUNT,
    .application_id = APPLICATION_ID,
    .layout = LAYOUT,
    .pragmas = pragmas,
    .schema = schema,
    .client = "ron interop",
    .pg_table = "interop_box",
    .pg_prefix = "interop_",
    .pg_steps = steps,
    .pg_step_count = RON_ARRAY_LEN(steps),
    .pg_write = write_sql,
};
