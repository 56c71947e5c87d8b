/* Streams, events and graphs of the emulated device. */
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "tests/emulation/emulated.h"

/* ---- streams ---- */

/* A thread that waits for a stream runs the stream's work itself. If no thread waits, the stream's
   own thread runs the work after 1 ms, or when MUCH items are queued. Work is therefore done as
   late as on a busy device, with few thread switches. The thread of a lazy stream works only if a
   caller polls the stream. */
enum { MUCH = 64 };

struct emulated_stream {
    std::mutex lock;
    std::condition_variable asked, changed;
    std::deque<emulated_work> work;
    bool busy = false, closed = false;
    bool lazy = false;
    bool hurried = false; /* a caller is polling whether the work is done */
    int device = 0;
    emulated_graph *capture = NULL; /* only the capturing thread uses this, so it needs no lock */
    std::thread thread;

    /* Runs one item of work, or waits until another thread has run one. */
    void advance(std::unique_lock<std::mutex> *hold) {
        if (busy) {
            changed.wait(*hold);
            return;
        }
        emulated_work next = std::move(work.front());
        work.pop_front();
        busy = true;
        hold->unlock();
        next();
        next = nullptr;
        hold->lock();
        busy = false;
        changed.notify_all();
    }

    /* Makes the stream's thread begin immediately. */
    void hurry() {
        std::lock_guard<std::mutex> hold(lock);
        if (hurried || work.empty()) return;
        hurried = true;
        asked.notify_one();
    }

    template <typename F> void wait_until(F done) {
        std::unique_lock<std::mutex> hold(lock);
        while (!done()) advance(&hold);
    }

    void wait() {
        wait_until([this] { return work.empty() && !busy; });
    }

    void run() {
        std::unique_lock<std::mutex> hold(lock);
        while (!closed || !work.empty()) {
            if (work.empty() || (lazy && !closed && !hurried)) asked.wait(hold);
            else if (!closed && !hurried && work.size() < MUCH)
                asked.wait_for(hold, std::chrono::milliseconds(1));
            if (!work.empty() && (!lazy || closed || hurried)) advance(&hold);
            if (work.empty()) hurried = false;
        }
    }
};

static std::mutex streams_lock;
/* The streams are shared pointers, because a thread may wait for a stream while another thread
   destroys it. */
static std::map<emulated_stream *, std::shared_ptr<emulated_stream>> streams;

/* Work of the NULL stream runs immediately, after all other streams have become idle. */
cudaError_t emulated_ask(cudaStream_t stream, emulated_work work) {
    if (!stream) {
        emulated_wait_all();
        work();
        return cudaSuccess;
    }
    if (stream->capture) {
        emulated_graph *graph = stream->capture;
        graph->nodes.push_back(std::make_shared<emulated_graph_node>());
        graph->nodes.back()->work = std::move(work);
        graph->newest = graph->nodes.back().get();
        return cudaSuccess;
    }
    std::lock_guard<std::mutex> hold(stream->lock);
    stream->work.push_back(std::move(work));
    if (stream->work.size() == 1 || stream->work.size() == MUCH) stream->asked.notify_one();
    return cudaSuccess;
}

/* The thread's current capture; NULL if there is none, or if its mode is relaxed. */
static thread_local emulated_graph *strict;

cudaError_t emulated_unsafe() {
    if (!strict) return cudaSuccess;
    strict->failed = true;
    return emulated_fail(cudaErrorStreamCaptureUnsupported);
}

