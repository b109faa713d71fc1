/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays a timeline of plait-train over a ring of bare sockets: the limit with which a step's exposed communication
 * is compared. By hand, on hosts of tools/hosts, with what tools/trace_tail.py --schedule wrote:
 *
 *     plait-hosts 2 --link 1gbit -- train_link_bench SCHEDULE TRACE [STEPS]
 *
 * Each host computes as long as plait-train did. Buckets are cut into slices; of each slice
 * a block goes to the next host when the bucket's last gradient is there, and one more for each that came from the one before,
 * 2 (P - 1) in all. One thread sends, in the buckets' order, as fast as the socket takes it; one receives. Nothing is packed or
 * added. TRACE.0, TRACE.1 and so on are what happened, as --trace has it; tools/trace_tail.py reads them together.
 *
 * SCHEDULE: a line with the milliseconds from the end of a step to the next one's first gradient, and a line for each bucket: its
 * bytes, and the milliseconds from then on until it is ready.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 29555, MOST_BUCKETS = 1024, MOST_SLICES = 65536, SLICE = 1 << 19, FLOATS = 1 << 19 };

struct bucket {
    size_t bytes;
    double at;           /* ms */
    double ready, taken; /* in this step */
    uint32_t first, n;   /* slices */
    uint32_t missing;    /* blocks that have not come */
};

struct slice {
    uint32_t bucket;
    size_t block;        /* bytes */
    uint32_t sent, came; /* blocks of this step */
};

