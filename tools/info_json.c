/* SPDX-License-Identifier: BSD-3-Clause */
#include "info_json.h"

#include "build.h"
#include "message.h"

#include <plait/config.h>
#include <plait/topology.h>
#include <plait/version.h>

#include <stdio.h>
#include <stdlib.h>

#if PLAIT_HAVE_JANSSON
#include <jansson.h>

static json_t *features(void)
{
    json_t *object = json_object();
    struct feature f;

    for (size_t k = 0; build_feature(k, &f); k++)
        json_object_set_new(object, f.name, json_boolean(f.has));
    return object;
}

static json_t *plugins(void)
{
    json_t *array = json_array();
    struct plugin p;

    for (size_t k = 0; build_plugin(k, &p); k++)
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:b}", "name", p.name, "path", p.path, "there", (int)p.there));
    return array;
}

/* *valid: no setting has a value that is refused. */
static json_t *settings(bool *valid)
{
    json_t *array = json_array();
    struct plait_setting s;
    enum plait_status status;

    *valid = true;
    for (size_t i = 0; (status = plait_config_get(i, &s)) != PLAIT_ERR_ARG; i++)
        if (status == PLAIT_OK)
            json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s}", "name", s.name, "value", s.value, "origin",
                                                   s.origin, "text", s.text));
        else if (*valid)
            *valid = complain("%s", plait_last_error());
    return array;
}

static json_t *machine(void)
{
    struct plait_topology t;

    plait_topology_get(&t);
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:s}", "processor", t.processor, "processors", (int)t.ncpu, "l1",
                     (json_int_t)t.l1, "l2", (json_int_t)t.l2, "l3", (json_int_t)t.l3, "memory", (json_int_t)t.memory,
                     "kernels", t.isa);
}

bool info_print_json(void)
{
    bool valid;
    json_t *all = json_pack("{s:s, s:o, s:o, s:{s:s, s:s, s:s}, s:o, s:o}", "version", plait_version(), "features",
                            features(), "plugins", plugins(), "build", "compiler", build_compiler, "flags", build_flags,
                            "commit", build_commit, "machine", machine(), "settings", settings(&valid));
    char *text = all != NULL ? json_dumps(all, JSON_INDENT(2)) : NULL;
    const bool ok = text != NULL;

    if (ok)
        printf("%s\n", text);
    free(text);
    json_decref(all);
    return ok ? valid : complain("--json: out of memory");
}
#else
bool info_print_json(void)
{
    return complain("--json: built without JSON; install libjansson-dev (Debian) and build again");
}
#endif
