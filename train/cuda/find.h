/* SPDX-License-Identifier: BSD-3-Clause */
/* Where NVIDIA's libraries are. */
#ifndef PLAIT_TRAIN_CUDA_FIND_H
#define PLAIT_TRAIN_CUDA_FIND_H

#include <stddef.h>

enum { FIND_PATH = 512 };

struct found {
    void *handle;         /* of dlopen(); NULL: nowhere */
    char file[FIND_PATH]; /* its path */
    char why[FIND_PATH];  /* without handle: what the loader said of the last file that is there, or of the name */
};

/**
 * Load a library by its name, as "libcudnn.so.9": as the loader finds it (a file that it finds and cannot use is an
 * error), else of the packages of the python3 that PATH
 * finds (the packages of nvidia-cudnn-cu13 and the like), else below /usr/local/cuda.
 *
 * folder  look there only; NULL: everywhere
 */
struct found find_library(const char *name, const char *folder);

struct find_symbol {
    const char *name;
    size_t offset; /* of a function in a table */
};

/** Fill the table with the library's functions. Returns the name of the first one that is missing, or NULL. */
const char *find_symbols(void *handle, const struct find_symbol *symbols, size_t n, void *table);

#endif
