/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning files: a valid one is written and read again unchanged. Each refusal names a line. */
#include "fuzz.h"

#include "plugin/files.h"

extern const struct plait_files_plugin plait_files_plugin;

static bool tuning_of_text(const char *text, size_t bytes, struct plait_tuning *out)
{
    char why[1024] = "";

    if (plait_files_plugin.read_tuning(&(struct plait_file){ "fuzz", text, bytes }, out, why, sizeof why))
        return true;
    MUST(strncmp(why, "fuzz, line ", 11) == 0 && why[11] >= '1' && why[11] <= '9');
    return false;
}

static void must_be_in_order(const struct plait_tuning *t)
{
    MUST(strlen(t->version) > 0 && strlen(t->date) == 10 && strlen(t->processor) > 0 && t->processors > 0);
    for (size_t i = 0; i < t->nrow; i++) {
        const struct plait_tuned_choice *c = &t->rows[i];
        MUST((unsigned)c->coll < PLAIT_NCOLL && (unsigned)c->memory < PLAIT_NMEMORY && c->hosts > 0);
        MUST(c->algorithm[0] != '\0' && c->ns > 0 && (c->next[0] != '\0') == (c->next_ns > 0));
        MUST(i > 0 ? c->from == 0 || c->from > c[-1].from : c->from == 0);
    }
}

static void must_be_equal(const struct plait_tuning *a, const struct plait_tuning *b)
{
    MUST(strcmp(a->version, b->version) == 0 && strcmp(a->date, b->date) == 0);
    MUST(strcmp(a->processor, b->processor) == 0 && a->processors == b->processors);
    MUST(a->fingerprint == b->fingerprint && a->copy == b->copy && a->reduce == b->reduce);
    for (unsigned k = 0; k < PLAIT_NLINK; k++)
        MUST(a->link[k].latency == b->link[k].latency && a->link[k].overhead == b->link[k].overhead &&
             a->link[k].bandwidth == b->link[k].bandwidth);
    MUST(a->has_copies == b->has_copies && a->nrow == b->nrow);
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++)
        MUST(a->copies[k].fastest == b->copies[k].fastest && a->copies[k].other == b->copies[k].other);
    for (size_t i = 0; i < a->nrow; i++) {
        const struct plait_tuned_choice *x = &a->rows[i], *y = &b->rows[i];
        MUST(x->coll == y->coll && x->hosts == y->hosts && x->ranks_per_host == y->ranks_per_host);
        MUST(x->memory == y->memory && x->oversubscribed == y->oversubscribed && x->from == y->from);
        MUST(strcmp(x->algorithm, y->algorithm) == 0 && x->ns == y->ns);
        MUST(strcmp(x->next, y->next) == 0 && x->next_ns == y->next_ns);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_tuning t, again;
    char why[128];

    if (!tuning_of_text((const char *)data, size, &t))
        return 0;
    must_be_in_order(&t);
    char *text = plait_files_plugin.write_tuning(&t, why, sizeof why);
    MUST(text != NULL && tuning_of_text(text, strlen(text), &again));
    must_be_equal(&t, &again);
    free(text);
    free(t.rows);
    free(again.rows);
    return 0;
}
