/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the signer keeps one identity and one root for a size, whatever happens to its files; what
 * it publishes is on the disk first; no cosignature is lost among many at once.
 * Method: a folder of its own with real files, a clock of the test's, witnesses made by led_note;
 * threads that ask, cosign and publish at once. */
#include "unit/ledger/sign_fixture.h"

#include <fcntl.h>

#include "merkle/note_priv.h"
#include "ron/base/alloc.h"
#include "ron/sync/sync.h"

static enum ron_rc open_fails(const struct led_signer_opts *o, const char *say)
{
    struct led_signer *s = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = led_signer_new(o, &s, &err);

    assert_null(s);
    if (strstr(err.msg, say) == NULL) {
        fail_msg("wanted '%s', got '%s'", say, err.msg);
    }
    return rc;
}

/* ---- the key --------------------------------------------------------------------------------- */

static void test_led_sign__no_key_file__made_once_private_and_read_again(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct ron_note_key first = *led_signer_key(s);
    struct stat st;
    uint64_t size;
    struct ron_tree_hash root;

    (void)state;
    assert_string_equal(first.name, ORIGIN);
    assert_false(led_signer_loaded(s, &size, &root));
    led_signer_free(s);
    assert_int_equal(stat(key_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_not_equal(access(note_path, F_OK), 0);
    s = open_signer(&o);
    assert_memory_equal(&first, led_signer_key(s), sizeof first);
    led_signer_free(s);
    o.origin = STR(""); /* The name of the key is enough. */
    s = open_signer(&o);
    assert_memory_equal(&first, led_signer_key(s), sizeof first);
    led_signer_free(s);
}

static void put_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static void test_led_sign__key_file_unusable__refused_and_left_alone(void **state)
{
    struct led_signer_opts o = on_disk();
    char text[1024];
    struct ron_buf buf;

    (void)state;
    led_signer_free(open_signer(&o));
    assert_int_equal(chmod(key_path, 0640), 0);
    assert_int_equal(open_fails(&o, "chmod 600"), RON_DENIED);
    assert_int_equal(chmod(key_path, 0600), 0);
    o.origin = STR("ledger.example/other");
    assert_int_equal(open_fails(&o, "is the key of " ORIGIN), RON_CONFLICT);
    o.origin = STR(ORIGIN);
    put_file(key_path, "", 0600);
    assert_int_equal(open_fails(&o, "PRIVATE+KEY+"), RON_CORRUPT);
    memset(text, 'x', 600);
    text[600] = '\0';
    put_file(key_path, text, 0600);
    assert_int_equal(open_fails(&o, "larger"), RON_LIMIT);
    /* A witness's key does not sign for a log. */
    ron_buf_init_over(&buf, text, sizeof text);
    assert_int_equal(ron_note_signer_write(&witnesses[0], &buf), RON_OK);
    put_file(key_path, ron_buf_text(&buf), 0600);
    o.origin = STR("");
    assert_int_equal(open_fails(&o, "type 1"), RON_UNSUPPORTED);
    assert_int_equal(unlink(key_path), 0);
    assert_int_equal(mkdir(key_path, 0700), 0);
    assert_int_equal(open_fails(&o, "directory"), RON_INVALID);
    assert_int_equal(rmdir(key_path), 0);
    assert_int_equal(open_fails(&o, "name"), RON_INVALID); /* no name for a new one */
    o.origin = STR(ORIGIN);
    o.key_must_exist = true;
    assert_int_equal(open_fails(&o, key_path), RON_NOTFOUND);
    assert_int_not_equal(access(key_path, F_OK), 0);
}

static void test_led_sign__key_lost_after_publishing__error_not_a_new_identity(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);

    (void)state;
    publish(s, 3);
    led_signer_free(s);
    assert_int_equal(unlink(key_path), 0);
    assert_int_equal(open_fails(&o, "is missing"), RON_CONFLICT);
    assert_int_not_equal(access(key_path, F_OK), 0);
    /* Nor does another key go with that checkpoint. */
    o.checkpoint_path = NULL;
    led_signer_free(open_signer(&o));
    o.checkpoint_path = note_path;
    assert_int_equal(open_fails(&o, "is not ours"), RON_CONFLICT);
}

static void test_led_sign__memory_mode__nothing_on_the_disk(void **state)
{
    struct led_signer_opts o = on_disk();
    struct ron_note_key first;
    char memory[NOTE];
    struct led_signer *s;

    (void)state;
    o.key_path = NULL;
    assert_int_equal(open_fails(&o, "needs a key file"), RON_INVALID);
    o.checkpoint_path = NULL;
    s = open_signer(&o);
    first = *led_signer_key(s);
    publish(s, 5);
    expect_good(s, published(s, 0, memory), 5, 0);
    led_signer_free(s);
    assert_int_not_equal(access(key_path, F_OK), 0);
    assert_int_not_equal(access(note_path, F_OK), 0);
    s = open_signer(&o);
    assert_memory_not_equal(first.public_key, led_signer_key(s)->public_key, RON_NOTE_KEY_BYTES);
    led_signer_free(s);
}

static void test_led_sign__witness_keys__checked_at_the_start(void **state)
{
    struct led_signer_opts o = on_disk();
    struct ron_str many[LED_SIGN_WITNESSES_MAX + 1];
    static const char log_key[] =
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

    (void)state;
    o.witnesses = many;
    o.witness_count = 2;
    many[0] = witness_keys[0];
    many[1] = STR("w+00000000+AAAA");
    assert_int_equal(open_fails(&o, "witness 2:"), RON_INVALID);
    many[1] = STR(log_key);
    assert_int_equal(open_fails(&o, "type 4"), RON_INVALID);
    many[1] = witness_keys[0];
    assert_int_equal(open_fails(&o, "witness 2 stands twice"), RON_INVALID);
    o.witness_count = LED_SIGN_WITNESSES_MAX + 1;
    assert_int_equal(open_fails(&o, "at most 16"), RON_LIMIT);
    assert_int_not_equal(access(key_path, F_OK), 0); /* before a key is made */
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void test_led_sign__checkpoint_asked_again__same_bytes_signed_once(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    char a[NOTE];
    char b[NOTE];

    (void)state;
    expect_good(s, checkpoint(s, 7, a), 7, 0);
    assert_string_equal(checkpoint(s, 7, b).ptr, a);
    assert_int_equal(stats_of(s).signatures, 1);
    expect_good(s, checkpoint(s, 9, a), 9, 0);
    expect_good(s, checkpoint(s, 7, a), 7, 0); /* a late asker */
    assert_string_equal(a, b);
    assert_int_equal(stats_of(s).signatures, 3);
    checkpoint(s, 9, a); /* who did not push the newer one out */
    assert_int_equal(stats_of(s).signatures, 3);
    led_signer_free(s);
}

static enum ron_rc ask(struct led_signer *s, uint64_t size, uint64_t root_number)
{
    struct ron_tree_hash root = root_of(root_number);
    char memory[NOTE];
    struct ron_buf out;
    enum ron_rc rc;

    ron_buf_init_over(&out, memory, sizeof memory);
    rc = led_signer_checkpoint(s, size, &root, &out, NULL);
    assert_true((ron_buf_len(&out) > 0) == (rc == RON_OK));
    return rc;
}

static void test_led_sign__second_root_for_a_size__never_signed(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct ron_tree_hash root = root_of(11);

    (void)state;
    assert_int_equal(ask(s, 5, 5), RON_OK);
    assert_int_equal(ask(s, 5, 6), RON_CONFLICT); /* answered to somebody */
    publish(s, 8);
    assert_int_equal(ask(s, 8, 9), RON_CONFLICT); /* published */
    led_signer_set_head(s, 11, &root);
    assert_int_equal(ask(s, 11, 12), RON_CONFLICT); /* committed */
    assert_int_equal(ask(s, 11, 11), RON_OK);
    assert_int_equal(led_signer_save(s, NULL), RON_OK);
    led_signer_free(s);
    s = open_signer(&o);
    assert_int_equal(ask(s, 11, 12), RON_CONFLICT); /* before the restart */
    assert_int_equal(ask(s, 10, 10), RON_CONFLICT); /* the log has gone back */
    assert_int_equal(ask(s, 11, 11), RON_OK);
    assert_int_equal(ask(s, 12, 12), RON_OK);
    led_signer_free(s);
}

static void test_led_sign__saved__loaded_again_and_refused_when_changed(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct ron_tree_hash want = root_of(20);
    struct ron_tree_hash root;
    uint64_t size = 0;
    char memory[NOTE];
    char text[NOTE];

    (void)state;
    assert_int_equal(led_checkpoint_file_read(&env, note_path, &size, &root, NULL), RON_NOTFOUND);
    publish(s, 20);
    (void)snprintf(text, sizeof text, "%s", published(s, 0, memory).ptr);
    led_signer_free(s);
    assert_int_equal(led_checkpoint_file_read(&env, note_path, &size, &root, NULL), RON_OK);
    assert_int_equal(size, 20);
    assert_true(ron_tree_hash_equal(&root, &want));
    s = open_signer(&o);
    assert_true(led_signer_loaded(s, &size, &root));
    assert_int_equal(size, 20);
    assert_true(ron_tree_hash_equal(&root, &want));
    assert_string_equal(published(s, 0, memory).ptr, text);
    led_signer_free(s);
    for (size_t i = 0; i < strlen(text); i += 7) {
        struct led_signer *none = NULL;

        text[i] = (char)(text[i] ^ 1);
        put_file(note_path, text, 0644);
        assert_int_not_equal(led_signer_new(&o, &none, NULL), RON_OK);
        text[i] = (char)(text[i] ^ 1);
    }
    put_file(note_path, "", 0644);
    assert_int_equal(open_fails(&o, "note"), RON_CORRUPT);
    assert_int_equal(led_checkpoint_file_read(&env, note_path, &size, &root, NULL), RON_CORRUPT);
}

static void test_led_sign__save_due__once_an_interval_and_only_what_is_new(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s;
    struct ron_tree_hash root;

    (void)state;
    o.interval_ms = 1000;
    s = open_signer(&o);
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK); /* there is no head */
    assert_int_equal(stats_of(s).published, 0);
    for (uint64_t size = 1; size <= 10; size++) { /* 100 ms each */
        root = root_of(size);
        led_signer_set_head(s, size, &root);
        assert_int_equal(led_signer_save_due(s, NULL), RON_OK);
        assert_int_equal(stats_of(s).published, 0);
        now_ns += 100 * RON_NS_PER_MS;
    }
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK);
    assert_int_equal(stats_of(s).published, 1);
    now_ns += 2000 * RON_NS_PER_MS;
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK); /* nothing is new */
    assert_int_equal(stats_of(s).published, 1);
    root = root_of(9);
    led_signer_set_head(s, 9, &root); /* older */
    assert_int_equal(led_signer_save(s, NULL), RON_OK);
    assert_int_equal(stats_of(s).published, 1);
    root = root_of(11);
    led_signer_set_head(s, 11, &root);
    root = root_of(9);
    led_signer_set_head(s, 9, &root); /* does not hide the newer one */
    now_ns += 2000 * RON_NS_PER_MS;
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK);
    assert_int_equal(stats_of(s).published, 2);
    led_signer_set_interval(s, 10);
    root = root_of(12);
    led_signer_set_head(s, 12, &root);
    now_ns += 10 * RON_NS_PER_MS;
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK);
    assert_int_equal(stats_of(s).published, 3);
    assert_int_equal(stats_of(s).signatures, 3);
    led_signer_free(s);
}

