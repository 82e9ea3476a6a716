/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: checkpoints and cosignatures over HTTP: the notes are served as they are, and each refusal
 * of a cosignature has its own status, code and reason.
 * Method: a real server with the two handlers and a signer in memory; answers read by a plain
 * client. */
#include "unit/http/fixture.h"

#include "ledger/publish/sign.h"
#include "merkle/note_priv.h"

#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

static struct led_signer *signer;
static struct ron_note_signer witness;
static uint64_t head_size = 9; /* what the service would say */
static struct answer got;

static struct ron_tree_hash root_of(uint64_t n)
{
    struct ron_tree_hash h;

    ron_tree_hash_leaf(&n, sizeof n, &h);
    return h;
}

static void get(struct ron_http_call *call, void *arg)
{
    struct ron_tree_hash root = root_of(head_size);

    (void)arg;
    led_signer_http_get(signer, call, head_size, &root);
}

static void cosign(struct ron_http_call *call, void *arg)
{
    (void)arg;
    led_signer_http_cosign(signer, call);
}

static const struct ron_http_route routes[] = {
    {RON_HTTP_GET, "/checkpoint", get, NULL, RON_HTTP_INLINE, 0},
    {RON_HTTP_POST, "/checkpoint/cosignatures", cosign, NULL, RON_HTTP_INLINE, 0},
};

static struct web *open_web(void)
{
    uint8_t seed[RON_NOTE_SEED_BYTES] = {7};
    char text[512];
    struct ron_buf key;
    struct ron_str witness_key;

    assert_int_equal(
        ron_note_signer_make(STR("w.example/w"), RON_NOTE_COSIGNATURE, seed, &witness, NULL),
        RON_OK);
    ron_buf_init_over(&key, text, sizeof text);
    assert_int_equal(ron_note_key_write(&witness.key, &key), RON_OK);
    witness_key = STR(ron_buf_text(&key));
    assert_int_equal(led_signer_new(&(struct led_signer_opts){.env = ron_env_linux(),
                                                              .origin = STR("l.example/main"),
                                                              .witnesses = &witness_key,
                                                              .witness_count = 1},
                                    &signer, NULL),
                     RON_OK);
    return web_open(1, (struct ron_http_opts){.routes = routes, .route_count = 2});
}

static void close_web(struct web *web)
{
    web_close(web);
    led_signer_free(signer);
}

static void ask(struct web *web, const char *method, const char *target, const char *body)
{
    static struct cli c;
    static char request[2 * LED_SIGN_NOTE_SIZE];

    cli_open(&c, web);
    (void)snprintf(request, sizeof request,
                   "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", method, target,
                   strlen(body), body);
    cli_say(&c, request);
    cli_answer(&c, false, &got);
    cli_close(&c);
}

static void expect_error(int status, const char *code, const char *reason)
{
    char want[128];

    assert_int_equal(got.status, status);
    (void)snprintf(want, sizeof want, "\"code\":\"%s\"", code);
    assert_non_null(strstr(got.body, want));
    (void)snprintf(want, sizeof want, "\"reason\":\"%s\"", reason);
    assert_non_null(strstr(got.body, want));
}

static void publish(uint64_t size)
{
    struct ron_tree_hash root = root_of(size);

    led_signer_set_head(signer, size, &root);
    assert_int_equal(led_signer_save(signer, NULL), RON_OK);
}

/* The line of a key over the text of the note in `got`. */
static const char *line_by(const struct ron_note_signer *key)
{
    static char text[LED_SIGN_NOTE_SIZE];
    struct led_note note = {0};
    struct ron_buf out;

    assert_int_equal(led_note_read(STR(got.body), &note, NULL), RON_OK);
    ron_buf_init_over(&out, text, sizeof text);
    assert_int_equal(led_note_sign_line(note.text, key, 1700000000, &out, NULL), RON_OK);
    return ron_buf_text(&out);
}

