/* SPDX-License-Identifier: BSD-3-Clause */
/* Machine files by the functions of the plug-in files/, which the fuzzers of machines are linked with. */
#ifndef PLAIT_TESTS_FUZZ_MACHINE_TEXT_H
#define PLAIT_TESTS_FUZZ_MACHINE_TEXT_H

#include "fuzz.h"

#include "plugin/files.h"

extern const struct plait_files_plugin plait_files_plugin;

static const char *refuses(const struct plait_machine *m)
{
    return plait_machine_check(m) == PLAIT_OK ? NULL : plait_last_error();
}

/* Each refusal names a line. */
static inline bool machine_of_text(const char *text, size_t bytes, struct plait_machine *out)
{
    const struct plait_file file = { "fuzz", text, bytes };
    char why[1024] = "";

    if (plait_files_plugin.read_machine(&file, refuses, out, why, sizeof why))
        return true;
    MUST(strncmp(why, "fuzz, line ", 11) == 0 && why[11] >= '1' && why[11] <= '9');
    return false;
}

static inline char *text_of_machine(const struct plait_machine *m)
{
    char why[128];
    char *text = plait_files_plugin.write_machine(m, why, sizeof why);

    MUST(text != NULL);
    return text;
}

/* Field by field: no bytes between them. */
static inline void must_be_equal(const struct plait_machine *a, const struct plait_machine *b)
{
    MUST(strcmp(a->name, b->name) == 0 && strcmp(a->about, b->about) == 0);
    MUST(a->copy == b->copy && a->reduce == b->reduce && a->cache == b->cache);
    MUST(a->nlevel == b->nlevel && a->nslow == b->nslow);
    for (uint32_t k = 0; k < a->nlevel; k++) {
        const struct plait_level *x = &a->level[k], *y = &b->level[k];
        MUST(strcmp(x->name, y->name) == 0 && strcmp(x->about, y->about) == 0);
        MUST(x->children == y->children && x->links == y->links && x->bandwidth == y->bandwidth);
        MUST(x->latency == y->latency && x->overhead == y->overhead && x->eager == y->eager);
        MUST(x->processors == y->processors && x->memory == y->memory);
    }
    for (uint32_t i = 0; i < a->nslow; i++) {
        const struct plait_slow *x = &a->slow[i], *y = &b->slow[i];
        MUST(x->rank == y->rank && x->level == y->level && x->child == y->child && x->percent == y->percent);
    }
}

#endif
