/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: the file, and what is told of it. */
#include "tune.h"

#include "message.h"
#include "tuning_save.h"
#include "units.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[PLAIT_TUNING_PATH], beside[PLAIT_TUNING_PATH + 16]; /* the file, and what becomes it */
static bool found_by_default;

static bool make_folders(void)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        if (!made)
            complain("--output: cannot make the folder %s: %s", path, strerror(errno));
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

bool tune_prepare(const char *output, const struct tune_results *r)
{
    struct stat about;

    if (output != NULL && (output[0] == '\0' || (stat(output, &about) == 0 && S_ISDIR(about.st_mode))))
        return complain("--output '%s': must be a file, not %s", output, output[0] == '\0' ? "empty" : "a folder");
    if (output != NULL && strlen(output) >= sizeof path)
        return complain("--output: a name of at most %zu characters", sizeof path - 1);
    if (output != NULL)
        strcpy(path, output);
    else
        plait_tuning_path(path);
    found_by_default = output == NULL;
    snprintf(beside, sizeof beside, "%s.new", path);
    if (!make_folders())
        return false;
    const bool ok = tuning_save(&r->tuning, beside) == PLAIT_OK || complain("%s", plait_last_error());
    unlink(beside);
    return ok;
}

static bool was_measured(const struct tune_results *r, size_t n, const struct plait_tuned_choice *row)
{
    for (size_t i = 0; i < n; i++)
        if (plait_tuned_same_key(&r->row[i], row))
            return true;
    return false;
}

/* What an earlier run on this kind of machine has measured, and this one has not, stays: other numbers of ranks. */
static void keep_others(struct tune_results *r)
{
    const size_t n = r->tuning.nrow;
    struct plait_tuning old;

    if (access(path, R_OK) != 0)
        return;
    if (plait_tuning_load(path, &old) != PLAIT_OK) {
        remark("the file that was there is replaced: %s", plait_last_error());
        return;
    }
    const bool same = old.fingerprint == r->tuning.fingerprint && strcmp(old.version, r->tuning.version) == 0;
    if (!same)
        remark("%s is replaced; it was of another kind of machine or version", path);
    for (size_t i = 0; i < old.nrow && same && r->tuning.nrow < TUNE_ROWS; i++)
        if (!was_measured(r, n, &old.rows[i]))
            r->row[r->tuning.nrow++] = old.rows[i];
    for (int k = 0; k < PLAIT_NLINK && same; k++)
        if (r->tuning.link[k].bandwidth == 0)
            r->tuning.link[k] = old.link[k];
    plait_tuning_finish(&old);
}

/* No signal ends this process between the two steps, so nothing is left beside the file. */
bool tune_write(struct tune_results *r)
{
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    keep_others(r);
    r->tuning.rows = r->row;
    bool ok = tuning_save(&r->tuning, beside) == PLAIT_OK || complain("%s", plait_last_error());
    if (ok && rename(beside, path) != 0)
        ok = complain("%s: %s", path, strerror(errno));
    if (!ok)
        unlink(beside);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ok;
}

void tune_show(const struct tune_results *r)
{
    char size[UNITS_ROOM], a[UNITS_ROOM], b[UNITS_ROOM];

    printf("\n%s: %zu rows from %u measured cells; in %u of them the choice is not the model's%s\n", path,
           r->tuning.nrow, r->ncell, r->nchanged, r->nchanged > 0 ? ":" : "");
    for (int k = 0; k < TUNE_SHOWN && r->gain[k].cell.n > 0; k++) {
        const struct tune_cell *c = &r->gain[k].cell;
        printf("  %-14s %3u ranks %8s: %s takes %s, %s takes %s (%.2f times as long)\n",
               plait_coll_name(r->gain[k].coll), r->gain[k].nrank, units_bytes(size, (double)c->bytes),
               c->algorithm[c->best], units_seconds(a, c->seconds[c->best]), c->algorithm[0],
               units_seconds(b, c->seconds[0]), c->seconds[0] / c->seconds[c->best]);
    }
    printf("\n%s\nLook at a choice: plait-info --explain allreduce 1M --ranks 4. docs/tuning.md: how to override it, "
           "and to ship "
           "the file.\n",
           found_by_default ? "It is used from now on by programs of this user; /etc/plait/tuning.json is all users'."
                            : "Use it: set PLAIT_TUNING to this file, or copy it to /etc/plait/tuning.json.");
}