static struct {
    struct bucket buckets[MOST_BUCKETS];
    struct slice slices[MOST_SLICES];
    uint32_t n, nslice, nstep, nblock; /* blocks of a slice that travel */
    uint32_t nready, missing, unsent; /* of this step: buckets; buckets that have not come; blocks that have not gone */
    uint64_t left;                    /* blocks to be sent, in all */
    double before;                    /* ms, the first gradient */
    int to, from;                     /* sockets */
    pthread_mutex_t lock;
    pthread_cond_t news;
} b = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(bool done, const char *what)
{
    if (done)
        return;
    fprintf(stderr, "train_link_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- the network ---- */

static int begin_listening(void)
{
    const struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    must(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(fd, (const void *)&here, sizeof here) == 0 && listen(fd, 1) == 0, "listening");
    return fd;
}

static int connect_to(unsigned host)
{
    const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    char name[16], port[16];
    int fd = -1;

    snprintf(name, sizeof name, "host%u", host);
    snprintf(port, sizeof port, "%d", PORT);
    must(getaddrinfo(name, port, &hints, &found) == 0, name);
    for (int tries = 0; tries < 500 && fd < 0; tries++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
            break;
        close(fd);
        fd = -1;
        usleep(20000);
    }
    must(fd >= 0, name);
    freeaddrinfo(found);
    return fd;
}

static void give(const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = send(b.to, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        must(n > 0, "sending");
        done += (size_t)n;
    }
}

static void take(void *data, size_t bytes)
{
    must(recv(b.from, data, bytes, MSG_WAITALL) == (ssize_t)bytes, "receiving");
}

/* The first of which a block may go; NULL: none. */
static struct slice *find(void)
{
    for (uint32_t k = 0; k < b.nslice; k++)
        if (b.slices[k].bucket < b.nready && b.slices[k].sent < b.nblock && b.slices[k].sent <= b.slices[k].came)
            return &b.slices[k];
    return NULL;
}

static void *send_all(void *memory)
{
    for (struct slice *s; b.left > 0; b.left--) {
        pthread_mutex_lock(&b.lock);
        while ((s = find()) == NULL)
            pthread_cond_wait(&b.news, &b.lock);
        s->sent++;
        pthread_mutex_unlock(&b.lock);
        const uint32_t number = (uint32_t)(s - b.slices);
        give(&number, sizeof number);
        give(memory, s->block);
        pthread_mutex_lock(&b.lock);
        b.unsent--;
        pthread_cond_broadcast(&b.news);
        pthread_mutex_unlock(&b.lock);
    }
    return NULL;
}

static void *take_all(void *memory)
{
    for (uint64_t k = 0; k < (uint64_t)b.nstep * b.nslice * b.nblock; k++) {
        uint32_t number;
        take(&number, sizeof number);
        struct slice *s = &b.slices[number];
        struct bucket *bucket = &b.buckets[s->bucket];
        take(memory, s->block);
        pthread_mutex_lock(&b.lock);
        s->came++;
        if (--bucket->missing == 0) {
            bucket->taken = now();
            b.missing--;
        }
        pthread_cond_broadcast(&b.news);
        pthread_mutex_unlock(&b.lock);
    }
    return NULL;
}

/* ---- computing ---- */

static float *operands;
static double unit; /* ms of one, while all hosts compute */

static void compute_once(void)
{
    for (size_t i = 0; i < FLOATS; i++)
        operands[i] += operands[FLOATS + i];
    __asm__ volatile("" : : "r"(operands) : "memory");
}

static void compute(double ms)
{
    for (double done = 0; done < ms; done += unit)
        compute_once();
}

static void calibrate(void)
{
    const double begin = now();
    unsigned n = 0;

    while (now() < begin + 1) {
        compute_once();
        n++;
    }
    unit = 1e3 / n;
}

static void reset(void)
{
    b.nready = 0;
    b.missing = b.n;
    b.unsent = b.nslice * b.nblock;
    for (uint32_t k = 0; k < b.nslice; k++)
        b.slices[k].sent = b.slices[k].came = 0;
    for (uint32_t k = 0; k < b.n; k++)
        b.buckets[k].missing = b.buckets[k].n * b.nblock;
}

static void step(void)
{
    double at = 0;

    compute(b.before);
    for (uint32_t k = 0; k < b.n; k++) {
        compute(b.buckets[k].at - at);
        at = b.buckets[k].at;
        pthread_mutex_lock(&b.lock);
        b.buckets[k].ready = now();
        b.nready++;
        pthread_cond_broadcast(&b.news);
        pthread_mutex_unlock(&b.lock);
    }
    pthread_mutex_lock(&b.lock);
    while (b.missing > 0 || b.unsent > 0)
        pthread_cond_wait(&b.news, &b.lock);
    pthread_mutex_unlock(&b.lock);
}

/* ---- what is read and written ---- */

static void cut(uint32_t k, unsigned nhost)
{
    struct bucket *u = &b.buckets[k];

    u->n = (uint32_t)((u->bytes + SLICE - 1) / SLICE);
    u->first = b.nslice;
    must(b.nslice + u->n <= MOST_SLICES, "too many slices");
    for (uint32_t i = 0; i < u->n; i++)
        b.slices[b.nslice++] = (struct slice){ .bucket = k, .block = u->bytes / u->n / nhost };
}

static void read_schedule(const char *path, unsigned nhost)
{
    FILE *f = fopen(path, "r");

    must(f != NULL, path);
    must(fscanf(f, "%lf", &b.before) == 1, path);
    for (; b.n < MOST_BUCKETS && fscanf(f, "%zu %lf", &b.buckets[b.n].bytes, &b.buckets[b.n].at) == 2; b.n++)
        cut(b.n, nhost);
    b.nblock = 2 * (nhost - 1);
    b.left = (uint64_t)b.nstep * b.nslice * b.nblock;
    fclose(f);
}

/* As plait_fusion_trace() writes it, with one tensor in each bucket. */
static void write_step(FILE *f, unsigned host)
{
    for (uint32_t k = 0; k < b.n; k++) {
        const struct bucket *u = &b.buckets[k];
        fprintf(
            f,
            "{\"ph\":\"X\",\"pid\":%u,\"tid\":0,\"name\":\"tensor\",\"ts\":%.3f,\"dur\":0,\"args\":{\"bucket\":%u}},\n",
            host, u->ready * 1e6, k);
        fprintf(f,
                "{\"ph\":\"X\",\"pid\":%u,\"tid\":1,\"name\":\"bucket %u\",\"ts\":%.3f,\"dur\":%.3f,"
                "\"args\":{\"bucket\":%u,\"tensors\":1,\"bytes\":%zu}},\n",
                host, k, u->ready * 1e6, (u->taken - u->ready) * 1e6, k, u->bytes);
    }
}

int main(int argc, char **argv)
{
    const char *index = getenv("HOST_INDEX"), *count = getenv("HOST_COUNT");
    const unsigned host = index != NULL ? (unsigned)atoi(index) : 0, nhost = count != NULL ? (unsigned)atoi(count) : 0;
    pthread_t sender, taker;
    char path[4096];
    FILE *trace;

    if (argc < 3 || nhost < 2) {
        fprintf(stderr, "usage: plait-hosts N --link RATE -- train_link_bench SCHEDULE TRACE [STEPS]\n");
        return 2;
    }
    b.nstep = argc > 3 ? (uint32_t)atoi(argv[3]) : 20;
    read_schedule(argv[1], nhost);
    snprintf(path, sizeof path, "%s.%u", argv[2], host);
    trace = fopen(path, "w");
    must(trace != NULL, path);
    operands = calloc(2 * FLOATS, sizeof *operands);
    void *memory[2] = { calloc(1, SLICE), calloc(1, SLICE) };
    must(operands != NULL && memory[0] != NULL && memory[1] != NULL, "memory");
    const int listening = begin_listening();
    b.to = connect_to((host + 1) % nhost);
    b.from = accept(listening, NULL, NULL);
    must(b.from >= 0, "accept");
    calibrate();
    must(pthread_create(&sender, NULL, send_all, memory[0]) == 0 &&
             pthread_create(&taker, NULL, take_all, memory[1]) == 0,
         "threads");
    fprintf(trace,
            "{\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"ready\"}},\n"
            "{\"ph\":\"M\",\"pid\":%u,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"transfer\"}},\n",
            host, host);
    for (uint32_t k = 0; k < b.nstep; k++) {
        reset();
        step();
        write_step(trace, host);
    }
    fprintf(trace, "{\"ph\":\"M\",\"pid\":%u,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"end\"}}]}\n",
            host);
    pthread_join(sender, NULL);
    pthread_join(taker, NULL);
    return fclose(trace) == 0 ? 0 : 1;
}
