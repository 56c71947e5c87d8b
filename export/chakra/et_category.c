#include "export/chakra/et_graph.h"

/* The first keyword within the op's name decides, so the more special ones come first. */
syn_category syn__et_category(const char *op) {
    static const struct {
        const char *part;
        syn_category category;
    } known[] = {
        {"attention", SYN_CATEGORY_ATTENTION},  {"attn", SYN_CATEGORY_ATTENTION},
        {"embedding", SYN_CATEGORY_EMBEDDING},  {"norm", SYN_CATEGORY_NORM},
        {"linear", SYN_CATEGORY_MATMUL},        {"matmul", SYN_CATEGORY_MATMUL},
        {"gemm", SYN_CATEGORY_MATMUL},          {"addmm", SYN_CATEGORY_MATMUL},
        {"::mm", SYN_CATEGORY_MATMUL},          {"::bmm", SYN_CATEGORY_MATMUL},
        {"conv", SYN_CATEGORY_MATMUL},          {"nccl", SYN_CATEGORY_COMMUNICATION},
        {"softmax", SYN_CATEGORY_REDUCTION},    {"entropy", SYN_CATEGORY_REDUCTION},
        {"argmax", SYN_CATEGORY_REDUCTION},     {"sum", SYN_CATEGORY_REDUCTION},
        {"mean", SYN_CATEGORY_REDUCTION},       {"reduce", SYN_CATEGORY_REDUCTION},
        {"dropout", SYN_CATEGORY_RANDOM},       {"rand", SYN_CATEGORY_RANDOM},
        {"sample", SYN_CATEGORY_RANDOM},        {"view", SYN_CATEGORY_VIEW},
        {"reshape", SYN_CATEGORY_VIEW},         {"transpose", SYN_CATEGORY_VIEW},
        {"slice", SYN_CATEGORY_VIEW},           {"copy", SYN_CATEGORY_DATA_MOVEMENT},
        {"concat", SYN_CATEGORY_DATA_MOVEMENT}, {"Memcpy", SYN_CATEGORY_DATA_MOVEMENT},
        {"append", SYN_CATEGORY_DATA_MOVEMENT}, {"gather", SYN_CATEGORY_DATA_MOVEMENT},
        {"gelu", SYN_CATEGORY_ELEMENTWISE},     {"relu", SYN_CATEGORY_ELEMENTWISE},
        {"add", SYN_CATEGORY_ELEMENTWISE},      {"mul", SYN_CATEGORY_ELEMENTWISE},
        {"scale", SYN_CATEGORY_ELEMENTWISE},    {"adamw", SYN_CATEGORY_ELEMENTWISE},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strstr(op, known[i].part) != NULL) return known[i].category;
    }
    return SYN_CATEGORY_OTHER;
}
