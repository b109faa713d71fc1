/* SPDX-License-Identifier: BSD-3-Clause */
#include "child.h"
#include "unit.h"

#include "base/log.h"
#include "config_text.h"

#include <plait/topology.h>
#include <plait/version.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
    "PLAIT_ALGO",        "PLAIT_ARENA",        "PLAIT_CALIBRATE",      "PLAIT_CHECK",
    "PLAIT_CMA",         "PLAIT_CONFIG",       "PLAIT_DEADLINE",       "PLAIT_ISA",
    "PLAIT_LOG",         "PLAIT_LOG_FILE",     "PLAIT_PROGRESS",       "PLAIT_SLICE",
    "PLAIT_TIMEOUT",     "PLAIT_TUNING",       "PLAIT_WARN",           "PLAIT_SLICES",
    "PLAIT_FOR_TESTS",   "PLAIT_PACE",         "PLAIT_IFNAME",         "PLAIT_LAUNCHER",
    "PLAIT_PORTS",       "PLAIT_SECRET",       "PLAIT_REQUIRE_SECRET", "PLAIT_PLUGINS",
    "PLAIT_HOSTS",       "PLAIT_REPRODUCIBLE", "PLAIT_NCCL_FUSION",    "PLAIT_NCCL_VERSION",
    "PLAIT_CUDA_DRIVER", "PLAIT_BIND",         "PLAIT_RACK",           "PLAIT_PLANS",
    "PLAIT_MPI"
};
#define NVARIABLE (sizeof variables / sizeof variables[0])

static int clear_environment(void **state)
{
    for (size_t i = 0; i < NVARIABLE; i++)
        unsetenv(variables[i]);
    return 0;
}

/* A file with this text; `path` has room for 32 characters. */
static void write_file(char *path, const char *text)
{
    int fd;

    strcpy(path, "/tmp/plait-config-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static enum plait_status load_text(const char *text, struct plait_config *out)
{
    return config_parse("f.conf", text, strlen(text), out);
}

static void assert_says(const char *part)
{
    if (strstr(plait_last_error(), part) == NULL)
        fail_msg("'%s' does not contain '%s'", plait_last_error(), part);
}

static void assert_refused(const char *text, const char *part)
{
    struct plait_config c = { .check = 77 };

    assert_int_equal(load_text(text, &c), PLAIT_ERR_CONFIG);
    assert_says(part);
    assert_int_equal(c.check, 77); /* written only on success */
}

static struct plait_setting setting(const char *name)
{
    struct plait_setting s;

    for (size_t i = 0; plait_config_get(i, &s) == PLAIT_OK; i++)
        if (strcmp(s.name, name) == 0)
            return s;
    fail_msg("no setting %s: %s", name, plait_last_error());
    return s;
}

static void defaults_are_those_of_the_header(void **state)
{
    struct plait_config c;

    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_string_equal(c.algo, "");
    assert_string_equal(c.file, "");
    assert_string_equal(c.isa, "");
    assert_int_equal(c.arena, 0);
    assert_int_equal(c.slice, 0);
    assert_int_equal(c.check, 0);
    assert_int_equal(c.cma, PLAIT_CMA_AUTO);
    assert_int_equal(c.log, PLAIT_LOG_WARN);
    assert_true(c.deadline == 600 && c.timeout == 60 && c.warn == 30);
    assert_true(c.ports.first == 20000 && c.ports.n == 10000);
    assert_string_equal(c.ifname, "");
    assert_string_equal(c.launcher, "");
    assert_string_equal(c.secret, "");
    assert_int_equal(c.require_secret, 0);
}

static void ports_are_one_or_a_range(void **state)
{
    static const char *const bad[] = { "0", "70000", "5-4", "1-", "-1", "1-70000", "1-2-3", "1 - 2", "x" };
    struct plait_config c;

    assert_int_equal(load_text("PLAIT_PORTS = 65535", &c), PLAIT_OK);
    assert_true(c.ports.first == 65535 && c.ports.n == 1);
    assert_int_equal(load_text("PLAIT_PORTS = 1-65535", &c), PLAIT_OK);
    assert_true(c.ports.first == 1 && c.ports.n == 65535);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "PLAIT_PORTS = %s", bad[i]);
        assert_refused(text, "a range of ports");
    }
}

static void interfaces_and_launchers_are_checked(void **state)
{
    struct plait_config c;

    assert_int_equal(load_text("PLAIT_IFNAME = ^=docker0,veth", &c), PLAIT_OK);
    assert_refused("PLAIT_IFNAME = ^", "all but");
    assert_refused("PLAIT_IFNAME = eth0,^docker", "all but");
    assert_int_equal(load_text("PLAIT_LAUNCHER = slurm", &c), PLAIT_OK);
    assert_refused("PLAIT_LAUNCHER = pbs", "torchrun");
}

