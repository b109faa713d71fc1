/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unique ids, which come from other programs: one over TCP that is taken names ports and addresses that exist, all ways
 * to derive another are alike, and none gives the secret away.
 */
#include "fuzz.h"

#include "bootstrap/id.h"

#include <arpa/inet.h>

static void check_hosts(const struct plait_hosts *hosts)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];
    struct plait_hosts again = { { 0 } };
    const unsigned n = plait_hosts_list(hosts, 7, all);

    MUST(n <= PLAIT_MOST_ADDRESSES);
    for (unsigned i = 0; i < n; i++) {
        char text[PLAIT_ADDRESS_TEXT];
        MUST(strlen(plait_address_text(&all[i], true, text)) > 2);
        MUST(plait_address_length(&all[i]) <= sizeof all[i]);
        plait_hosts_add(&again, &all[i].any);
        MUST(!plait_hosts_add(&again, &all[i].any)); /* once */
    }
    MUST(plait_hosts_list(&again, 7, all) <= n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_unique_id id = { { 0 } }, a, b;
    struct plait_tcp_id tcp, child;

    memcpy(&id, data, size < sizeof id ? size : sizeof id);
    const bool taken = plait_tcp_id_of(&id, &tcp);
    check_hosts(&tcp.hosts);
    plait_unique_id_derive(&id, 5, &tcp.hosts, &a);
    plait_unique_id_derive(&id, 5, &tcp.hosts, &b);
    MUST(memcmp(&a, &b, sizeof a) == 0);
    MUST(plait_tcp_id_of(&a, &child) == taken);
    if (!taken)
        return 0;
    MUST(memcmp(child.secret, tcp.secret, sizeof tcp.secret) != 0);
    MUST(plait_tcp_id_nport(&tcp) >= 1 && plait_tcp_id_nport(&tcp) <= PLAIT_MOST_PORTS);
    for (unsigned i = 0; i < plait_tcp_id_nport(&tcp); i++) {
        const uint16_t port = plait_tcp_id_port(&tcp, i);
        MUST(port >= tcp.first_port && port - tcp.first_port < tcp.nport);
        for (unsigned k = 0; k < i; k++)
            MUST(plait_tcp_id_port(&tcp, k) != port);
    }
    return 0;
}
