/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * News of ranks on other hosts, as they come over a connection. The input is what the other end has sent. Whatever is
 * taken is whole, of a rank of the comm, and leaves a replica whose text ends and whose count of operations never falls;
 * what is not closes the line, and nothing after it is read.
 */
#include "fuzz.h"

#include "failure/remote/line.h"

#include <sys/socket.h>
#include <unistd.h>

#define NRANK 3

static void apply(struct plait_replica *const *replicas, const char *bytes)
{
    struct plait_control_update news;

    memcpy(&news, bytes, sizeof news);
    MUST(news.rank < NRANK && news.bytes <= PLAIT_CONTROL_UPDATE_MOST && news.nrecord <= PLAIT_CONTROL_UPDATE_RECORDS);
    struct plait_replica *m = replicas[news.rank];
    const uint64_t done = atomic_load(&m->control.done);
    struct plait_operation o;
    char text[256];
    plait_control_update_apply(bytes, m, 1);
    MUST(atomic_load(&m->control.done) >= done && atomic_load(&m->control.done) >= news.done);
    MUST(memchr(m->control.failure, '\0', sizeof m->control.failure) != NULL);
    MUST(news.failed == PLAIT_OK || atomic_load(&m->control.failed) != PLAIT_OK);
    for (uint64_t s = 0; s < PLAIT_NRECORD; s++)
        if (plait_ring_read(&m->control.ring, s, done, false, &o))
            plait_operation_text(&o, 1, text, sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_replica *replicas[NRANK];
    struct plait_line line;
    const char *news;
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    MUST(size == 0 || send(ends[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0);
    close(ends[1]);
    for (uint32_t r = 0; r < NRANK; r++)
        MUST((replicas[r] = plait_replica_create(1, r, NRANK, "fuzz")) != NULL);
    plait_line_open(&line, ends[0]);
    for (bool open = true; open && line.fd >= 0;) {
        open = plait_line_read(&line);
        while ((news = plait_line_next(&line, NRANK)) != NULL)
            apply(replicas, news);
        open = open && line.have < sizeof line.in;
    }
    MUST(line.fd >= 0 || plait_line_next(&line, NRANK) == NULL);
    plait_line_close(&line);
    for (uint32_t r = 0; r < NRANK; r++)
        plait_replica_destroy(replicas[r]);
    return 0;
}
