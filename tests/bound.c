/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares bound plans with their plans (bound.h).
 *
 * The steps of both run side by side in program order, with numbers in the place of data: one for each slot, one for
 * each block that is received, and the hash of its operands for each result. All that is read, written and sent must be
 * the same, and so must be the waits of steps that do not run together. So steps that touch the same memory run in an
 * order that the plan allows. Values kept in fp32 have memory of their own, as in the engine.
 */
#include "bound.h"

#include "base/hash.h"
#include "base/status.h"
#include "plan/scratch.h"

struct memory {                 /* a place */
    uint64_t planned, bound[2]; /* the plan's number; the bound plan's: narrow, wide */
};

struct link { /* of an instruction */
    uint32_t step;
    uint32_t nwait, nnext; /* dependencies and successors that were compared */
};

struct comparison {
    const struct plait_plan *plan;
    const struct plait_prog *prog;
    struct plait_geometry geometry;
    uint32_t *node;        /* [nstep] as plait_fuse() says */
    uint32_t *instr;       /* [nstep] */
    struct link *link;     /* [ninstr] */
    struct memory *memory; /* [places] */
    uint64_t *staged;      /* [nstage] numbers in staging buffers; 0: none yet */
};

static uint64_t number(uint64_t x, uint64_t y)
{
    const uint64_t both[] = { x, y };

    return plait_hash(PLAIT_HASH_START, both, sizeof both);
}

static struct memory *at(const struct comparison *c, struct plait_span span, uint32_t k)
{
    return &c->memory[plait_place(&c->geometry, c->plan->inplace, span, k)];
}

static bool is_borrowed(const struct comparison *c, uint32_t step)
{
    return c->plan->step[step].verb == PLAIT_STEP_RECV && c->node[step] != step;
}

static void run_planned(const struct comparison *c, uint32_t i)
{
    const struct plait_step *s = &c->plan->step[i];

    for (uint32_t k = 0; s->verb != PLAIT_STEP_SEND && k < s->nblk; k++) {
        const uint64_t a = s->verb == PLAIT_STEP_RECV ? number(i, k) : at(c, s->a, k)->planned;
        at(c, s->dst, k)->planned = s->verb == PLAIT_STEP_REDUCE ? number(a, at(c, s->b, k)->planned) : a;
    }
}

/* The canonical combination of the k-th blocks of n operands. */
static uint64_t combined(const struct comparison *c, const struct plait_source *s, uint32_t n, uint32_t k)
{
    uint32_t m = 1;

    if (n == 1)
        return s->borrowed != PLAIT_NONE ? number(c->link[s->borrowed].step, k) : at(c, s->span, k)->bound[s->wide];
    while (2 * m < n)
        m *= 2;
    return number(combined(c, s, m, k), combined(c, s + m, n - m, k));
}

/* Does the span lie in the TMP slots that the bound plan has? */
static bool has_room(const struct comparison *c, struct plait_span span, uint32_t nblk)
{
    return span.buf != PLAIT_TMP || span.slot + nblk <= c->prog->ntmp;
}

/* May step i read this, because it or a step fused into it does? The result must not be written over what is read. */
static bool may_read(const struct comparison *c, uint32_t i, const struct plait_instr *in, const struct plait_source *s)
{
    if (s->borrowed != PLAIT_NONE)
        return s->borrowed < c->instr[i] && c->node[c->link[s->borrowed].step] == i &&
               c->prog->instrs[s->borrowed].wide == s->wide;
    if (!has_room(c, s->span, in->nblk))
        return false;
    if (in->verb == PLAIT_STEP_REDUCE ? plait_overlaps(c->plan, &c->geometry, in->dst, s->span, in->nblk, true)
                                      : s->wide != in->wide)
        return false;
    for (uint32_t j = i + 1; j-- > 0;) {
        const struct plait_step *t = &c->plan->step[j];
        if (c->node[j] == i && t->verb != PLAIT_STEP_RECV &&
            (at(c, t->a, 0) == at(c, s->span, 0) ||
             (t->verb == PLAIT_STEP_REDUCE && at(c, t->b, 0) == at(c, s->span, 0))))
            return true;
    }
    return false;
}

/* Run the instruction of step i, which the plan has just run. Returns what is wrong with it, or NULL. */
static const char *run_bound(const struct comparison *c, uint32_t i)
{
    const struct plait_step *s = &c->plan->step[i];
    const struct plait_instr *in = &c->prog->instrs[c->instr[i]];
    const struct plait_source *from = &c->prog->sources[in->source];
    const bool sends = s->verb == PLAIT_STEP_SEND, stores = !sends && !is_borrowed(c, i);

    if (in->verb != s->verb || in->peer != s->peer || in->blk != s->blk || in->nblk != s->nblk ||
        in->borrowed != is_borrowed(c, i))
        return "is another step";
    if (stores && (in->dst.buf != s->dst.buf || in->dst.slot != s->dst.slot || !has_room(c, in->dst, in->nblk)))
        return "writes its result elsewhere";
    for (uint32_t k = 0; k < in->nsource; k++)
        if (!may_read(c, i, in, &from[k]))
            return "reads something else, or in another width, or writes its result over it";
    if (sends && in->stage + in->nblk > c->prog->nstage)
        return "has no staging buffer";
    const bool shared = sends && c->staged[in->stage] != 0; /* a copy of the same data was made before */
    for (uint32_t k = 0; k < in->nblk; k++) {
        const uint64_t v = s->verb == PLAIT_STEP_RECV ? number(i, k) : combined(c, from, in->nsource, k);
        uint64_t *const copy = sends ? &c->staged[in->stage + k] : NULL;
        if (v != at(c, sends ? s->a : s->dst, k)->planned)
            return "moves or computes another value";
        if (sends && *copy != (shared ? v : 0))
            return "is staged where other data is";
        if (stores)
            at(c, in->dst, k)->bound[in->wide] = v;
        if (sends)
            *copy = v;
    }
    return NULL;
}

