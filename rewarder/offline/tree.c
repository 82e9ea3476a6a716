/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/tree.c - `ron reward tree oz`, `rocketpool`: a tree from the payouts of a run,
 * or from CSV. (Checking and proving: tree_read.c.)
 *
 * CSV: a line for each leaf, values between commas; one in double quotes may hold commas and,
 * doubled, quotes, but no end of line. Empty lines are skipped, CR LF is fine. */
#include <inttypes.h>
#include <string.h>

#include "rewarder/offline/tree.h"
#include "rewarder/run/payouts.h"
#include "rewarder/tree/claims.h"
#include "ron/io/linux_env.h"

/* The largest tree with 78 digits in each leaf stays below; and a size fits 31 bits. */
enum { CSV_BYTES_MAX = INT32_MAX, RP_VALUES = 4 };

/* ---- lines ----------------------------------------------------------------------------------- */

/* The next line; its text is changed when values are taken from it. */
static bool next_line(char **at, char *end, struct ron_str *ret_line)
{
    char *begin = *at;
    char *stop;
    size_t len;

    if (begin == end) {
        return false;
    }
    stop = memchr(begin, '\n', (size_t)(end - begin));
    *at = stop == NULL ? end : stop + 1;
    len = (size_t)((stop == NULL ? end : stop) - begin);
    if (len > 0 && begin[len - 1] == '\r') {
        len--;
    }
    *ret_line = (struct ron_str){begin, len};
    return true;
}

/* A value in quotes, resolved in place. Returns what is behind it, NULL when it has no end. */
static char *quoted(char *p, const char *end, struct ron_str *ret_value)
{
    char *to = p + 1;
    char *begin = to;

    for (char *from = to; from < end; from++) {
        if (*from == '"') {
            if (from + 1 == end || from[1] != '"') {
                *ret_value = (struct ron_str){begin, (size_t)(to - begin)};
                return from + 1;
            }
            from++;
        }
        *to++ = *from;
    }
    return NULL;
}

/* Exactly `count` values of a line. */
static enum ron_rc split(char *line, size_t len, struct ron_str *values, size_t count,
                         struct ron_err *err)
{
    const char *end = line + len;
    char *p = line;

    for (size_t i = 0; i < count; i++) {
        if (p < end && *p == '"') {
            p = quoted(p, end, &values[i]);
            if (p == NULL) {
                return ron_err_set(err, RON_INVALID, "value %zu has no closing quote", i + 1);
            }
        } else {
            char *comma = memchr(p, ',', (size_t)(end - p));
            char *stop = comma == NULL ? line + len : comma;

            values[i] = (struct ron_str){p, (size_t)(stop - p)};
            p = stop;
        }
        if (i + 1 < count) {
            if (p == end || *p != ',') {
                return ron_err_set(err, RON_INVALID, "%zu values are expected", count);
            }
            p++;
        }
    }
    return p == end ? RON_OK : ron_err_set(err, RON_INVALID, "%zu values are expected", count);
}

/* Gives the values of each line to `add`. */
struct csv {
    const char *path;
    bool header;
    size_t values;
    enum ron_rc (*add)(void *tree, const struct ron_str *values, struct ron_err *err);
    void *tree;
};

static enum ron_rc read_csv(const struct csv *csv, struct ron_err *err)
{
    struct ron_str values[RWD_ABI_TYPES_MAX] = {0};
    struct ron_str line;
    struct ron_buf text;
    uint64_t number = 0;
    enum ron_rc rc;

    ron_buf_init(&text, CSV_BYTES_MAX);
    rc = ron_file_read_all(ron_env_linux(), csv->path, &text, err);
    if (rc == RON_OK) {
        char *at = (char *)text.memory + text.head;
        char *end = at + ron_buf_len(&text);

        while (rc == RON_OK && ron_buf_len(&text) > 0 && next_line(&at, end, &line)) {
            number++;
            if (line.len == 0 || (number == 1 && csv->header)) {
                continue;
            }
            rc = split((char *)(uintptr_t)line.ptr, line.len, values, csv->values, err);
            if (rc == RON_OK) {
                rc = csv->add(csv->tree, values, err);
            }
            if (rc != RON_OK) {
                ron_err_prefix(err, "%s: line %" PRIu64, csv->path, number);
            }
        }
    }
    ron_buf_done(&text);
    return rc;
}

