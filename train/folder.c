/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of a run, and other files that it writes. */
#include "ending.h"
#include "run.h"
#include "share.h"
#include "why.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Create the first of run-1, run-2, ... that does not exist. Returns NULL, or the error. */
static const char *next_folder(char *path, size_t room)
{
    for (unsigned k = 1; k < 1000000; k++) {
        snprintf(path, room, "run-%u", k);
        if (mkdir(path, 0777) == 0)
            return NULL;
        if (errno != EEXIST)
            break;
    }
    return because("%s: no folder for the run can be made: %s; name one with --run", path, strerror(errno));
}

/* On rank 0. Returns NULL, or the error. */
static const char *take_folder(struct run *r)
{
    const struct options *o = r->o;
    const char *named = o->resume != NULL ? o->resume : o->run, *why = NULL;

    if (named == NULL)
        why = next_folder(r->folder, sizeof r->folder);
    else if (snprintf(r->folder, sizeof r->folder, "%s", named) >= (int)sizeof r->folder)
        why = because("%s %.80s...: the name is too long; choose a shorter one",
                      options_flag(o, o->resume != NULL ? "resume" : "run"), named);
    else if (o->resume == NULL && checkpoint_any(named))
        return because("%s %s: it holds the checkpoints of another run; go on with --resume %s, or name another folder",
                       options_flag(o, "run"), named, named);
    if (why == NULL)
        r->keeper = keeper_create(r->folder, (uint32_t)o->keep, &why);
    return why == NULL || named == NULL ? why : because("%s; choose another folder with --run", why);
}

/* Check that a file can be written at the end of the run. Returns NULL, or the error. */
static const char *refused(const char *flag, const char *path)
{
    char folder[PATH_MAX];
    struct stat there;
    const bool exists = path != NULL && stat(path, &there) == 0;

    if (path == NULL)
        return NULL;
    snprintf(folder, sizeof folder, "%s", path);
    if (access(exists ? path : dirname(folder), W_OK) == 0 && !(exists && S_ISDIR(there.st_mode)))
        return NULL;
    return because("%s %s: %s; name another file", flag, path,
                   exists && S_ISDIR(there.st_mode) ? "is a folder" : strerror(errno));
}

/* On rank 0: can the run read and write its files? Others may lie in its folder. Returns NULL, or the error. */
static const char *take_files(struct run *r)
{
    const char *weights = r->o->weights, *why;

    if (weights != NULL && access(weights, R_OK) != 0)
        return because("--weights %s: %s; name a safetensors file", weights, strerror(errno));
    why = take_folder(r);
    if (why != NULL)
        return why;
    why = refused(options_flag(r->o, "plot"), r->o->plot);
    why = why != NULL ? why : refused(options_flag(r->o, "trace"), r->o->trace);
    if (why != NULL)
        rmdir(r->folder); /* fails unless it is empty */
    return why;
}

void folder_choose(struct run *r)
{
    const char *why = share_verdict(r->comm, r->rank == 0 ? take_files(r) : NULL);

    if (why == NULL)
        why = share_bytes(r->comm, r->folder, sizeof r->folder);
    if (why != NULL) {
        complain("%s", why);
        leave(ENDING_ERROR);
    }
}