static void test_led_sign__file_cannot_be_written__not_published_then_tried_again(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct ron_tree_hash root = root_of(4);
    char memory[NOTE];
    char temp[300];
    struct ron_buf out;

    (void)state;
    (void)snprintf(temp, sizeof temp, "%s.tmp", note_path);
    assert_int_equal(mkdir(temp, 0700), 0); /* in the way */
    assert_int_equal(mkdir(note_path, 0700), 0);
    led_signer_set_head(s, 4, &root);
    assert_int_not_equal(led_signer_save_due(s, NULL), RON_OK);
    assert_int_equal(stats_of(s).save_failures, 1);
    ron_buf_init_over(&out, memory, sizeof memory);
    assert_int_equal(led_signer_published(s, 0, &out, NULL), RON_NOTFOUND);
    (void)rmdir(temp);
    (void)rmdir(note_path);
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK); /* not yet */
    assert_int_equal(stats_of(s).published, 0);
    now_ns += (uint64_t)LED_SIGN_INTERVAL_DEFAULT_MS * RON_NS_PER_MS;
    assert_int_equal(led_signer_save_due(s, NULL), RON_OK);
    expect_good(s, published(s, 0, memory), 4, 0);
    led_signer_free(s);
}

/* ---- at once --------------------------------------------------------------------------------- */