/* Neither what is taken nor what is refused. */
static void a_secret_is_shown_nowhere(void **state)
{
    struct plait_config c;

    setenv("PLAIT_SECRET", "correct horse battery", 1);
    assert_string_equal(setting("PLAIT_SECRET").value, "(secret)");
    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_string_equal(c.secret, "correct horse battery");
    setenv("PLAIT_SECRET", "too short", 1);
    assert_int_equal(plait_config_load(&c), PLAIT_ERR_CONFIG);
    assert_says("16 to 79");
    assert_null(strstr(plait_last_error(), "too short"));
    char much[400];
    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    setenv("PLAIT_SECRET", much, 1);
    assert_int_equal(plait_config_load(&c), PLAIT_ERR_CONFIG);
    assert_null(strstr(plait_last_error(), "xxx"));
}

static void settings_are_listed_with_text_value_and_origin(void **state)
{
    struct plait_setting s;
    size_t n = 0;

    for (; plait_config_get(n, &s) == PLAIT_OK; n++) {
        assert_int_equal(strncmp(s.name, "PLAIT_", 6), 0);
        assert_true(strlen(s.text) > 10);
        assert_string_equal(s.origin, "default");
    }
    assert_int_equal(n, NVARIABLE - 1);
    assert_int_equal(plait_config_get(n, &s), PLAIT_ERR_ARG);
    assert_int_equal(plait_config_get(0, NULL), PLAIT_ERR_ARG);
}

static void sizes_take_binary_units(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = { { "0", 0 },       { "1", 1 },        { "65536", 65536 },        { "64K", 65536 },
                 { "64k", 65536 }, { "3M", 3 << 20 }, { "2G", (size_t)2 << 30 }, { "18446744073709551615", SIZE_MAX },
                 { "0G", 0 },      { "64KB", 65536 }, { "64KiB", 65536 },        { "3mib", 3 << 20 },
                 { "8B", 8 } };
    static const char *const bad[] = { "-1",
                                       "+1",
                                       "K",
                                       "1Ki",
                                       "1iB",
                                       "1KBB",
                                       "1.5M",
                                       "1 K",
                                       "0x10",
                                       "18446744073709551616",
                                       "17179869184G",
                                       "99999999999999999999999",
                                       "1T" };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct plait_config c;
        char line[96];
        snprintf(line, sizeof line, "PLAIT_SLICE = %s\nPLAIT_ARENA=%s", good[i].text, good[i].text);
        assert_int_equal(load_text(line, &c), PLAIT_OK);
        assert_int_equal(c.slice, good[i].bytes);
        assert_int_equal(c.arena, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[64], part[96];
        snprintf(line, sizeof line, "\nPLAIT_SLICE = %s", bad[i]);
        snprintf(part, sizeof part, "PLAIT_SLICE='%s' (f.conf:2): allowed is automatic, or a number of bytes", bad[i]);
        assert_refused(line, part);
    }
}

static void seconds_are_positive_numbers(void **state)
{
    static const char *const bad[] = {
        "0", "0.0", "-1", "inf", "nan", "1e10", "1s", ".", "1,5", "1.2.3", "1000000001"
    };
    struct plait_config c;

    assert_int_equal(load_text("PLAIT_DEADLINE=0.5\nPLAIT_WARN=7\nPLAIT_TIMEOUT=.25", &c), PLAIT_OK);
    assert_true(c.deadline == 0.5 && c.warn == 7 && c.timeout == 0.25);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "PLAIT_WARN=%s", bad[i]);
        assert_refused(line, "allowed is seconds: a positive number");
    }
}

