/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room memory: memory that other processes of this host read, mappings of those processes' memory, and the kind of
 * device that this process uses, with the streams of its caller.
 *
 * The arena is one sparse memfd per process, as large as main memory but empty. Pages are committed by an
 * allocation and returned to the system when freed. Other processes map the arena read-only and pull from it.
 * Everything that peers may read is allocated here: control blocks, staging buffers, slots of TMP, plait_mem_alloc().
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

struct plait_token { /* 128 random bits that identify a process on all hosts */
    uint64_t word[2];
};

static inline bool plait_is_same_token(struct plait_token a, struct plait_token b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/*
 * The start of every arena, for tools that read it from outside (tools/dump_arena.c). It identifies the arena and heads
 * the list of shown blocks. Offsets count from the start of the arena; 0 is none.
 */
#define PLAIT_ARENA_MAGIC  "plait\r\n"
#define PLAIT_ARENA_LAYOUT 6 /* rises with every change of the structs that tools/dump_arena.c reads and asserts */

struct plait_arena_header {
    char magic[8];    /* PLAIT_ARENA_MAGIC */
    uint32_t layout;  /* PLAIT_ARENA_LAYOUT */
    int32_t pid;      /* tells a process from its forked child, which has the same descriptors */
    char version[16]; /* of the library */
    struct plait_token token;
    _Atomic uint64_t first; /* shown block */
    uint64_t base;          /* the arena's address in its process */
};

struct plait_shown { /* first member of every shown block */
    _Atomic uint64_t next;
};

/* This process's arena. */
struct plait_arena {
    char *base;
    size_t size;
    int fd; /* read-only, for peers */
    struct plait_token token;
};

/* The arena. The first call makes it, as large as PLAIT_ARENA says; it lives as long as the process. */
enum plait_status plait_arena_get(const struct plait_arena **out);

/* Zeroed, page aligned, committed. PLAIT_ERR_NOMEM when the arena is full or memory is short. Thread-safe. */
enum plait_status plait_arena_alloc(size_t bytes, void **out);

/* Give the pages back. NULL is allowed. False when `p` was not allocated here. */
bool plait_arena_free(void *p);

/* Bytes that are allocated; for tests. */
size_t plait_arena_used(void);

/* Add a block to the list in the arena's header; remove it, if it is there. Thread-safe. */
void plait_arena_show(struct plait_shown *block);
void plait_arena_hide(struct plait_shown *block);

/* Is all of [p, p+bytes) in this process's arena? */
bool plait_arena_contains(const void *p, size_t bytes);

/* The offset of `p`, which lies in this process's arena. */
uint64_t plait_arena_offset(const void *p);

/* ---- Other processes' arenas -------------------------------------------------------------------- */

/* A process whose arena is mapped here, shared by all comms. */
struct plait_process {
    struct plait_token token;
    const char *base; /* read-only mapping; NULL for this process itself */
    size_t size;
    int pid, pidfd; /* pidfd: polls readable once the process is dead; -1 for this process */
    unsigned refs;
    struct plait_process *next;
};

/*
 * Map a process's arena, or take one more reference to it. The descriptors stay the caller's. fd may be -1 if
 * the process is known to be mapped. Release with plait_process_put().
 */
enum plait_status plait_process_get(struct plait_token token, int pid, size_t size, int fd, int pidfd,
                                    struct plait_process **out);
void plait_process_put(struct plait_process *process);

/* The memory at this offset of a process's arena, or of this process's own. */
const void *plait_process_at(const struct plait_process *process, uint64_t offset);

/* Has the process ended? One system call. */
bool plait_process_dead(const struct plait_process *process);

/*
 * Copy memory of another process, at `address` in that process, by process_vm_readv(). Returns 0 or an errno. ESRCH
 * also means that the pid has been reused, or that the process has executed another program. Leaves errno unchanged.
 */
int plait_process_read(const struct plait_process *process, uint64_t address, void *to, size_t bytes);

#endif
