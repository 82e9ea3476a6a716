/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/tls/peer.c - names, dates and fingerprints out of certificates.
 *
 * Place: http. Pure functions.
 *
 * Rule: a name is given whole and printable, or not at all. A NUL or control in the middle of one
 * is an old trick to make two programs read two different names. */
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "http/tls/lane.h"
#include "ron/base/assert.h"
#include "ron/io/addr.h"

void ron__tls_fingerprint(const X509 *cert, uint8_t ret[RON_TLS_FINGERPRINT_BYTES])
{
    uint8_t digest[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;

    if (X509_digest(cert, EVP_sha256(), digest, &len) != 1) {
        memset(digest, 0, sizeof digest); /* no memory: a print that matches nothing */
    }
    memcpy(ret, digest, RON_TLS_FINGERPRINT_BYTES);
}

int64_t ron__tls_not_after_s(const X509 *cert)
{
    struct tm tm = {0};

    return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MIN;
}

/* False when the bytes do not fit or are no plain name. */
static bool copy_name(const unsigned char *bytes, int len, char *ret)
{
    if (len <= 0 || len > RON_TLS_TEXT_MAX) {
        return false;
    }
    for (int i = 0; i < len; i++) {
        if (bytes[i] < 0x20 || bytes[i] == 0x7f) {
            return false;
        }
    }
    memcpy(ret, bytes, (size_t)len);
    ret[len] = '\0';
    return true;
}

/* Empty when there is none, or more than one: then nobody knows which is meant. */
static void common_name(const X509 *cert, char *ret)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    unsigned char *utf8 = NULL;
    int len;

    ret[0] = '\0';
    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) {
        return;
    }
    len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    (void)copy_name(utf8, len, ret);
    OPENSSL_free(utf8);
}

static bool copy_ip(const ASN1_OCTET_STRING *ip, char *ret)
{
    const unsigned char *b = ASN1_STRING_get0_data(ip);
    int len = ASN1_STRING_length(ip);
    struct ron_addr addr = {.kind = len == 4 ? RON_ADDR_IPV4 : RON_ADDR_IPV6};
    char *end;

    if (len != 4 && len != 16) {
        return false;
    }
    memcpy(addr.ip, b, (size_t)len);
    if (ron_addr_format(&addr, ret, RON_TLS_TEXT_MAX + 1) != RON_OK) {
        return false;
    }
    end = strrchr(ret, ':'); /* the port */
    RON_ASSERT(end != NULL);
    *end = '\0';
    return true;
}

static void add_name(const GENERAL_NAME *name, struct ron_tls_peer *peer)
{
    enum ron_tls_name_kind kind;
    const ASN1_IA5STRING *text = NULL;
    char *room;
    bool good;

    if (peer->name_count == RON_TLS_NAMES_MAX) {
        peer->names_left_out++;
        return;
    }
    switch (name->type) {
    case GEN_DNS:
        kind = RON_TLS_NAME_DNS;
        text = name->d.dNSName;
        break;
    case GEN_EMAIL:
        kind = RON_TLS_NAME_EMAIL;
        text = name->d.rfc822Name;
        break;
    case GEN_URI:
        kind = RON_TLS_NAME_URI;
        text = name->d.uniformResourceIdentifier;
        break;
    case GEN_IPADD:
        kind = RON_TLS_NAME_IP;
        break;
    default:
        peer->names_left_out++;
        return;
    }
    room = peer->names[peer->name_count].text;
    good = kind == RON_TLS_NAME_IP
               ? copy_ip(name->d.iPAddress, room)
               : copy_name(ASN1_STRING_get0_data(text), ASN1_STRING_length(text), room);
    peer->names[peer->name_count].kind = kind;
    peer->name_count += good ? 1 : 0;
    peer->names_left_out += good ? 0 : 1;
}

void ron__tls_names(X509 *cert, struct ron_tls_peer *ret_peer)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    memset(ret_peer, 0, sizeof *ret_peer);
    common_name(cert, ret_peer->common_name);
    ron__tls_fingerprint(cert, ret_peer->fingerprint);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        add_name(sk_GENERAL_NAME_value(names, i), ret_peer);
    }
    GENERAL_NAMES_free(names);
}

void ron__tls_subject(X509 *cert, char *buf, size_t size)
{
    struct ron_tls_peer p;

    ron__tls_names(cert, &p);
    (void)snprintf(buf, size, "%s",
                   p.common_name[0] != '\0' ? p.common_name
                   : p.name_count > 0       ? p.names[0].text
                                            : "(no name)");
}
