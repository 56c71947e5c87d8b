/* Watchdog thread (comm_watchdog.h). */
#include "comm/comm_watchdog.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/thread.h"

#include <stdio.h>
#include <time.h>

struct syn__watchdog {
    syn__watchdog_options options;
    int32_t rank;
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    pthread_t thread;
    bool stop, inside; /* inside: the rank is in a call */
    syn__call_sig sig; /* the current call, entered at since_ns */
    uint64_t since_ns;
    double next_log_s; /* when to log next, in seconds since since_ns */
};

/* Describes a call in buf, such as "all_reduce #5 of group tp0", "recv(tag 3) from rank 1" or
   "close, ...". */
static void describe(const syn__call_sig *sig, char *buf, size_t buf_bytes) {
    const syn_comm_call *x = &sig->comm_call;
    const char *name = syn_comm_kind_name(x->kind);
    if (x->kind == SYN_COMM_NONE && x->group != NULL)
        snprintf(buf, buf_bytes, "opening group %.64s", x->group->name);
    else if (x->kind == SYN_COMM_NONE)
        snprintf(buf, buf_bytes, "close, for its messages to be received or other ranks to finish");
    else if (syn__is_message(x->kind))
        snprintf(buf, buf_bytes, "%s(tag %d) %s rank %d", name, (int)x->tag,
                 x->kind == SYN_COMM_SEND ? "to" : "from", (int)x->peer);
    else
        snprintf(buf, buf_bytes, "%s #%llu of group %.64s", name, (unsigned long long)sig->seq,
                 x->group->name);
}

/* Writes the message that must be logged after waited_s seconds in the call. Returns false if there
   is none. Sets *end to whether the job must be aborted. The caller holds the lock. */
static bool due(syn__watchdog *dog, double waited_s, bool *end, char *sentence, size_t bytes) {
    const syn__watchdog_options *o = &dog->options;
    char what[160];
    *end = o->abort_s > 0 && waited_s >= o->abort_s;
    if (!*end && (o->log_s <= 0 || waited_s < dog->next_log_s)) return false;
    describe(&dog->sig, what, sizeof what);
    snprintf(sentence, bytes, "rank %d has waited %.*f s in %s%s", (int)dog->rank,
             waited_s < 10 ? 1 : 0, waited_s, what, *end ? "; aborting the job" : "");
    dog->next_log_s *= 2;
    return true;
}

/* The monotonic clock's time in `ms` milliseconds. */
static struct timespec after_ms(long ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *watch(void *arg) {
    syn__watchdog *dog = arg;
    char sentence[256];
    pthread_mutex_lock(&dog->lock);
    while (!dog->stop) {
        const struct timespec until = after_ms(50);
        pthread_cond_timedwait(&dog->stopping, &dog->lock, &until);
        if (dog->stop || !dog->inside) continue;
        const double waited_s = (double)(syn__clock_ns() - dog->since_ns) * 1e-9;
        bool end = false;
        if (!due(dog, waited_s, &end, sentence, sizeof sentence)) continue;
        pthread_mutex_unlock(&dog->lock);
        if (dog->options.log != NULL) dog->options.log(dog->options.log_arg, sentence);
        if (end) dog->options.end_job();
        pthread_mutex_lock(&dog->lock);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

static void init_locks(syn__watchdog *dog) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&dog->stopping, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&dog->lock, NULL);
}

syn_status syn__watchdog_new(syn__watchdog **out, int32_t rank,
                             const syn__watchdog_options *options, syn_error *err) {
    *out = NULL;
    if (!(options->log_s > 0) && !(options->abort_s > 0)) return SYN_OK;
    syn__watchdog *dog = syn_calloc(1, sizeof *dog);
    if (dog == NULL) return SYN_FAIL_NOMEM(err, sizeof *dog, "a watchdog");
    dog->options = *options;
    dog->rank = rank;
    init_locks(dog);
    if (syn__thread_start(&dog->thread, watch, dog) != 0) {
        pthread_cond_destroy(&dog->stopping);
        pthread_mutex_destroy(&dog->lock);
        syn_free(dog);
        return SYN_FAIL(err, SYN_E_COMM, "the system cannot start the watchdog thread of rank %d",
                        (int)rank);
    }
    *out = dog;
    return SYN_OK;
}

void syn__watchdog_enter(syn__watchdog *dog, const syn__call_sig *sig) {
    if (dog == NULL) return;
    pthread_mutex_lock(&dog->lock);
    dog->inside = true;
    dog->sig = *sig;
    dog->since_ns = syn__clock_ns();
    dog->next_log_s = dog->options.log_s;
    pthread_mutex_unlock(&dog->lock);
}

void syn__watchdog_leave(syn__watchdog *dog) {
    if (dog == NULL) return;
    pthread_mutex_lock(&dog->lock);
    dog->inside = false;
    pthread_mutex_unlock(&dog->lock);
}

void syn__watchdog_free(syn__watchdog *dog) {
    if (dog == NULL) return;
    pthread_mutex_lock(&dog->lock);
    dog->stop = true;
    pthread_cond_signal(&dog->stopping);
    pthread_mutex_unlock(&dog->lock);
    pthread_join(dog->thread, NULL);
    pthread_cond_destroy(&dog->stopping);
    pthread_mutex_destroy(&dog->lock);
    syn_free(dog);
}