static void names_and_flags_take_their_words_only(void **state)
{
    struct plait_config c;

    assert_int_equal(load_text("PLAIT_LOG=debug\nPLAIT_ISA=avx2\nPLAIT_CHECK=1\nPLAIT_ALGO=allreduce:torus:4x8", &c),
                     PLAIT_OK);
    assert_int_equal(c.log, PLAIT_LOG_DEBUG);
    assert_int_equal(c.check, 1);
    assert_string_equal(c.isa, "avx2");
    assert_string_equal(c.algo, "allreduce:torus:4x8");
    assert_refused("PLAIT_LOG=loud", "PLAIT_LOG='loud' (f.conf:1): allowed is error, warn, info or debug");
    assert_refused("PLAIT_ISA=sse2", "allowed is scalar, avx2 or avx512");
    assert_refused("PLAIT_CHECK=yes", "allowed is 0 or 1");
    assert_int_equal(load_text("PLAIT_LOG=INFO\nPLAIT_ISA=AVX2\nPLAIT_ALGO=ring", &c), PLAIT_OK);
    assert_int_equal(c.log, PLAIT_LOG_INFO);
    assert_string_equal(c.isa, "avx2");
    assert_string_equal(c.algo, "allreduce:ring");
    assert_int_equal(load_text("PLAIT_ALGO=ncclAllGather:ring", &c), PLAIT_OK);
    assert_string_equal(c.algo, "allgather:ring");
    assert_refused("PLAIT_ALGO=nosuch:ring", "allowed is ALGORITHM or COLLECTIVE:ALGORITHM");
    assert_refused("PLAIT_ALGO=allreduce:", "allowed is ALGORITHM or COLLECTIVE:ALGORITHM");
    assert_refused("PLAIT_ALGO=allreduce:0123456789012345678901234567890123456789012345678901234567890123456789",
                   "allowed is at most 63 characters");
}

static void lines_have_comments_blanks_and_any_line_end(void **state)
{
    struct plait_config c;

    assert_int_equal(load_text("# a comment\r\n\r\n \tPLAIT_SLICE\t=  1K  # why\r\nPLAIT_CHECK=1\n\nPLAIT_ISA=", &c),
                     PLAIT_OK);
    assert_int_equal(c.slice, 1024);
    assert_int_equal(c.check, 1);
    assert_string_equal(c.isa, "");
    assert_int_equal(load_text("", &c), PLAIT_OK);
}

static void broken_lines_are_named(void **state)
{
    char line[400] = "PLAIT_ALGO=", expected[] = "PLAIT_ALGO is longer than 255 characters";
    struct plait_config c;

    assert_refused("\n\nPLAIT_SLICE 4", "f.conf:3: 'PLAIT_SLICE 4' is not of the form NAME = value");
    assert_refused("= 4", "f.conf:1: '= 4' is not");
    assert_refused("PLAIT_CONFIG=x", "can only be set in the environment");
    memset(line + strlen(line), 'a', 380);
    assert_refused(line, expected);
    assert_int_equal(config_parse("f", "A\0B", 3, &c), PLAIT_ERR_CONFIG);
    assert_says("f: a NUL byte");
}

static void environment_comes_before_file_before_default(void **state)
{
    char path[32], origin[64];
    struct plait_config c;

    write_file(path, "PLAIT_WARN = 5\n\nPLAIT_TIMEOUT = 6\n");
    setenv("PLAIT_CONFIG", path, 1);
    setenv("PLAIT_WARN", "4", 1);
    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_true(c.warn == 4 && c.timeout == 6 && c.deadline == 600);
    assert_string_equal(c.file, path);
    snprintf(origin, sizeof origin, "%s:3", path);
    assert_string_equal(setting("PLAIT_WARN").origin, "environment");
    assert_string_equal(setting("PLAIT_WARN").value, "4");
    assert_string_equal(setting("PLAIT_TIMEOUT").origin, origin);
    assert_string_equal(setting("PLAIT_TIMEOUT").value, "6");
    assert_string_equal(setting("PLAIT_DEADLINE").origin, "default");
    assert_string_equal(setting("PLAIT_CONFIG").value, path);
    setenv("PLAIT_WARN", "", 1); /* empty: the default, not the file's */
    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_true(c.warn == 30);
    unlink(path);
}

static void what_the_program_sets_comes_after_the_environment_and_before_the_file(void **state)
{
    char path[32];
    struct plait_config c;

    write_file(path, "PLAIT_WARN = 5\n");
    setenv("PLAIT_CONFIG", path, 1);
    assert_int_equal(plait_config_set("PLAIT_WARN", "7", "--warn"), PLAIT_OK);
    assert_string_equal(setting("PLAIT_WARN").value, "7");
    assert_string_equal(setting("PLAIT_WARN").origin, "--warn");
    setenv("PLAIT_WARN", "4", 1);
    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_true(c.warn == 4);
    unsetenv("PLAIT_WARN");
    assert_int_equal(plait_config_set("PLAIT_WARN", "soon", "--warn"), PLAIT_ERR_CONFIG);
    assert_says("PLAIT_WARN='soon' (--warn): allowed is seconds");
    assert_int_equal(plait_config_set("PLAIT_WARM", "1", "--warn"), PLAIT_ERR_ARG);
    assert_says("PLAIT_WARM");
    assert_int_equal(plait_config_set("PLAIT_WARN", "1", ""), PLAIT_ERR_ARG);
    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_true(c.warn == 7); /* as it was */
    assert_int_equal(plait_config_set("PLAIT_WARN", NULL, "--warn"), PLAIT_OK);
    assert_int_equal(plait_config_load(&c), PLAIT_OK);
    assert_true(c.warn == 5);
    unlink(path);
}

