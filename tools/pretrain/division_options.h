/* The options for a training step, which pretrain and synth share. */
#ifndef TOOLS_DIVISION_OPTIONS_H
#define TOOLS_DIVISION_OPTIONS_H

#include "tools/pretrain/pretrain.h"

/* How the forward and backward passes compute. */
#define PASS_OPTIONS                                                                               \
    {"activation_recompute",                                                                       \
     CLI_CHOICE,                                                                                   \
     &pretrain_given.recompute,                                                                    \
     "none|selective|full|op",                                                                     \
     "activations to recompute in backward instead of saving them; op: all in a layer except the " \
     "outputs of attention and of every second matrix product",                                    \
     0,                                                                                            \
     0},                                                                                           \
    {                                                                                              \
        "loss", CLI_CHOICE, &pretrain_given.loss, "fused|unfused",                                 \
            "cross-entropy: one op that overwrites the logits with their gradient, or ops in f32 " \
            "with "                                                                                \
            "the buffers of PyTorch's cross_entropy",                                              \
            0, 0                                                                                   \
    }

/* How many rows the experts of a mixture get in runs without data. */
#define LOAD_OPTIONS                                                                         \
    {                                                                                        \
        "routing", CLI_TEXT, &pretrain_given.routing, "balanced|zipf:S,SEED|FILE",           \
            "meta: loads of experts: all the same, by Zipf's law with exponent S, or a CSV " \
            "file with a line of weights for each layer with experts, or one line for all "  \
            "[balanced]",                                                                    \
            0, 0                                                                             \
    }

/* How training balances the experts of a mixture. */
#define ROUTER_OPTIONS                                                                             \
    {"capacity",                                                                                   \
     CLI_REAL,                                                                                     \
     &pretrain_given.capacity,                                                                     \
     "F",                                                                                          \
     "give each expert F times the mean number of tokens from each rank: its first tokens, and "   \
     "padding if it has fewer; default: all its tokens, without padding",                          \
     1e-6,                                                                                         \
     1e6},                                                                                         \
        {"moe_aux_loss_coeff",                                                                     \
         CLI_REAL,                                                                                 \
         &pretrain_given.aux_coefficient,                                                          \
         "F",                                                                                      \
         "add F times the auxiliary loss of each router, which balances the load of the experts; " \
         "default: router_aux_loss_coef of a config.json with output_router_logits, otherwise 0",  \
         0,                                                                                        \
         1e6},                                                                                     \
        {"moe_z_loss_coeff",                                                                       \
         CLI_REAL,                                                                                 \
         &pretrain_given.z_coefficient,                                                            \
         "F",                                                                                      \
         "add F times the z-loss of each router, which keeps its logits small",                    \
         0,                                                                                        \
         1e6},                                                                                     \
    {                                                                                              \
        "moe_router_bias_update_rate", CLI_REAL, &pretrain_given.bias_rate, "F",                   \
            "after each step, change the routers' biases by F: up for experts with less than "     \
            "the mean load, down for the others",                                                  \
            0, 1e6                                                                                 \
    }

