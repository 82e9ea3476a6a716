/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the list keeps order under every operation and catches wrong use.
 * Method: a random driver beside a plain array as the model. */
#include "support/support.h"

#include "ron/base/list.h"

#define ITEMS 24

struct item {
    int value;
    struct ron_list_node node;
};

/* The list must read the same as the model, forwards and backwards. */
static void check(const struct ron_list *list, struct item *const *model, size_t len)
{
    size_t i = 0;

    RON_LIST_FOREACH(node, list)
    {
        assert_true(i < len);
        assert_ptr_equal(RON_LIST_ENTRY(node, struct item, node), model[i]);
        i++;
    }
    assert_int_equal(i, len);
    for (const struct ron_list_node *node = list->head.prev; node != &list->head;
         node = node->prev) {
        i--;
        assert_ptr_equal(node, &model[i]->node);
    }
    assert_int_equal(ron_list_empty(list), len == 0);
    assert_ptr_equal(ron_list_front(list), len == 0 ? NULL : &model[0]->node);
}

static size_t position(struct item *const *model, size_t len, const struct item *item)
{
    size_t i = 0;

    while (i < len && model[i] != item) {
        i++;
    }
    return i;
}

static void insert(struct item **model, size_t *len, size_t at, struct item *item)
{
    memmove(model + at + 1, model + at, (*len - at) * sizeof(*model));
    model[at] = item;
    (*len)++;
}

static void take_out(struct item **model, size_t *len, size_t at)
{
    (*len)--;
    memmove(model + at, model + at + 1, (*len - at) * sizeof(*model));
}

static void test_list__random_operations__match_an_array(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    struct item items[ITEMS] = {0};
    struct item *model[ITEMS + 1];
    struct ron_list list;
    size_t len = 0;

    ron_list_init(&list);
    for (int step = 0; step < 20000; step++) {
        struct item *item = &items[ron_rand_below(&rand, ITEMS)];
        uint64_t choice = ron_rand_below(&rand, 4);

        if (choice == 3) {
            struct ron_list_node *node = ron_list_pop_front(&list);

            assert_ptr_equal(node, len == 0 ? NULL : &model[0]->node);
            if (len > 0) {
                assert_false(ron_list_linked(node));
                take_out(model, &len, 0);
            }
        } else if (ron_list_linked(&item->node)) {
            ron_list_remove(&item->node);
            take_out(model, &len, position(model, len, item));
            assert_false(ron_list_linked(&item->node));
            assert_null(item->node.prev); /* L2 */
        } else if (choice == 0) {
            ron_list_push_front(&list, &item->node);
            insert(model, &len, 0, item);
        } else {
            ron_list_push_back(&list, &item->node);
            insert(model, &len, len, item);
        }
        check(&list, model, len);
    }
}

static void fill(struct ron_list *list, struct item *items, int count, int first)
{
    ron_list_init(list);
    for (int i = 0; i < count; i++) {
        items[i] = (struct item){.value = first + i};
        ron_list_push_back(list, &items[i].node);
    }
}

static void test_list__splice__moves_all_in_order(void **state)
{
    (void)state;
    for (int left_count = 0; left_count < 4; left_count++) {
        for (int right_count = 0; right_count < 4; right_count++) {
            struct item left_items[4];
            struct item right_items[4];
            struct ron_list left;
            struct ron_list right;
            struct item *model[8];
            size_t len = 0;

            fill(&left, left_items, left_count, 0);
            fill(&right, right_items, right_count, 10);
            for (int i = 0; i < left_count; i++) {
                model[len++] = &left_items[i];
            }
            for (int i = 0; i < right_count; i++) {
                model[len++] = &right_items[i];
            }
            ron_list_splice_back(&left, &right);
            check(&left, model, len);
            check(&right, model, 0);
        }
    }
}

static void test_list__safe_foreach__allows_unlinking_the_visited(void **state)
{
    (void)state;
    struct item items[6];
    struct ron_list list;
    int sum = 0;

    fill(&list, items, 6, 1);
    RON_LIST_FOREACH_SAFE(node, &list)
    {
        struct item *item = RON_LIST_ENTRY(node, struct item, node);

        sum += item->value;
        if (item->value % 2 == 0) {
            ron_list_remove(node);
        }
    }
    assert_int_equal(sum, 21);
    struct item *odd[] = {&items[0], &items[2], &items[4]};

    check(&list, odd, 3);
}

static void push_twice(void *arg)
{
    struct item item = {0};
    struct ron_list list;

    (void)arg;
    ron_list_init(&list);
    ron_list_push_back(&list, &item.node);
    ron_list_push_front(&list, &item.node);
}

static void remove_twice(void *arg)
{
    struct item item = {0};
    struct ron_list list;

    (void)arg;
    ron_list_init(&list);
    ron_list_push_back(&list, &item.node);
    ron_list_remove(&item.node);
    ron_list_remove(&item.node);
}

static void splice_itself(void *arg)
{
    struct ron_list list;

    (void)arg;
    ron_list_init(&list);
    ron_list_splice_back(&list, &list);
}

static void test_list__wrong_use__is_caught(void **state)
{
    (void)state;
    support_death(push_twice, NULL, "L2: node is already in a list");
    support_death(remove_twice, NULL, "L2: node is in no list");
    support_death(splice_itself, NULL, "list != from");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list__random_operations__match_an_array),
        cmocka_unit_test(test_list__splice__moves_all_in_order),
        cmocka_unit_test(test_list__safe_foreach__allows_unlinking_the_visited),
        cmocka_unit_test(test_list__wrong_use__is_caught),
    };

    return cmocka_run_group_tests_name("base.list", tests, NULL, NULL);
}