static void bad_environment_is_named(void **state)
{
    char huge[400];
    struct plait_config c = { .check = 77 };

    setenv("PLAIT_SLICE", "lots", 1);
    assert_int_equal(plait_config_load(&c), PLAIT_ERR_CONFIG);
    assert_says("PLAIT_SLICE='lots' (environment): allowed is automatic, or a number of bytes");
    assert_int_equal(c.check, 77);
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    setenv("PLAIT_SLICE", huge, 1);
    assert_int_equal(plait_config_load(&c), PLAIT_ERR_CONFIG);
    assert_says("PLAIT_SLICE: the value 'xxx");
    unsetenv("PLAIT_SLICE");
    setenv("PLAIT_CONFIG", "/nonexistent/plait.conf", 1);
    assert_int_equal(plait_config_load(&c), PLAIT_ERR_CONFIG);
    assert_says("PLAIT_CONFIG='/nonexistent/plait.conf' cannot be read: No such file");
    setenv("PLAIT_CONFIG", "/tmp", 1);
    assert_int_equal(plait_config_load(&c), PLAIT_ERR_CONFIG);
    assert_says("PLAIT_CONFIG='/tmp' cannot be read");
}

static void load_twice(void)
{
    struct plait_config c;

    for (int i = 0; i < 2; i++)
        if (plait_config_load(&c) != PLAIT_OK)
            _exit(1);
}

static void unknown_names_are_warned_of_once_with_the_nearest(void **state)
{
    char path[32], text[4096], expected[256], *first;

    write_file(path, "\nPLAIT_DEADLNE = 5\n");
    setenv("PLAIT_CONFIG", path, 1);
    setenv("PLAIT_SLICES", "4K", 1);
    setenv("PLAIT_TEST_ANYTHING", "1", 1);
    setenv("PLAIT_LIBRARY", "libplait.so.0", 1);
    assert_int_equal(child_run(load_twice, text, sizeof text), 0);
    first = strstr(text, "warn: environment: there is no setting 'PLAIT_SLICES'; did you mean PLAIT_SLICE?");
    assert_non_null(first);
    assert_null(strstr(first + strlen("warn: environment: there is no setting 'PLAIT_SLICES'"), "'PLAIT_SLICES'"));
    snprintf(expected, sizeof expected, "%s:2: there is no setting 'PLAIT_DEADLNE'; did you mean PLAIT_DEADLINE?",
             path);
    assert_non_null(strstr(text, expected));
    assert_null(strstr(text, "PLAIT_TEST_ANYTHING"));
    assert_null(strstr(text, "PLAIT_LIBRARY"));
    setenv("PLAIT_LOG", "error", 1);
    assert_int_equal(child_run(load_twice, text, sizeof text), 0);
    assert_string_equal(text, "");
    unlink(path);
}

static void a_name_that_is_like_no_other_is_not_taken_for_one(void **state)
{
    char text[4096];

    setenv("PLAIT_FOOBARBAZ", "1", 1);
    assert_int_equal(child_run(load_twice, text, sizeof text), 0);
    assert_non_null(strstr(text, "there is no setting 'PLAIT_FOOBARBAZ'; plait-info --config lists all\n"));
    assert_null(strstr(text, "did you mean"));
    unsetenv("PLAIT_FOOBARBAZ");
}

static void log_some(void)
{
    plait_log(PLAIT_LOG_INFO, "hidden");
    plait_log_setup(PLAIT_LOG_INFO, "");
    plait_log(PLAIT_LOG_INFO, "shown %d\nsame line", 1);
    plait_log(PLAIT_LOG_ERROR, "%5000d", 1); /* cut, still one line */
}

static void log_lines_have_host_process_and_level(void **state)
{
    char text[8192], host[64] = "", expected[96];
    unsigned lines = 0;

    assert_int_equal(child_run(log_some, text, sizeof text), 0);
    gethostname(host, sizeof host - 1);
    snprintf(expected, sizeof expected, "plait[%s:", host);
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
    assert_non_null(strstr(text, "Z info: shown 1?same line\n"));
    assert_null(strstr(text, "hidden"));
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 2);
}

