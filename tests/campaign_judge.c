/* SPDX-License-Identifier: BSD-3-Clause */
/* Was an injection answered as promised? All that the texts of errors must say is in says_enough(). */
#include "campaign.h"

#include "comm/comm.h" /* how far ranks get ahead of each other */

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMELY 1.0 /* seconds from the fault, or from the deadline of a silence */
#define FAR    2.0 /* from the fault, where another host must be told */

const enum plait_status outcome_statuses[NSTATUS] = { PLAIT_ERR_PEER,   PLAIT_ERR_TIMEOUT, PLAIT_ERR_MISMATCH,
                                                      PLAIT_ERR_FAILED, PLAIT_OK,          PLAIT_ERR_SYSTEM };

/* ---- Texts ------------------------------------------------------------------------------------------- */

/* The ranks in the list that begins here, as in "rank 1, 3 has": a mask; *end is behind it. */
static uint32_t read_ranks(const char *at, const char **end)
{
    uint32_t mask = 0;

    while (isdigit((unsigned char)*at)) {
        char *next;
        const unsigned long rank = strtoul(at, &next, 10);
        mask |= rank < 32 ? 1u << rank : 1u << 31;
        at = next[0] == ',' && next[1] == ' ' && isdigit((unsigned char)next[2]) ? next + 2 : next;
    }
    *end = at;
    return mask;
}

/* All ranks that follow "rank " in the text and stand before `what`: "rank 1, 3 died". */
static uint32_t ranks_before(const char *text, const char *what)
{
    uint32_t mask = 0;

    for (const char *at = text; (at = strstr(at, "rank ")) != NULL;) {
        const char *end;
        const uint32_t ranks = read_ranks(at + 5, &end);
        if (strncmp(end, what, strlen(what)) == 0)
            mask |= ranks;
        at = end > at + 5 ? end : at + 5;
    }
    return mask;
}

/* "(process 123) died", or "(process 123 on host1) died", behind a culprit's number, and no other's. */
static bool names_dead(const struct injection *j, const struct scene *s, const char *text)
{
    char died[64];

    for (uint32_t r = 0; r < j->nrank; r++) {
        snprintf(died, sizeof died, " (process %d) died", (int)s->reports[r].pid);
        bool named = ranks_before(text, died) >> r & 1;
        snprintf(died, sizeof died, " (process %d on host%u) died", (int)s->reports[r].pid, j->host[r]);
        named |= j->nhost > 0 && (ranks_before(text, died) >> r & 1);
        if (is_culprit(j, r) && named)
            return true;
    }
    return false;
}

/* Only culprits are said to be silent. */
static bool names_silent(uint32_t culprits, const char *text)
{
    const char *at = strstr(text, "no progress for ");
    const char *end;

    at = at != NULL ? strstr(at, ": rank ") : NULL;
    if (at == NULL)
        return false;
    const uint32_t ranks = read_ranks(at + 7, &end);
    return ranks != 0 && (ranks & ~culprits) == 0;
}

/* "nothing has been heard of rank 2 (process 123 on host1)": of culprits, where they are; and of others nothing. */
static bool names_unheard(const struct injection *j, const struct scene *s, uint32_t culprits, const char *text)
{
    const char *at = strstr(text, "nothing has been heard of ");
    char where[64];
    bool named = false;

    if (at == NULL || j->nhost == 0 || (ranks_before(at, "") & ~culprits) != 0)
        return false;
    for (uint32_t r = 0; r < j->nrank; r++) {
        snprintf(where, sizeof where, " (process %d on host%u)", (int)s->reports[r].pid, j->host[r]);
        named |= (culprits & ranks_before(at, where)) >> r & 1;
    }
    return named;
}

/* Only such ranks are said to be out of reach. */
static bool names_unreachable(uint32_t others, const char *text)
{
    const uint32_t ranks = ranks_before(text, " cannot be reached any more");

    return ranks != 0 && (ranks & ~others) == 0;
}

static bool names_absent(const struct injection *j, const char *text)
{
    const char *at = strstr(text, " s: rank "), *end;

    if (j->culprits == 1)
        return strstr(text, "rank 0 did not answer within") != NULL;
    return at != NULL && strstr(text, "did not join within") != NULL && read_ranks(at + 9, &end) == j->culprits;
}

