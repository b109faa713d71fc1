/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of tensors: what is written is read again, also by and from the Python package; each wrong number is named. */
#include "folder.h"

#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file with this header and so many zeros behind it. */
static size_t file_of(const char *header, size_t room, uint8_t *out)
{
    const uint64_t length = strlen(header);

    memcpy(out, &length, sizeof length);
    memcpy(out + sizeof length, header, length);
    memset(out + sizeof length + length, 0, room);
    return sizeof length + length + room;
}

/* Parsing must fail with a text that names the file and has these words. */
static void refused(const void *bytes, size_t size, const char *words)
{
    const char *why = NULL;
    uint8_t *const exact = malloc(size > 0 ? size : 1);

    assert_non_null(exact);
    memcpy(exact, bytes, size);
    assert_null(safetensors_parse("some.file", exact, size, &why));
    if (why == NULL || strncmp(why, "some.file: ", 11) != 0 || strstr(why, words) == NULL)
        fail_msg("'%s' was expected, and it said: %s", words, why);
    free(exact);
}

static void refused_header(const char *header, size_t room, const char *words)
{
    uint8_t bytes[4096];

    refused(bytes, file_of(header, room, bytes), words);
}

static void every_type_shape_and_note_is_read_as_written(void **state)
{
    const struct note notes[] = { { "step", "12" }, { "odd", "quote \" back \\ line \n \xc3\xa9" } };
    struct entry entries[2 * NSTORED + 1];
    uint8_t data[64];
    uint32_t n = 0;
    const char *why;

    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(37 * i + 1);
    for (unsigned t = 0; t < NSTORED; t++) /* small elements first: the file has them in another order */
        for (unsigned kind = 0; kind < 2; kind++) {
            struct entry *const e = &entries[n++];
            *e = (struct entry){
                .type = (enum stored)t, .ndim = kind ? 3 : 0, .shape = { 1, 2, 3 }, .data = data + kind
            };
            snprintf(e->name, sizeof e->name, "%s.%u", stored_name((enum stored)t), kind);
        }
    entries[n++] = (struct entry){ "nothing", STORED_F32, 2, { 0, 5 }, NULL };
    assert_null(safetensors_write(in_folder("all"), entries, n, notes, 2));

    struct safetensors *const f = safetensors_open(in_folder("all"), &why);
    assert_non_null(f);
    assert_int_equal(safetensors_nentry(f), n);
    assert_string_equal(safetensors_note(f, "step"), "12");
    assert_string_equal(safetensors_note(f, "odd"), notes[1].value);
    assert_null(safetensors_note(f, "other"));
    assert_null(safetensors_find(f, "other"));
    for (uint32_t k = 0; k < n; k++) {
        const struct entry *const e = safetensors_find(f, entries[k].name);
        uint64_t bytes;
        assert_non_null(e);
        assert_int_equal(e->type, entries[k].type);
        assert_int_equal(e->ndim, entries[k].ndim);
        assert_memory_equal(e->shape, entries[k].shape, e->ndim * sizeof *e->shape);
        assert_true(entry_bytes(e, &bytes));
        assert_int_equal((uintptr_t)e->data % stored_bytes(e->type), 0);
        if (bytes > 0)
            assert_memory_equal(e->data, entries[k].data, bytes);
    }
    safetensors_close(f);
}

static void a_header_ends_where_the_data_is_aligned(void **state)
{
    float value = 1;
    struct entry e = { "", STORED_F32, 0, { 0 }, &value };
    const char *why;

    for (unsigned length = 1; length < sizeof e.name; length++) {
        memset(e.name, 'x', length);
        assert_null(safetensors_write(in_folder("aligned"), &e, 1, NULL, 0));
        struct safetensors *const f = safetensors_open(in_folder("aligned"), &why);
        assert_non_null(f);
        assert_int_equal((uintptr_t)safetensors_entry(f, 0)->data % 64, 0);
        safetensors_close(f);
    }
}

