/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled where nvJPEG's header is: checks that nvjpeg12.h agrees with it. There is nothing to run. */
#include "nvjpeg12.h"

#include <nvjpeg.h>

#define PLAIT_X(name, value, text) _Static_assert((int)NVJPEG_STATUS_##name == (value), #name);
NVJPEG12_STATUS_LIST(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, value) _Static_assert((int)(NVJPEG_##name) == (value), #name);
NVJPEG12_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
_Static_assert(sizeof(nvjpegStatus_t) == sizeof(int) && sizeof(nvjpegBackend_t) == sizeof(int) &&
                   sizeof(nvjpegOutputFormat_t) == sizeof(int) && sizeof(nvjpegChromaSubsampling_t) == sizeof(int) &&
                   sizeof(libraryPropertyType) == sizeof(int),
               "enums");
_Static_assert(sizeof(nvjpegImage_t) == sizeof(struct nvjpeg12_image) &&
                   offsetof(nvjpegImage_t, pitch) == offsetof(struct nvjpeg12_image, pitch),
               "images");

/* Each function takes the arguments that are passed to it: never called, but compiled. */
void nvjpeg_check(void *p, void **out, const unsigned char *jpeg, int i, size_t bytes);

void nvjpeg_check(void *p, void **out, const unsigned char *jpeg, int i, size_t bytes)
{
    int status = (int)nvjpegGetProperty((libraryPropertyType)i, &i);

    status |= (int)nvjpegCreateEx((nvjpegBackend_t)i, NULL, NULL, (unsigned)i, (nvjpegHandle_t *)out);
    status |= (int)nvjpegDestroy(p) | (int)nvjpegJpegStateCreate(p, (nvjpegJpegState_t *)out);
    status |= (int)nvjpegJpegStateDestroy(p);
    status |= (int)nvjpegGetImageInfo(p, jpeg, bytes, &i, (nvjpegChromaSubsampling_t *)(void *)&i, &i, &i);
    status |= (int)nvjpegDecode(p, p, jpeg, bytes, (nvjpegOutputFormat_t)i, p, p);
    *out = status != 0 ? p : NULL;
}
