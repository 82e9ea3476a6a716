/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/front/request.c - the body of POST .../compute: members, their grammar, what each
 * refusal says.
 *
 * Place: service, on the workers of the HTTP front; pure, and fuzzed. */
#include <string.h>

#include "rewarder/front/front.h"

struct ledger_ref {
    struct ron_str root;
    uint64_t seq;
    uint64_t present;
};

struct compute_body {
    struct ron_str inputs_cid;
    struct ron_str policy_id;
    struct ron_str policy_hash;
    bool dry_run;
    struct ron_str notes;
    struct ron_str snapshot;
    struct ron_str policy;
    struct ron_str carry_from;
    struct ledger_ref ledger;
    uint64_t present;
};

static const struct ron_json_field ledger_fields[] = {
    RON_JSON_FIELD(struct ledger_ref, root, STRING, .required = true, .max = 64),
    RON_JSON_FIELD(struct ledger_ref, seq, U64, .required = true),
};
static const struct ron_json_shape ledger_shape =
    RON_JSON_SHAPE(struct ledger_ref, ledger_fields, present);

enum { FIELD_LEDGER = 8 };
static const struct ron_json_field compute_fields[] = {
    RON_JSON_FIELD(struct compute_body, inputs_cid, STRING, .required = true, .max = 128),
    RON_JSON_FIELD(struct compute_body, policy_id, STRING, .required = true,
                   .max = RWD_POLICY_ID_MAX),
    RON_JSON_FIELD(struct compute_body, policy_hash, STRING, .required = true, .max = 128),
    RON_JSON_FIELD(struct compute_body, dry_run, BOOL, .required = false),
    RON_JSON_FIELD(struct compute_body, notes, STRING, .required = false, .max = 1024),
    RON_JSON_FIELD(struct compute_body, snapshot, RAW, .required = false, .nullable = true),
    RON_JSON_FIELD(struct compute_body, policy, RAW, .required = false, .nullable = true),
    RON_JSON_FIELD(struct compute_body, carry_from, STRING, .required = false, .nullable = true,
                   .max = RWD_EPOCH_MAX),
    RON_JSON_FIELD(struct compute_body, ledger, OBJECT, .required = false, .nullable = true,
                   .shape = &ledger_shape),
};
static const struct ron_json_shape compute_shape =
    RON_JSON_SHAPE(struct compute_body, compute_fields, present);

/* The members that have a grammar of their own. */
static bool check_body(const struct compute_body *b, struct rwd_work_req *w,
                       struct rwd_fault *ret_fault)
{
    struct ron_err err = {0};
    struct ron_b3 root;

    if (ron_b3_parse(b->inputs_cid.ptr, b->inputs_cid.len, &w->inputs_cid, &err) != RON_OK) {
        rwd_fault_set(ret_fault, RWD_ERROR_SCHEMA, "inputs_cid: \"b3:\" and 64 lowercase digits");
    } else if (ron_b3_parse(b->policy_hash.ptr, b->policy_hash.len, &w->policy_hash, &err) !=
               RON_OK) {
        rwd_fault_set(ret_fault, RWD_ERROR_SCHEMA, "policy_hash: \"b3:\" and 64 lowercase digits");
    } else if (!rwd_policy_id_ok(b->policy_id)) {
        rwd_fault_set(ret_fault, RWD_ERROR_SCHEMA, "policy_id: not a name of a policy");
    } else if (b->carry_from.len > 0 && !rwd_epoch_ok(b->carry_from)) {
        rwd_fault_set(ret_fault, RWD_ERROR_SCHEMA, "carry_from: not a name of an epoch");
    } else if ((b->present >> FIELD_LEDGER & 1) != 0 &&
               !ron_b3_parse_hex(b->ledger.root.ptr, b->ledger.root.len, &root)) {
        rwd_fault_set(ret_fault, RWD_ERROR_SCHEMA, "ledger.root: 64 lowercase digits");
    } else {
        w->has_ledger = (b->present >> FIELD_LEDGER & 1) != 0;
        if (w->has_ledger) {
            memcpy(w->ledger_root.bytes, root.bytes, sizeof w->ledger_root.bytes);
            w->ledger_seq = b->ledger.seq;
        }
        w->policy_id = b->policy_id;
        w->snapshot = b->snapshot;
        w->policy = b->policy;
        w->carry_epoch = b->carry_from;
        w->dry = b->dry_run;
        return true;
    }
    return false;
}

bool rwd_request_read(char *text, size_t len, struct rwd_work_req *w, struct rwd_fault *ret_fault)
{
    struct compute_body b = {0};
    struct ron_json_error why = {0};

    if (ron_json_scan(text, len, &compute_shape, NULL, &b, &why) != RON_OK) {
        struct ron_err err = {0};

        RON_IGNORE(ron_err_set(&err, RON_INVALID, "%s%s%s", why.field,
                               why.field[0] != '\0' ? ": " : "", why.reason));
        rwd_fault_set(ret_fault, RWD_ERROR_SCHEMA, err.msg);
        return false;
    }
    return check_body(&b, w, ret_fault);
}