/* Whoever is said to have left or not to have joined was killed. */
static bool names_unborn(const struct injection *j, const char *text)
{
    const char *at = strstr(text, " s: rank "), *end;
    uint32_t named = ranks_before(text, " left") | ranks_before(text, " did not answer") |
                     ranks_before(text, " for "); /* nothing from */

    if (at != NULL)
        named |= read_ranks(at + 9, &end);
    return strncmp(text, "comm creation: ", 15) == 0 && named != 0 && (named & ~j->culprits) == 0;
}

static const char *form_of(const struct collective *c, char name[32])
{
    snprintf(name, 32, "%s%s", plait_coll_name(c->coll), c->sizes != 0 ? "v" : "");
    return name;
}

/* The first field that differs, with both values, between two ranks of which one is the culprit. */
static bool names_difference(const struct injection *j, const char *text)
{
    const struct collective *a = &j->steps[STEP_STRUCK], *b = &j->steps[STEP_OTHER];
    const char *field;
    char x[PLAIT_MAX_SPEC + 8], y[PLAIT_MAX_SPEC + 8], of_a[32], of_b[32];

#define PAIR(name, format, of_a, of_b)           \
    do {                                         \
        field = name " is ";                     \
        snprintf(x, sizeof x, format " ", of_a); \
        snprintf(y, sizeof y, format " ", of_b); \
    } while (0)
    if (strcmp(form_of(a, of_a), form_of(b, of_b)) != 0)
        PAIR("collective", "%s", of_a, of_b);
    else if (a->sizes == 0 && a->count != b->count)
        PAIR("count", "%zu", a->count, b->count);
    else if (a->type != b->type)
        PAIR("type", "%s", plait_dtype_name(a->type), plait_dtype_name(b->type));
    else if (a->op != b->op)
        PAIR("operator", "%s", plait_op_name(a->op), plait_op_name(b->op));
    else if (a->root != b->root)
        PAIR("root", "%u", a->root, b->root);
    else
        PAIR("algorithm", "%s", a->spec, b->spec);
#undef PAIR
    x[strcspn(x, ":")] = y[strcspn(y, ":")] = '\0'; /* of an algorithm, the name; it may be listed in another form */
    const char *at = strstr(text, field);
    const uint32_t named = ranks_before(text, "");
    return at != NULL && strstr(at, x) != NULL && strstr(at, y) != NULL && (named & j->culprits) != 0 &&
           __builtin_popcount(named) >= 2;
}

/* The largest block as a rank sees it: of all, or, where not all know all, of those that two ranks give each other. */
static size_t largest_block(const struct injection *j, bool culprit)
{
    const struct collective *c = &j->steps[STEP_OTHER];
    const struct plait_geometry g = plait_geometry_of(c->coll, j->nrank, c->root, 0, 1);
    const bool pair = g.kind == PLAIT_KIND_PAIR;
    size_t most = 0;

    for (uint32_t b = 0; b < (pair ? j->nrank * j->nrank : j->nrank); b++) {
        const size_t n = collective_block(c, b) + (culprit && c->odd == b + 1);
        const bool stays = pair ? b / j->nrank == b % j->nrank : g.rooted && b == c->root;
        most = !stays && n > most ? n : most;
    }
    return most;
}

/* Where the largest block is compared: what it is to the rank that found it and to another, one of them the culprit. */
static bool names_largest(const struct injection *j, const char *text)
{
    const char *at = strstr(text, "the largest block has ");
    unsigned finder, other;
    size_t here, there;

    if (at == NULL || sscanf(at, "the largest block has %zu elements on rank %u and %zu on rank %u", &here, &finder,
                             &there, &other) != 4)
        return false;
    if (finder >= j->nrank || other >= j->nrank || is_culprit(j, finder) == is_culprit(j, other))
        return false;
    return here != there && here == largest_block(j, is_culprit(j, finder)) &&
           there == largest_block(j, is_culprit(j, other));
}

/* Both sizes of the block, at its two ends, of which one is the culprit. */
static bool names_ends(const struct injection *j, const char *text)
{
    const struct collective *c = &j->steps[STEP_OTHER];
    const size_t size = plait_dtype_size(c->type), right = collective_block(c, c->odd - 1) * size;
    unsigned from, to;
    size_t sent, expected;
    const char *at = strstr(text, " sends ");

    while (at != NULL && at > text && strncmp(at, "rank ", 5) != 0)
        at--;
    if (at == NULL ||
        sscanf(at, "rank %u sends %zu bytes where rank %u expects %zu", &from, &sent, &to, &expected) != 4)
        return false;
    return from != to && from < j->nrank && to < j->nrank && is_culprit(j, from) + is_culprit(j, to) == 1 &&
           sent + expected == 2 * right + size && (sent == right || expected == right);
}