/* ---- payouts --------------------------------------------------------------------------------- */

struct take {
    struct rwd_claims *claims;
    enum ron_rc rc;
    struct ron_err *err;
};

static bool take_payout(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    struct take *t = arg;

    (void)index;
    t->rc = rwd_claims_add(t->claims, payout->account, payout->amount, t->err);
    return t->rc == RON_OK;
}

static enum ron_rc read_run(const char *dir, struct rwd_claims *claims, struct ron_err *err)
{
    struct take take = {.claims = claims, .err = err};
    struct rwd_payouts *payouts = NULL;
    enum ron_rc rc;

    RON_TRY(rwd_payouts_open(ron_env_linux(), dir, &payouts, err));
    rc = rwd_payouts_each(payouts, 0, rwd_payouts_count(payouts), take_payout, &take, err);
    rwd_payouts_close(payouts);
    if (rc == RON_OK) {
        rc = take.rc;
    }
    if (rc == RON_OK && claims->count == 0) {
        rc = ron_err_set(err, RON_INVALID,
                         "none of the %" PRIu64 " payees in %s is an address (0x and 40 digits, "
                         "perhaps behind a colon)",
                         claims->left_out, dir);
    }
    return rc == RON_OK ? rwd_claims_seal(claims, err) : rc;
}

/* ---- trees ----------------------------------------------------------------------------------- */

static void tell(struct ron_buf *out, const struct rwd_keccak *root, size_t leaves,
                 const struct rwd_claims *claims, uint64_t idle)
{
    char text[RWD_HASH_TEXT];

    rwd_hex_put(root->bytes, RWD_KECCAK_BYTES, text);
    ron_buf_append_fmt(out, "root        %.*s\nleaves      %zu\n", RWD_HASH_TEXT, text, leaves);
    if (claims->left_out > 0) {
        ron_buf_append_fmt(out, "left out    %" PRIu64 " payees whose account is no address\n",
                           claims->left_out);
    }
    if (claims->merged > 0) {
        ron_buf_append_fmt(out, "merged      %" PRIu64 " accounts with an address of another one\n",
                           claims->merged);
    }
    if (idle > 0) {
        ron_buf_append_fmt(out, "left out    %" PRIu64 " nodes that are paid nothing\n", idle);
    }
}

/* Types between commas. */
static enum ron_rc new_oz(const char *types, struct rwd_oz **ret_oz, struct ron_err *err)
{
    struct ron_str names[RWD_ABI_TYPES_MAX + 1];
    size_t count = 0;

    for (const char *p = types; p != NULL && count <= RWD_ABI_TYPES_MAX; count++) {
        const char *comma = strchr(p, ',');

        names[count] = (struct ron_str){p, comma == NULL ? strlen(p) : (size_t)(comma - p)};
        p = comma == NULL ? NULL : comma + 1;
    }
    return rwd_oz_new(names, count, ret_oz, err);
}

static enum ron_rc add_oz(void *tree, const struct ron_str *values, struct ron_err *err)
{
    return rwd_oz_add(tree, values, err);
}

static enum ron_rc write_oz(const struct rwd_oz *oz, const char *path, struct ron_err *err)
{
    struct rwd_tree_file file;
    struct rwd_sink sink;

    RON_TRY(rwd_tree_file_open(ron_env_linux(), path, &file, err));
    sink = rwd_tree_file_sink(&file);
    return rwd_tree_file_close(&file, rwd_oz_dump(oz, &sink, err), err);
}

static enum ron_rc make_oz(const struct rwd_tool_tree *t, struct ron_buf *out, struct ron_err *err)
{
    struct rwd_claims claims = {0};
    struct rwd_oz *oz = NULL;
    enum ron_rc rc;

