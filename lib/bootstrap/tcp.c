/* SPDX-License-Identifier: BSD-3-Clause */
/* Where rank 0 listens over TCP. */
#include "rendezvous.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <unistd.h>

#define BUSY_PAUSE 20000 /* us between searches for a free port */
#define PROBE      1.0   /* seconds for another rank 0 to answer */

/* Listen on one port. Returns 0 or an errno; *busy is the address that failed. */
static int listen_on(const struct plait_tcp_id *id, uint16_t port, struct plait_listener *l, union plait_address *busy)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];
    const unsigned n = plait_hosts_list(&id->hosts, port, all);

    for (unsigned i = 0; i < n; i++) {
        if (plait_listener_add(l, &all[i].any, plait_address_length(&all[i])) || errno == EADDRNOTAVAIL ||
            errno == EAFNOSUPPORT)
            continue;
        const int error = errno;
        *busy = all[i];
        plait_listener_remove_all(l);
        return error;
    }
    return l->nsocket > 0 ? 0 : EADDRNOTAVAIL;
}

int plait_tcp_listen(const struct plait_tcp_id *id, double until, struct plait_listener *l)
{
    do {
        for (unsigned i = 0; i < plait_tcp_id_nport(id); i++) {
            union plait_address busy;
            const int error = listen_on(id, plait_tcp_id_port(id, i), l, &busy);
            if (error != EADDRINUSE || plait_tcp_answers(id, &busy, PROBE))
                return error;
        }
        usleep(BUSY_PAUSE);
    } while (plait_clock() < until && plait_frame_look() == PLAIT_OK);
    return EBUSY;
}