/* Written by the Python package: make_train_safetensors.py. */
static void a_file_of_the_python_package_is_read(void **state)
{
    const char *why = NULL;
    struct safetensors *const f = safetensors_open(GOLDEN_DIR "/train_python.safetensors", &why);

    if (f == NULL)
        fail_msg("%s", why);
    assert_string_equal(safetensors_note(f, "format"), "pt");
    assert_int_equal(safetensors_nentry(f), 6);
    const struct entry *const weight = safetensors_find(f, "conv1.weight");
    assert_non_null(weight);
    assert_int_equal(weight->type, STORED_F32);
    assert_int_equal(weight->ndim, 4);
    const uint64_t shape[4] = { 2, 3, 1, 2 };
    assert_memory_equal(weight->shape, shape, sizeof shape);
    for (unsigned i = 0; i < 12; i++) {
        float value;
        memcpy(&value, (const char *)weight->data + i * sizeof value, sizeof value);
        assert_true(value == (float)i / 8 - 1);
    }
    const struct entry *const count = safetensors_find(f, "bn1.num_batches_tracked");
    int64_t value;
    assert_non_null(count);
    assert_int_equal(count->type, STORED_I64);
    assert_int_equal(count->ndim, 0);
    memcpy(&value, count->data, sizeof value);
    assert_int_equal(value, 1234567890123);
    assert_int_equal(safetensors_find(f, "half")->type, STORED_F16);
    assert_int_equal(safetensors_find(f, "brain")->type, STORED_BF16);
    assert_int_equal(safetensors_find(f, "mask")->type, STORED_BOOL);
    assert_int_equal(safetensors_find(f, "empty")->shape[0], 0);
    safetensors_close(f);
}

static void what_is_no_safetensors_file_is_named(void **state)
{
    static const uint8_t nothing[8], long_header[16] = { 9, 0, 0, 0, 0, 0, 0, 0, '{' },
                                     endless[16] = { 255, 255, 255, 255, 255, 255, 255, 255, '{' };

    refused("", 0, "not a safetensors file");
    refused("\2\0\0", 3, "not a safetensors file");
    refused(nothing, sizeof nothing, "not a safetensors file");
    refused(long_header, sizeof long_header, "cut short");
    refused(endless, sizeof endless, "cut short");
    refused("PK\3\4aaaaaaaaaaaa", 16, "torch.save()");
    refused_header("[]", 0, "not a safetensors file");
    refused_header("{\"a\":", 0, "byte 5 of its header");
    refused_header("{} {}", 0, "header");
    refused_header("{\"a\":\"\xff\"}", 0, "header");
}

#define A(rest)                        "{\"a\":{" rest "}}"
#define PLACE(type, shape, begin, end) "\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]"

static void every_wrong_number_is_named(void **state)
{
    refused_header("{\"a\":1}", 0, "tensor a is of unknown type (none)");
    refused_header(A("\"dtype\":\"F32\""), 0, "tensor a has no shape");
    refused_header(A("\"dtype\":\"F32\",\"shape\":[]"), 0, "has no valid data_offsets");
    refused_header(A(PLACE("F31", "[]", "0", "4")), 4, "F31");
    refused_header(A(PLACE("F32", "[-1]", "0", "4")), 4, "dimension 0");
    refused_header(A(PLACE("F32", "[1.0]", "0", "4")), 4, "dimension 0");
    refused_header(A(PLACE("F32", "[1,1,1,1,1]", "0", "4")), 4, "5 dimensions");
    refused_header(A(PLACE("F32", "[]", "-4", "0")), 0, "has no valid data_offsets");
    refused_header(A(PLACE("F32", "[]", "0", "99999999999999999999")), 4, "header");
    refused_header(A(PLACE("F32", "[]", "4", "0")), 4, "lies at 4 to 0");
    refused_header(A(PLACE("F32", "[]", "0", "4")), 3, "lies at 0 to 4, but there are 3 bytes");
    refused_header(A(PLACE("F32", "[]", "9223372036854775803", "9223372036854775807")), 4, "but there are 4 bytes");
    refused_header(A(PLACE("F32", "[2]", "0", "4")), 4, "which do not match its type and shape");
    refused_header(A(PLACE("F32", "[4611686018427387905]", "0", "4")), 4, "which do not match its type and shape");
    refused_header(A(PLACE("F32", "[4294967296,4294967296]", "0", "0")), 0, "which do not match its type and shape");
    refused_header("{\"__metadata__\":[]}", 0, "__metadata__ is no object");
    refused_header("{\"__metadata__\":{\"a\":1}}", 0, "a in __metadata__ is no text");
}