    if (t->run_dir != NULL) {
        rc = read_run(t->run_dir, &claims, err);
        if (rc == RON_OK) {
            rc = rwd_claims_oz(&claims, &oz, err);
        }
    } else {
        rc = new_oz(t->types, &oz, err);
        if (rc == RON_OK) {
            struct csv csv = {t->csv_path, t->csv_header, rwd_oz_types(oz)->count, add_oz, oz};

            rc = read_csv(&csv, err);
        }
        if (rc == RON_OK) {
            rc = rwd_oz_build(oz, err);
        }
    }
    if (rc == RON_OK) {
        rc = write_oz(oz, t->out_path, err);
    }
    if (rc == RON_OK) {
        tell(out, rwd_oz_root(oz), rwd_oz_count(oz), &claims, 0);
    }
    rwd_oz_free(oz);
    rwd_claims_done(&claims);
    return rc;
}

struct rp_csv {
    struct rwd_rp *rp;
    uint64_t idle;
};

static enum ron_rc add_rp(void *tree, const struct ron_str *values, struct ron_err *err)
{
    struct rp_csv *csv = tree;
    struct rwd_rp_reward reward = {0};
    struct ron_money network;

    if (!rwd_hex_get(values[0], reward.address, RWD_ADDRESS_BYTES)) {
        return ron_err_set(err, RON_INVALID, "value 1 is no address");
    }
    if (ron_money_parse(values[1].ptr, values[1].len, &network, NULL) != RON_OK ||
        network.v > UINT64_MAX) {
        return ron_err_set(err, RON_INVALID, "value 2 is no network");
    }
    reward.network = (uint64_t)network.v;
    if (!rwd_u256_get(values[2], reward.collateral_rpl) ||
        !rwd_u256_get(values[3], reward.pool_eth)) {
        return ron_err_set(err, RON_INVALID, "values 3 and 4 are amounts of RPL and ETH in wei");
    }
    if (!rwd_rp_pays(&reward)) {
        csv->idle++;
        return RON_OK;
    }
    return rwd_rp_add(csv->rp, &reward, err);
}

static enum ron_rc write_rp(const struct rwd_rp *rp, const char *path, struct ron_err *err)
{
    struct rwd_tree_file file;
    struct rwd_sink sink;

    RON_TRY(rwd_tree_file_open(ron_env_linux(), path, &file, err));
    sink = rwd_tree_file_sink(&file);
    return rwd_tree_file_close(&file, rwd_rp_write(rp, &sink, err), err);
}

static enum ron_rc make_rp(const struct rwd_tool_tree *t, struct ron_buf *out, struct ron_err *err)
{
    struct rwd_claims claims = {0};
    struct rp_csv read = {0};
    enum ron_rc rc;

    if (t->run_dir != NULL) {
        rc = read_run(t->run_dir, &claims, err);
        if (rc == RON_OK) {
            rc = rwd_claims_rp(&claims, t->network, t->as_eth, &read.rp, err);
        }
    } else {
        rc = rwd_rp_new(false, &read.rp, err);
        if (rc == RON_OK) {
            struct csv csv = {t->csv_path, t->csv_header, RP_VALUES, add_rp, &read};

            rc = read_csv(&csv, err);
        }
        if (rc == RON_OK) {
            rc = rwd_rp_build(read.rp, err);
        }
    }
    if (rc == RON_OK) {
        rc = write_rp(read.rp, t->out_path, err);
    }
    if (rc == RON_OK) {
        tell(out, rwd_rp_root(read.rp), rwd_rp_count(read.rp), &claims, read.idle);
    }
    rwd_rp_free(read.rp);
    rwd_claims_done(&claims);
    return rc;
}

enum ron_rc rwd_tool_tree_make(const struct rwd_tool_tree *t, struct ron_buf *out,
                               struct ron_err *err)
{
    if ((t->run_dir == NULL) == (t->csv_path == NULL)) {
        return ron_err_set(err, RON_INVALID, "either a run or a CSV file is needed");
    }
    return t->rocket_pool ? make_rp(t, out, err) : make_oz(t, out, err);
}
