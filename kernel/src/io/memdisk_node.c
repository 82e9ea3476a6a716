/* SPDX-License-Identifier: Apache-2.0 */
/* memdisk_node.c - names, files and pages of a disk in memory. Everything here is called with the
 * lock of the disk held. */
#include "memdisk_priv.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { PAGE = RON_MEMDISK_PAGE };

/* ---- names ----------------------------------------------------------------------------------- */

static struct ron__mem_name **slot_of(struct ron__mem_node *dir, const char *name, size_t len)
{
    struct ron__mem_name **slot = &dir->children;

    while (*slot != NULL &&
           (strncmp((*slot)->text, name, len) != 0 || (*slot)->text[len] != '\0')) {
        slot = &(*slot)->next;
    }
    return slot;
}

enum ron_rc ron__mem_find(struct ron_memdisk *d, const char *path, struct ron__mem_place *ret)
{
    struct ron__mem_place place = {.dir = d->root};

    for (;;) {
        size_t len;

        while (*path == '/') {
            path++;
        }
        len = strcspn(path, "/");
        if (len == 0) {
            break;
        }
        if (len == 1 && path[0] == '.') {
            path++;
            continue;
        }
        if (place.name != NULL) { /* the part before has to be a directory */
            if (*place.slot == NULL) {
                return RON_NOTFOUND;
            }
            place.dir = (*place.slot)->node;
        }
        if (!place.dir->is_dir || len > RON_MEMDISK_NAME_MAX) {
            return RON_INVALID;
        }
        place.name = path;
        place.name_len = len;
        place.slot = slot_of(place.dir, path, len);
        path += len;
    }
    *ret = place;
    return RON_OK;
}

struct ron__mem_node *ron__mem_at(struct ron_memdisk *d, const struct ron__mem_place *place)
{
    if (place->name == NULL) {
        return d->root;
    }
    return *place->slot != NULL ? (*place->slot)->node : NULL;
}

enum ron_rc ron__mem_add(struct ron_memdisk *d, const struct ron__mem_place *place,
                         struct ron__mem_node *node)
{
    struct ron__mem_name *name;

    (void)d;
    RON_ASSERT(place->name != NULL);
    RON_ASSERT(*place->slot == NULL);
    name = ron_alloc_zero(sizeof *name + place->name_len + 1);
    if (name == NULL) {
        return RON_NOMEM;
    }
    memcpy(name->text, place->name, place->name_len);
    name->node = node;
    node->links++;
    node->parent = node->is_dir ? place->dir : NULL;
    *place->slot = name;
    return RON_OK;
}

void ron__mem_drop(struct ron_memdisk *d, struct ron__mem_name **slot)
{
    struct ron__mem_name *name = *slot;

    *slot = name->next;
    name->node->links--;
    ron__mem_node_settle(d, name->node);
    ron_free(name);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

enum ron_rc ron__mem_node_new(struct ron_memdisk *d, bool is_dir, uint32_t mode,
                              struct ron__mem_node **ret_node)
{
    struct ron__mem_node *node;

    if (d->nodes == RON_MEMDISK_NODES_MAX) {
        return RON_LIMIT;
    }
    node = ron_alloc_zero(sizeof *node);
    if (node == NULL) {
        return RON_NOMEM;
    }
    node->is_dir = is_dir;
    node->mode = mode & 07777;
    node->mtime_ms = ron_env_wall_ms(&d->env);
    d->nodes++;
    *ret_node = node;
    return RON_OK;
}

static uint64_t page_count(uint64_t size)
{
    return size / PAGE + (size % PAGE != 0);
}

static void drop_page(struct ron_memdisk *d, struct ron__mem_node *node, size_t page)
{
    if (node->pages[page] != NULL) {
        ron_free(node->pages[page]);
        node->pages[page] = NULL;
        d->memory -= PAGE;
    }
}

void ron__mem_node_settle(struct ron_memdisk *d, struct ron__mem_node *node)
{
    if (node->links > 0 || node->opens > 0) {
        return;
    }
    for (size_t i = 0; i < node->page_cap; i++) {
        drop_page(d, node, i);
    }
    d->bytes_used -= page_count(node->size) * PAGE;
    d->nodes--;
    ron_free(node->pages);
    ron_free(node);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static enum ron_rc grow_list(struct ron__mem_node *node, uint64_t pages)
{
    size_t cap = RON_MAX(node->page_cap * 2, (size_t)pages);
    uint8_t **grown;

    if (pages <= node->page_cap) {
        return RON_OK;
    }
    grown = ron_realloc_array(node->pages, cap, sizeof *grown);
    if (grown == NULL) {
        return RON_NOMEM;
    }
    memset(grown + node->page_cap, 0, (cap - node->page_cap) * sizeof *grown);
    node->pages = grown;
    node->page_cap = cap;
    return RON_OK;
}

enum ron_rc ron__mem_resize(struct ron_memdisk *d, struct ron__mem_node *node, uint64_t size)
{
    uint64_t before = page_count(node->size);
    uint64_t after = page_count(size);

    if (after > before) {
        if (after - before > (d->bytes_max - d->bytes_used) / PAGE) {
            return RON_LIMIT;
        }
        RON_TRY(grow_list(node, after));
    }
    for (uint64_t i = after; i < before; i++) {
        drop_page(d, node, (size_t)i);
    }
    /* What lies behind the end of a shrunken file must not come back. */
    if (size < node->size && size % PAGE != 0 && node->pages[size / PAGE] != NULL) {
        memset(node->pages[size / PAGE] + size % PAGE, 0, (size_t)(PAGE - size % PAGE));
    }
    d->bytes_used += after * PAGE - before * PAGE; /* modulo 2^64: also down */
    node->size = size;
    return RON_OK;
}

static bool all_zero(const uint8_t *bytes, size_t len)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

enum ron_rc ron__mem_write(struct ron_memdisk *d, struct ron__mem_node *node, const uint8_t *bytes,
                           size_t len, uint64_t off)
{
    uint8_t **page = &node->pages[off / PAGE];
    size_t at = (size_t)(off % PAGE);

    RON_ASSERT(len > 0 && at + len <= PAGE);
    RON_ASSERT(off + len <= node->size);
    if (*page == NULL) {
        if (all_zero(bytes, len)) {
            return RON_OK; /* M2 */
        }
        *page = ron_alloc_zero(PAGE);
        if (*page == NULL) {
            return RON_NOMEM;
        }
        d->memory += PAGE;
    }
    memcpy(*page + at, bytes, len);
    return RON_OK;
}

void ron__mem_read(const struct ron__mem_node *node, uint8_t *ret_bytes, size_t len, uint64_t off)
{
    const uint8_t *page = node->pages[off / PAGE];

    if (page == NULL) {
        memset(ret_bytes, 0, len);
    } else {
        memcpy(ret_bytes, page + off % PAGE, len);
    }
}