static void holes_and_overlaps_are_named(void **state)
{
#define TWO(b0, b1) "{\"a\":{" PLACE("U8", "[4]", "0", "4") "},\"b\":{" PLACE("U8", "[4]", b0, b1) "}}"
    refused_header(TWO("3", "7"), 7, "tensor b overlaps tensor a");
    refused_header(TWO("0", "4"), 4, "tensor b overlaps tensor a");
    refused_header(TWO("5", "9"), 9, "1 bytes before tensor b");
    refused_header(TWO("4", "8"), 10, "2 bytes at the end");
    refused_header(A(PLACE("U8", "[4]", "1", "5")), 5, "1 bytes before tensor a");
    refused_header("{\"a\":{" PLACE("U8", "[1]", "0", "1") "},\"a\":{" PLACE("U8", "[1]", "1", "2") "}}", 2, "header");
    refused_header("{}", 1, "1 bytes at the end");
}

static void names_cannot_command_a_terminal(void **state)
{
    const char *why;
    uint8_t bytes[256];
    const size_t size = file_of("{\"\\u001b[2J\":1}", 0, bytes);

    assert_null(safetensors_parse("some.file", bytes, size, &why));
    assert_null(strchr(why, 27));
}

/* Cut anywhere, or with any one byte of its header changed: refused, or read with all tensors inside. */
static void a_file_that_was_cut_is_refused(void **state)
{
    float values[12] = { 1, 2, 3 };
    const struct entry e[] = { { "a", STORED_F32, 1, { 7 }, values }, { "b", STORED_F32, 2, { 2, 6 }, values } };
    uint8_t bytes[1024];
    const char *why;

    assert_null(safetensors_write(in_folder("cut"), e, 2, NULL, 0));
    FILE *const f = fopen(in_folder("cut"), "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    struct safetensors *const whole = safetensors_parse("whole", bytes, size, &why);
    assert_non_null(whole);
    safetensors_close(whole);
    for (size_t n = 0; n < size; n++)
        refused(bytes, n, "");
}

/* The bytes of a written file, read again. */
static size_t written(uint8_t *out, size_t room)
{
    float values[200] = { 1, 2, 3 };
    const struct entry e[] = { { "a", STORED_F32, 1, { 200 }, values }, { "b", STORED_F16, 2, { 2, 6 }, values } };
    const struct note notes[] = { { "step", "12" }, { "loss_scale.scale", "0x1p+16" } };

    assert_null(safetensors_write(in_folder("cut"), e, 2, notes, 2));
    FILE *const f = fopen(in_folder("cut"), "rb");
    assert_non_null(f);
    const size_t size = fread(out, 1, room, f);
    fclose(f);
    assert_true(size < room);
    return size;
}

/* Of the 8 bytes of its length, the header and the tensors. Where the note of the hash itself is lost the caller sees that. */
static void a_file_with_any_bit_changed_is_refused_or_has_no_hash(void **state)
{
    static uint8_t bytes[4096];
    const size_t size = written(bytes, sizeof bytes);
    size_t unhashed = 0;
    const char *why;

    struct safetensors *const whole = safetensors_parse("whole", bytes, size, &why);
    assert_non_null(whole);
    assert_true(safetensors_hashed(whole));
    safetensors_close(whole);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct safetensors *const f = safetensors_parse("changed", bytes, size, &why);
        if (f != NULL && safetensors_hashed(f))
            fail_msg("bit %zu of byte %zu is changed, and the file is read", bit % 8, bit / 8);
        unhashed += f != NULL;
        safetensors_close(f);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_in_range(unhashed, 1, 8 * 40);
    bytes[size - 1] ^= 1;
    refused(bytes, size, "damaged: its bytes have the hash ");
}

/* The note may be there, but no more at the beginning, with a hash of what the file was. */
static void a_file_that_another_program_has_written_again_is_read(void **state)
{
    uint8_t bytes[512];
    const char *why;
    const size_t size = file_of(
        "{\"__metadata__\":{\"step\":\"1\",\"xxh64\":\"0123456789abcdef\"},\"a\":{" PLACE("U8", "[4]", "0", "4") "}}",
        4, bytes);

    struct safetensors *const f = safetensors_parse("again", bytes, size, &why);
    assert_non_null(f);
    assert_false(safetensors_hashed(f));
    safetensors_close(f);
}

static void what_is_not_a_file_is_named(void **state)
{
    const char *why;

    assert_null(safetensors_open(in_folder("missing"), &why));
    assert_non_null(strstr(why, "No such file"));
    assert_null(safetensors_open(folder, &why));
    assert_non_null(strstr(why, "a folder"));
    folder_write("empty", "", 0);
    assert_null(safetensors_open(in_folder("empty"), &why));
    assert_non_null(strstr(why, "empty"));
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_null(safetensors_open(in_folder("pipe"), &why)); /* and does not wait for a writer */
    assert_non_null(strstr(why, "not a file"));
    unlink(in_folder("pipe"));
}

static void a_failure_to_write_leaves_what_was_there(void **state)
{
    static char big[1 << 16];
    const struct entry small = { "a", STORED_U8, 1, { 5 }, big }, large = { "a", STORED_U8, 1, { sizeof big }, big };
    const struct entry twice[] = { small, small };
    const struct rlimit before = { RLIM_INFINITY, RLIM_INFINITY }, limit = { 4096, RLIM_INFINITY };
    const char *why;

    assert_null(safetensors_write(in_folder("kept"), &small, 1, NULL, 0));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    why = safetensors_write(in_folder("kept"), &large, 1, NULL, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(why);
    assert_non_null(strstr(why, "cannot write: File too large; raise the limit"));
    why = safetensors_write(in_folder("kept"), twice, 2, NULL, 0);
    assert_non_null(why);
    assert_non_null(strstr(why, "tensor a cannot be written: there twice"));
    why = safetensors_write(in_folder("no/such/folder"), &small, 1, NULL, 0);
    assert_non_null(why);
    assert_non_null(strstr(why, "make the folder first"));

    struct safetensors *const f = safetensors_open(in_folder("kept"), &why);
    assert_non_null(f);
    assert_int_equal(safetensors_entry(f, 0)->shape[0], 5);
    safetensors_close(f);
}

/* All that is left is what the tests know: no temporary file. */
static int remove_folder(void **state)
{
    static const char *const names[] = { "all", "aligned", "cut", "empty", "kept" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_shape_and_note_is_read_as_written),
        cmocka_unit_test(a_header_ends_where_the_data_is_aligned),
        cmocka_unit_test(a_file_of_the_python_package_is_read),
        cmocka_unit_test(what_is_no_safetensors_file_is_named),
        cmocka_unit_test(every_wrong_number_is_named),
        cmocka_unit_test(holes_and_overlaps_are_named),
        cmocka_unit_test(names_cannot_command_a_terminal),
        cmocka_unit_test(a_file_that_was_cut_is_refused),
        cmocka_unit_test(a_file_with_any_bit_changed_is_refused_or_has_no_hash),
        cmocka_unit_test(a_file_that_another_program_has_written_again_is_read),
        cmocka_unit_test(what_is_not_a_file_is_named),
        cmocka_unit_test(a_failure_to_write_leaves_what_was_there),
    };

    return cmocka_run_group_tests(tests, folder_make, remove_folder);
}