static bool names_sizes(const struct injection *j, const char *text)
{
    return names_ends(j, text) || names_largest(j, text);
}

/* Ranks that do not hear of each other may be in different calls. */
static bool runs_ahead(const struct injection *j)
{
    bool ahead = j->fault == FAULT_SIZES;

    for (int i = 0; i < NSTEP; i++)
        ahead |= may_finish(j, i);
    return ahead;
}

/*
 * "allreduce #5": this rank's call, or the one before or after, which another rank was in. An abort comes from a thread
 * that knows what was done when it was called: "after operation #4".
 */
static bool names_operation(const struct injection *j, const struct scene *s, const struct report *r)
{
    const char *at = strchr(r->text, '#');
    const bool abort = j->fault == FAULT_ABORT && strstr(r->text, "after operation #") != NULL;
    uint64_t least = abort ? s->aborted : r->number, most = r->number;
    bool named = abort;
    char name[40];

    for (int i = 0; i < NSTEP; i++) {
        snprintf(name, sizeof name, "%s%s #", plait_coll_name(j->steps[i].coll), j->steps[i].sizes != 0 ? "v" : "");
        named |= strstr(r->text, name) != NULL;
    }
    for (uint32_t i = 0; i < j->nrank && runs_ahead(j); i++) {
        const uint64_t number = s->reports[i].number;
        least = number < least ? number : least;
        most = number > most ? number : most;
    }
    if (runs_ahead(j) && fault_kinds[j->fault].differs) /* found when all are past it: it is named all the same */
        least = least > PLAIT_EAGER_SMALL ? least - PLAIT_EAGER_SMALL : 0;
    if (at == NULL || !named)
        return false;
    const uint64_t number = strtoull(at + 1, NULL, 10);
    return number + 1 >= least && number <= most + 1;
}

static bool says_enough(const struct injection *j, const struct scene *s, uint32_t rank)
{
    const char *text = s->reports[rank].text;
    char by[64];

    if (j->fault == FAULT_ABSENT)
        return names_absent(j, text);
    if (j->fault == FAULT_BIRTH && s->reports[rank].number == 0)
        return names_unborn(j, text);
    if (!names_operation(j, s, &s->reports[rank]))
        return false;
    if (j->fault == FAULT_SIZES)
        return names_sizes(j, text);
    if (fault_kinds[j->fault].differs)
        return names_difference(j, text);
    switch (j->fault) {
    case FAULT_LEAVE:
        return ranks_before(text, " left") == j->culprits;
    case FAULT_ABORT:
        snprintf(by, sizeof by, "aborted by rank %u", j->actor);
        return strstr(text, by) != NULL && !isdigit((unsigned char)strstr(text, by)[strlen(by)]);
    case FAULT_STOP:
        return names_silent(j->culprits, text) || names_unheard(j, s, j->culprits, text);
    case FAULT_SILENT: /* its process is there */
        return names_silent(j->culprits, text);
    case FAULT_CUT:
        return names_silent(to_blame(j, rank), text) || names_unreachable(to_blame(j, rank), text) ||
               names_unheard(j, s, to_blame(j, rank), text);
    default:
        return names_dead(j, s, text);
    }
}

/* ---- Verdict ----------------------------------------------------------------------------------------- */

