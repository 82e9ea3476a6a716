/* SPDX-License-Identifier: Apache-2.0 */
/* interop/rule/rule.c - conditions, and the actions of a delivery. rule_load.c reads the
 * settings. */
#include "interop/rule/rule.h"

#include <string.h>

#include "ron/base/assert.h"

/* ---- conditions: reading --------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum iop_cond_op op;
    bool has_text;
} ops[] = {
    {"exists", IOP_COND_EXISTS, false}, {"missing", IOP_COND_MISSING, false},
    {"=", IOP_COND_EQ, true},           {"!=", IOP_COND_NE, true},
    {"in", IOP_COND_IN, true},          {"prefix", IOP_COND_PREFIX, true},
    {"<", IOP_COND_LT, true},           {"<=", IOP_COND_LE, true},
    {">", IOP_COND_GT, true},           {">=", IOP_COND_GE, true},
};

static bool is_order(enum iop_cond_op op)
{
    return op >= IOP_COND_LT;
}

/* Cuts `rest` at its first blank; what is behind it has ptr NULL when there was none. */
static struct ron_str cut(struct ron_str *rest)
{
    const char *at = memchr(rest->ptr, ' ', rest->len);
    struct ron_str part = *rest;

    if (at == NULL) {
        *rest = (struct ron_str){NULL, 0};
        return part;
    }
    part.len = (size_t)(at - part.ptr);
    *rest = (struct ron_str){at + 1, rest->len - part.len - 1};
    return part;
}

static enum ron_rc read_op(struct ron_str word, struct ron_str rest, struct iop_cond *c,
                           struct ron_err *err)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(ops); i++) {
        if (!ron_str_is(word, ops[i].word)) {
            continue;
        }
        if (ops[i].has_text != (rest.ptr != NULL)) {
            return ron_err_set(err, RON_INVALID, "\"%s\" %s", ops[i].word,
                               ops[i].has_text ? "requires a value" : "takes no value");
        }
        c->op = ops[i].op;
        c->text = rest.ptr == NULL ? (struct ron_str){"", 0} : rest;
        return !is_order(c->op) || iop_decimal_parse(rest, &c->number)
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID, "'%s' requires a decimal number", ops[i].word);
    }
    return ron_err_set(
        err, RON_INVALID,
        "expected exists, missing, =, !=, in, prefix, <, <=, > or >= after the pointer");
}

enum ron_rc iop_cond_parse(struct ron_str text, struct iop_cond *ret_cond, struct ron_err *err)
{
    struct iop_cond c = {.text = {"", 0}};
    struct ron_str rest = text;
    struct ron_str pointer = cut(&rest);
    struct ron_str word;

    if (pointer.len == 0 || pointer.len >= sizeof c.pointer || rest.ptr == NULL) {
        return ron_err_set(err, RON_INVALID,
                           "invalid condition; expected a pointer, a space and a test");
    }
    memcpy(c.pointer, pointer.ptr, pointer.len);
    if (memchr(pointer.ptr, '\0', pointer.len) != NULL) {
        return ron_err_set(err, RON_INVALID, "NUL in a JSON pointer");
    }
    RON_TRY(iop_pointer_check(c.pointer, err));
    word = cut(&rest);
    RON_TRY(read_op(word, rest, &c, err));
    *ret_cond = c;
    return RON_OK;
}

/* ---- conditions: holding --------------------------------------------------------------------- */

/* Numbers by their value, everything else by its text. */
static bool equals(const struct iop_value *value, struct ron_str text)
{
    struct iop_decimal a;
    struct iop_decimal b;

    if (value->kind != IOP_NUMBER) {
        return iop_value_is(value, text);
    }
    return iop_decimal_parse(value->raw, &a) && iop_decimal_parse(text, &b) &&
           iop_decimal_compare(&a, &b) == 0;
}

static bool is_one_of(const struct iop_value *value, struct ron_str list)
{
    while (list.ptr != NULL) {
        const char *at = memchr(list.ptr, '|', list.len);
        struct ron_str item = {list.ptr, at == NULL ? list.len : (size_t)(at - list.ptr)};

        if (equals(value, item)) {
            return true;
        }
        list = at == NULL ? (struct ron_str){NULL, 0}
                          : (struct ron_str){at + 1, list.len - item.len - 1};
    }
    return false;
}

/* A number, or a string that is one. */
static bool in_order(const struct iop_cond *c, const struct iop_value *value)
{
    struct iop_decimal d;
    int order;

    if ((value->kind != IOP_NUMBER && value->kind != IOP_STRING) ||
        !iop_decimal_parse(value->raw, &d)) {
        return false;
    }
    order = iop_decimal_compare(&d, &c->number);
    return c->op == IOP_COND_LT   ? order < 0
           : c->op == IOP_COND_LE ? order <= 0
           : c->op == IOP_COND_GT ? order > 0
                                  : order >= 0;
}

