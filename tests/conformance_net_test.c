/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite over networks: one between threads that delays and reorders, and UCX where it was found. */
#include "conformance.h"
#include "fake_net.h"
#include "ranks.h"
#include "shared_net.h"
#include "unit.h"
#include "wire.h"

#include <stdlib.h>

static bool run_threads(const struct jobs *j)
{
    return jobs_run(j, 1, j->nrank) == 0;
}

static void conforms(const char *name, uint32_t least, uint32_t most, bool (*run)(const struct jobs *))
{
    const struct harness h = { name, least, most, run };
    assert_int_equal(conformance_run(&h), 0);
}

static void a_network_that_delays_and_reorders_conforms(void **state)
{
    wire_plugin = &fake_net;
    conforms("fake", 2, 5, run_threads);
    assert_int_equal(conformance_links(1, 2), 0);
}

#if HAVE_UCX
static bool run_processes(const struct jobs *j)
{
    return jobs_run(j, j->nrank, 1) == 0;
}

static void over(const char *transports)
{
    wire_plugin = NULL;
    setenv("UCX_TLS", transports, 1);
}

static void ucx_over_tcp_conforms(void **state)
{
    over("tcp");
    conforms("ucx, tcp, processes", 2, 4, run_processes);
    conforms("ucx, tcp, threads", 3, 3, run_threads);
    assert_int_equal(conformance_links(2, 1), 0);
    assert_int_equal(conformance_links(1, 2), 0);
}

static void ucx_over_posix_shared_memory_conforms(void **state)
{
    over("posix");
    conforms("ucx, posix, processes", 2, 4, run_processes);
    conforms("ucx, posix, threads", 3, 3, run_threads);
    assert_int_equal(conformance_links(2, 1), 0);
    assert_int_equal(conformance_links(1, 2), 0);
}

static void ucx_over_self_conforms(void **state)
{
    over("self");
    wire_plugin = &shared_net;
    conforms("ucx, self, threads", 2, 5, run_threads);
    assert_int_equal(conformance_links(1, 2), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_that_delays_and_reorders_conforms),
#if HAVE_UCX
        cmocka_unit_test(ucx_over_tcp_conforms),
        cmocka_unit_test(ucx_over_posix_shared_memory_conforms),
        cmocka_unit_test(ucx_over_self_conforms),
#endif
    };

    ranks_prepare = wire;
    return cmocka_run_group_tests_name("conformance_net", tests, NULL, NULL);
}
