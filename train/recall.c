/* SPDX-License-Identifier: BSD-3-Clause */
#include "recall.h"

#include "checkpoint.h"
#include "ending.h"
#include "message.h"
#include "share.h"
#include "why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t ranks_of(const struct safetensors *file)
{
    const char *value = safetensors_note(file, RECALL_RANKS);

    return value != NULL ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

uint32_t recall_ranks(const struct options *o)
{
    char path[PATH_MAX];
    const char *why = NULL;
    uint32_t nrank = 1;

    if (o->resume == NULL || o->evaluate_only || !checkpoint_newest(o->resume, path, sizeof path))
        return nrank; /* recall() says what is wrong */
    struct safetensors *file = safetensors_open(path, &why);
    if (file != NULL && ranks_of(file) > 0)
        nrank = ranks_of(file);
    safetensors_close(file);
    return nrank;
}

/* On rank 0. Returns NULL, or the error. */
static const char *read_notes(const struct options *o, struct recalled *out)
{
    const char *why = NULL, *value;

    if (!checkpoint_newest(o->resume, out->path, sizeof out->path))
        return because("--resume %s: no checkpoint there; name the folder of a run, or leave --resume out to begin",
                       o->resume);
    struct safetensors *file = safetensors_open(out->path, &why);
    if (file == NULL)
        return why;
    for (uint32_t k = 0; options_kept(o, k, &out->notes[k]); k++) {
        value = safetensors_note(file, out->notes[k].name);
        snprintf(out->notes[k].value, sizeof out->notes[k].value, "%s", value != NULL ? value : "");
    }
    out->nrank = ranks_of(file);
    safetensors_close(file);
    return NULL;
}

void recall(struct options *o, struct plait_comm *comm, struct recalled *out)
{
    const uint32_t nrank = plait_comm_nrank(comm);

    if (o->resume == NULL)
        return;
    const char *why = share_verdict(comm, share_reads(comm) ? read_notes(o, out) : NULL);
    why = why != NULL ? why : share_bytes(comm, out, sizeof *out);
    if (why != NULL) {
        complain("%s", why);
        leave(ENDING_ERROR);
    }
    if (!options_recall(o, out->notes, out->nrank == nrank))
        leave(ENDING_USAGE);
    if (out->nrank != nrank && !o->reproducible && !o->evaluate_only)
        complain(
            "--resume %s: %u rank%s wrote it, and %u go%s on: the results will differ in rounding from those of an "
            "uninterrupted run",
            o->resume, out->nrank, plural(out->nrank), nrank, nrank == 1 ? "es" : "");
}
