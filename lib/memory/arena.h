/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room memory: memory that other processes of this host read, those processes, and which device this process
 * uses.
 *
 * The arena is one sparse memfd per process, as large as main memory but empty. Pages come when they are allocated
 * and go back when they are freed. Other processes map it read-only and pull. Everything that peers may read is
 * allocated here: control blocks, staging buffers, slots of TMP, plait_mem_alloc().
 *
 * The room promises: only its owner writes an arena, so a rank that is late, stopped or dead cannot damage another
 * one's memory. No file system is involved, so nothing is left behind when a process is killed.
 *
 * It does not know communicators, plans or messages.
 */
#ifndef PLAIT_LIB_MEMORY_ARENA_H
#define PLAIT_LIB_MEMORY_ARENA_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_token { /* names a process among all that may ever meet; random */
    uint64_t word[2];
};

/*
 * The start of every arena, for readers from outside (dump.h): what it is, and a list of the blocks that are shown.
 * Offsets count from the start of the arena; 0 is none.
 */
#define PLAIT_ARENA_MAGIC  "plait\r\n"
#define PLAIT_ARENA_LAYOUT 2 /* raised with every change of what lib/failure/dump.c reads */

struct plait_arena_header {
    char magic[8];    /* PLAIT_ARENA_MAGIC */
    uint32_t layout;  /* PLAIT_ARENA_LAYOUT */
    int32_t pid;      /* a forked child has its parent's descriptors too */
    char version[16]; /* of the library */
    struct plait_token token;
    _Atomic uint64_t first; /* block */
    uint64_t base;          /* where its process maps it */
};

struct plait_shown { /* first member of a block that is shown */
    _Atomic uint64_t next;
};

/* This process's arena. */
struct plait_arena {
    char *base;
    size_t size;
    int fd; /* read-only, for peers */
    struct plait_token token;
};

/* The arena, made at the first call (of `bytes`; 0: main memory) and kept until the process ends. */
enum plait_status plait_arena_get(size_t bytes, const struct plait_arena **out);

/* Zeroed, page aligned, backed by memory. PLAIT_ERR_NOMEM when the arena is full or memory is short. Thread-safe. */
enum plait_status plait_arena_alloc(size_t bytes, void **out);

/* Give the pages back. NULL is allowed. False when `p` was not allocated here. */
bool plait_arena_free(void *p);

/* Bytes that are allocated; for tests. */
size_t plait_arena_used(void);

/* Put a block of this process's arena on the list of its header; take it off (unless it is not there). Thread-safe. */
void plait_arena_show(struct plait_shown *block);
void plait_arena_hide(struct plait_shown *block);

/* Is all of [p, p+bytes) in this process's arena? */
bool plait_arena_contains(const void *p, size_t bytes);

/*
 * Unmap it and close its descriptors, unless the caller still has memory in it (false); nobody else uses it any more.
 */
bool plait_arena_unload(void);

/* ---- Other processes' arenas -------------------------------------------------------------------- */

/* A process whose arena is mapped here, shared by all comms. */
struct plait_process {
    struct plait_token token;
    const char *base; /* read-only mapping; NULL for this process itself: offsets are addresses then */
    size_t size;
    int pid, pidfd; /* readable when the process is dead; -1 for this process */
    unsigned refs;
    struct plait_process *next;
};

/*
 * Map a process's arena, or take one more reference to it. The descriptors stay the caller's; fd may
 * be -1 when the process is known to be mapped. Release with plait_process_put().
 */
enum plait_status plait_process_get(struct plait_token token, int pid, size_t size, int fd, int pidfd,
                                    struct plait_process **out);
void plait_process_put(struct plait_process *process);

/* Has it ended? One system call. */
bool plait_process_dead(const struct plait_process *process);

/*
 * Copy another process's memory at `address` there through the kernel. 0, or an errno; ESRCH also when another process
 * has its number by now, or another program runs in it. errno stays as it is.
 */
int plait_process_read(const struct plait_process *process, uint64_t address, void *to, size_t bytes);

#endif