/* Compare the waits of the bound plan with the plan's. Returns an instruction with another one, or ninstr. */
static uint32_t compare_waits(const struct comparison *c)
{
    const struct plait_prog *p = c->prog;
    uint32_t i = 0;

    for (uint32_t n = 0; n < c->plan->nstep; n++) {
        const struct plait_step *s = &c->plan->step[n];
        for (uint32_t d = 0; d < s->ndep; d++) {
            const uint32_t on = plait_plan_deps(c->plan)[s->dep0 + d];
            const bool inside = c->node[on] == c->node[n];
            if (inside && !is_borrowed(c, on))
                continue;
            const uint32_t from = c->instr[inside ? on : c->node[on]];
            const uint32_t to = c->instr[!inside && is_borrowed(c, n) ? n : c->node[n]];
            const struct plait_instr *in = &p->instrs[from];
            if (from >= to || c->link[from].nnext == in->nsuccessor ||
                p->successors[in->successor + c->link[from].nnext++] != to)
                return from;
            c->link[to].nwait++;
        }
    }
    while (i < p->ninstr && c->link[i].nnext == p->instrs[i].nsuccessor && c->link[i].nwait == p->ndeps[i])
        i++;
    return i;
}

static enum plait_status compare(const struct comparison *c)
{
    const char *fault = NULL;
    uint32_t n = 0, i;

    for (i = 0; i < plait_nplace(c->plan); i++)
        c->memory[i].planned = c->memory[i].bound[false] = number(i, UINT64_MAX);
    for (i = 0; i < c->plan->nstep && fault == NULL; i++) {
        run_planned(c, i);
        if (c->plan->step[i].verb == PLAIT_STEP_REDUCE && c->node[i] != i) /* fused: it has no instruction */
            continue;
        c->instr[i] = n;
        c->link[n].step = i;
        fault = n < c->prog->ninstr ? run_bound(c, i) : "is missing";
        n++;
    }
    if (fault == NULL && n < c->prog->ninstr)
        fault = "is followed by others that the plan does not have";
    for (uint32_t k = 0; k < c->geometry.out.nslot && fault == NULL; k++)
        if (c->memory[k].bound[false] != c->memory[k].planned)
            fault = "leaves something else in OUT";
    if (fault == NULL && (i = compare_waits(c)) < n) {
        i = c->link[i].step + 1;
        fault = "waits for other steps, or others for it";
    }
    return fault == NULL ? PLAIT_OK
                         : plait_fail(PLAIT_ERR_PLAN, "rank %u: as bound, step %u %s", c->plan->rank, i - 1, fault);
}

enum plait_status bound_check(const struct plait_prog *prog, const struct plait_shape *shape, uint32_t rank,
                              enum plait_fusing fusing)
{
    struct plait_scratch arrays = { 0 };
    struct comparison c = { .prog = prog };
    struct plait_plan *plan;
    enum plait_status status = plait_plan_emit(prog->alg, shape, rank, &plan);

    if (status != PLAIT_OK)
        return status;
    c.plan = plan;
    c.geometry = plait_plan_geometry(plan);
    c.node = plait_scratch(&arrays, plan->nstep, sizeof *c.node);
    c.instr = plait_scratch(&arrays, plan->nstep, sizeof *c.instr);
    c.link = plait_scratch(&arrays, prog->ninstr + 1, sizeof *c.link);
    c.memory = plait_scratch(&arrays, plait_nplace(plan), sizeof *c.memory);
    c.staged = plait_scratch(&arrays, prog->nstage, sizeof *c.staged);
    status =
        arrays.failed ? plait_fail_memory("out of memory to check a bound plan") : plait_fuse(plan, fusing, c.node);
    if (status == PLAIT_OK)
        status = compare(&c);
    plait_scratch_free(&arrays);
    plait_plan_destroy(plan);
    return status;
}

enum plait_status bound_check_all(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                  enum plait_round round, bool average)
{
    struct plait_proof proof = { .hash = 0 };
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < shape->nrank && status == PLAIT_OK; r++) {
        struct plait_prog *prog = NULL;
        status = plait_prog_create(alg, spec, shape, r, round, average, &proof, &prog);
        if (status == PLAIT_OK)
            status = bound_check(prog, shape, r, proof.fusing);
        plait_prog_destroy(prog);
    }
    return status;
}
