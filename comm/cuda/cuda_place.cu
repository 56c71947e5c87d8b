/* Chooses the device of each rank. */
#include <stdlib.h>
#include <string.h>

#include "comm/cuda/cuda_comm.h"
#include "syntorch/base/memory.h"

enum { MAX_DEVICES = 64 };

/* The devices that a process sees, identified by their UUIDs, which are the same in every process.
   Host names and device numbers do not identify devices: containers on several machines may have
   the same name, and each rank may see only one device. */
typedef struct visible_devices {
    int32_t n;
    cudaUUID_t ids[MAX_DEVICES];
} visible_devices;

/* What rank 0 sends to each rank. */
typedef struct place {
    int32_t device;
    int32_t lacking, seen; /* lacking: the first rank that has no device for itself, or -1; seen:
                              how many devices that rank sees */
} place;

bool syn__cuda_sharing(void) {
    const char *text = getenv("SYNTORCH_CUDA_SHARED");
    return text && strcmp(text, "1") == 0;
}

static syn_status list_devices(int n_devices, visible_devices *out, syn_error *err) {
    struct cudaDeviceProp p;
    memset(out, 0, sizeof *out);
    out->n = n_devices < MAX_DEVICES ? n_devices : (int)MAX_DEVICES;
    for (int i = 0; i < out->n; i++) {
        SYN_CUDA(cudaGetDeviceProperties(&p, i), "looking at a device", err);
        out->ids[i] = p.uuid;
    }
    return SYN_OK;
}

/* How many of the first n ranks use this device. */
static int users(const visible_devices *visible, const place *places, int n, const cudaUUID_t *id) {
    int count = 0;
    for (int r = 0; r < n; r++)
        count += memcmp(&visible[r].ids[places[r].device], id, sizeof *id) == 0;
    return count;
}

/* Assigns each rank, in rank order, the first of its devices with the fewest users. */
static void choose_all(const visible_devices *visible, place *places, int size) {
    int lacking = -1;
    for (int r = 0; r < size; r++) {
        int fewest = INT32_MAX;
        for (int i = 0; i < visible[r].n && fewest > 0; i++) {
            const int n = users(visible, places, r, &visible[r].ids[i]);
            if (n >= fewest) continue;
            fewest = n;
            places[r].device = i;
        }
        if (fewest > 0 && lacking < 0) lacking = r;
    }
    for (int r = 0; r < size; r++) {
        places[r].lacking = lacking;
        places[r].seen = lacking < 0 ? 0 : visible[lacking].n;
    }
}

enum {
    VISIBLE_WORDS = sizeof(visible_devices) / sizeof(int32_t),
    PLACE_WORDS = sizeof(place) / sizeof(int32_t)
};

/* Rank 0: receives the devices of all ranks, chooses, and sends each rank its device. */
static syn_status distribute_devices(syn_comm *comm, visible_devices *visible, place *places,
                                     syn_error *err) {
    for (int r = 1; r < comm->size; r++)
        SYN_TRY(syn__cuda_host->recv(comm, &visible[r], VISIBLE_WORDS, SYN_I32, r,
                                     syn__cuda_tag(comm, SYN__CUDA_TAG_PLACE), err));
    choose_all(visible, places, comm->size);
    for (int r = 1; r < comm->size; r++)
        SYN_TRY(syn__cuda_host->send(comm, &places[r], PLACE_WORDS, SYN_I32, r,
                                     syn__cuda_tag(comm, SYN__CUDA_TAG_PLACE), err));
    return SYN_OK;
}

static syn_status gather(syn_comm *comm, const visible_devices *mine, place *out, syn_error *err) {
    const size_t n = (size_t)comm->size;
    visible_devices *visible = static_cast<visible_devices *>(syn_calloc(n, sizeof *visible));
    place *places = static_cast<place *>(syn_calloc(n, sizeof *places));
    syn_status s = SYN_OK;
    if (!visible || !places) {
        s = SYN_FAIL_NOMEM(err, n * sizeof *visible, "the devices of ranks");
    } else {
        visible[0] = *mine;
        s = distribute_devices(comm, visible, places, err);
        *out = places[0];
    }
    syn_free(visible);
    syn_free(places);
    return s;
}

/* Chooses the device if the ranks are in several processes. */
static syn_status find_place(syn_comm *comm, int n_devices, place *out, syn_error *err) {
    visible_devices mine;
    SYN_TRY(list_devices(n_devices, &mine, err));
    if (comm->rank == 0) return gather(comm, &mine, out, err);
    SYN_TRY(syn__cuda_host->send(comm, &mine, VISIBLE_WORDS, SYN_I32, 0,
                                 syn__cuda_tag(comm, SYN__CUDA_TAG_PLACE), err));
    return syn__cuda_host->recv(comm, out, PLACE_WORDS, SYN_I32, 0,
                                syn__cuda_tag(comm, SYN__CUDA_TAG_PLACE), err);
}

syn_status syn__cuda_choose_device(syn_comm *comm, int n_devices, int *device, syn_error *err) {
    static const char shared[] = "set SYNTORCH_CUDA_SHARED=1 to let ranks share a device";
    const int size = comm ? (int)comm->size : 1, rank = comm ? (int)comm->rank : 0;
    *device = rank % n_devices;
    if (size > 1 && !comm->ops->in_process) {
        place at = {};
        SYN_TRY(find_place(comm, n_devices, &at, err));
        *device = at.device;
        if (at.lacking < 0 || syn__cuda_sharing()) return SYN_OK;
        return SYN_FAIL(err, SYN_E_INVALID,
                        "rank %d has no CUDA device of its own: other ranks use the %d that it "
                        "sees (CUDA_VISIBLE_DEVICES may hide some); %s",
                        (int)at.lacking, (int)at.seen, shared);
    }
    if (size <= n_devices || syn__cuda_sharing()) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "%d ranks need %d CUDA devices, but this machine has %d; %s", size, size,
                    n_devices, shared);
}
