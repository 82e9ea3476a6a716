/* SPDX-License-Identifier: Apache-2.0 */
/* tls_certs.h - keys and certificates made on the spot, as PEM files in a directory of the test.
 *
 * Place: tests of http's TLS. Everything is made with OpenSSL's own functions; times are offsets
 * from the wall clock of the test. */
#pragma once

#include "support/support.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

enum { PKI_PATH = 128, PKI_HOUR = 3600 };

struct pki {
    char dir[64]; /* mode 0700 */
};

/* A certificate with its key. */
struct pki_id {
    EVP_PKEY *key;
    X509 *cert;
};

struct pki_want {
    const char *cn;
    const char *san;             /* as in openssl.cnf: "DNS:a,IP:127.0.0.1"; NULL: none */
    const struct pki_id *issuer; /* NULL: itself */
    bool is_ca;
    const char *purpose; /* extended key usage; NULL: none */
    long from_s;         /* offsets from now; until_s 0: an hour */
    long until_s;
    int rsa_bits; /* 0: an elliptic curve */
    bool two_names;
};

static inline int pki_remove_one(const char *path, const struct stat *st, int kind,
                                 struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void pki_open(struct pki *p)
{
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/ron-tls-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
}

static inline void pki_close(struct pki *p)
{
    (void)nftw(p->dir, pki_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Valid until the next call but seven. */
static inline const char *pki_path(const struct pki *p, const char *name)
{
    static char buf[8][PKI_PATH];
    static unsigned turn;
    char *path = buf[turn++ % 8];

    (void)snprintf(path, PKI_PATH, "%s/%s", p->dir, name);
    return path;
}

static inline void pki_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(ext);
    assert_int_equal(X509_add_ext(cert, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

static inline struct pki_id pki_make(const struct pki_want *want)
{
    static long serial = 1;
    struct pki_id id = {.key = want->rsa_bits > 0 ? EVP_RSA_gen((unsigned)want->rsa_bits)
                                                  : EVP_EC_gen("P-256"),
                        .cert = X509_new()};
    X509 *issuer = want->issuer == NULL ? id.cert : want->issuer->cert;
    X509_NAME *name;

    assert_non_null(id.key);
    assert_non_null(id.cert);
    name = X509_get_subject_name(id.cert);
    assert_int_equal(X509_set_version(id.cert, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(id.cert), serial++), 1);
    for (int i = 0; i < (want->two_names ? 2 : 1) && want->cn != NULL; i++) {
        assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                                    (const unsigned char *)want->cn, -1, -1, 0),
                         1);
    }
    assert_int_equal(X509_set_issuer_name(id.cert, X509_get_subject_name(issuer)), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(id.cert),
                                    want->from_s == 0 ? -PKI_HOUR : want->from_s));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(id.cert),
                                    want->until_s == 0 ? PKI_HOUR : want->until_s));
    assert_int_equal(X509_set_pubkey(id.cert, id.key), 1);
    pki_extend(id.cert, issuer, NID_basic_constraints,
               want->is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (want->san != NULL) {
        pki_extend(id.cert, issuer, NID_subject_alt_name, want->san);
    }
    if (want->purpose != NULL) {
        pki_extend(id.cert, issuer, NID_ext_key_usage, want->purpose);
    }
    assert_true(
        X509_sign(id.cert, want->issuer == NULL ? id.key : want->issuer->key, EVP_sha256()) > 0);
    return id;
}

static inline void pki_free(struct pki_id *id)
{
    EVP_PKEY_free(id->key);
    X509_free(id->cert);
    *id = (struct pki_id){0};
}

/* Writes text to a file of the given mode, in place of what was there. */
static inline void pki_write(const struct pki *p, const char *name, const void *bytes, size_t len,
                             mode_t mode)
{
    const char *path = pki_path(p, name);
    int fd;

    (void)unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(close(fd), 0);
}

static inline void pki_write_bio(const struct pki *p, const char *name, BIO *bio, mode_t mode)
{
    char *bytes = NULL;
    long len = BIO_get_mem_data(bio, &bytes);

    pki_write(p, name, bytes, (size_t)len, mode);
    BIO_free(bio);
}

/* All certificates, one behind the other. */
static inline void pki_write_certs(const struct pki *p, const char *name,
                                   const struct pki_id *const *ids, size_t count)
{
    BIO *bio = BIO_new(BIO_s_mem());

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(PEM_write_bio_X509(bio, ids[i]->cert), 1);
    }
    pki_write_bio(p, name, bio, 0644);
}

static inline void pki_write_key(const struct pki *p, const char *name, const struct pki_id *id,
                                 mode_t mode, const char *passphrase)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(
                         bio, id->key, passphrase == NULL ? NULL : EVP_aes_128_cbc(), passphrase,
                         passphrase == NULL ? 0 : (int)strlen(passphrase), NULL, NULL),
                     1);
    pki_write_bio(p, name, bio, mode);
}

/* name.pem and name.key of one identity, its chain behind it. */
static inline void pki_save(const struct pki *p, const char *cert, const char *key,
                            const struct pki_id *id, const struct pki_id *issuer)
{
    const struct pki_id *ids[] = {id, issuer};

    pki_write_certs(p, cert, ids, issuer == NULL ? 1 : 2);
    pki_write_key(p, key, id, 0600, NULL);
}
