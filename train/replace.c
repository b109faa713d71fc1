/* SPDX-License-Identifier: BSD-3-Clause */
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void failed(struct replace *r, const char *doing)
{
    if (r->error == 0) {
        r->error = errno;
        r->doing = doing;
    }
}

static size_t folder_length(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Unique among processes, hosts that share process numbers, and threads. */
static void open_temporary(struct replace *r)
{
    static atomic_uint count;
    const size_t folder = folder_length(r->path);

    do {
        const int n = snprintf(r->temporary, sizeof r->temporary, "%.*s.%s.%d-%u" REPLACE_SUFFIX, (int)folder, r->path,
                               r->path + folder, (int)getpid(), atomic_fetch_add(&count, 1));
        if (n < 0 || (size_t)n >= sizeof r->temporary) {
            errno = ENAMETOOLONG;
            break;
        }
        r->fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    } while (r->fd < 0 && errno == EEXIST);
    if (r->fd < 0)
        failed(r, "open a file beside it");
}

void replace_begin(struct replace *r, const char *path)
{
    *r = (struct replace){ .fd = -1 };
    if (snprintf(r->path, sizeof r->path, "%s", path) >= (int)sizeof r->path) {
        errno = ENAMETOOLONG;
        failed(r, "open it");
        return;
    }
    open_temporary(r);
}

void replace_write(struct replace *r, const void *data, size_t bytes)
{
    const char *at = data;

    while (r->error == 0 && bytes > 0) {
        const ssize_t n = write(r->fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            failed(r, "write");
            return;
        }
        at += n;
        bytes -= (size_t)n;
    }
}

/* The new name is on the disk once the folder is synced. */
static void sync_folder(struct replace *r)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%.*s", (int)folder_length(r->path), r->path);
    const int fd = open(folder[0] == '\0' ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some network file systems cannot sync folders, and need not. */
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP))
        failed(r, "sync the folder of");
    if (fd >= 0)
        close(fd);
}

bool replace_end(struct replace *r)
{
    if (r->error == 0 && fsync(r->fd) != 0)
        failed(r, "sync");
    if (r->fd >= 0 && close(r->fd) != 0)
        failed(r, "close");
    if (r->error == 0) {
        if (rename(r->temporary, r->path) == 0) {
            sync_folder(r);
            return r->error == 0;
        }
        failed(r, "rename to");
    }
    if (r->fd >= 0)
        unlink(r->temporary);
    return false;
}

const char *replace_remedy(int error)
{
    static const struct {
        int error;
        const char *text;
    } remedies[] = {
        { ENOSPC, "; free some space there" },
        { EDQUOT, "; free some of your quota there" },
        { EFBIG, "; raise the limit of file sizes (ulimit -f)" },
        { EACCES, "; name a folder that you may write" },
        { EPERM, "; name a folder that you may write" },
        { EROFS, "; name a folder that can be written" },
        { ENOENT, "; make the folder first" },
        { ENOTDIR, "; name a folder" },
        { EIO, "; the disk or the network to it fails: name another folder" },
    };

    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (remedies[i].error == error)
            return remedies[i].text;
    return "";
}