void emulated_wait_all() {
    std::map<emulated_stream *, std::shared_ptr<emulated_stream>> all;
    {
        std::lock_guard<std::mutex> hold(streams_lock);
        all = streams;
    }
    const int device = emulated_device();
    for (const auto &stream : all)
        if (stream.first->device == device) stream.first->wait();
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    EMULATED_ENTER();
    const auto s = std::make_shared<emulated_stream>();
    emulated_stream *at = s.get();
    s->device = emulated_device();
    s->lazy = getenv("SYN_EMULATED_LAZY") != NULL;
    s->thread = std::thread([at] { at->run(); });
    std::lock_guard<std::mutex> hold(streams_lock);
    streams[at] = s;
    *stream = at;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    EMULATED_ENTER();
    (void)flags;
    return cudaStreamCreate(stream);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    EMULATED_ENTER();
    (void)flags, (void)priority;
    return cudaStreamCreate(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    EMULATED_ENTER_ANYHOW(code);
    std::shared_ptr<emulated_stream> held;
    {
        std::lock_guard<std::mutex> hold(streams_lock);
        held = streams[stream];
        streams.erase(stream);
    }
    {
        std::lock_guard<std::mutex> hold(stream->lock);
        stream->closed = true;
        stream->asked.notify_one();
    }
    stream->thread.join();
    if (strict == stream->capture) strict = NULL;
    delete stream->capture;
    stream->capture = NULL;
    return code;
}

/* Sleeps for the microseconds in a variable of the environment. */
static void be_late(const char *variable) {
    const char *us = getenv(variable);
    if (us) std::this_thread::sleep_for(std::chrono::microseconds(atoi(us)));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    EMULATED_ENTER();
    if (!stream) emulated_wait_all();
    else if (stream->capture) return emulated_fail(cudaErrorStreamCaptureUnsupported);
    else stream->wait();
    emulated_check_guards();
    be_late("SYN_EMULATED_LATE_SYNC_US");
    EMULATED_ENTER_AS("the end of cudaStreamSynchronize");
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    EMULATED_ENTER();
    if (emulated_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    {
        std::lock_guard<std::mutex> hold(stream->lock);
        if (stream->work.empty() && !stream->busy) return cudaSuccess;
    }
    stream->hurry();
    return emulated_fail(cudaErrorNotReady);
}

/* ---- events ---- */

/* A position in a stream. An event refers to the position at which it was last recorded. */
struct place {
    emulated_stream *stream; /* the stream exists at least until it reaches this position */
    std::atomic<bool> done;
    double ms = 0;

    explicit place(emulated_stream *in) : stream(in), done(false) {}

    void reach() {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        ms = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
        done = true;
    }

    void wait() {
        if (!done) stream->wait_until([this] { return (bool)done; });
    }
};

struct emulated_event {
    std::mutex lock;
    std::shared_ptr<place> at; /* NULL if the event was never recorded */
    bool timed = true;
};

static std::shared_ptr<place> place_of(cudaEvent_t event) {
    std::lock_guard<std::mutex> hold(event->lock);
    return event->at;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    EMULATED_ENTER();
    *event = new emulated_event;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    EMULATED_ENTER();
    *event = new emulated_event;
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    EMULATED_ENTER_ANYHOW(code);
    delete event;
    return code;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    EMULATED_ENTER();
    if (stream && stream->capture) return emulated_fail(cudaErrorStreamCaptureUnsupported);
    std::shared_ptr<place> here = std::make_shared<place>(stream);
    {
        std::lock_guard<std::mutex> hold(event->lock);
        event->at = here;
    }
    return emulated_ask(stream, [here] { here->reach(); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    EMULATED_ENTER();
    (void)flags;
    if (stream && stream->capture) return emulated_fail(cudaErrorStreamCaptureUnsupported);
    const std::shared_ptr<place> there = place_of(event);
    return there ? emulated_ask(stream, [there] { there->wait(); }) : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    EMULATED_ENTER();
    if (emulated_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    const std::shared_ptr<place> there = place_of(event);
    if (there) there->wait();
    static thread_local unsigned calls;
    if (there && calls++ % 2 == 0) be_late("SYN_EMULATED_LATE_US");
    EMULATED_ENTER_AS("the end of cudaEventSynchronize");
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    EMULATED_ENTER();
    if (emulated_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    const std::shared_ptr<place> there = place_of(event);
    if (!there) return cudaSuccess;
    if (there->done) return cudaSuccess;
    there->stream->hurry();
    return emulated_fail(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    EMULATED_ENTER();
    const std::shared_ptr<place> a = place_of(from), b = place_of(to);
    if (!a || !b || !from->timed || !to->timed) return emulated_fail(cudaErrorInvalidValue);
    if (!a->done || !b->done) return cudaErrorNotReady;
    *ms = (float)(b->ms - a->ms);
    return cudaSuccess;
}

/* ---- launches ---- */

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
    EMULATED_ENTER();
    cudaError_t code = cudaSuccess;
    auto launch = std::make_shared<emulated_launch>();
    if (!emulated_make_launch(launch.get(), kernel, grid, block, arguments, shared, &code))
        return emulated_fail(code);
    if (!stream || !stream->capture)
        return emulated_ask(stream, [launch] { emulated_run(*launch); });
    emulated_graph *graph = stream->capture;
    graph->nodes.push_back(std::make_shared<emulated_graph_node>());
    graph->nodes.back()->launch = *launch;
    graph->newest = graph->nodes.back().get();
    return cudaSuccess;
}

/* ---- graphs ---- */

struct emulated_graph_exec {
    /* The nodes of the graph from which this was created. */
    std::vector<const emulated_graph_node *> names;
    std::vector<std::shared_ptr<const emulated_graph_node>> nodes;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    EMULATED_ENTER();
    static std::atomic<unsigned long long> id;
    if (stream->capture) return emulated_fail(cudaErrorInvalidValue);
    stream->capture = new emulated_graph;
    stream->capture->newest = NULL;
    stream->capture->id = ++id;
    stream->capture->failed = false;
    if (mode != cudaStreamCaptureModeRelaxed) strict = stream->capture;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    EMULATED_ENTER();
    *graph = stream->capture;
    stream->capture = NULL;
    if (!*graph) return emulated_fail(cudaErrorInvalidValue);
    if (strict == *graph) strict = NULL;
    if (!(*graph)->failed) return cudaSuccess;
    delete *graph;
    *graph = NULL;
    return emulated_fail(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    EMULATED_ENTER();
    *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **newest,
                                     const cudaGraphEdgeData **edges, size_t *n) {
    EMULATED_ENTER();
    emulated_graph *capture = stream->capture;
    *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (!capture) return cudaSuccess;
    if (id) *id = capture->id;
    if (graph) *graph = capture;
    if (newest) *newest = &capture->newest;
    if (edges) *edges = NULL;
    if (n) *n = capture->newest ? 1 : 0;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n) {
    EMULATED_ENTER();
    for (size_t i = 0; nodes && i < *n && i < graph->nodes.size(); i++)
        nodes[i] = graph->nodes[i].get();
    *n = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    EMULATED_ENTER();
    (void)flags;
    *exec = new emulated_graph_exec;
    for (const auto &node : graph->nodes) {
        (*exec)->names.push_back(node.get());
        (*exec)->nodes.push_back(node);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams *params) {
    EMULATED_ENTER();
    for (size_t i = 0; i < exec->names.size(); i++) {
        if (exec->names[i] != node) continue;
        if (node->work) return emulated_fail(cudaErrorInvalidValue);
        auto changed = std::make_shared<emulated_graph_node>();
        cudaError_t code = cudaSuccess;
        if (!emulated_make_launch(&changed->launch, params->func, params->gridDim, params->blockDim,
                                  params->kernelParams, params->sharedMemBytes, &code))
            return emulated_fail(code);
        exec->nodes[i] = changed; /* launches in flight still use the old node */
        return cudaSuccess;
    }
    return emulated_fail(cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    EMULATED_ENTER();
    const auto nodes = exec->nodes;
    return emulated_ask(stream, [nodes] {
        for (const auto &node : nodes)
            if (node->work) node->work();
            else emulated_run(node->launch);
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    EMULATED_ENTER_ANYHOW(code);
    delete graph;
    return code;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    EMULATED_ENTER_ANYHOW(code);
    delete exec;
    return code;
}