static void complain(struct outcome *o, bool *which, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void complain(struct outcome *o, bool *which, const char *format, ...)
{
    const size_t n = strlen(o->text);
    va_list args;

    *which = true;
    va_start(args, format);
    vsnprintf(o->text + n, sizeof o->text - n, format, args);
    va_end(args);
    strncat(o->text, "\n", sizeof o->text - strlen(o->text) - 1);
}

static void judge_time(const struct injection *j, const struct scene *s, uint32_t rank, struct outcome *o)
{
    const struct report *r = &s->reports[rank];
    const double fault = s->fault, since = r->number > 0 ? r->since : r->entered;
    const double limit = j->fault == FAULT_BIRTH && r->status == PLAIT_ERR_TIMEOUT ? j->timeout : patience(j);
    const double took = r->returned - (since > fault ? since : fault) - limit;

    o->slowest = took > o->slowest ? took : o->slowest;
    if (took > (j->nhost > 0 && !fault_kinds[j->fault].silence ? FAR : TIMELY))
        complain(o, &o->late, "rank %u got its error %.3f s late", rank, took);
}

/*
 * It came when the others had failed and their messages were there, but not yet the news of it from another host: then it
 * hears of it afterwards.
 */
static bool comes_before_the_news(const struct injection *j, const struct scene *s, uint32_t rank)
{
    return j->nhost > 0 && j->fault == FAULT_SILENT && is_culprit(j, rank) && s->reports[rank].status == PLAIT_OK &&
           s->reports[rank].destroyed != PLAIT_OK;
}

static void judge_error(const struct injection *j, const struct scene *s, uint32_t rank, struct outcome *o)
{
    const struct report *r = &s->reports[rank];
    /* On a machine too busy to run every rank within the deadline, silence is true; the second try has more patience.
     */
    bool *which = r->status == PLAIT_ERR_TIMEOUT && r->number > 0 ? &o->late : &o->bad;
    int k = 0;

    while (k < NSTATUS - 1 && outcome_statuses[k] != r->status)
        k++;
    o->told[k]++;
    if (comes_before_the_news(j, s, rank))
        return;
    if (r->status != fault_kinds[j->fault].status && !(j->fault == FAULT_BIRTH && r->status == PLAIT_ERR_TIMEOUT) &&
        !(j->fault == FAULT_CUT && r->status == PLAIT_ERR_PEER))
        complain(o, which, "rank %u got %s in call #%llu: %s", rank, plait_status_name(r->status),
                 (unsigned long long)r->number, r->text);
    else if (!says_enough(j, s, rank))
        complain(o, which, "rank %u is told too little, or wrong, in call #%llu: %s", rank,
                 (unsigned long long)r->number, r->text);
    if (r->early)
        complain(o, which, "rank %u failed before the fault: %s", rank, r->text);
    if (r->status != PLAIT_OK && r->destroyed == PLAIT_OK && r->number > 0)
        complain(o, &o->bad, "rank %u heard nothing of the failure in destroy", rank);
    if (!is_culprit(j, rank) || fault_kinds[j->fault].differs || j->fault == FAULT_CUT)
        judge_time(j, s, rank, o);
}

/* Does the rank live to report an error? */
static bool reports(const struct injection *j, uint32_t rank)
{
    return !(gone(j) >> rank & 1) || (j->fault == FAULT_STOP && j->resumed);
}

void injection_judge(const struct injection *j, const struct scene *s, struct outcome *o)
{
    *o = (struct outcome){ .seed = j->seed,
                           .fault = j->fault,
                           .mode = j->mode,
                           .coll = j->steps[STEP_STRUCK].coll,
                           .vform = j->steps[STEP_STRUCK].sizes != 0,
                           .nhost = j->nhost,
                           .tcp = j->tcp,
                           .done = true };
    for (uint32_t r = 0; r < j->nrank; r++) {
        if (s->reports[r].wrong > 0)
            complain(o, &o->wrong, "rank %u: %llu wrong results", r, (unsigned long long)s->reports[r].wrong);
        if (s->reports[r].untold > 0)
            complain(o, &o->untold, "rank %u: success where the arguments differed", r);
    }
    if (s->trouble[0] != '\0')
        complain(o, s->hung ? &o->hung : s->crashed ? &o->crashed : &o->bad, "%s", s->trouble);
    for (uint32_t r = 0; r < j->nrank && !s->hung && !s->crashed; r++) {
        if (reports(j, r))
            judge_error(j, s, r, o);
        if (j->fault == FAULT_LEAVE && is_culprit(j, r) && s->reports[r].destroyed != PLAIT_OK)
            complain(o, &o->bad, "rank %u could not leave: %s", r, plait_status_name(s->reports[r].destroyed));
        if (s->reports[r].again != PLAIT_OK)
            complain(o, &o->bad, "rank %u: the new comm: %s", r, s->reports[r].again_text);
        if (r % j->nthread == 0 && reports(j, r) && s->leaks[r / j->nthread][0] != '\0')
            complain(o, &o->bad, "process %u leaks: %s", r / j->nthread, s->leaks[r / j->nthread]);
    }
}
