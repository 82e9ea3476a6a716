/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each special block is known at both of its ends, and its neighbours are not.
 * Method: one table of addresses as text. */
#include "support/support.h"

#include "ron/io/ipclass.h"

static const struct {
    const char *addr;
    enum ron_ip_class c;
} rows[] = {
    {"8.8.8.8:1", RON_IP_PUBLIC},
    {"1.0.0.0:1", RON_IP_PUBLIC},
    {"0.0.0.0:1", RON_IP_SPECIAL},
    {"0.255.255.255:1", RON_IP_SPECIAL},
    {"9.255.255.255:1", RON_IP_PUBLIC},
    {"10.0.0.0:1", RON_IP_PRIVATE},
    {"10.255.255.255:1", RON_IP_PRIVATE},
    {"11.0.0.0:1", RON_IP_PUBLIC},
    {"100.63.255.255:1", RON_IP_PUBLIC},
    {"100.64.0.0:1", RON_IP_PRIVATE},
    {"100.100.100.200:1", RON_IP_LINK_LOCAL},
    {"100.127.255.255:1", RON_IP_PRIVATE},
    {"100.128.0.0:1", RON_IP_PUBLIC},
    {"126.255.255.255:1", RON_IP_PUBLIC},
    {"127.0.0.1:1", RON_IP_LOOPBACK},
    {"127.255.255.255:1", RON_IP_LOOPBACK},
    {"128.0.0.0:1", RON_IP_PUBLIC},
    {"169.253.255.255:1", RON_IP_PUBLIC},
    {"169.254.169.254:1", RON_IP_LINK_LOCAL},
    {"169.255.0.0:1", RON_IP_PUBLIC},
    {"172.15.255.255:1", RON_IP_PUBLIC},
    {"172.16.0.0:1", RON_IP_PRIVATE},
    {"172.31.255.255:1", RON_IP_PRIVATE},
    {"172.32.0.0:1", RON_IP_PUBLIC},
    {"192.0.0.1:1", RON_IP_SPECIAL},
    {"192.0.1.0:1", RON_IP_PUBLIC},
    {"192.0.2.255:1", RON_IP_SPECIAL},
    {"192.88.99.1:1", RON_IP_SPECIAL},
    {"192.168.255.255:1", RON_IP_PRIVATE},
    {"192.169.0.0:1", RON_IP_PUBLIC},
    {"198.17.255.255:1", RON_IP_PUBLIC},
    {"198.18.0.0:1", RON_IP_SPECIAL},
    {"198.19.255.255:1", RON_IP_SPECIAL},
    {"198.20.0.0:1", RON_IP_PUBLIC},
    {"198.51.100.1:1", RON_IP_SPECIAL},
    {"203.0.113.1:1", RON_IP_SPECIAL},
    {"223.255.255.255:1", RON_IP_PUBLIC},
    {"224.0.0.1:1", RON_IP_SPECIAL},
    {"255.255.255.255:1", RON_IP_SPECIAL},
    {"[2606:4700::1111]:1", RON_IP_PUBLIC},
    {"[3ffe::1]:1", RON_IP_PUBLIC},
    {"[::]:1", RON_IP_SPECIAL},
    {"[::1]:1", RON_IP_LOOPBACK},
    {"[::2]:1", RON_IP_SPECIAL},
    {"[::7f00:1]:1", RON_IP_SPECIAL},
    {"[::ffff:7f00:1]:1", RON_IP_LOOPBACK},
    {"[::ffff:a9fe:a9fe]:1", RON_IP_LINK_LOCAL},
    {"[::ffff:808:808]:1", RON_IP_PUBLIC},
    {"[::ffff:0:a00:1]:1", RON_IP_PRIVATE},
    {"[64:ff9b::a00:1]:1", RON_IP_PRIVATE},
    {"[64:ff9b::808:808]:1", RON_IP_PUBLIC},
    {"[64:ff9b:1::808:808]:1", RON_IP_SPECIAL},
    {"[2002:7f00:1::1]:1", RON_IP_LOOPBACK},
    {"[2002:808:808::1]:1", RON_IP_PUBLIC},
    {"[2001::1]:1", RON_IP_SPECIAL},
    {"[2001:1ff::1]:1", RON_IP_SPECIAL},
    {"[2001:200::1]:1", RON_IP_PUBLIC},
    {"[2001:db8::1]:1", RON_IP_SPECIAL},
    {"[3fff::1]:1", RON_IP_SPECIAL},
    {"[fc00::1]:1", RON_IP_PRIVATE},
    {"[fdff::1]:1", RON_IP_PRIVATE},
    {"[fd00:ec2::254]:1", RON_IP_LINK_LOCAL},
    {"[fe80::1]:1", RON_IP_LINK_LOCAL},
    {"[fec0::1]:1", RON_IP_PRIVATE},
    {"[ff02::1]:1", RON_IP_SPECIAL},
    {"[100::1]:1", RON_IP_SPECIAL},
    {"[5f00::1]:1", RON_IP_SPECIAL},
    {"unix:/run/x.sock", RON_IP_LOOPBACK},
    {"example.org:1", RON_IP_SPECIAL},
};

static void test_ipclass__edges_of_blocks__told_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_addr addr;
        enum ron_ip_class c;

        assert_int_equal(ron_addr_parse(rows[i].addr, &addr, NULL), RON_OK);
        c = ron_addr_ip_class(&addr);
        if (c != rows[i].c) {
            fail_msg("%s is of class %d", rows[i].addr, (int)c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipclass__edges_of_blocks__told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