enum { ROUNDS = 40 };

static struct ron_au32 done_count;
static struct ron_au32 bad_count;

static void asker(void *arg)
{
    struct led_signer *s = arg;

    for (uint64_t i = 1; ron_au32_load(&done_count) < WITNESSES; i++) {
        struct ron_tree_hash root = root_of(i % ROUNDS + 1);
        char memory[NOTE];
        struct ron_buf out;

        ron_buf_init_over(&out, memory, sizeof memory);
        if (led_signer_checkpoint(s, i % ROUNDS + 1, &root, &out, NULL) != RON_OK) {
            (void)ron_au32_add(&bad_count, 1);
        }
    }
}

struct cosigner {
    struct led_signer *s;
    const struct ron_note_signer *w;
};

/* Cosigns what is newest, until it has signed the last one. */
static void cosigner(void *arg)
{
    struct cosigner *me = arg;
    bool last = false;

    while (!last) {
        char memory[NOTE];
        char line[NOTE];
        struct led_note note = {0};
        struct led_checkpoint c = {0};
        struct ron_buf out;
        struct ron_buf signature;
        size_t count;
        enum ron_rc rc;

        ron_buf_init_over(&out, memory, sizeof memory);
        ron_buf_init_over(&signature, line, sizeof line);
        if (led_signer_published(me->s, 0, &out, NULL) != RON_OK ||
            led_note_read(STR(ron_buf_text(&out)), &note, NULL) != RON_OK ||
            led_checkpoint_read(note.text, &c, NULL) != RON_OK ||
            led_note_sign_line(note.text, me->w, c.size, &signature, NULL) != RON_OK) {
            continue;
        }
        rc = led_signer_cosign(me->s, STR(ron_buf_text(&signature)), c.size, &count, NULL);
        if (rc != RON_OK && rc != RON_EXISTS && rc != RON_CONFLICT) {
            (void)ron_au32_add(&bad_count, 1);
        }
        last = c.size == ROUNDS;
    }
    (void)ron_au32_add(&done_count, 1);
}

