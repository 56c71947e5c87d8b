/* A binary heap of numbers, whose smallest number is removed first. */
#ifndef EXPORT_PT_SIM_HEAP_H
#define EXPORT_PT_SIM_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct syn__pt_sim_heap {
    uint32_t *at; /* elements at[1] to at[n]; at[0] is not used */
    size_t n;
} syn__pt_sim_heap;

static inline void syn__pt_sim_push(syn__pt_sim_heap *h, uint32_t value) {
    size_t i = ++h->n;
    for (; i > 1 && h->at[i / 2] > value; i /= 2) h->at[i] = h->at[i / 2];
    h->at[i] = value;
}

static inline uint32_t syn__pt_sim_pop(syn__pt_sim_heap *h) {
    const uint32_t least = h->at[1], moved = h->at[h->n--];
    size_t i = 1;
    while (2 * i <= h->n) {
        size_t child = 2 * i;
        if (child < h->n && h->at[child + 1] < h->at[child]) child++;
        if (h->at[child] >= moved) break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = moved;
    return least;
}

#endif
