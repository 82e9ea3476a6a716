/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - reads the keys of keys.h from the table of whichever service this is.
 *
 * Place: app. Every service has its own table, so the frame finds its keys by name; that happens at
 * start and at a reload, never on a request. */
#include "app/app_priv.h"

#include "ron/base/assert.h"

static size_t key_of(const struct ron_app *app, const char *name)
{
    size_t key = ron_conf_find_key(app->def->conf, name);

    RON_ASSERT(key != SIZE_MAX); /* else a group of keys.h is missing in the service's table */
    return key;
}

int64_t ron__app_int(const struct ron_app *app, const char *name)
{
    return ron_conf_int(app->conf, key_of(app, name));
}

uint32_t ron__app_ms(const struct ron_app *app, const char *name)
{
    return (uint32_t)ron_conf_ms(app->conf, key_of(app, name));
}

uint64_t ron__app_bytes(const struct ron_app *app, const char *name)
{
    return (uint64_t)ron_conf_bytes(app->conf, key_of(app, name));
}

size_t ron__app_choice(const struct ron_app *app, const char *name)
{
    return ron_conf_choice(app->conf, key_of(app, name));
}

const char *ron__app_text(const struct ron_app *app, const char *name)
{
    return ron_conf_str(app->conf, key_of(app, name)).text;
}

struct ron_conf_list ron__app_list(const struct ron_app *app, const char *name)
{
    return ron_conf_list(app->conf, key_of(app, name));
}
