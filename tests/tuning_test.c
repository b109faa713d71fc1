/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning files: what they hold, and the errors of those that are wrong. */
#include "folder.h"

#include "../tools/tuning_save.h"
#include "plugin/plugin.h"

#include <string.h>

static char whole[8192]; /* the corpus's file with all fields */

static int read_whole(void **state)
{
    FILE *f = fopen(TUNING, "r");
    const size_t n = f != NULL ? fread(whole, 1, sizeof whole - 1, f) : 0;

    if (f != NULL)
        fclose(f);
    return n == 0 || folder_make(state) != 0;
}

static void assert_error(enum plait_status status, enum plait_status expected, const char *text)
{
    assert_int_equal(status, expected);
    if (strstr(plait_last_error(), text) == NULL)
        fail_msg("'%s' is not in: %s", text, plait_last_error());
}

static void every_field_is_read(void **state)
{
    struct plait_tuning t;

    assert_int_equal(plait_tuning_load(TUNING, &t), PLAIT_OK);
    assert_string_equal(t.version, "0.1.0");
    assert_string_equal(t.date, "2026-11-29");
    assert_string_equal(t.processor, "AMD EPYC");
    assert_true(t.processors == 2 && t.fingerprint == 0x0123456789abcdef);
    assert_true(t.copy == 9000000000 && t.reduce == 7000000000);
    const struct plait_tuned_link *ranks = &t.link[PLAIT_LINK_RANKS], *hosts = &t.link[PLAIT_LINK_HOSTS];
    assert_true(ranks->latency == 300 && ranks->overhead == 100 && ranks->bandwidth == 8000000000);
    assert_true(hosts->latency == 25000 && hosts->overhead == 0 && hosts->bandwidth == 110000000);
    assert_int_equal(t.link[PLAIT_LINK_RACKS].bandwidth, 0);
    assert_true(t.has_copies && t.copies[0].fastest == PLAIT_COPY_SINGLE && t.copies[0].other == PLAIT_COPY_STREAMED);
    assert_true(t.copies[3].fastest == PLAIT_COPY_STREAMED && t.copies[3].other == PLAIT_COPY_STREAMED);
    assert_int_equal(t.nrow, 4);
    const struct plait_tuned_choice *c = &t.rows[1];
    assert_true(c->coll == PLAIT_ALLREDUCE && c->hosts == 4 && c->ranks_per_host == 2 && c->oversubscribed);
    assert_true(c->memory == PLAIT_MEMORY_HOST && c->from == 65536 && c->ns == 700001 && c->next[0] == '\0');
    assert_string_equal(c->algorithm, "ring");
    assert_true(t.rows[0].ns == 12500 && t.rows[0].next_ns == 14000 && t.rows[2].from == 1000000);
    assert_string_equal(t.rows[0].next, "two-shot");
    assert_true(t.rows[3].coll == PLAIT_ALLGATHER && t.rows[3].memory == PLAIT_MEMORY_DEVICE && t.rows[3].ns == 1);
    plait_tuning_finish(&t);
}

