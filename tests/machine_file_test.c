/* SPDX-License-Identifier: BSD-3-Clause */
/* Machine files from C. machines_test.sh has the errors of files; tests/fuzz/machine.c reads what nobody writes. */
#include "folder.h"

#include <plait/simulate.h>

#include <string.h>

#define TWO                                \
    "{ \"name\": \"two\", \"levels\": [\n" \
    "{ \"name\": \"host\", \"children\": 2, \"bandwidth\": \"1 GB/s\", \"latency\": \"2 us\" } ] }"

static void assert_error(enum plait_status status, enum plait_status expected, const char *text)
{
    assert_int_equal(status, expected);
    if (strstr(plait_last_error(), text) == NULL)
        fail_msg("'%s' is not in: %s", text, plait_last_error());
}

static void a_file_is_loaded_and_saved_as_itself(void **state)
{
    const char *const presets[] = { "abci", "dgx-h100-pod", "knl-64", "minsky-32", "p40-1024", "p40-2048" };
    static struct plait_machine m, again;
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        snprintf(path, sizeof path, "%s/%s.json", MACHINES, presets[i]);
        assert_int_equal(plait_machine_load(path, &m), PLAIT_OK);
        assert_true(m.nlevel >= 1 && m.about[0] != '\0' && plait_machine_ranks(&m) >= 64);
        assert_int_equal(plait_machine_save(&m, in_folder("m.json")), PLAIT_OK);
        assert_int_equal(plait_machine_load(in_folder("m.json"), &again), PLAIT_OK);
        assert_memory_equal(&m, &again, sizeof m);
    }
}

static void text_is_parsed(void **state)
{
    struct plait_machine m;

    assert_int_equal(plait_machine_parse("two", TWO, &m), PLAIT_OK);
    assert_true(m.nlevel == 1 && m.level[0].latency == 2000 && m.level[0].bandwidth == 1000000000);
}

static void errors_name_the_file_and_leave_the_machine(void **state)
{
    const char bad[] = "{ \"name\": \"two\",\n  \"levles\": [] }";
    struct plait_machine m = { .name = "kept" };

    folder_write("bad.json", bad, strlen(bad));
    assert_error(plait_machine_load(in_folder("bad.json"), &m), PLAIT_ERR_ARG,
                 "/bad.json, line 2: the machine has no field 'levles'; did you mean 'levels'?");
    assert_error(plait_machine_parse("text", bad, &m), PLAIT_ERR_ARG, "text, line 2: the machine has no field");
    folder_write("zero.json", TWO "\0", strlen(TWO) + 1);
    assert_error(plait_machine_load(in_folder("zero.json"), &m), PLAIT_ERR_ARG, "/zero.json, line 2: ");
    assert_error(plait_machine_load(in_folder("none.json"), &m), PLAIT_ERR_SYSTEM, "/none.json: No such file");
    assert_error(plait_machine_load("/tmp", &m), PLAIT_ERR_SYSTEM, "/tmp: Is a directory");
    assert_error(plait_machine_load(NULL, &m), PLAIT_ERR_ARG, "plait_machine_load: path is NULL");
    assert_error(plait_machine_parse("text", TWO, NULL), PLAIT_ERR_ARG, "plait_machine_parse: out is NULL");
    assert_string_equal(m.name, "kept");
}

static void only_a_valid_machine_is_saved(void **state)
{
    struct plait_machine m;

    assert_int_equal(plait_machine_parse("two", TWO, &m), PLAIT_OK);
    assert_error(plait_machine_save(&m, "/nowhere/m.json"), PLAIT_ERR_SYSTEM, "/nowhere/m.json: No such file");
    assert_error(plait_machine_save(&m, "/dev/full"), PLAIT_ERR_SYSTEM, "/dev/full: cannot be written: No space");
    strcpy(m.name, "\xff");
    assert_error(plait_machine_save(&m, in_folder("m.json")), PLAIT_ERR_ARG, "m.json: a text \"name\" is not UTF-8");
    memset(m.about, 'a', sizeof m.about);
    assert_error(plait_machine_save(&m, in_folder("m.json")), PLAIT_ERR_ARG, "machine: name or about has no end");
    m.about[0] = '\0';
    memset(m.level[0].about, 'a', sizeof m.level[0].about);
    assert_error(plait_machine_save(&m, in_folder("m.json")), PLAIT_ERR_ARG, "machine: host.about has no end");
}

static void a_build_without_the_plug_in_says_what_to_install(void **state)
{
    struct plait_machine m;

    setenv("PLAIT_PLUGINS", folder, 1);
    assert_error(plait_machine_parse("two", TWO, &m), PLAIT_ERR_UNSUPPORTED, "two: there is no /tmp/plait-test-");
    assert_error(plait_machine_parse("two", TWO, &m), PLAIT_ERR_UNSUPPORTED,
                 "(install libjansson-dev and build again)");
    unsetenv("PLAIT_PLUGINS");
    assert_int_equal(plait_machine_parse("two", TWO, &m), PLAIT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_loaded_and_saved_as_itself),
        cmocka_unit_test(text_is_parsed),
        cmocka_unit_test(errors_name_the_file_and_leave_the_machine),
        cmocka_unit_test(only_a_valid_machine_is_saved),
        cmocka_unit_test(a_build_without_the_plug_in_says_what_to_install),
    };

    return cmocka_run_group_tests_name("machine_file", tests, folder_make, folder_remove);
}
