/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow paths taken by surprise: devices that are missed, seen in a /folder of our own. */
#include "folder.h"

#include "../transports/slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A port of mlx5_0 in this state; NULL: no device. */
static void set_port(const char *what)
{
    char path[256];

    snprintf(path, sizeof path, "rm -rf %s/class; mkdir -p %s/class%s", folder, folder,
             what != NULL ? "/infiniband/mlx5_0/ports/1" : "");
    assert_int_equal(system(path), 0);
    if (what == NULL)
        return;
    snprintf(path, sizeof path, "%s\n", what);
    folder_write("class/infiniband/mlx5_0/ports/1/state", path, strlen(path));
}

static void an_active_port_beside_tcp_is_missed(void **state)
{
    char text[1024] = "";

    set_port("4: ACTIVE");
    assert_true(plait_device_is_missed(folder, "tcp/eth0", text, sizeof text));
    assert_non_null(strstr(text, "messages go over tcp/eth0 although port 1 of mlx5_0 is active"));
    assert_non_null(strstr(text, "UCX_TLS"));
}

static void a_port_that_is_down_is_missed_with_its_state(void **state)
{
    char text[1024] = "";

    set_port("1: DOWN");
    assert_true(plait_device_is_missed(folder, "tcp/eth0", text, sizeof text));
    assert_non_null(strstr(text, "port 1 of mlx5_0 is not active (1: DOWN)"));
    assert_non_null(strstr(text, "ibstat"));
}

static void who_uses_it_misses_nothing(void **state)
{
    char text[1024] = "";

    set_port("4: ACTIVE");
    assert_false(plait_device_is_missed(folder, "rc_mlx5/mlx5_0:1, tcp/eth0", text, sizeof text));
    assert_false(plait_device_is_missed(folder, "posix/memory", text, sizeof text));
    assert_false(plait_device_is_missed(folder, "", text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_active_port_beside_tcp_is_missed),
        cmocka_unit_test(a_port_that_is_down_is_missed_with_its_state),
        cmocka_unit_test(who_uses_it_misses_nothing),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
