/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of the checker share. check.c is the entry point and fixes the order of the checks.
 *
 * Steps of all ranks are numbered in one sequence: step i of rank r is first[r] + i. In the graph a SEND and its RECV
 * are one node, so every send is synchronous. A plan that completes without buffered sends also completes with them.
 */
#ifndef PLAIT_LIB_PLAN_CHECK_CHECK_H
#define PLAIT_LIB_PLAN_CHECK_CHECK_H

#include "plan/plan_check.h"
#include "plan/scratch.h"

struct plait_graph {
    uint32_t *first; /* [nrank + 1] number of step 0 of the rank */
    uint32_t *rank;  /* [nstep] rank that owns the step */
    uint32_t *pair;  /* [nstep] the RECV of a SEND and the SEND of a RECV, else PLAIT_NONE */
    uint32_t *slot;  /* [nstep] the SEND whose slot of the window this SEND takes over, else PLAIT_NONE */
    uint32_t *succ0; /* [nstep + 1] index in succ of the step's first successor */
    uint32_t *succ;
    uint32_t *node;    /* [nstep] the step that represents this step's node */
    uint32_t *mate;    /* [nstep] the next step of the same node; a circular list */
    uint32_t *pending; /* [nstep] of a node: unfinished dependencies */
    uint32_t *order;   /* [nnode] nodes in a topological order */
    uint32_t nstep, nnode;
    struct plait_scratch arrays; /* all of these */
};

struct plait_checker {
    const char *name;
    const struct plait_plan *const *plans;
    uint32_t nrank, root;
    uint32_t window; /* most messages in flight from one rank to another; 0: any number */
    bool inplace;    /* plans may be in place */
    enum plait_coll coll;
    struct plait_report *report; /* never NULL */
    struct plait_graph graph;
    unsigned char *kinds; /* [nstep] kinds of values of rank kinds_of; NULL: not wanted */
    uint32_t kinds_of;
    uint32_t uneven; /* number of a step that mixes partial sums with other values in a span, or PLAIT_NONE */
};

/* Sets the report's `failed` and `text` ("<name>, <nrank> ranks: " and the message). Returns PLAIT_ERR_PLAN. */
enum plait_status plait_check_fail(struct plait_checker *c, enum plait_check check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum plait_status plait_check_nomem(const struct plait_checker *c);

#ifdef __clang_analyzer__ /* as in lib/base/status.h */
#define plait_check_fail(c, check, ...) (plait_check_fail(c, check, __VA_ARGS__), PLAIT_ERR_PLAN)
#define plait_check_nomem(c)            (plait_check_nomem(c), PLAIT_ERR_NOMEM)
#endif

/* "out[4]" or "out[4..6]", for messages. */
struct plait_span_text {
    char s[40];
};
struct plait_span_text plait_span_text(struct plait_span span, uint32_t nblk);

/* "block 4" or "blocks as they lie", for messages. */
struct plait_block_text {
    char s[24];
};
struct plait_block_text plait_block_text(const struct plait_step *step);

/* Describes the error in a step, but for its dependencies; NULL: none. plan: reads nrank, rank, nblk, ntmp, nlane. */
const char *plait_step_fault(const struct plait_plan *plan, const struct plait_geometry *g,
                             const struct plait_step *step);

/* The spans that a verb uses. */
struct plait_uses {
    bool dst, a, b;
};
extern const struct plait_uses plait_verb_uses[PLAIT_NVERB];
extern const char *const plait_verb_names[PLAIT_NVERB];
extern const char *const plait_buf_names[PLAIT_NBUF];

static inline const struct plait_step *plait_graph_step(const struct plait_checker *c, uint32_t number)
{
    const uint32_t r = c->graph.rank[number];
    return &c->plans[r]->step[number - c->graph.first[r]];
}

/* Index of the step within its rank. */
static inline uint32_t plait_graph_index(const struct plait_graph *g, uint32_t number)
{
    return number - g->first[g->rank[number]];
}

/* The checks, in the order in which they run. They return PLAIT_OK, PLAIT_ERR_PLAN or PLAIT_ERR_NOMEM. */
enum plait_status plait_check_shape(struct plait_checker *c);
enum plait_status plait_check_matching(struct plait_checker *c); /* needs plait_graph_init(); fills pair */
enum plait_status plait_check_order(struct plait_checker *c, const uint32_t *const *fused); /* deadlock: graph.c */
enum plait_status plait_check_race(struct plait_checker *c);
enum plait_status plait_check_meaning(struct plait_checker *c); /* also same bits */
enum plait_status plait_check_figures(struct plait_checker *c); /* fills report->seen */

/* Numbers the steps. The checks fill the other arrays. */
enum plait_status plait_graph_init(struct plait_checker *c);

/*
 * ---- sets.c: sets of contributing ranks, shared by values and reference-counted.
 *
 * Up to PLAIT_EXACT_RANKS ranks a set is a bitmap (exact). Beyond that a set is two sums of random 64-bit weights, each
 * over its ranks. A missing or doubly counted rank escapes notice with a probability of about 2^-64. A number names a
 * set. 0 .. nrank-1 are the sets of one rank and are never freed; the others are reused when free.
 */
#define PLAIT_EXACT_RANKS 1024

struct plait_set {
    uint32_t ref;  /* values that refer to the set */
    uint32_t size; /* contributions, with repetitions */
};

struct plait_sets {
    bool exact;
    uint32_t nrank, nword; /* words of a set */
    uint32_t nset, cset;   /* sets in use or free; capacity */
    uint32_t free;         /* first of the list of free sets, linked through ref */
    uint64_t *word;        /* [cset][nword] */
    uint64_t all[2];       /* the sums of all ranks */
    struct plait_set *set; /* [cset] */
};

bool plait_sets_init(struct plait_sets *s, uint32_t nrank);
void plait_sets_finish(struct plait_sets *s);

/*
 * The union of two disjoint sets, with one reference; PLAIT_NONE when memory is short.
 * plait_sets_common: a rank that is in both, else PLAIT_NONE. With sums it notices only that the sizes exceed nrank.
 */
uint32_t plait_sets_unite(struct plait_sets *s, uint32_t x, uint32_t y);
uint32_t plait_sets_common(const struct plait_sets *s, uint32_t x, uint32_t y);

/* Does the set contain every rank once? If not, *missing is a rank that it lacks, or PLAIT_NONE if unknown. */
bool plait_sets_is_all(const struct plait_sets *s, uint32_t x, uint32_t *missing);

static inline void plait_sets_hold(struct plait_sets *s, uint32_t x)
{
    if (x >= s->nrank)
        s->set[x].ref++;
}

static inline void plait_sets_drop(struct plait_sets *s, uint32_t x)
{
    if (x < s->nrank || --s->set[x].ref > 0)
        return;
    s->set[x].ref = s->free;
    s->free = x;
}

/* SplitMix64: a 64-bit hash. */
static inline uint64_t plait_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
