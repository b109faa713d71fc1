/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters by key: the NCCL_ names that have an effect, then Plait's settings. */
#include "environment.h"
#include "error.h"

#include "../lib/base/ascii.h"

#include <plait/config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SETTINGS 64
#define ROOM          256

static const struct {
    const char *key, *initial;
} honoured[] = {
#define NCCL_X(name, initial, text) { name, initial },
    NCCL_HONOURED_LIST(NCCL_X)
#undef NCCL_X
};
#define NHONOURED (sizeof honoured / sizeof *honoured)

/* The handle is its address. */
struct ncclParamHandle {
    const char *key;
};

static struct ncclParamHandle handles[NHONOURED + MOST_SETTINGS];
static size_t nhandle;

static void list_all(void)
{
    struct plait_setting s;

    nccl_environment_use();
    for (; nhandle < NHONOURED; nhandle++)
        handles[nhandle].key = honoured[nhandle].key;
    for (size_t i = 0; i < MOST_SETTINGS && plait_config_get(i, &s) != PLAIT_ERR_ARG; i++)
        handles[nhandle++].key = s.name;
}

static void use_list(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, list_all);
}

static void read_value(const struct ncclParamHandle *h, char *out)
{
    const size_t i = (size_t)(h - handles);

    if (i >= NHONOURED) {
        nccl_setting(h->key, out, ROOM);
        return;
    }
    const char *value = nccl_environment(h->key);
    snprintf(out, ROOM, "%s", value != NULL ? value : honoured[i].initial);
}

static bool is_handle(const struct ncclParamHandle *h)
{
    return h >= handles && h < handles + nhandle;
}

static ncclResult_t check(const struct ncclParamHandle *h, const void *out, const char *call)
{
    use_list();
    if (out == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "%s: out is NULL", call);
    return is_handle(h) ? ncclSuccess
                        : nccl_fail(ncclInvalidArgument, NULL, "%s: handle is %p, which is not from ncclParamBind()",
                                    call, (const void *)h);
}

ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key)
{
    use_list();
    for (size_t i = 0; out != NULL && key != NULL && i < nhandle; i++)
        if (strcmp(handles[i].key, key) == 0) {
            *out = &handles[i];
            return ncclSuccess;
        }
    return nccl_fail(ncclInvalidArgument, NULL, "ncclParamBind: there is no parameter '%.80s' here, or out is NULL",
                     key != NULL ? key : "(NULL)");
}

/* ---- As numbers -------------------------------------------------------------------------------------------- */

static ncclResult_t not_a_number(const struct ncclParamHandle *h, const char *value, const char *call)
{
    return nccl_fail(ncclInvalidArgument, NULL, "%s: %s is '%s', which is not a number of this type", call, h->key,
                     value);
}

static ncclResult_t get_signed(const struct ncclParamHandle *h, const void *out, int64_t least, int64_t most,
                               const char *call, int64_t *value)
{
    char text[ROOM], *end;
    const ncclResult_t result = check(h, out, call);

    if (result != ncclSuccess)
        return result;
    read_value(h, text);
    errno = 0;
    *value = strtoll(text, &end, 0);
    return end == text || *end != '\0' || errno != 0 || *value < least || *value > most ? not_a_number(h, text, call)
                                                                                        : ncclSuccess;
}

static ncclResult_t get_unsigned(const struct ncclParamHandle *h, const void *out, uint64_t most, const char *call,
                                 uint64_t *value)
{
    char text[ROOM], *end;
    const ncclResult_t result = check(h, out, call);

    if (result != ncclSuccess)
        return result;
    read_value(h, text);
    errno = 0;
    *value = strtoull(text, &end, 0);
    return end == text || *end != '\0' || errno != 0 || strchr(text, '-') != NULL || *value > most
               ? not_a_number(h, text, call)
               : ncclSuccess;
}

#define SIGNED(bits)                                                                             \
    ncclResult_t ncclParamGetI##bits(ncclParamHandle_t h, int##bits##_t *out)                    \
    {                                                                                            \
        int64_t value;                                                                           \
        const ncclResult_t result =                                                              \
            get_signed(h, out, INT##bits##_MIN, INT##bits##_MAX, "ncclParamGetI" #bits, &value); \
        if (result == ncclSuccess)                                                               \
            *out = (int##bits##_t)value;                                                         \
        return result;                                                                           \
    }                                                                                            \
    NCCL_TWIN(ParamGetI##bits)
#define UNSIGNED(bits)                                                                                     \
    ncclResult_t ncclParamGetU##bits(ncclParamHandle_t h, uint##bits##_t *out)                             \
    {                                                                                                      \
        uint64_t value;                                                                                    \
        const ncclResult_t result = get_unsigned(h, out, UINT##bits##_MAX, "ncclParamGetU" #bits, &value); \
        if (result == ncclSuccess)                                                                         \
            *out = (uint##bits##_t)value;                                                                  \
        return result;                                                                                     \
    }                                                                                                      \
    NCCL_TWIN(ParamGetU##bits)
SIGNED(8);
SIGNED(16);
SIGNED(32);
SIGNED(64);
UNSIGNED(8);
UNSIGNED(16);
UNSIGNED(32);
UNSIGNED(64);
#undef SIGNED
#undef UNSIGNED

/* ---- As text ------------------------------------------------------------------------------------------------- */

ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out)
{
    static _Thread_local char text[ROOM];
    const ncclResult_t result = check(h, out, "ncclParamGetStr");

    if (result == ncclSuccess) {
        read_value(h, text);
        *out = text;
    }
    return result;
}

ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
    char text[ROOM];
    const ncclResult_t result = check(h, out, "ncclParamGet");

    if (result != ncclSuccess)
        return result;
    read_value(h, text);
    const int need = (int)strlen(text) + 1;
    if (len == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclParamGet: len is NULL");
    if (maxLen < need)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclParamGet: maxLen is %d, but %s needs %d bytes", maxLen, h->key,
                         need);
    memcpy(out, text, (size_t)need);
    *len = need;
    return ncclSuccess;
}

ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
    static _Thread_local char text[ROOM];
    ncclParamHandle_t h = NULL;
    const ncclResult_t result = ncclParamBind(&h, key);

    if (result != ncclSuccess)
        return result;
    if (value == NULL || valueLen == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclParamGetParameter: value or valueLen is NULL");
    read_value(h, text);
    *value = text;
    *valueLen = (int)strlen(text);
    return ncclSuccess;
}

static size_t nshown(void)
{
    const char *all = nccl_environment("NCCL_PARAM_DUMP_ALL");

    return all != NULL && (plait_same_word(all, "true") || strcmp(all, "1") == 0) ? nhandle : NHONOURED;
}

ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
    static _Thread_local const char *keys[NHONOURED + MOST_SETTINGS];

    use_list();
    if (table == NULL || tableLen == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclParamGetAllParameterKeys: table or tableLen is NULL");
    for (size_t i = 0; i < nshown(); i++)
        keys[i] = handles[i].key;
    *table = keys;
    *tableLen = (int)nshown();
    return ncclSuccess;
}

void ncclParamDumpAll(void)
{
    char text[ROOM];

    use_list();
    for (size_t i = 0; i < nshown(); i++) {
        read_value(&handles[i], text);
        nccl_log(PLAIT_LOG_WARN, "%s=%s", handles[i].key, text);
    }
}

NCCL_TWIN(ParamBind);
NCCL_TWIN(ParamGetStr);
NCCL_TWIN(ParamGet);
NCCL_TWIN(ParamGetParameter);
NCCL_TWIN(ParamGetAllParameterKeys);
NCCL_TWIN(ParamDumpAll);
