/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of tensors: one tensor per line, sizes in range, and the list printed as CSV reads as itself. */
#include "complain.h"

#include "tensors.h"

static bool parse(const void *text, size_t size, struct tensors *out)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, size, "r");

    MUST(f != NULL);
    const bool ok = tensors_parse(f, "fuzz", out);
    fclose(f);
    return ok;
}

static void must_print_and_parse_to_the_same(const struct tensors *t)
{
    struct tensors again;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    MUST(f != NULL);
    fprintf(f, "id,name,elements,kind%s\n", t->forward != NULL ? ",forward,backward" : "");
    for (uint32_t i = 0; i < t->n; i++) {
        fprintf(f, "%u,t,%llu,weight", i, (unsigned long long)t->count[i]);
        if (t->forward != NULL)
            fprintf(f, ",%llu,%llu", (unsigned long long)t->forward[i], (unsigned long long)t->backward[i]);
        fputc('\n', f);
    }
    fclose(f);
    MUST(parse(text, size, &again) && again.n == t->n);
    MUST(memcmp(again.count, t->count, t->n * sizeof *t->count) == 0);
    MUST((again.forward != NULL) == (t->forward != NULL));
    MUST(t->forward == NULL || (memcmp(again.forward, t->forward, t->n * sizeof *t->forward) == 0 &&
                                memcmp(again.backward, t->backward, t->n * sizeof *t->backward) == 0));
    tensors_finish(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensors t;
    uint64_t all;
    size_t lines = 0;

    if (size == 0 || !parse(data, size, &t))
        return 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || i + 1 == size;
    MUST(t.n >= 1 && t.n <= lines);
    for (uint32_t i = 0; i < t.n; i++)
        MUST(t.count[i] >= 1 && t.count[i] < 1u << 31);
    MUST(tensors_between(&t, 0, 0, &all) == t.n && all >= t.n);
    must_print_and_parse_to_the_same(&t);
    tensors_finish(&t);
    return 0;
}
