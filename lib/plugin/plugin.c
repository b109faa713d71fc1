/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugin.h"

#include "base/config.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const struct plait_fork_module plait_plugins_fork = { .lock = &lock };

const struct plait_plugin plait_plugin_ucx = { "ucx",         "plait_net_plugin",   "transports/ucx",
                                               PLAIT_NET_ABI, "install libucx-dev", "UCX_HANDLE_ERRORS" };
const struct plait_plugin plait_plugin_pmix = { "pmix",         "plait_pass_plugin",   "launchers/pmix",
                                                PLAIT_PASS_ABI, "install libpmix-dev", NULL };
const struct plait_plugin plait_plugin_pmi = { "pmi",          "plait_pass_plugin",    "launchers/pmi",
                                               PLAIT_PASS_ABI, "install all of Plait", NULL };
const struct plait_plugin plait_plugin_cuda = { "cuda",           "plait_device_plugin",           "cuda",
                                                PLAIT_DEVICE_ABI, "configure with -Dcuda=enabled", NULL };

const struct plait_plugin plait_plugin_hwloc = { "hwloc",          "plait_locate_plugin",  "topology",
                                                 PLAIT_LOCATE_ABI, "install libhwloc-dev", NULL };
const struct plait_plugin plait_plugin_json = { "json",          "plait_files_plugin",     "files",
                                                PLAIT_FILES_ABI, "install libjansson-dev", NULL };

void plait_plugins_lock(void)
{
    pthread_mutex_lock(&lock);
}

void plait_plugins_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* In `folder`, else beside libplait, or beside the program that it is linked into. */
static bool find_file(const struct plait_plugin *p, const char *folder, char *out, size_t room)
{
    Dl_info own;

    if (*folder != '\0')
        return (size_t)snprintf(out, room, "%s/plait-%s.so", folder, p->name) < room;
    if (dladdr((const void *)&plait_generation, &own) == 0 || strchr(own.dli_fname, '/') == NULL)
        return false;
    const int n = (int)(strrchr(own.dli_fname, '/') - own.dli_fname);
    snprintf(out, room, "%.*s/%s/plait-%s.so", n, own.dli_fname, p->built, p->name);
    return access(out, F_OK) == 0 ||
           (size_t)snprintf(out, room, "%.*s/plait/plait-%s.so", n, own.dli_fname, p->name) < room;
}

/* Every exported table begins with the ABI number. */
static enum plait_status load(const struct plait_plugin *plugin, const char *folder, const void **out)
{
    char path[4096];
    const uint32_t *p;
    void *handle;

    if (!find_file(plugin, folder, path, sizeof path))
        return plait_fail(PLAIT_ERR_SYSTEM,
                          "cannot tell where libplait and its plait-%s.so lie; set PLAIT_PLUGINS to that folder",
                          plugin->name);
    if (access(path, F_OK) != 0)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "there is no %s: this build of Plait lacks the plug-in '%s' (%s and build again), or it lies "
                          "elsewhere: set PLAIT_PLUGINS to its folder",
                          path, plugin->name, plugin->remedy);
    if (plait_descriptors_hold_standard() != PLAIT_OK)
        return PLAIT_ERR_SYSTEM;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "cannot load %s: %s; install the libraries it was built with, or build Plait again", path,
                          dlerror());
    p = dlsym(handle, plugin->symbol);
    if (p == NULL || *p != plugin->abi) {
        dlclose(handle);
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s is not of this build of Plait; install both from one", path);
    }
    *out = p;
    return PLAIT_OK;
}

enum plait_status plait_plugin_load(const struct plait_plugin *plugin, const char *folder, const void **out)
{
    static struct sigaction before[NSIG]; /* under the lock: too large for a small stack */

    pthread_mutex_lock(&lock);
    for (int s = 1; s < NSIG; s++)
        sigaction(s, NULL, &before[s]); /* fails for the two signals that libc reserves */
    const enum plait_status status = load(plugin, folder, out);
    for (int s = 1; s < NSIG && (plugin->keep == NULL || getenv(plugin->keep) == NULL); s++)
        sigaction(s, &before[s], NULL);
    pthread_mutex_unlock(&lock);
    return status;
}

bool plait_plugin_open_net(const struct plait_net_plugin *plugin, const struct plait_net_options *o,
                           struct plait_net **out, char *why, size_t room)
{
    sigset_t all, saved;
    bool opened;

    if (plait_descriptors_hold_standard() != PLAIT_OK) { /* the program may have closed them since load() */
        snprintf(why, room, "%s", plait_last_error());
        return false;
    }
    pthread_mutex_lock(&lock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    opened = plugin->open(o, out, why, room);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_mutex_unlock(&lock);
    return opened;
}

/* ---- Files of users, and the plug-in that knows their form ------------------------------------------------------- */

enum plait_status plait_plugin_load_files(const char *name, const struct plait_files_plugin **out)
{
    struct plait_config config;
    const void *plugin;
    enum plait_status status = plait_config_load(&config);

    if (status == PLAIT_OK)
        status = plait_plugin_load(&plait_plugin_json, config.plugins, &plugin);
    if (status != PLAIT_OK)
        return plait_fail(status, "%s: %s", name, plait_error_of(status).text);
    *out = plugin;
    return PLAIT_OK;
}

/* A zero byte in it, which is no text, ends it and is counted. A FIFO without a writer is empty, and does not wait. */
enum plait_status plait_file_read(const char *path, char **text, size_t *bytes)
{
    FILE *f = plait_descriptor_stream(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), "r");
    size_t room = 1;

    if (f == NULL)
        return plait_fail_errno(errno, "%s", path);
    *text = calloc(1, room); /* stays so if the file is empty */
    errno = 0;
    const ssize_t n = getdelim(text, &room, '\0', f);
    const int error = n < 0 ? errno : 0;
    fclose(f);
    *bytes = n > 0 ? (size_t)n : 0;
    if (error == 0)
        return PLAIT_OK;
    free(*text);
    *text = NULL;
    return plait_fail_errno(error, "%s", path);
}

/* ---- Tunings ----------------------------------------------------------------------------------------------------- */

enum plait_status plait_tuning_load(const char *path, struct plait_tuning *out)
{
    const struct plait_files_plugin *plugin = NULL;
    enum plait_status status = plait_plugin_load_files(path, &plugin);
    char *text = NULL, why[1024];
    size_t bytes;

    if (status == PLAIT_OK)
        status = plait_file_read(path, &text, &bytes);
    if (status == PLAIT_OK && !plugin->read_tuning(&(struct plait_file){ path, text, bytes }, out, why, sizeof why))
        status = plait_fail(PLAIT_ERR_CONFIG, "%s", why);
    free(text);
    return status;
}

void plait_tuning_finish(struct plait_tuning *tuning)
{
    if (tuning == NULL)
        return;
    free(tuning->rows);
    tuning->rows = NULL;
    tuning->nrow = 0;
}
