/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of a rank's last operations, read from an arena: the right ones, and no harm from any bytes. */
#include "../tools/dump_arena.h"
#include "unit.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "memory/arena.h"

#include <plait/message.h>
#include <plait/request.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lines {
    unsigned n;
    char *text; /* [n] of 512 */
    unsigned room;
};

static void keep(void *context, const char *text)
{
    struct lines *l = context;

    for (const char *c = text; *c != '\0'; c++)
        assert_true(*c >= ' ' && *c <= '~');
    if (l->n < l->room)
        snprintf(l->text + 512 * (size_t)l->n, 512, "%s", text);
    l->n++;
}

static struct plait_comm *create(const char *name)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;

    o.nrank = 1;
    o.name = name;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
    return comm;
}

/* One rank: count elements of the engine, or eager. */
static void sum(struct plait_comm *comm, size_t count, const char *algorithm)
{
    static float v[5000];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = algorithm;
    call.slice = algorithm != NULL ? 4096 : 0; /* asking for a slice is asking for the engine */
    assert_int_equal(plait_allreduce(comm, v, v, count, PLAIT_FLOAT32, PLAIT_SUM, &call), PLAIT_OK);
}

static enum plait_status dump_own(uint32_t last, struct lines *l, char error[256])
{
    const struct plait_arena *arena;
    struct plait_dump how = { .last = last, .now = plait_clock_ns(), .line = keep, .context = l };

    assert_int_equal(plait_arena_get(&arena), PLAIT_OK);
    const enum plait_status status = plait_dump(arena->base, arena->size, &how);
    if (error != NULL)
        memcpy(error, how.error, 256);
    return status;
}

static void the_ring_has_the_last_1024_operations_in_order(void **state)
{
    struct plait_comm *comm = create("wraps");
    struct lines l = { .room = 1100, .text = calloc(1100, 512) };

    assert_non_null(l.text);
    for (size_t i = 1; i <= 1500; i++)
        sum(comm, i, i % 100 == 0 ? "one-shot" : NULL);
    assert_int_equal(dump_own(PLAIT_NRECORD, &l, NULL), PLAIT_OK);
    assert_int_equal(l.n, 2 + PLAIT_NRECORD);
    assert_string_equal(l.text + 512, "comm 'wraps', rank 0 of 1: 1500 operations completed");
    for (unsigned k = 0; k < PLAIT_NRECORD; k++) {
        const unsigned i = 1500 - PLAIT_NRECORD + 1 + k;
        const char *line = l.text + 512 * (size_t)(2 + k);
        char expected[80];
        snprintf(expected, sizeof expected, "  allreduce #%u (%u float32 sum, one-shot), %u bytes, done", i, i, 4 * i);
        assert_int_equal(strncmp(line, expected, strlen(expected)), 0);
        assert_int_equal(strstr(line, "began") != NULL,
                         i % 100 == 0); /* the engine reads the clock, eager ones do not */
    }
    l.n = 0;
    assert_int_equal(dump_own(3, &l, NULL), PLAIT_OK);
    assert_int_equal(l.n, 2 + 3);
    assert_non_null(strstr(l.text + 512 * 4, "#1500 "));
    assert_int_equal(plait_comm_destroy(comm), PLAIT_OK);
    free(l.text);
}

static void to_itself(struct plait_comm *comm, bool send, struct plait_request **r)
{
    static int32_t v[10], w[10];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.request = r;
    assert_int_equal(send ? plait_send(comm, v, 10, PLAIT_INT32, 0, &call)
                          : plait_recv(comm, w, 10, PLAIT_INT32, 0, &call),
                     PLAIT_OK);
}