static void a_saved_file_is_the_loaded_one(void **state)
{
    struct plait_tuning t;
    static char text[sizeof whole];

    assert_int_equal(plait_tuning_load(TUNING, &t), PLAIT_OK);
    assert_int_equal(tuning_save(&t, in_folder("saved.json")), PLAIT_OK);
    FILE *f = fopen(in_folder("saved.json"), "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, whole);
    plait_tuning_finish(&t);
}

static void nothing_need_be_measured(void **state)
{
    static const char text[] = "{ \"plait\": \"0.1.0\", \"date\": \"2026-11-29\", \"machine\": { \"processor\": \"x\", "
                               "\"processors\": 1, \"fingerprint\": \"0000000000000000\" } }";
    struct plait_tuning t, again;

    folder_write("t.json", text, strlen(text));
    assert_int_equal(plait_tuning_load(in_folder("t.json"), &t), PLAIT_OK);
    assert_true(t.nrow == 0 && t.rows == NULL && !t.has_copies && t.copy == 0 &&
                t.link[PLAIT_LINK_RANKS].bandwidth == 0);
    assert_int_equal(tuning_save(&t, in_folder("t.json")), PLAIT_OK);
    assert_int_equal(plait_tuning_load(in_folder("t.json"), &again), PLAIT_OK);
    plait_tuning_finish(&again);
    plait_tuning_finish(&t);
    plait_tuning_finish(NULL);
}

/* In the whole file, `from` (its first place) becomes `to`. */
static const struct {
    const char *from, *to, *error;
} malformed[] = {
    { "\"plait\": \"0.1.0\",", "", "line 1: the file needs \"plait\": text of 1 to 23 bytes" },
    { "\"plait\"", "\"plaits\"", "line 1: the file needs \"plait\"" },
    { "2026-11-29", "29.11.2026", "line 3: the file.date is \"29.11.2026\"; it must be a date such as \"2026-11-29\"" },
    { "2026-11-29", "2026-11-2", "line 3: the file.date is \"2026-11-2\"; it must be a date" },
    { "\"machine\"", "\"machin\"", "line 4: the file has no field 'machin'; did you mean 'machine'?" },
    { "\"copy\"", "\"speed\"",
      "line 16: the file has no field 'speed'; its fields are plait, date, machine, links, copies, "
      "choices, copy, reduce" },
    { "{ \"processor\": \"AMD EPYC\", \"processors\": 2, \"fingerprint\": \"0123456789abcdef\" }", "2",
      "line 4: machine must be an object" },
    { "\"processors\": 2", "\"processors\": 0", "line 4: machine.processors is 0; it must be 1 to 1048576" },
    { "\"processors\": 2, ", "", "line 4: machine needs \"processors\": a whole number" },
    { "0123456789abcdef", "0123456789abcde",
      "line 4: machine.fingerprint is \"0123456789abcde\"; it must be 16 digits" },
    { "0123456789abcdef", "0123456789abcdeg", "line 4: machine.fingerprint is \"0123456789abcdeg\"; it must be 16" },
    { "ranks of a host", "ranks",
      "line 6: links[0].between is \"ranks\"; it must be \"ranks of a host\", \"hosts\" or \"racks\"" },
    { "ranks of a host", "hosts", "line 7: links[1].between is \"hosts\" again; leave one of them out" },
    { "\"between\": \"hosts\", ", "", "line 7: links[1] needs \"between\": \"ranks of a host\"," },
    { "\"300 ns\"", "\"300 nm\"",
      "line 6: links[0].latency is \"300 nm\"; it must be nanoseconds, or text such as \"2 us\"" },
    { "\"latency\": \"25 us\", ", "", "line 7: links[1] needs \"latency\": nanoseconds" },
    { "110 MB/s", "0 B/s", "line 7: links[1].bandwidth is \"0 B/s\"; it must be 1 to 17592186044416" },
    { "110 MB/s", "100 KiB", "line 7: links[1].bandwidth is \"100 KiB\"; it must be bytes per second" },
    { "\"overhead\"", "\"overhaed\"", "line 6: links[0] has no field 'overhaed'; did you mean 'overhead'?" },
    { ",\n        { \"fastest\": \"staged\" }", "", "line 9: the file.copies must be an array of 5" },
    { "\"32 KiB\"", "\"64 KiB\"",
      "line 10: copies[0].to is \"64 KiB\"; it must be \"32 KiB\", as classes of sizes are fixed" },
    { "\"to\": \"2 MiB\", ", "", "line 13: copies[3] needs \"to\": \"2 MiB\"" },
    { "{ \"fastest\": \"staged\" }", "{ \"to\": \"8 MiB\", \"fastest\": \"staged\" }",
      "line 14: copies[4] has \"to\"; leave it out" },
    { "\"fastest\": \"single\"", "\"fastest\": \"fast\"",
      "line 10: copies[0].fastest is \"fast\"; it must be \"single\", \"staged\" or \"streamed\"" },
    { "\"else\": \"streamed\"", "\"else\": \"single\"",
      "line 10: copies[0].else is \"single\"; it must be \"staged\" or \"streamed\"" },
    { "\"512 KiB\", ", "\"512 KiB\", \"else\": \"staged\", ",
      "line 12: copies[2].else is \"staged\"; it must be \"staged\" or \"streamed\", beside" },
    { "9 GB/s", "-9 GB/s", "line 16: the file.copy is \"-9 GB/s\"; it must be bytes per second" },
    { "\"allreduce\"", "\"allredcue\"", "line 19: choices[0].collective is \"allredcue\"; it must be \"" },
    { "\"hosts\": 4", "\"hosts\": 0", "line 19: choices[0].hosts is 0; it must be 1 to 1048576" },
    { "\"hosts\": 4", "\"hosts\": 1.5", "line 19: choices[0].hosts is 1.5; it must be a whole number" },
    { "\"ranks_per_host\": 2, ", "", "line 19: choices[0] needs \"ranks_per_host\": a whole number" },
    { "\"memory\": \"host\"", "\"memory\": \"gpu\"",
      "line 19: choices[0].memory is \"gpu\"; it must be \"host\", \"pinned\", \"managed\" or \"device\"" },
    { "\"oversubscribed\": true", "\"oversubscribed\": 1",
      "line 19: choices[0].oversubscribed is 1; it must be true or false" },
    { ", \"oversubscribed\": true", "", "line 19: choices[0] needs \"oversubscribed\": true or false" },
    { "\"from\": 0, ", "\"from\": 4, ", "line 21: choices[0].sizes[0].from is 4; it must be 0, as it is the first" },
    { "64 KiB", "1 MiB", "line 23: choices[0].sizes[2].from is 1000000; it must be above that of the size before it" },
    { "1000000", "65536", "line 23: choices[0].sizes[2].from is 65536; it must be above that of the size before it" },
    { "64 KiB", "64 KB",
      "line 22: choices[0].sizes[1].from is \"64 KB\"; it must be bytes, or text such as \"8 KiB\"" },
    { "\"algorithm\": \"ring\", ", "", "line 22: choices[0].sizes[1] needs \"algorithm\": text of 1 to 63 bytes" },
    { ", \"us\": 700.001", "", "line 22: choices[0].sizes[1] needs \"us\": microseconds" },
    { "700.001", "\"700 us\"",
      "line 22: choices[0].sizes[1].us is \"700 us\"; it must be microseconds, from 0.001 to 1000000000" },
    { "700.001", "0.0001", "line 22: choices[0].sizes[1].us is 0.0001" },
    { ", \"next_us\": 14", "", "line 21: choices[0].sizes[0] needs \"next_us\": microseconds" },
    { "\"next\": \"two-shot\", ", "", "line 21: choices[0].sizes[0] has \"next_us\", but no \"next\"" },
    { "\"us\": 12.5", "\"ms\": 12.5", "line 21: choices[0].sizes[0] has no field 'ms'; did you mean 'us'?" },
    { "\"allgather\", \"hosts\": 1, \"ranks_per_host\": 0, \"memory\": \"device\", \"oversubscribed\": false",
      "\"allreduce\", \"hosts\": 4, \"ranks_per_host\": 2, \"memory\": \"host\", \"oversubscribed\": true",
      "line 25: choices[1] has the collective, hosts, ranks, memory and processors of another choice; leave one of "
      "them out" },
    { "[\n            { \"from\": 0, \"algorithm\": \"ring\", \"us\": 0.001 }\n          ]", "[]",
      "line 26: choices[1].sizes must be an array of 1 to 64" },
    { "        { \"collective\": \"allg", "        5, { \"collective\": \"allg",
      "line 25: choices[1] must be an object with \"collective\"" },
    { "\"choices\": [", "\"choices\": 5, \"x\": [", "line 18: the file has no field 'x'; " },
    { "\"reduce\": \"7 GB/s\",", "\"reduce\": \"7 GB/s\"", "line 18: '}' expected near '\"choices\"'" },
    { "\"date\"", "\"plait\"", "line 3: duplicate object key" },
};

static void what_is_malformed_is_named_with_line_field_and_remedy(void **state)
{
    struct plait_tuning t = { .nrow = 7 };
    static char text[sizeof whole + 256];

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        const char *at = strstr(whole, malformed[i].from);
        assert_non_null(at);
        const int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, malformed[i].to,
                               at + strlen(malformed[i].from));
        folder_write("bad.json", text, (size_t)n);
        assert_error(plait_tuning_load(in_folder("bad.json"), &t), PLAIT_ERR_CONFIG, malformed[i].error);
        assert_non_null(strstr(plait_last_error(), "/bad.json, line "));
    }
    assert_int_equal(t.nrow, 7);
    folder_write("bad.json", "[]", 2);
    assert_error(plait_tuning_load(in_folder("bad.json"), &t), PLAIT_ERR_CONFIG,
                 "line 1: it must be an object with \"plait\"");
    assert_error(plait_tuning_load(in_folder("none.json"), &t), PLAIT_ERR_SYSTEM, "/none.json: No such file");
    assert_error(plait_tuning_load(in_folder("."), &t), PLAIT_ERR_SYSTEM, "Is a directory"); /* once freed it twice */
}

