/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-train's images: what is taken gives colours in their range, the same ones each time; what is not has a reason. */
#include "fuzz.h"

#include "../../train/data.h"

#include <math.h>

enum { SIDE = 8, VALUES = SIDE * SIDE * 3 };

static const char *decode(const uint8_t *data, size_t size, enum transform transform, bool bytes, void *out)
{
    struct image_options o = image_defaults;

    o.pixels = SIDE;
    o.transform = transform;
    o.bytes = bytes;
    o.jitter = 0.4;
    o.most_pixels = 1 << 16; /* so that an input takes milliseconds */
    for (int c = 0; c < 3; c++) {
        o.mean[c] = 0;
        o.deviation[c] = 1 / 255.0;
    }
    return image_decode(data, size, &o, 1, 2, size, out);
}

static void must_be_whole_or_broken(const uint8_t *data, size_t size, enum transform transform)
{
    float once[VALUES], again[VALUES];
    uint8_t rounded[VALUES];
    const char *why = decode(data, size, transform, false, once);

    MUST(why == NULL || why[0] != '\0');
    const bool broken = why != NULL;
    MUST((decode(data, size, transform, false, again) != NULL) == broken);
    MUST((decode(data, size, transform, true, rounded) != NULL) == broken);
    MUST(broken || memcmp(once, again, sizeof once) == 0);
    for (int i = 0; !broken && i < VALUES; i++)
        MUST(once[i] >= 0 && once[i] <= 255.01F && fabsf((float)rounded[i] - once[i]) <= 0.51F);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    must_be_whole_or_broken(data, size, TRANSFORM_TRAIN);
    must_be_whole_or_broken(data, size, TRANSFORM_EVAL);
    return 0;
}
