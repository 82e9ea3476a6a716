/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/file.c - what both kinds of the mailbox's storage share; contract in file.h. */
#include "interop/mailbox/file.h"

#include <endian.h>
#include <string.h>

#include "ron/base/env.h"

enum { CHECK_BYTES = 8 };

/* ---- rows ------------------------------------------------------------------------------------ */

uint64_t iop_row_sum(uint64_t id, uint32_t topic, uint64_t sent_ms, struct ron_str head,
                     struct ron_str body)
{
    uint64_t facts[4] = {htole64(id), htole64(topic), htole64(sent_ms), htole64(head.len)};
    struct ron_b3_hasher h;
    uint64_t sum;

    ron_b3_init(&h);
    ron_b3_update(&h, facts, sizeof facts);
    ron_b3_update(&h, head.ptr, head.len);
    ron_b3_update(&h, body.ptr, body.len);
    ron_b3_final_long(&h, &sum, CHECK_BYTES);
    return le64toh(sum);
}

void iop_file_new_secret(const struct ron_env *env, uint8_t ret_secret[RON_B3_BYTES])
{
    for (size_t i = 0; i < RON_B3_BYTES; i += sizeof(uint64_t)) {
        uint64_t word = env->rand_u64(env);

        memcpy(ret_secret + i, &word, sizeof word);
    }
}

enum ron_rc iop_load_topic(const struct iop_file_load *load, uint64_t row, struct ron_str name)
{
    if ((!iop_topic_valid(name) && !iop_topic_internal(name)) || row == 0 || row >= UINT32_MAX) {
        return RON_CORRUPT;
    }
    return load->topic(load->arg, (uint32_t)row, name);
}

enum ron_rc iop_load_message(const struct iop_file_load *load, const uint64_t facts[IOP_LOAD_FACTS])
{
    uint64_t id = facts[0];
    uint64_t topic = facts[1];
    uint64_t deliveries = facts[3];
    uint64_t bytes = facts[6];

    if (id == 0 || id > INT64_MAX || topic > UINT32_MAX || deliveries > UINT32_MAX ||
        bytes > UINT32_MAX) {
        return RON_CORRUPT;
    }
    return load->message(load->arg, id, (uint32_t)topic, facts[2] != 0, (uint32_t)deliveries,
                         facts[4], facts[5], (uint32_t)bytes);
}

enum ron_rc iop_load_seen(const struct iop_file_load *load, uint64_t at_ms, struct ron_str bytes)
{
    struct iop_key key;

    if (bytes.len != sizeof key.bytes) {
        return RON_CORRUPT;
    }
    memcpy(key.bytes, bytes.ptr, sizeof key.bytes);
    return load->seen(load->arg, &key, at_ms);
}

/* ---- the kinds ------------------------------------------------------------------------------- */

enum ron_rc iop_file_open(const struct iop_file_opts *opts, struct iop_file **ret_file,
                          struct ron_err *err)
{
    return opts->dsn != NULL ? iop_file_open_pg(opts, ret_file, err)
                             : iop_file_open_sqlite(opts->env, opts->path, ret_file, err);
}

void iop_file_close(struct iop_file *f)
{
    if (f != NULL) {
        f->ops->close(f);
    }
}

const char *iop_file_kind(const struct iop_file *f)
{
    return f->ops->name;
}

const uint8_t *iop_file_secret(const struct iop_file *f)
{
    return f->secret;
}

uint64_t iop_file_last_id(const struct iop_file *f)
{
    return f->last_id;
}

uint64_t iop_file_swept(const struct iop_file *f)
{
    return f->swept;
}

enum ron_rc iop_file_look(struct iop_file *f, bool *ret_stale, struct ron_err *err)
{
    return f->ops->look(f, ret_stale, err);
}

enum ron_rc iop_file_load(struct iop_file *f, const struct iop_file_load *load, struct ron_err *err)
{
    return f->ops->load(f, load, err);
}

enum ron_rc iop_file_begin(struct iop_file *f, struct ron_err *err)
{
    return f->ops->begin(f, err);
}

enum ron_rc iop_file_commit(struct iop_file *f, uint64_t last_id, struct ron_err *err)
{
    return f->ops->commit(f, last_id, err);
}

void iop_file_rollback(struct iop_file *f)
{
    f->ops->rollback(f);
}

enum ron_rc iop_file_add_topic(struct iop_file *f, uint32_t row, struct ron_str name,
                               struct ron_err *err)
{
    return f->ops->add_topic(f, row, name, err);
}

enum ron_rc iop_file_drop_topic(struct iop_file *f, uint32_t row, struct ron_err *err)
{
    return f->ops->drop_topic(f, row, err);
}

enum ron_rc iop_file_add(struct iop_file *f, uint64_t id, uint32_t topic, uint64_t due_ms,
                         uint64_t sent_ms, const struct iop_msg *msg, struct ron_err *err)
{
    return f->ops->add(f, id, topic, due_ms, sent_ms, msg, err);
}

enum ron_rc iop_file_drop(struct iop_file *f, uint64_t id, struct ron_err *err)
{
    return f->ops->drop(f, id, err);
}

enum ron_rc iop_file_move(struct iop_file *f, uint64_t id, bool dead, uint32_t deliveries,
                          uint64_t due_ms, struct ron_str reason, struct ron_err *err)
{
    reason.len = RON_MIN(reason.len, (size_t)IOP_REASON_MAX);
    return f->ops->move(f, id, dead, deliveries, due_ms, reason, err);
}

enum ron_rc iop_file_add_seen(struct iop_file *f, const struct iop_key *key, uint64_t at_ms,
                              struct ron_err *err)
{
    return f->ops->add_seen(f, key, at_ms, err);
}

enum ron_rc iop_file_drop_seen(struct iop_file *f, uint64_t before_ms, uint32_t max,
                               struct ron_err *err)
{
    return f->ops->drop_seen(f, before_ms, max, err);
}

enum ron_rc iop_file_target(struct iop_file *f, struct ron_str name, bool off, uint64_t at_ms,
                            struct ron_str reason, struct ron_err *err)
{
    reason.len = RON_MIN(reason.len, (size_t)IOP_REASON_MAX);
    return f->ops->target(f, name, off, at_ms, reason, err);
}

enum ron_rc iop_file_dead(struct iop_file *f, uint32_t topic, uint64_t after_id, uint64_t *ret_ids,
                          uint32_t max, uint32_t *ret_count, struct ron_err *err)
{
    return f->ops->dead(f, topic, after_id, ret_ids, max, ret_count, err);
}

enum ron_rc iop_file_target_off(struct iop_file *f, struct ron_str name, bool *ret_off,
                                struct ron_buf *reason, struct ron_err *err)
{
    return f->ops->target_off(f, name, ret_off, reason, err);
}

enum ron_rc iop_file_fetch(struct iop_file *f, const uint64_t *ids, uint32_t count,
                           struct ron_err *err)
{
    return f->ops->fetch(f, ids, count, err);
}

enum ron_rc iop_file_get(struct iop_file *f, uint64_t id, uint32_t topic, struct iop_row *ret_row,
                         struct ron_err *err)
{
    return f->ops->get(f, id, topic, ret_row, err);
}