bool iop_cond_holds(const struct iop_cond *c, const struct iop_doc *doc)
{
    struct iop_value value;
    enum iop_found found = iop_pointer_find(doc, c->pointer, &value);

    if (found != IOP_FOUND) {
        return found == IOP_MISSING && c->op == IOP_COND_MISSING;
    }
    switch (c->op) {
    case IOP_COND_EXISTS:
        return true;
    case IOP_COND_MISSING:
        return false;
    case IOP_COND_EQ:
        return equals(&value, c->text);
    case IOP_COND_NE:
        return !equals(&value, c->text);
    case IOP_COND_IN:
        return is_one_of(&value, c->text);
    case IOP_COND_PREFIX:
        return iop_value_begins(&value, c->text);
    case IOP_COND_LT:
    case IOP_COND_LE:
    case IOP_COND_GT:
    case IOP_COND_GE:
        return in_order(c, &value);
    }
    RON_UNREACHABLE();
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool names_event(const struct iop_rule *rule, struct ron_str event)
{
    for (size_t i = 0; i < rule->events.count; i++) {
        struct ron_conf_str e = rule->events.items[i];
        bool prefix = e.len > 0 && e.text[e.len - 1] == '*';
        size_t len = e.len - prefix;

        if ((prefix ? event.len >= len : event.len == len) && memcmp(event.ptr, e.text, len) == 0) {
            return true;
        }
    }
    return rule->events.count == 0;
}

static bool matches(const struct iop_rule *rule, const struct iop_rule_input *in)
{
    if (strcmp(rule->provider.text, "*") != 0 && strcmp(rule->provider.text, in->provider) != 0) {
        return false;
    }
    if (!names_event(rule, in->event)) {
        return false;
    }
    for (size_t i = 0; i < rule->cond_count; i++) {
        if (!iop_cond_holds(&rule->conds[i], in->doc)) {
            return false;
        }
    }
    return true;
}

/* ---- values of the body in texts of the settings --------------------------------------------- */

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static enum iop_fault read_value(const struct iop_doc *doc, struct ron_str pointer, char *out,
                                 size_t size, size_t *ret_len)
{
    char text[IOP_POINTER_MAX];
    struct iop_value value;

    RON_ASSERT(pointer.len < sizeof text);
    memcpy(text, pointer.ptr, pointer.len);
    text[pointer.len] = '\0';
    switch (iop_pointer_find(doc, text, &value)) {
    case IOP_MISSING:
        return IOP_FAULT_VALUE_MISSING;
    case IOP_TWICE:
        return IOP_FAULT_VALUE_TWICE;
    case IOP_FOUND:
        break;
    }
    if (value.kind == IOP_NULL) {
        return IOP_FAULT_VALUE_MISSING;
    }
    return iop_value_text(&value, out, size, ret_len) == RON_OK && *ret_len > 0
               ? IOP_FAULT_NONE
               : IOP_FAULT_VALUE_FORM;
}

/* Puts values in the place of {/pointer}. A value beside other text is one part of a name: it may
 * not bring separators along, or "user/{...}" could be made to name another branch. */
static enum iop_fault expand(struct ron_conf_str template, const struct iop_doc *doc, char *out,
                             size_t size)
{
    const char *p = template.text;
    size_t len = 0;

    while (*p != '\0') {
        const char *close = *p == '{' ? strchr(p, '}') : NULL;
        bool whole = close != NULL && p == template.text && close[1] == '\0';
        size_t added = 0;
        enum iop_fault fault;

        if (close == NULL) {
            if (len == size) {
                return IOP_FAULT_VALUE_FORM;
            }
            out[len++] = *p++;
            continue;
        }
        fault = read_value(doc, (struct ron_str){p + 1, (size_t)(close - p) - 1}, out + len,
                           size - len, &added);
        if (fault != IOP_FAULT_NONE) {
            return fault;
        }
        for (size_t i = 0; !whole && i < added; i++) {
            if (!is_word_char(out[len + i])) {
                return IOP_FAULT_VALUE_FORM;
            }
        }
        len += added;
        p = close + 1;
    }
    out[len] = '\0'; /* the room has one byte more than `size` */
    return memchr(out, '\0', len) == NULL ? IOP_FAULT_NONE : IOP_FAULT_VALUE_FORM;
}

/* ---- actions --------------------------------------------------------------------------------- */

static bool is_account(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (!is_word_char(*p) && *p != ':' && *p != '/') {
            return false;
        }
    }
    return text[0] != '\0';
}

static bool is_asset(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool lower = *p >= 'a' && *p <= 'z';
        bool other = (*p >= '0' && *p <= '9') || *p == '.' || *p == '_' || *p == '-';

        if (!lower && (p == text || !other)) {
            return false;
        }
    }
    return text[0] != '\0';
}