static struct ron_thread *started(void (*body)(void *), void *arg)
{
    struct ron_thread *t = NULL;

    assert_int_equal(
        ron_thread_start(
            &(struct ron_thread_opts){.name = "test", .may_block = true, .main = body, .arg = arg},
            &t, NULL),
        RON_OK);
    return t;
}

static void test_led_sign__all_at_once__every_cosignature_counted_once(void **state)
{
    struct led_signer_opts o = on_disk();
    struct ron_thread *threads[WITNESSES + 1];
    struct cosigner cosigners[WITNESSES];
    char memory[NOTE];
    struct led_signer *s;

    (void)state;
    o.key_path = NULL;
    o.checkpoint_path = NULL;
    s = open_signer(&o);
    ron_au32_store(&done_count, 0);
    ron_au32_store(&bad_count, 0);
    for (size_t i = 0; i < WITNESSES; i++) {
        cosigners[i] = (struct cosigner){s, &witnesses[i]};
        threads[i] = started(cosigner, &cosigners[i]);
    }
    threads[WITNESSES] = started(asker, s);
    for (uint64_t size = 1; size <= ROUNDS; size++) {
        publish(s, size);
    }
    for (size_t i = 0; i <= WITNESSES; i++) {
        ron_thread_join(threads[i]);
    }
    assert_int_equal(ron_au32_load(&bad_count), 0);
    expect_good(s, published(s, WITNESSES, memory), ROUNDS, WITNESSES);
    assert_true(stats_of(s).cosignatures >= WITNESSES);
    led_signer_free(s);
}

