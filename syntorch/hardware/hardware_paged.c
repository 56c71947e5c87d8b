/* Predicts the time of attention with a paged KV cache (paged_attention), as FlashAttention 2
   computes it in vLLM. docs/hardware.md derives the formulas. Separate from hardware_predict.c,
   because the sequences of a step differ in length, so that the longest one may determine the
   time. */
#include <math.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

#define QUERIES    64.0 /* queries of a tile */
#define MAX_SPLITS 128
/* FlashAttention does not split the keys of a sequence if there are this many work items per
   multiprocessor. */
#define UNSPLIT 1.6

bool syn__is_paged(const syn_node *node) {
    return strcmp(node->op, "paged_attention") == 0;
}

double syn__hardware_longer(const syn_stack *stack, double a, double b) {
    return fmax(a, b) + stack->exposed * fmin(a, b);
}

/* The part of all multiprocessors' slots, two each, that is busy with this many work items. */
static double busy(double items, double multiprocessors) {
    const double waves = items / (2 * multiprocessors);
    return waves / ceil(waves);
}

/* The number of parts into which each sequence's keys are divided, so that few work items occupy
   all multiprocessors: FlashAttention's num_splits_heuristic. */
static double splits_of(double items, double multiprocessors) {
    double best = 0;
    if (items >= UNSPLIT * multiprocessors) return 1;
    for (int n = 1; n <= MAX_SPLITS; n++) best = fmax(best, busy(items * n, multiprocessors));
    for (int n = 1; n < MAX_SPLITS; n++)
        if (busy(items * n, multiprocessors) >= 0.85 * best) return n;
    return MAX_SPLITS;
}

/* One query per sequence. The heads that share keys are one work item, which reads the keys and
   values of a sequence once, at a multiprocessor's share of the memory bandwidth. */
static double decode_ns(const syn_hardware *hw, const syn_node *node) {
    const syn_extents *e = &node->extents;
    const double each = 2 * (double)e->inner * (double)syn_dtype_bytes(node->dtype),
                 rate = hw->memory_bytes_per_ns * hw->stack.memory_efficiency,
                 parts = hw->multiprocessors, all = (double)node->bytes_read;
    const double mean = (double)e->columns / (double)e->sequences;
    const double splits = splits_of(fmax(all / (each * mean), 1), parts);
    const double longest = each * (double)e->longest / splits;
    return syn__hardware_longer(&hw->stack, all / rate, longest * parts / rate);
}

/* With several queries in some sequence, each tile of 64 queries of a head is a work item, also for
   sequences with one query. Each sequence has as many tiles as the one with the most queries; the
   surplus tiles are empty. */
static double mixed_ns(const syn_hardware *hw, const syn_node *node, double rate) {
    const syn_stack *stack = &hw->stack;
    const syn_extents *e = &node->extents;
    const double heads = (double)e->batch, n = (double)e->sequences, parts = hw->multiprocessors;
    const double row = heads * (double)e->inner * (double)syn_dtype_bytes(node->dtype);
    const double queries = fmax((double)node->bytes_written / row, n);
    const double tiles = heads * (n + (queries - n) / QUERIES),
                 grid = heads * n * ceil((double)e->rows / QUERIES);
    const double key_ns = QUERIES * 4 * (double)e->inner * parts / rate;
    const double all = tiles * stack->tile_ns + fmax(grid - tiles, 0) * stack->empty_tile_ns +
                       heads * (double)e->columns * key_ns;
    return syn__hardware_longer(stack, all / parts, stack->tile_ns + (double)e->longest * key_ns);
}

double syn__hardware_paged_ns(const syn_hardware *hw, const syn_node *node, double rate) {
    const syn_extents *e = &node->extents;
    const bool known = e->sequences > 0 && e->columns > 0 && e->inner > 0 && e->batch > 0;
    if (!known || hw->multiprocessors <= 0) return (double)node->flops / rate;
    return e->rows > 1 ? mixed_ns(hw, node, rate) : hw->stack.tile_ns + decode_ns(hw, node);
}
