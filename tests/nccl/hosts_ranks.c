/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of those that a launcher has started on several hosts. Usage: hosts_ranks FILE, by which rank 0's id travels. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100000

static int share_id(const char *path, int rank, ncclUniqueId *id)
{
    char new[256];
    FILE *f;

    if (rank == 0) {
        OK(ncclGetUniqueId(id));
        snprintf(new, sizeof new, "%s.new", path);
        f = fopen(new, "w");
        CHECK(f != NULL && fwrite(id, sizeof *id, 1, f) == 1 && fclose(f) == 0 && rename(new, path) == 0);
        return 0;
    }
    for (int i = 0; (f = fopen(path, "r")) == NULL; i++) {
        CHECK(i < 6000);
        usleep(10000);
    }
    CHECK(fread(id, sizeof *id, 1, f) == 1);
    fclose(f);
    return 0;
}

static int work(ncclComm_t comm, int rank, int nrank)
{
    static float in[COUNT], out[COUNT];
    float from;

    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(rank + i % 100);
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK(out[i] == (float)(nrank * (nrank - 1) / 2 + nrank * (i % 100)));
    OK(ncclGroupStart());
    OK(ncclSend(in, 1, ncclFloat, (rank + 1) % nrank, comm, NULL));
    OK(ncclRecv(&from, 1, ncclFloat, (rank + nrank - 1) % nrank, comm, NULL));
    OK(ncclGroupEnd());
    CHECK(from == (float)((rank + nrank - 1) % nrank));
    return 0;
}

int main(int argc, char **argv)
{
    const char *said[2] = { getenv("RANK"), getenv("WORLD_SIZE") };
    const int rank = said[0] != NULL ? atoi(said[0]) : -1, nrank = said[1] != NULL ? atoi(said[1]) : 0;
    ncclUniqueId id;
    ncclComm_t comm, half;

    CHECK(argc == 2 && rank >= 0 && nrank > 1);
    if (share_id(argv[1], rank, &id) != 0)
        return 1;
    OK(ncclCommInitRank(&comm, nrank, id, rank));
    if (work(comm, rank, nrank) != 0)
        return 1;
    OK(ncclCommSplit(comm, rank % 2, 0, &half, NULL)); /* over the hosts, too */
    if (work(half, rank / 2, nrank / 2) != 0)
        return 1;
    OK(ncclCommDestroy(half));
    OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    return 0;
}