/* A line that waits for the start. */
struct racer {
    struct led_signer *s;
    struct ron_au32 *start;
    char line[NOTE];
};

static void racer(void *arg)
{
    struct racer *me = arg;
    size_t count;

    while (ron_au32_load(me->start) == 0) {
        ron_spin_pause();
    }
    if (led_signer_cosign(me->s, STR(me->line), LED_SIGN_NEWEST, &count, NULL) != RON_OK) {
        (void)ron_au32_add(&bad_count, 1);
    }
}

static void test_led_sign__witnesses_in_one_moment__none_is_lost(void **state)
{
    static struct racer racers[WITNESSES];
    struct led_signer_opts o = on_disk();
    struct ron_thread *threads[WITNESSES];
    char memory[NOTE];
    struct led_signer *s;

    (void)state;
    o.key_path = NULL;
    o.checkpoint_path = NULL;
    s = open_signer(&o);
    ron_au32_store(&bad_count, 0);
    for (uint64_t size = 1; size <= ROUNDS; size++) {
        struct ron_au32 start = {0};

        publish(s, size);
        published(s, 0, memory);
        for (size_t i = 0; i < WITNESSES; i++) {
            racers[i].s = s;
            racers[i].start = &start;
            line_of(&witnesses[i], STR(memory), racers[i].line);
            threads[i] = started(racer, &racers[i]);
        }
        ron_au32_store(&start, 1);
        for (size_t i = 0; i < WITNESSES; i++) {
            ron_thread_join(threads[i]);
        }
        expect_good(s, published(s, WITNESSES, memory), size, WITNESSES);
    }
    assert_int_equal(ron_au32_load(&bad_count), 0);
    assert_int_equal(stats_of(s).cosignatures, WITNESSES * ROUNDS);
    led_signer_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_sign__no_key_file__made_once_private_and_read_again),
        CASE(test_led_sign__key_file_unusable__refused_and_left_alone),
        CASE(test_led_sign__key_lost_after_publishing__error_not_a_new_identity),
        CASE(test_led_sign__memory_mode__nothing_on_the_disk),
        CASE(test_led_sign__witness_keys__checked_at_the_start),
        CASE(test_led_sign__checkpoint_asked_again__same_bytes_signed_once),
        CASE(test_led_sign__second_root_for_a_size__never_signed),
        CASE(test_led_sign__saved__loaded_again_and_refused_when_changed),
        CASE(test_led_sign__save_due__once_an_interval_and_only_what_is_new),
        CASE(test_led_sign__file_cannot_be_written__not_published_then_tried_again),
        CASE(test_led_sign__all_at_once__every_cosignature_counted_once),
        CASE(test_led_sign__witnesses_in_one_moment__none_is_lost),
    };

    return cmocka_run_group_tests(tests, group_setup, NULL);
}