static void a_message_is_shown_while_its_rank_waits_for_it(void **state)
{
    struct plait_comm *comm = create("messages");
    char text[8 * 512];
    struct lines l = { .room = 8, .text = text };
    static const char received[] = "  recv #301 from rank 0 (10 int32), 40 bytes, running, began ";
    struct plait_request *r[6];
    int done;

    for (unsigned k = 1; k <= 300; k++) {
        to_itself(comm, false, &r[0]);
        to_itself(comm, true, &r[1]);
        assert_int_equal(plait_wait_all(r, 2), PLAIT_OK);
    }
    for (unsigned k = 0; k < 3; k++) /* of which the first is being received */
        to_itself(comm, false, &r[k]);
    assert_int_equal(dump_own(PLAIT_NRECORD, &l, NULL), PLAIT_OK);
    assert_int_equal(l.n, 2); /* nobody has waited yet */
    for (unsigned k = 0; k < 2; k++) {
        assert_true(plait_test(&r[0], &done) == PLAIT_OK && !done); /* it probes as a long wait does */
        l.n = 0;
        assert_int_equal(dump_own(k == 0 ? 1 : PLAIT_NRECORD, &l, NULL), PLAIT_OK);
        assert_int_equal(l.n, 2 + 1);
        assert_memory_equal(l.text + 512 * 2, received, strlen(received));
        assert_non_null(strstr(l.text + 512 * 2, ", waiting for rank 0"));
    }
    for (unsigned k = 3; k < 6; k++)
        to_itself(comm, true, &r[k]);
    assert_int_equal(plait_wait_all(r, 6), PLAIT_OK);
    l.n = 0;
    assert_int_equal(dump_own(PLAIT_NRECORD, &l, NULL), PLAIT_OK);
    assert_int_equal(l.n, 2);
    assert_int_equal(plait_comm_destroy(comm), PLAIT_OK);
}

static void every_comm_of_the_process_is_shown_until_it_is_destroyed(void **state)
{
    char text[64 * 512];
    struct lines l = { .room = 64, .text = text };
    struct plait_comm *comm[3];

    for (unsigned i = 0; i < 3; i++) {
        char name[2] = { (char)('a' + i), '\0' };
        comm[i] = create(name);
    }
    assert_int_equal(plait_comm_destroy(comm[1]), PLAIT_OK);
    assert_int_equal(dump_own(16, &l, NULL), PLAIT_OK);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.text + 512, "comm 'c', rank 0 of 1: 0 operations completed");
    assert_string_equal(l.text + 1024, "comm 'a', rank 0 of 1: 0 operations completed");
    assert_int_equal(plait_comm_destroy(comm[0]), PLAIT_OK);
    assert_int_equal(plait_comm_destroy(comm[2]), PLAIT_OK);
    l.n = 0;
    assert_int_equal(dump_own(16, &l, NULL), PLAIT_OK);
    assert_string_equal(l.text + 512, "no comm");
}

static void a_comm_that_failed_says_why(void **state)
{
    char text[64 * 512];
    struct lines l = { .room = 64, .text = text };
    struct plait_comm *comm = create("fails");
    float v = 1;

    sum(comm, 7, NULL);
    assert_int_equal(plait_comm_abort(comm, "had\nenough"), PLAIT_OK);
    assert_int_equal(plait_allreduce(comm, &v, &v, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL), PLAIT_ERR_FAILED);
    assert_int_equal(dump_own(16, &l, NULL), PLAIT_OK);
    assert_int_equal(l.n, 4);
    assert_string_equal(l.text + 512, "comm 'fails', rank 0 of 1: 1 operation completed, failed");
    assert_string_equal(l.text + 1024, "  failed: comm 'fails' after operation #1: aborted by rank 0: had?enough");
    assert_non_null(strstr(l.text + 1536, "allreduce #1 (7 float32 sum, one-shot), 28 bytes, done"));
    assert_int_equal(plait_comm_destroy(comm), PLAIT_ERR_FAILED);
}

/* ---- Bytes that are not what they seem ------------------------------------------------------------- */

#define IMAGE ((size_t)1 << 20)

/* The start of this process's arena, with a comm that has run operations, in memory of its own. */
static char *copy_arena(void)
{
    struct plait_comm *comm = create("image"), *other = create("other");
    const struct plait_arena *arena;
    char *image = aligned_alloc(PLAIT_LINE, IMAGE);

    assert_non_null(image);
    for (size_t i = 1; i <= 100; i++)
        sum(comm, i, i % 2 == 0 ? "one-shot" : NULL);
    assert_int_equal(plait_arena_get(&arena), PLAIT_OK);
    memcpy(image, arena->base, IMAGE);
    assert_int_equal(plait_comm_destroy(comm), PLAIT_OK);
    assert_int_equal(plait_comm_destroy(other), PLAIT_OK);
    return image;
}

