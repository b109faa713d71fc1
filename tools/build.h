/* SPDX-License-Identifier: BSD-3-Clause */
/* What this build has: optional parts, plug-ins and where they lie, and how it was made. */
#ifndef PLAIT_TOOLS_BUILD_H
#define PLAIT_TOOLS_BUILD_H

#include <stdbool.h>
#include <stddef.h>

struct feature {
    char name[16];
    bool has;
    const char *package, *text; /* what brings it, and what it is for; may be "" */
};

/** The k-th optional part; false: there are only k. */
bool build_feature(size_t k, struct feature *out);

struct plugin {
    const char *name; /* plait-ucx.so */
    char path[512];   /* where it is, or is looked for */
    bool there;
};

/** The k-th plug-in; false: there are only k. */
bool build_plugin(size_t k, struct plugin *out);

/** Of this program: compiler and version, build type and options of the compiler, git commit. */
extern const char *const build_compiler, *const build_flags, *const build_commit;

/** Print the names of all parts on one line. */
void build_print_brief(void);

/** Print all of the above. */
void build_print(void);

#endif
