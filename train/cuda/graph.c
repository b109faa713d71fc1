/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA graphs by capture of the device's stream. The capture is this thread's alone: threads that decode images, and
 * the library's, may allocate meanwhile. The driver copies the arguments of kernels. cuBLAS has a workspace of ours;
 * without it each graph would have an allocation.
 */
#include "cuda.h"

#include "../../cuda/driver.h"

#include "allocate.h"

#include <stdlib.h>

struct device_graph {
    void *made; /* the executable graph */
    struct device_graph *next;
};

static _Thread_local bool recording;

const char *cuda_graph_remedy(void)
{
    return recording ? ", while a CUDA graph was recorded: use --no-graph" : "";
}

static void must(int status, const char *call)
{
    if (status == DRIVER_OUT_OF_MEMORY)
        cuda_must(plait_cuda_say("%s: the GPU has no memory left for CUDA graphs: use --no-graph, or a smaller --micro",
                                 call));
    if (status != DRIVER_OK)
        cuda_must(plait_cuda_say("%s: use --no-graph", plait_cuda_why(status, call)));
}

void cuda_record_begin(struct device *device)
{
    must(plait_cuda.capture_begin(device->stream, DRIVER_CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
    recording = true;
}

struct device_graph *cuda_record_end(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    struct device_graph *graph = allocate(1, sizeof *graph);
    void *captured = NULL;

    recording = false;
    must(plait_cuda.capture_end(device->stream, &captured), "cuStreamEndCapture");
    must(plait_cuda.graph_make(&graph->made, captured, 0), "cuGraphInstantiateWithFlags");
    must(plait_cuda.graph_destroy(captured), "cuGraphDestroy");
    graph->next = cuda->graphs;
    return cuda->graphs = graph;
}

void cuda_replay(struct device *device, const struct device_graph *graph)
{
    const int status = plait_cuda.graph_launch(graph->made, device->stream);

    if (status != DRIVER_OK)
        cuda_must(plait_cuda_say("%s: a graph or earlier work on the GPU failed; --no-graph tells which",
                                 plait_cuda_why(status, "cuGraphLaunch")));
}

void cuda_graphs_destroy(struct cuda *cuda)
{
    while (cuda->graphs != NULL) {
        struct device_graph *next = cuda->graphs->next;

        plait_cuda.graph_drop(cuda->graphs->made);
        free(cuda->graphs);
        cuda->graphs = next;
    }
}