static enum plait_status dump_image(const char *image, size_t size, struct lines *l, char error[256])
{
    struct plait_dump how = { .last = PLAIT_NRECORD, .now = plait_clock_ns(), .line = keep, .context = l };
    const enum plait_status status = plait_dump(image, size, &how);

    memcpy(error, how.error, 256);
    return status;
}

static void what_is_no_arena_is_refused_and_says_why(void **state)
{
    char *image = copy_arena(), error[256];
    struct plait_arena_header *h = (struct plait_arena_header *)(void *)image;
    struct lines l = { 0 };

    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_OK);
    assert_int_equal(l.n, 1 + 2 + 100);
    const uint64_t first = h->first;
    struct plait_control *c = (struct plait_control *)(void *)(image + first);

    assert_int_equal(dump_image(image, sizeof *h - 1, &l, error), PLAIT_ERR_ARG);
    assert_int_equal(dump_image(image + 8, IMAGE - 8, &l, error), PLAIT_ERR_ARG);
    h->layout = 99;
    memcpy(h->version, "9.8.7", 6);
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_UNSUPPORTED);
    assert_non_null(strstr(error, "runs Plait 9.8.7, whose arena has layout 99"));
    h->layout = PLAIT_ARENA_LAYOUT;
    h->first = IMAGE - 64;
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_SYSTEM);
    assert_non_null(strstr(error, "damaged"));
    h->first = first + 8;
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_SYSTEM);
    h->first = first;
    c->shown.next = first;
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_SYSTEM);
    assert_non_null(strstr(error, "cycle"));
    c->shown.next = 0;
    c->rank = 5;
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_SYSTEM);
    c->nrank = 0;
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_SYSTEM);
    assert_non_null(strstr(error, "freed"));
    image[0] ^= 1;
    assert_int_equal(dump_image(image, IMAGE, &l, error), PLAIT_ERR_ARG);
    free(image);
}

/* Random bytes in a real image, at places that matter more often than not. Address sanitizer watches. */
static void any_bytes_are_read_safely(void **state)
{
    char *image = copy_arena(), *damaged = aligned_alloc(PLAIT_LINE, IMAGE), error[256];
    const size_t first = (size_t)((struct plait_arena_header *)(void *)image)->first;
    const unsigned rounds = 2000;
    unsigned seed = 1, shown = 0;

    assert_non_null(damaged);
    memcpy(damaged, image, IMAGE);
    for (unsigned k = 0; k < rounds; k++) {
        size_t at[16];
        const size_t size = rand_r(&seed) % 4 == 0 ? (size_t)rand_r(&seed) % IMAGE : IMAGE;
        struct lines l = { 0 };
        for (unsigned i = 0; i < 16; i++) {
            const unsigned where = (unsigned)rand_r(&seed) % 4;
            at[i] = where == 0   ? 8 + (size_t)rand_r(&seed) % 64
                    : where == 1 ? first + (size_t)rand_r(&seed) % offsetof(struct plait_control, ring)
                                 : first + (size_t)rand_r(&seed) % sizeof(struct plait_control);
            damaged[at[i]] = (char)rand_r(&seed);
        }
        const enum plait_status status = dump_image(damaged, size, &l, error);
        assert_true(status == PLAIT_OK || status == PLAIT_ERR_ARG || status == PLAIT_ERR_UNSUPPORTED ||
                    status == PLAIT_ERR_SYSTEM);
        shown += l.n > 1;
        for (unsigned i = 0; i < 16; i++)
            damaged[at[i]] = image[at[i]];
    }
    assert_true(shown > rounds / 20); /* else this never came past the header */
    for (unsigned k = 0; k < 200; k++) {
        struct lines l = { 0 };
        for (size_t i = offsetof(struct plait_arena_header, pid); i < 8192; i++)
            damaged[i] = (char)rand_r(&seed);
        dump_image(damaged, 8192, &l, error);
    }
    free(damaged);
    free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_has_the_last_1024_operations_in_order),
        cmocka_unit_test(a_message_is_shown_while_its_rank_waits_for_it),
        cmocka_unit_test(every_comm_of_the_process_is_shown_until_it_is_destroyed),
        cmocka_unit_test(a_comm_that_failed_says_why),
        cmocka_unit_test(what_is_no_arena_is_refused_and_says_why),
        cmocka_unit_test(any_bytes_are_read_safely),
    };

    return cmocka_run_group_tests_name("dump", tests, NULL, NULL);
}
