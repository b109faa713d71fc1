/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans as text: the form of the golden files, for people to read.
 *
 *     plan 1 allreduce rank 2 of 4, blocks 4, tmp 2, lanes 1, out of place
 *     r2 #0 send in[2] to r3
 *     r2 #1 recv tmp[0] from r1 block 1
 *     r2 #2 reduce out[1] = tmp[0], in[1]   after 1
 *     r2 #3 send out[1..2] to r3 lane 1   after 0, 2
 *
 * A rooted collective has "root N" behind its name. A step of n blocks shows slots first..last in every span. "block B"
 * appears only when the first block differs from the first slot of the step's first span; "as it lies" stands for
 * PLAIT_AS_LIES. The lane appears only when it is not 0.
 *
 * For the parser, any number of blanks may separate words; '#' begins a comment at the start of a line or behind its
 * last word. It allocates memory in proportion to the length of the text, whatever numbers it contains.
 */
#include "plan_file.h"

#include "base/status.h"
#include "check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS (1u << 20) /* of a rank */

/* ---- Printing ------------------------------------------------------------------------------------ */

/* The span that is printed first: the source of a SEND, else the destination. */
static struct plait_span first_span(const struct plait_step *s)
{
    return s->verb == PLAIT_STEP_SEND ? s->a : s->dst;
}

static void print_step(FILE *f, const struct plait_plan *p, uint32_t i)
{
    const struct plait_step *s = &p->step[i];
    const uint32_t *deps = plait_plan_deps(p) + s->dep0;

    fprintf(f, "r%u #%u %s %s", p->rank, i, plait_verb_names[s->verb], plait_span_text(first_span(s), s->nblk).s);
    if (s->verb == PLAIT_STEP_COPY || s->verb == PLAIT_STEP_REDUCE)
        fprintf(f, " = %s", plait_span_text(s->a, s->nblk).s);
    if (s->verb == PLAIT_STEP_REDUCE)
        fprintf(f, ", %s", plait_span_text(s->b, s->nblk).s);
    if (s->verb == PLAIT_STEP_SEND || s->verb == PLAIT_STEP_RECV)
        fprintf(f, " %s r%d", s->verb == PLAIT_STEP_SEND ? "to" : "from", s->peer);
    if (s->blk == PLAIT_AS_LIES)
        fprintf(f, " as it lies");
    else if (s->blk != first_span(s).slot)
        fprintf(f, " block %u", s->blk);
    if (s->lane != 0)
        fprintf(f, " lane %u", s->lane);
    for (uint32_t d = 0; d < s->ndep; d++)
        fprintf(f, "%s %u", d == 0 ? "   after" : ",", deps[d]);
    fputc('\n', f);
}

enum plait_status plait_plan_print(const struct plait_plan *plan, char **out)
{
    char *text = NULL;
    size_t size = 0;