static enum iop_fault read_amount(const struct iop_rule *rule, const struct iop_doc *doc,
                                  struct ron_money *ret_amount)
{
    char text[128]; /* 39 digits and what a sender may write around them */
    struct iop_decimal d;
    enum iop_fault fault = expand(rule->amount, doc, text, sizeof text - 1);

    if (fault != IOP_FAULT_NONE) {
        return fault;
    }
    return iop_decimal_parse((struct ron_str){text, strlen(text)}, &d) &&
                   iop_decimal_money(&d, rule->scale, ret_amount) == RON_OK &&
                   !ron_money_is_zero(*ret_amount)
               ? IOP_FAULT_NONE
               : IOP_FAULT_AMOUNT;
}

static enum iop_fault read_account(struct ron_conf_str template, const struct iop_doc *doc,
                                   char out[IOP_ACCOUNT_MAX + 1])
{
    enum iop_fault fault = expand(template, doc, out, IOP_ACCOUNT_MAX);

    return fault != IOP_FAULT_NONE ? fault : is_account(out) ? fault : IOP_FAULT_ACCOUNT;
}

static enum iop_fault fill_wallet(const struct iop_rule *rule, const struct iop_doc *doc,
                                  struct iop_action *a)
{
    enum iop_fault fault = read_account(rule->to, doc, a->to);

    if (fault == IOP_FAULT_NONE && rule->op == IOP_OP_TRANSFER) {
        fault = read_account(rule->from, doc, a->from);
    }
    if (fault == IOP_FAULT_NONE) {
        fault = expand(rule->asset, doc, a->asset, IOP_ASSET_MAX);
        fault = fault == IOP_FAULT_NONE && !is_asset(a->asset) ? IOP_FAULT_ASSET : fault;
    }
    return fault != IOP_FAULT_NONE ? fault : read_amount(rule, doc, &a->amount);
}

static void make_idem_key(const struct iop_rule_input *in, const struct iop_rule *rule,
                          char out[IOP_IDEM_KEY_SIZE])
{
    static const char context[] = "ron interop action 1";
    struct ron_b3_hasher h;
    struct ron_b3 hash;

    ron_b3_init(&h);
    ron_b3_update(&h, context, sizeof context);
    ron_b3_update(&h, in->provider, strlen(in->provider) + 1);
    ron_b3_update(&h, in->key.bytes, sizeof in->key.bytes);
    ron_b3_update(&h, rule->name, strlen(rule->name));
    ron_b3_final(&h, &hash);
    ron_b3_format_hex(&hash, out);
    out[RON_B3_HEX_LEN] = '\0';
}

static void make_action(const struct iop_rule *rule, const struct iop_rule_input *in,
                        struct iop_action *a)
{
    RON_ASSERT(in->doc != NULL);
    memset(a, 0, sizeof *a);
    a->rule = rule;
    make_idem_key(in, rule, a->idem_key);
    if (rule->action == IOP_ACT_WALLET) {
        a->fault = fill_wallet(rule, in->doc, a);
    }
    if (a->fault != IOP_FAULT_NONE) {
        a->from[0] = a->to[0] = a->asset[0] = '\0';
        a->amount = RON_MONEY_ZERO; /* R2 */
    }
}

size_t iop_rules_apply(const struct iop_rules *rules, const struct iop_rule_input *input,
                       struct iop_action ret_actions[IOP_ACTIONS_MAX], bool *ret_more)
{
    size_t count = 0;

    RON_ASSERT(input->provider != NULL);
    *ret_more = false;
    for (size_t i = 0; i < rules->count; i++) {
        const struct iop_rule *rule = &rules->at[i];

        if (!matches(rule, input)) {
            continue;
        }
        if (count == IOP_ACTIONS_MAX) {
            *ret_more = true;
            break;
        }
        make_action(rule, input, &ret_actions[count++]);
        if (rule->stop) {
            break;
        }
    }
    RON_ASSERT_MSG(count <= IOP_ACTIONS_MAX, "R1: a delivery has a bounded number of actions");
    return count;
}

/* ---- names of faults ------------------------------------------------------------------------- */

const char *iop_fault_label(enum iop_fault fault)
{
    static const char *const labels[] = {
#define X(name, label, message) label,
        IOP_FAULTS(X)
#undef X
    };

    RON_ASSERT(fault < RON_ARRAY_LEN(labels));
    return labels[fault];
}

const char *iop_fault_message(enum iop_fault fault)
{
    static const char *const messages[] = {
#define X(name, label, message) message,
        IOP_FAULTS(X)
#undef X
    };

    RON_ASSERT(fault < RON_ARRAY_LEN(messages));
    return messages[fault];
}
