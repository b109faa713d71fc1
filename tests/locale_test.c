/* SPDX-License-Identifier: BSD-3-Clause */
/* In a program whose locale has a decimal comma, and other small letters, everything is read as it is without. */
#include "base/ascii.h"
#include "base/bytes.h"
#include "comma_locale.h"
#include "unit.h"

#include <plait/config.h>
#include <plait/status.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void numbers_have_a_decimal_point(void **state)
{
    static const struct {
        const char *text;
        double value;
        const char *rest;
    } cases[] = { { "2.5us,12.5GB/s", 2.5, "us,12.5GB/s" },
                  { "0.001", 0.001, "" },
                  { "2,5", 2, ",5" },
                  { "1e-3 x", 1e-3, " x" },
                  { "0x1.8p+3", 12, "" },
                  { "", 0, "" },
                  { "x", 0, "x" },
                  { "-1.25e2", -125, "" },
                  { "inf", INFINITY, "" } };
    char *end, text[64];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(plait_real(cases[i].text, &end) == cases[i].value);
        assert_string_equal(end, cases[i].rest);
    }
    plait_print_real(text, sizeof text, 6, 1234.5);
    assert_string_equal(text, "1234.5");
    plait_print_real(text, sizeof text, 0, 0.1);
    assert_string_equal(text, "0x1.999999999999ap-4");
    snprintf(text, sizeof text, "%g", 2.5);
    assert_string_equal(text, "2,5"); /* the program's locale is as it was */
}

static void words_are_equal_whatever_the_case_of_i(void **state)
{
    assert_true(plait_same_word("info", "INFO") && plait_same_word(".JPG", ".jpg") && plait_same_word("", ""));
    assert_false(plait_same_word("info", "INF") || plait_same_word("INF", "info") || plait_same_word("a", "b"));
    for (int c = 1; c < 128; c++) {
        assert_int_equal(plait_lower((char)c), c >= 'A' && c <= 'Z' ? c + 32 : c);
        assert_int_equal(plait_upper((char)c), c >= 'a' && c <= 'z' ? c - 32 : c);
        assert_int_equal(plait_is_space((char)c), strchr(" \t\n\v\f\r", c) != NULL);
    }
}

static void settings_are_read(void **state)
{
    static const char *const good[][2] = { { "PLAIT_WARN", "2.5" },
                                           { "PLAIT_PACE", "2.5us,12.5GB/s" },
                                           { "PLAIT_DEADLINE", "0.25" } };
    size_t bytes = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (plait_config_set(good[i][0], good[i][1], "the test") != PLAIT_OK)
            fail_msg("%s", plait_last_error());
    assert_int_equal(plait_config_set("PLAIT_WARN", "2,5", "the test"), PLAIT_ERR_CONFIG);
    assert_true(plait_parse_bytes("64k", &bytes) && bytes == 65536);
    assert_true(plait_parse_bytes("1M", &bytes) && bytes == 1 << 20);
    assert_false(plait_parse_bytes("1.024", &bytes));
}

static int in_the_locale(void **state)
{
    return !comma_locale(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_a_decimal_point),
        cmocka_unit_test(words_are_equal_whatever_the_case_of_i),
        cmocka_unit_test(settings_are_read),
    };
    return cmocka_run_group_tests_name("locale", tests, in_the_locale, NULL);
}
