/* SPDX-License-Identifier: BSD-3-Clause */
#include "nearest.h"

#include "ascii.h"

#include <string.h>

#define LONGEST 63

unsigned plait_distance(const char *a, const char *b)
{
    unsigned row[LONGEST + 1];
    const size_t na = strnlen(a, LONGEST), nb = strnlen(b, LONGEST);

    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            const unsigned change = diagonal + (plait_lower(a[i - 1]) != plait_lower(b[j - 1]));
            const unsigned grow = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < grow ? change : grow;
        }
    }
    return row[nb];
}