/* Before there is memory for its rows. */
static void a_choice_of_too_many_sizes_is_refused(void **state)
{
    static struct plait_tuned_choice rows[65];
    struct plait_tuning t = { .version = "0.1.0", .date = "2026-11-29", .processor = "x", .processors = 1 };

    t.rows = rows;
    for (t.nrow = 0; t.nrow < 65; t.nrow++)
        rows[t.nrow] = (struct plait_tuned_choice){
            .coll = PLAIT_ALLREDUCE, .hosts = 1, .ranks_per_host = 2, .from = t.nrow, .algorithm = "ring", .ns = 1000
        };
    assert_error(tuning_save(&t, in_folder("not.json")), PLAIT_ERR_CONFIG,
                 "choices[0].sizes must be an array of 1 to 64");
    t.nrow = 64;
    assert_int_equal(tuning_save(&t, in_folder("most.json")), PLAIT_OK);
}

static void what_cannot_be_loaded_is_not_saved(void **state)
{
    struct plait_tuning t;

    assert_int_equal(plait_tuning_load(TUNING, &t), PLAIT_OK);
    t.rows[1].from = 0;
    assert_error(tuning_save(&t, in_folder("not.json")), PLAIT_ERR_CONFIG,
                 "choices[0].sizes[1].from is 0; it must be above");
    t.rows[1].from = 4;
    t.rows[1].ns = 0;
    assert_error(tuning_save(&t, in_folder("not.json")), PLAIT_ERR_CONFIG, "choices[0].sizes[1].us is 0; it must be");
    t.rows[1].ns = 1;
    t.rows[1].coll = PLAIT_NCOLL;
    assert_error(tuning_save(&t, in_folder("not.json")), PLAIT_ERR_CONFIG, "collective is \"?\"; it must be");
    t.rows[1].coll = PLAIT_ALLREDUCE;
    strcpy(t.processor, "\xff");
    assert_error(tuning_save(&t, in_folder("not.json")), PLAIT_ERR_CONFIG, "a text \"processor\" is not UTF-8");
    assert_null(fopen(in_folder("not.json"), "r"));
    plait_tuning_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(a_saved_file_is_the_loaded_one),
        cmocka_unit_test(nothing_need_be_measured),
        cmocka_unit_test(what_is_malformed_is_named_with_line_field_and_remedy),
        cmocka_unit_test(a_choice_of_too_many_sizes_is_refused),
        cmocka_unit_test(what_cannot_be_loaded_is_not_saved),
    };

    return cmocka_run_group_tests_name("tuning", tests, read_whole, folder_remove);
}
