/* SPDX-License-Identifier: BSD-3-Clause */
/* Hardware queues, which streams share: what waits at the head of one holds up all behind it. */
#include "standin.h"

#define MOST 32 /* of a device and priority, as drivers have */

struct hardware {
    uint64_t put, done; /* turns */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct hardware queues[DEVICES][2][MOST];
static uint64_t nstream[DEVICES][2]; /* so far */

static bool are_shared(void)
{
    return setting("PLAIT_STANDIN_QUEUES", 0) != 0;
}

static struct hardware *at(uint32_t hardware)
{
    return &queues[hardware / (2 * MOST)][hardware / MOST % 2][hardware % MOST];
}

uint32_t hardware_of_new(int device, int priority)
{
    const uint64_t asked = setting("CUDA_DEVICE_MAX_CONNECTIONS", 8), most = asked > 0 && asked < MOST ? asked : MOST;
    const uint32_t first = priority < 0;

    pthread_mutex_lock(&lock);
    const uint32_t k = (uint32_t)(nstream[device][first]++ % most);
    pthread_mutex_unlock(&lock);
    return ((uint32_t)device * 2 + first) * MOST + k;
}

uint64_t hardware_put(uint32_t hardware)
{
    pthread_mutex_lock(&lock);
    const uint64_t turn = at(hardware)->put++;
    pthread_mutex_unlock(&lock);
    return turn;
}

void hardware_await(uint32_t hardware, uint64_t turn)
{
    if (!are_shared())
        return;
    pthread_mutex_lock(&lock);
    while (at(hardware)->done != turn)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void hardware_done(uint32_t hardware)
{
    pthread_mutex_lock(&lock);
    at(hardware)->done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
