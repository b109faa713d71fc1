/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of steps: what is taken has gradients that are ready within a day, and the trace of one step of one rank with
 * these times reads as itself. An error names the file.
 */
#include "complain.h"

#include "model.h"

void model_finish(struct model *m)
{
    free(m->tensors);
    free(m->ready);
}

static void must_print_and_parse_to_the_same(const struct model *m)
{
    struct model again;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    MUST(f != NULL);
    fprintf(f, "{\"traceEvents\":[{\"ph\":\"X\",\"pid\":0,\"ts\":0,\"name\":\"" MODEL_STEP "\"}");
    for (uint32_t i = 0; i < m->n; i++)
        fprintf(f,
                ",{\"ph\":\"i\",\"pid\":0,\"ts\":%llu.%06llu,"
                "\"args\":{\"tensor\":%u,\"elements\":%zu,\"type\":\"%s\"}}",
                (unsigned long long)m->ready[i] / 1000000, (unsigned long long)m->ready[i] % 1000000, i,
                m->tensors[i].count, plait_dtype_name(m->tensors[i].type));
    fprintf(f, "]}");
    fclose(f);
    MUST(model_of_trace("fuzz", text, size, &again) && again.n == m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        const uint64_t apart =
            again.ready[i] > m->ready[i] ? again.ready[i] - m->ready[i] : m->ready[i] - again.ready[i];
        MUST(again.tensors[i].count == m->tensors[i].count && again.tensors[i].type == m->tensors[i].type);
        MUST(apart <= 1 + m->ready[i] / ((uint64_t)1 << 50)); /* numbers of JSON have 53 bits */
    }
    model_finish(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    struct model m;

    if (model_of_trace("fuzz", text, size, &m)) {
        MUST(m.n > 0);
        for (uint32_t i = 0; i < m.n; i++)
            MUST(m.tensors[i].count > 0 && m.ready[i] <= 86400000000000000);
        must_print_and_parse_to_the_same(&m);
        model_finish(&m);
    }
    free(text);
    return 0;
}
