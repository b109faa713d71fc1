/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-tune: measuring a machine once, for the choice of algorithms.
 *
 * Ranks run the same sequence of measurements. Before each one, rank 0 tells the others what is measured and whether
 * time is left for it. After each one, all ranks have the times of the slowest rank, so they draw the same conclusions.
 */
#ifndef PLAIT_TOOLS_TUNE_H
#define PLAIT_TOOLS_TUNE_H

#include "machine/tuned.h"

#include <plait/comm.h>

#include <stdatomic.h>

#define TUNE_SIZES   8 /* of each collective: powers of four from 1 KiB to 16 MiB */
#define TUNE_SIZE(k) ((size_t)1024 << 2 * (k))
#define TUNE_MOST    PLAIT_MOST_CANDIDATES
#define TUNE_ROWS    4096
#define TUNE_SHOWN   5
#define TUNE_CHECKED 1024 /* cells of tune_check() */

/* A collective with one size. */
struct tune_cell {
    size_t bytes; /* of the vector or of a block; 0: not measured */
    uint32_t n;
    uint32_t best, next;                       /* next == best: there is one candidate */
    char algorithm[TUNE_MOST][PLAIT_MAX_SPEC]; /* the library's choice first */
    double seconds[TUNE_MOST];
    double faster[TUNE_MOST]; /* the first one's time over this one's, the median of the rounds */
    double doubt[TUNE_MOST];  /* half the 95 % confidence interval of that median, over the median */
};

/* Which algorithms to measure in a cell. */
enum tune_which {
    TUNE_CLOSE, /* those that the model predicts to be nearly the best */
    TUNE_ALL
};

/* A measured choice that is not the model's. */
struct tune_gain {
    enum plait_coll coll;
    uint32_t nrank;
    struct tune_cell cell;
};

/* The choice in a cell, and the fastest algorithm there. */
struct tune_checked {
    enum plait_coll coll;
    uint32_t nrank;
    size_t bytes;
    char algorithm[PLAIT_MAX_SPEC], best[PLAIT_MAX_SPEC];
    double seconds, least; /* of them */
    double slower;         /* the choice's time over the fastest one's */
    double doubt;          /* as in struct tune_cell */
};

/* The results of the ranks. Processes that plait-tune started share them with the first process. */
struct tune_results {
    struct plait_tuning tuning; /* rows: set at the end */
    struct plait_tuned_choice row[TUNE_ROWS];
    uint32_t ncell, nchanged;
    struct tune_gain gain[TUNE_SHOWN]; /* the largest first */
    char file[PLAIT_TUNING_PATH];      /* whose choices were checked; "": none */
    uint32_t nchecked;
    struct tune_checked checked[TUNE_CHECKED];
    atomic_flag failed;
    char error[1024]; /* of the first rank that failed */
};

/* One rank. */
struct tune {
    struct plait_comm *comm;
    uint32_t rank, nrank;
    uint32_t nhost, each; /* hosts, and ranks of each; 0: unequal */
    uint32_t *host;       /* [nrank] */
    bool crowded;         /* more ranks than processors */
    void *in, *out;
    size_t room;                  /* bytes of each */
    double begin, end, until;     /* on rank 0's clock; until: no cell is begun that takes longer */
    struct tune_results *results; /* rank 0 fills it */
};

/*
 * Repeats the creation of the comm until the library's calibration succeeds, at most 20 times. *comm may be replaced.
 */
enum plait_status tune_calibrate(struct plait_comm **comm);

/* The task of the ranks of a comm. */
enum tune_task {
    TUNE_CHOICES,
    TUNE_LINKS_TOO, /* links and copies before */
    TUNE_CHECK
};

/* Measure with the ranks of a comm. Errors: the library's. */
enum plait_status tune_ranks(struct plait_comm *comm, double seconds, enum tune_task task, struct tune_results *out);

/* x[k] becomes the largest of all ranks'. */
enum plait_status tune_agree(const struct tune *t, double *x, uint32_t n);

enum plait_status tune_links(struct tune *t);

/*
 * Measure the candidates of a collective and size, if there is time.
 *
 * names  NULL-ended, the candidates; NULL: those of `which`
 * share  of the time that is left
 * guess  in: seconds of an operation, 0: not known
 */
enum plait_status tune_cell(struct tune *t, enum plait_coll coll, size_t bytes, const char *const *names, double share,
                            double guess, enum tune_which which, struct tune_cell *out);

/* A line about what is measured, and the time that is left. text: of the size. */
void tune_progress(const struct tune *t, const char *text);

/* Measure all algorithms on sizes between those that are tuned. */
enum plait_status tune_check(struct tune *t);

/* Print how much slower the choices are than the fastest algorithms, and the worst of them. */
void tune_show_check(struct tune_results *r);

/* Add the rows of a collective, of which cell[TUNE_SIZES] were measured. share: as above, for sizes between them. */
enum plait_status tune_rows(struct tune *t, enum plait_coll coll, const struct tune_cell *cell, double share);

/*
 * Can the file be written? Makes its folder.
 *
 * output  NULL: where the library finds it
 * Returns false after a message.
 */
bool tune_prepare(const char *output, const struct tune_results *r);

/* Write the file that was prepared. Returns false after a message. */
bool tune_write(struct tune_results *r);

/* Print where the file is, and where choices changed most. */
void tune_show(const struct tune_results *r);

#endif