/* Random pieces of valid files, then random bytes. Address sanitizer watches. */
static void any_file_is_parsed_safely(void **state)
{
    static const char *const pieces[] = { "PLAIT_SLICE", "PLAIT_WARN", "=",          " ",    "\n",
                                          "#",           "4K",         "0.5",        "\r\n", "PLAIT_",
                                          "\t",          "allreduce:", "PLAIT_ALGO", "\xff", "99999999999999999999" };
    unsigned seed = 1;

    for (int run = 0; run < 20000; run++) {
        char text[512];
        size_t n = 0;
        struct plait_config c;
        enum plait_status status;

        for (int k = rand_r(&seed) % 24; k > 0; k--) {
            const char *p = pieces[(size_t)rand_r(&seed) % (sizeof pieces / sizeof pieces[0])];
            if (run % 4 == 3)
                text[n++] = (char)rand_r(&seed);
            else
                n += (size_t)snprintf(text + n, sizeof text - n, "%s", p);
        }
        status = config_parse("f", text, n, &c);
        assert_true(status == PLAIT_OK || status == PLAIT_ERR_CONFIG);
    }
}

static void topology_is_plausible(void **state)
{
    struct plait_topology t;

    plait_topology_get(&t);
    assert_true(strlen(t.processor) > 0);
    assert_true(t.ncpu >= 1 && t.ncpu <= 1 << 18);
    assert_true(t.memory > 1 << 20);
    assert_true(t.l2 == 0 || t.l2 >= t.l1);
    assert_true(strcmp(t.isa, "scalar") == 0 || strcmp(t.isa, "avx2") == 0 || strcmp(t.isa, "avx512") == 0);
}

static void version_and_features_have_their_form(void **state)
{
    unsigned major, minor, patch;
    int n = 0;

    assert_int_equal(sscanf(plait_version(), "%u.%u.%u%n", &major, &minor, &patch, &n), 3);
    assert_int_equal(plait_version()[n], '\0');
    assert_string_equal(plait_version(), PLAIT_VERSION);
    assert_int_equal(PLAIT_VERSION_NUMBER, PLAIT_VERSION_OF(major, minor, patch));
    assert_non_null(strstr(plait_features(), "hwloc:"));
}

static void a_pace_has_a_latency_a_bandwidth_or_both(void **state)
{
    static const struct {
        const char *text;
        struct plait_pace pace;
    } good[] = {
        { "1000us", { 1000000, 0 } },
        { "1.5ms", { 1500000, 0 } },
        { "250MB/s", { 0, 250000000 } },
        { "2GB/s,10us", { 10000, 2000000000 } },
        { "", { 0, 0 } },
    };
    static const char *const bad[] = { "1000",    "us",          "0us",       "1000us,",       ",1000us",
                                       "1us,2ms", "1GB/s,1MB/s", "1us 1MB/s", "-1us",          "1us,1MB/s,",
                                       "1e3xs",   "infus",       "1KB/s",     "100000000000us" };
    struct plait_config c;
    char line[64];

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(line, sizeof line, "PLAIT_PACE=%s", good[i].text);
        assert_int_equal(load_text(line, &c), PLAIT_OK);
        assert_memory_equal(&c.pace, &good[i].pace, sizeof c.pace);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(line, sizeof line, "PLAIT_PACE=%s", bad[i]);
        assert_refused(line, "the latency of a message, the bandwidth of a link, or both: 1000us");
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        /* First: later ones use up this process's one warning. */
        TEST(unknown_names_are_warned_of_once_with_the_nearest),
        TEST(a_name_that_is_like_no_other_is_not_taken_for_one),
        TEST(defaults_are_those_of_the_header),
        TEST(settings_are_listed_with_text_value_and_origin),
        TEST(sizes_take_binary_units),
        TEST(ports_are_one_or_a_range),
        TEST(interfaces_and_launchers_are_checked),
        TEST(a_secret_is_shown_nowhere),
        TEST(seconds_are_positive_numbers),
        TEST(names_and_flags_take_their_words_only),
        TEST(lines_have_comments_blanks_and_any_line_end),
        TEST(broken_lines_are_named),
        TEST(environment_comes_before_file_before_default),
        TEST(what_the_program_sets_comes_after_the_environment_and_before_the_file),
        TEST(bad_environment_is_named),
        TEST(log_lines_have_host_process_and_level),
        TEST(any_file_is_parsed_safely),
        TEST(topology_is_plausible),
        TEST(version_and_features_have_their_form),
        cmocka_unit_test(a_pace_has_a_latency_a_bandwidth_or_both),
    };
#undef TEST
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