#define DIVISION_OPTIONS                                                                           \
    {"tp", CLI_INT, &pretrain_given.tp, "N", "tensor-parallel size", 1, 65536},                    \
        {"sp",                                                                                     \
         CLI_FLAG,                                                                                 \
         &pretrain_given.parallel.sp,                                                              \
         NULL,                                                                                     \
         "sequence parallelism: tensor-parallel ranks divide the tokens between sharded layers",   \
         0,                                                                                        \
         0},                                                                                       \
        {"sp_keep",                                                                                \
         CLI_FLAG,                                                                                 \
         &pretrain_given.sp_keep,                                                                  \
         NULL,                                                                                     \
         "save gathered activations for backward instead of gathering them again",                 \
         0,                                                                                        \
         0},                                                                                       \
        {"cp",                                                                                     \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.cp,                                                              \
         "N",                                                                                      \
         "context parallelism: N ranks share the tokens of each sequence [1]",                     \
         1,                                                                                        \
         65536},                                                                                   \
        {"cp_comm",                                                                                \
         CLI_CHOICE,                                                                               \
         &pretrain_given.parallel.cp_comm,                                                         \
         "p2p|all_gather|a2a|a2a+p2p",                                                             \
         "how these ranks get each other's keys and values: messages around a ring, all-gathers, " \
         "all-to-alls of heads, or all-to-alls in groups and a ring of groups",                    \
         0,                                                                                        \
         0},                                                                                       \
        {"cp_a2a",                                                                                 \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.cp_a2a,                                                          \
         "N",                                                                                      \
         "a2a+p2p: number of neighbouring ranks that exchange heads",                              \
         1,                                                                                        \
         65536},                                                                                   \
        {"ep",                                                                                     \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.ep,                                                              \
         "N",                                                                                      \
         "expert parallelism: N of the tp x cp x dp ranks of a stage share the experts of each "   \
         "layer [1]",                                                                              \
         1,                                                                                        \
         65536},                                                                                   \
        {"moe_dispatcher",                                                                         \
         CLI_CHOICE,                                                                               \
         &pretrain_given.dispatcher,                                                               \
         "alltoall|allgather|deepep",                                                              \
         "--ep: send a token once per expert, send all tokens to all ranks (default of synth "     \
         "--phase), or (meta) send a token once per rank and node, as DeepEP does",                \
         0,                                                                                        \
         0},                                                                                       \
        {"moe_dispatch_fp8",                                                                       \
         CLI_FLAG,                                                                                 \
         &pretrain_given.dispatch_fp8,                                                             \
         NULL,                                                                                     \
         "deepep: send tokens in 8-bit floats with a scale per 128 elements; results return in "   \
         "--dtype",                                                                                \
         0,                                                                                        \
         0},                                                                                       \
        {"overlap_a2a",                                                                            \
         CLI_FLAG,                                                                                 \
         &pretrain_given.overlap_a2a,                                                              \
         NULL,                                                                                     \
         "meta: run each forward pass beside the backward pass before it, or with dualpipe "       \
         "beside the other of its pair, so that the collectives of experts overlap computation",   \
         0,                                                                                        \
         0},                                                                                       \
        {"etp",                                                                                    \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.etp,                                                             \
         "N",                                                                                      \
         "number of ranks that share each expert; without --ep: 1 or --tp; default: 1 with --ep, " \
         "otherwise --tp",                                                                         \
         1,                                                                                        \
         65536},                                                                                   \
        {"pp", CLI_INT, &pretrain_given.parallel.pp, "N", "pipeline stages [1]", 1, 65536},        \
        {"schedule",                                                                               \
         CLI_CHOICE,                                                                               \
         &pretrain_given.parallel.schedule,                                                        \
         "1f1b|gpipe|interleaved|zb-h1|dualpipe",                                                  \
         "order of the microbatches in a pipeline; default: interleaved with --vp, otherwise "     \
         "1f1b",                                                                                   \
         0,                                                                                        \
         0},                                                                                       \
        {"vp",                                                                                     \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.vp,                                                              \
         "N",                                                                                      \
         "chunks of layers per pipeline stage, for the interleaved schedule [1]",                  \
         1,                                                                                        \
         65535},                                                                                   \
        {"microbatch_group",                                                                       \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.microbatch_group,                                                \
         "N",                                                                                      \
         "interleaved schedule: consecutive microbatches of a chunk; default: the number of "      \
         "stages",                                                                                 \
         1,                                                                                        \
         1e6},                                                                                     \
        {"layers_per_stage",                                                                       \
         CLI_TEXT,                                                                                 \
         &pretrain_given.division.layers,                                                          \
         "N,N,...",                                                                                \
         "layers of each pipeline stage, such as 7,8,8,7; with --vp, of each chunk: first the "    \
         "first "                                                                                  \
         "chunks of all stages, then the second ones, ...; default: the same number",              \
         0,                                                                                        \
         0},                                                                                       \
        {"count_embedding",                                                                        \
         CLI_FLAG,                                                                                 \
         &pretrain_given.division.count_embedding,                                                 \
         NULL,                                                                                     \
         "count the embedding as a layer, so that the first stage has one layer fewer",            \
         0,                                                                                        \
         0},                                                                                       \
        {"count_loss",                                                                             \
         CLI_FLAG,                                                                                 \
         &pretrain_given.division.count_loss,                                                      \
         NULL,                                                                                     \
         "count the head and the loss as a layer, so that the last stage has one layer fewer",     \
         0,                                                                                        \
         0},                                                                                       \
        {"layout",                                                                                 \
         CLI_TEXT,                                                                                 \
         &pretrain_given.division.layout,                                                          \
         "STRING",                                                                                 \
         "what each stage or chunk has, as in Megatron-LM: E embedding, t layer, m layer for "     \
         "multi-token prediction, L loss, | next stage, "                                          \
         "x*N and (...)*N repeat; example for 30 layers and --pp 4: Et*7|(t*8|)*2t*7L",            \
         0,                                                                                        \
         0},                                                                                       \
        {"mtp",                                                                                    \
         CLI_INT,                                                                                  \
         &pretrain_given.division.mtp,                                                             \
         "N",                                                                                      \
         "layers for multi-token prediction, at the end of the last stage",                        \
         0,                                                                                        \
         64},                                                                                      \
        {"rank_order",                                                                             \
         CLI_TEXT,                                                                                 \
         &pretrain_given.parallel.rank_order,                                                      \
         "ORDER",                                                                                  \
         "which ranks are neighbours: ranks of the first axis are consecutive, as in Megatron-LM " \
         "[tp-dp-pp]",                                                                             \
         0,                                                                                        \
         0},                                                                                       \
        {"zero",                                                                                   \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.zero,                                                            \
         "0|1|2|3",                                                                                \
         "ZeRO stage: data-parallel ranks divide the optimizer state (1), also the gradients "     \
         "(2), and "                                                                               \
         "also the parameters (3, as FSDP)",                                                       \
         0,                                                                                        \
         3},                                                                                       \
        {"hsdp",                                                                                   \
         CLI_INT,                                                                                  \
         &pretrain_given.parallel.hsdp,                                                            \
         "K",                                                                                      \
         "ZeRO 3: groups of K data-parallel ranks divide the state, and the groups have copies "   \
         "of it "                                                                                  \
         "(hybrid sharding); default: all ranks divide it",                                        \
         2,                                                                                        \
         65536},                                                                                   \
        {"no_reshard",                                                                             \
         CLI_FLAG,                                                                                 \
         &pretrain_given.no_reshard,                                                               \
         NULL,                                                                                     \
         "ZeRO 3: keep parameters gathered between the forward and the backward pass",             \
         0,                                                                                        \
         0},                                                                                       \
        {"buckets",                                                                                \
         CLI_CHOICE,                                                                               \
         &pretrain_given.buckets,                                                                  \
         "pytorch|megatron|none",                                                                  \
         "how gradients are grouped into collectives of data-parallel ranks: in buckets of 25 "    \
         "MiB, of "                                                                                \
         "at least 40 million elements, or all in one",                                            \
         0,                                                                                        \
         0},                                                                                       \
    {                                                                                              \
        "reduce_dtype", CLI_CHOICE, &pretrain_given.reduce_dtype, "f32|bf16",                      \
            "dtype in which gradients are summed over ranks; bf16 halves the bytes, but rounds "   \
            "the "                                                                                 \
            "gradients",                                                                           \
            0, 0                                                                                   \
    }

#endif