static void test_led_sign_http__checkpoint__of_the_head_or_published(void **state)
{
    struct web *web = open_web();
    static char newest[WEB_ANSWER_MAX];

    (void)state;
    ask(web, "GET", "/checkpoint", "");
    assert_int_equal(got.status, 200);
    assert_non_null(strstr(got.head, "Content-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(got.head, "Cache-Control: no-cache\r\n"));
    assert_int_equal(strncmp(got.body, "l.example/main\n9\n", 17), 0);
    (void)snprintf(newest, sizeof newest, "%s", got.body);
    ask(web, "GET", "/checkpoint?witnesses=0", "");
    expect_error(404, "NOT_FOUND", "not_found");
    publish(4);
    ask(web, "GET", "/checkpoint?witnesses=0", "");
    assert_int_equal(strncmp(got.body, "l.example/main\n4\n", 17), 0);
    ask(web, "GET", "/checkpoint?witnesses=1", "");
    expect_error(404, "NOT_FOUND", "not_found");
    ask(web, "GET", "/checkpoint?witnesses=many", "");
    expect_error(400, "MALFORMED", "invalid");
    ask(web, "GET", "/checkpoint?witnesses=1&witnesses=2", "");
    expect_error(400, "MALFORMED", "invalid");
    ask(web, "GET", "/checkpoint", "");
    assert_string_equal(got.body, newest);
    close_web(web);
}

static void test_led_sign_http__cosignature__taken_once_and_served(void **state)
{
    struct web *web = open_web();
    char line[LED_SIGN_NOTE_SIZE];

    (void)state;
    publish(4);
    publish(9);
    ask(web, "GET", "/checkpoint?witnesses=0", "");
    (void)snprintf(line, sizeof line, "%s", line_by(&witness));
    ask(web, "POST", "/checkpoint/cosignatures", line);
    assert_int_equal(got.status, 200);
    assert_string_equal(got.body, "{\"taken\":1}");
    ask(web, "GET", "/checkpoint?witnesses=1", "");
    assert_int_equal(got.status, 200);
    assert_non_null(strstr(got.body, line));
    ask(web, "GET", "/checkpoint", ""); /* the head is that very checkpoint */
    assert_non_null(strstr(got.body, line));
    ask(web, "POST", "/checkpoint/cosignatures", line);
    expect_error(409, "ALREADY_SIGNED", "already_signed");
    close_web(web);
}

static void test_led_sign_http__cosignature_refused__each_with_its_error(void **state)
{
    struct web *web = open_web();
    struct ron_note_signer stranger = witness;
    uint8_t seed[RON_NOTE_SEED_BYTES] = {8};
    static char body[2 * LED_SIGN_NOTE_SIZE];

    (void)state;
    assert_int_equal(
        ron_note_signer_make(STR("w.example/x"), RON_NOTE_COSIGNATURE, seed, &stranger, NULL),
        RON_OK);
    publish(4);
    ask(web, "GET", "/checkpoint?witnesses=0", "");
    (void)snprintf(body, sizeof body, "%s", line_by(&witness));
    ask(web, "POST", "/checkpoint/cosignatures?size=5", body);
    expect_error(409, "STALE_CHECKPOINT", "stale_checkpoint");
    ask(web, "POST", "/checkpoint/cosignatures?size=x", body);
    expect_error(400, "MALFORMED", "invalid");
    ask(web, "GET", "/checkpoint?witnesses=0", "");
    (void)snprintf(body, sizeof body, "%s", line_by(&stranger));
    ask(web, "POST", "/checkpoint/cosignatures?size=4", body);
    expect_error(403, "UNKNOWN_WITNESS", "unknown_witness");
    ask(web, "GET", "/checkpoint", ""); /* of size 9 */
    (void)snprintf(body, sizeof body, "%s", line_by(&witness));
    ask(web, "POST", "/checkpoint/cosignatures?size=4", body);
    expect_error(403, "BAD_SIGNATURE", "bad_signature");
    ask(web, "POST", "/checkpoint/cosignatures", "\xe2\x80\x94 w.example/w !\n");
    expect_error(400, "MALFORMED", "invalid");
    ask(web, "POST", "/checkpoint/cosignatures", "");
    expect_error(400, "MALFORMED", "invalid");
    memset(body, 'x', LED_SIGN_NOTE_SIZE);
    body[LED_SIGN_NOTE_SIZE] = '\0';
    ask(web, "POST", "/checkpoint/cosignatures", body);
    expect_error(413, "BODY_LIMIT", "too_large");
    close_web(web);
}

static void test_led_sign_http__log_went_back__no_second_checkpoint(void **state)
{
    struct web *web = open_web();
    struct ron_tree_hash other = root_of(77);

    (void)state;
    led_signer_set_head(signer, head_size, &other);
    ask(web, "GET", "/checkpoint", "");
    expect_error(409, "STALE_CHECKPOINT", "stale_checkpoint");
    close_web(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_sign_http__checkpoint__of_the_head_or_published),
        cmocka_unit_test(test_led_sign_http__cosignature__taken_once_and_served),
        cmocka_unit_test(test_led_sign_http__cosignature_refused__each_with_its_error),
        cmocka_unit_test(test_led_sign_http__log_went_back__no_second_checkpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