    if (plan == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_print: %s is NULL", plan == NULL ? "plan" : "out");
    for (uint32_t i = 0; i < plan->nstep; i++)
        if (plan->step[i].verb >= PLAIT_NVERB || (uint64_t)plan->step[i].dep0 + plan->step[i].ndep > plan->ndep)
            return plait_fail(PLAIT_ERR_PLAN,
                              "rank %u step %u cannot be printed: it has no verb or no such dependencies", plan->rank,
                              i);
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return plait_fail_memory("out of memory for the text of a plan");
    fprintf(f, "plan %u %s", plan->version, plait_coll_name((enum plait_coll)plan->coll));
    if (plait_plan_geometry(plan).rooted)
        fprintf(f, " root %u", plan->root);
    fprintf(f, " rank %u of %u, blocks %u, tmp %u, lanes %u, %s\n", plan->rank, plan->nrank, plan->nblk, plan->ntmp,
            plan->nlane, plan->inplace ? "in place" : "out of place");
    for (uint32_t i = 0; i < plan->nstep; i++)
        print_step(f, plan, i);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return plait_fail_memory("out of memory for the text of a plan");
    }
    *out = text;
    return PLAIT_OK;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

static bool is_rooted(const struct plait_plan *p)
{
    return p->coll < PLAIT_NCOLL && plait_geometry_of((enum plait_coll)p->coll, p->nrank, 0, 0, 0).rooted;
}

struct parser {
    struct plait_text *text;
    const char *at;           /* the next character */
    enum plait_status status; /* sticky: after the first error the parser reads nothing */
    struct plait_step *steps;
    uint32_t *deps;
    size_t cstep, cdep;     /* capacities */
    struct plait_plan head; /* last member: it ends in a flexible array, which stays empty */
};

static void fail(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(struct parser *p, const char *format, ...)
{
    char what[128];
    va_list args;

    if (p->status != PLAIT_OK)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    p->status = plait_fail(PLAIT_ERR_PLAN, "%s:%u: %s", p->text->name, p->text->line, what);
}

static void skip_blanks(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
        p->at++;
}

/* The characters up to the line's end, for messages: at most 20. */
static int rest(const struct parser *p)
{
    const size_t n = strcspn(p->at, "\n");

    return n < 20 ? (int)n : 20;
}

/* Consumes `word` if it comes next. */
static bool accept(struct parser *p, const char *word)
{
    const size_t n = strlen(word);

    skip_blanks(p);
    if (p->status != PLAIT_OK || strncmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

static void expect(struct parser *p, const char *word)
{
    if (accept(p, word))
        return;
    fail(p, "'%s' is expected before '%.*s'", word, rest(p), p->at);
}

/* A decimal number from `low` to `high`. */
static uint32_t number(struct parser *p, const char *what, uint32_t low, uint32_t high)
{
    uint64_t n = 0;

    skip_blanks(p);
    if (p->status != PLAIT_OK)
        return low;
    if (*p->at < '0' || *p->at > '9')
        fail(p, "%s is not a number", what);
    const char *first = p->at;
    for (; *p->at >= '0' && *p->at <= '9'; p->at++)
        if (n <= UINT32_MAX)
            n = 10 * n + (uint64_t)(*p->at - '0');
    if (n < low || n > high) {
        const int digits = p->at - first < 20 ? (int)(p->at - first) : 20;
        if (low == high)
            fail(p, "%s is %.*s, but must be %u", what, digits, first, low);
        else
            fail(p, "%s is %.*s, not from %u to %u", what, digits, first, low, high);
        return low;
    }
    return (uint32_t)n;
}

/* Consumes the next word and returns its index in `names`. */
static uint32_t choice(struct parser *p, const char *what, const char *const *names, uint32_t n)
{
    skip_blanks(p);
    const size_t length = strspn(p->at, "abcdefghijklmnopqrstuvwxyz_");
    for (uint32_t i = 0; i < n; i++)
        if (strlen(names[i]) == length && accept(p, names[i]))
            return i;
    fail(p, "'%.*s' is no %s", length < 20 ? (int)length : 20, p->at, what);
    return 0;
}

static void end_line(struct parser *p)
{
    skip_blanks(p);
    if (*p->at == '#')
        p->at += strcspn(p->at, "\n");
    if (p->status == PLAIT_OK && *p->at != '\n' && *p->at != '\0')
        fail(p, "more text than a line has");
    if (p->status == PLAIT_OK && *p->at == '\n') {
        p->at++;
        p->text->line++;
    }
}

void plait_text_skip(struct plait_text *t)
{
    for (;;) {
        const char *word = t->at + strspn(t->at, " \t\r");
        if (*word == '#')
            word += strcspn(word, "\n");
        if (*word != '\n') {
            t->at = word;
            return;
        }
        t->at = word + 1;
        t->line++;
    }
}

static void parse_head(struct parser *p)
{
    struct plait_plan *h = &p->head;
    const char *colls[PLAIT_NCOLL];

    for (uint32_t i = 0; i < PLAIT_NCOLL; i++)
        colls[i] = plait_coll_name((enum plait_coll)i);
    expect(p, "plan");
    h->version = (uint8_t)number(p, "the version", PLAIT_PLAN_VERSION, PLAIT_PLAN_VERSION);
    h->coll = (uint8_t)choice(p, "collective", colls, PLAIT_NCOLL);
    if (is_rooted(h)) {
        expect(p, "root");
        h->root = number(p, "the root", 0, PLAIT_MOST_PLANS - 1);
    }
    expect(p, "rank");
    h->rank = number(p, "the rank", 0, PLAIT_MOST_PLANS - 1);
    expect(p, "of");
    h->nrank = number(p, "the number of ranks", h->rank + 1, PLAIT_MOST_PLANS);
    expect(p, ", blocks");
    const enum plait_kind kind = plait_geometry_of((enum plait_coll)h->coll, h->nrank, 0, 0, 0).kind;
    h->nblk = number(p, "the number of blocks", 1, kind == PLAIT_KIND_VECTOR ? PLAIT_MOST_SLOTS : (1u << 30) - 1);
    expect(p, ", tmp");
    h->ntmp = number(p, "the number of TMP slots", 0, PLAIT_MOST_SLOTS);
    expect(p, ", lanes");
    h->nlane = (uint8_t)number(p, "the number of lanes", 1, UINT8_MAX);
    expect(p, ",");
    h->inplace = accept(p, "in place");
    if (!h->inplace)
        expect(p, "out of place");
    end_line(p);
}

/* Parses a span. All spans of a step have the same number of blocks; *nblk is 0 before the first. */
static struct plait_span parse_span(struct parser *p, uint32_t *nblk)
{
    const uint32_t buf = choice(p, "buffer", plait_buf_names, PLAIT_NBUF);
    uint32_t last;

    expect(p, "[");
    const uint32_t slot = number(p, "the slot", 0, (1u << 30) - 1);
    last = slot;
    if (accept(p, ".."))
        last = number(p, "the last slot", slot + 1, (1u << 30) - 1);
    expect(p, "]");
    if (*nblk != 0 && last - slot + 1 != *nblk)
        fail(p, "the spans have different lengths");
    *nblk = last - slot + 1;
    return (struct plait_span){ buf & 3, slot & 0x3fffffffu };
}

static bool reserve(struct parser *p, void **array, size_t n, size_t *capacity, size_t size)
{
    const bool fits = plait_grow(array, n, capacity, size);

    if (!fits && p->status == PLAIT_OK)
        p->status = plait_fail_memory("%s:%u: out of memory for a plan", p->text->name, p->text->line);
    return fits;
}

static void parse_deps(struct parser *p, struct plait_step *s, uint32_t index)
{
    struct plait_plan *h = &p->head;

    do {
        const uint32_t low = s->ndep == 0 ? 0 : p->deps[h->ndep - 1] + 1;
        if (index == 0 || low >= index)
            fail(p, "a dependency is not an earlier step, or not in ascending order");
        else if (reserve(p, (void **)&p->deps, (size_t)h->ndep + 1, &p->cdep, sizeof *p->deps))
            p->deps[h->ndep++] = number(p, "a dependency", low, index - 1);
        if (s->ndep == UINT16_MAX)
            fail(p, "more than %u dependencies", UINT16_MAX);
        s->ndep++;
    } while (accept(p, ","));
}

static void parse_step(struct parser *p)
{
    struct plait_plan *h = &p->head;
    struct plait_step s = { .peer = -1, .dep0 = h->ndep };
    struct plait_span first;

    expect(p, "r");
    number(p, "the step's rank", h->rank, h->rank);
    expect(p, "#");
    number(p, "the step's number", h->nstep, h->nstep);
    if (h->nstep == MOST_STEPS)
        fail(p, "the plan has more than %u steps", MOST_STEPS);
    s.verb = (uint8_t)choice(p, "verb", plait_verb_names, PLAIT_NVERB);
    first = parse_span(p, &s.nblk);
    if (s.verb == PLAIT_STEP_SEND)
        s.a = first;
    else
        s.dst = first;
    if (s.verb == PLAIT_STEP_COPY || s.verb == PLAIT_STEP_REDUCE) {
        expect(p, "=");
        s.a = parse_span(p, &s.nblk);
    }
    if (s.verb == PLAIT_STEP_REDUCE) {
        expect(p, ",");
        s.b = parse_span(p, &s.nblk);
    }
    if (s.verb == PLAIT_STEP_SEND || s.verb == PLAIT_STEP_RECV) {
        expect(p, s.verb == PLAIT_STEP_SEND ? "to" : "from");
        expect(p, "r");
        s.peer = (int32_t)number(p, "the peer", 0, h->nrank - 1);
    }
    if (accept(p, "as it lies"))
        s.blk = PLAIT_AS_LIES;
    else
        s.blk = accept(p, "block") ? number(p, "the block", 0, h->nblk - 1) : first.slot;
    if (accept(p, "lane"))
        s.lane = (uint8_t)number(p, "the lane", 0, h->nlane - 1u);
    if (accept(p, "after"))
        parse_deps(p, &s, h->nstep);
    end_line(p);
    if (p->status == PLAIT_OK && reserve(p, (void **)&p->steps, (size_t)h->nstep + 1, &p->cstep, sizeof *p->steps))
        p->steps[h->nstep++] = s;
}

/* Is the next line a step? Else the text ends, or another plan or algorithm begins. */
static bool is_step(struct parser *p)
{
    if (p->status != PLAIT_OK)
        return false;
    p->text->at = p->at;
    plait_text_skip(p->text);
    p->at = p->text->at;
    if (*p->at != 'r' && *p->at != '\0' && strncmp(p->at, "plan", 4) != 0 && strncmp(p->at, "algorithm", 9) != 0)
        fail(p, "step 'r%u #%u ...' or the next plan is expected before '%.*s'", p->head.rank, p->head.nstep, rest(p),
             p->at);
    return *p->at == 'r';
}

enum plait_status plait_text_read_plan(struct plait_text *text, struct plait_plan **out)
{
    struct parser p = { .text = text };

    plait_text_skip(text);
    p.at = text->at;
    parse_head(&p);
    while (is_step(&p))
        parse_step(&p);
    if (p.status == PLAIT_OK)
        p.status = plait_plan_assemble(&p.head, p.steps, p.deps, out);
    free(p.steps);
    free(p.deps);
    return p.status;
}

enum plait_status plait_plan_parse(const char *name, const char *text, struct plait_plan **out)
{
    struct plait_text t = { .name = name != NULL ? name : "plan", .at = text, .line = 1 };
    struct plait_plan *plan = NULL;

    if (text == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_parse: %s is NULL", text == NULL ? "text" : "out");
    const enum plait_status status = plait_text_read_plan(&t, &plan);
    if (status == PLAIT_OK && *t.at != '\0') {
        plait_plan_destroy(plan);
        return plait_fail(PLAIT_ERR_PLAN, "%s:%u: a second plan", t.name, t.line);
    }
    if (status == PLAIT_OK)
        *out = plan;
    return status;
}
