/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that stands for another MPI; with CALLER a program or a module that is linked with it. */
#include <stdio.h>

int MPI_Allreduce(const void *in, void *out, int count, int type, int op, int comm);

#ifdef CALLER
int main(void)
{
    int sum = 0;
    const int code = MPI_Allreduce("", &sum, 3, 4, 5, 6);

    printf("code %d, sum %d\n", code, sum);
    fflush(stdout);
    return code == 7 && sum == 3456 ? 0 : 1;
}
#else
int MPI_Allreduce(const void *in, void *out, int count, int type, int op, int comm)
{
    (void)in;
    *(int *)out = count * 1000 + type * 100 + op * 10 + comm;
    return 7;
}
#endif
