/* Names of communications and element types, and values in tokens. */
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_tensors.h"
#include "tests/support/test.h"

#define TENSOR(elems, bytes) "[1,2,0," elems "," bytes ",\"cuda:0\"]"

static int kind_of(const char *name) {
    return syn__pt_call_kind(syn__str_of(name));
}

/* Names as ProcessGroupNCCL, ProcessGroupGloo, the c10d dispatcher and functional collectives of
   torch 1.13 to 2.15 write them; the values of CollectiveCommType are those of et_def.proto. */
static void test_names(void) {
    static const struct {
        int kind;
        const char *names[14];
    } rows[] = {
        {0,
         {"allreduce", "all_reduce", "nccl:all_reduce", "gloo:all_reduce", "c10d::allreduce_",
          "c10d::allreduce_coalesced_", "nccl:allreduce_coalesced", "gloo:sparse_all_reduce",
          "allreduce_sparse", "_c10d_functional::all_reduce", "c10d_functional::all_reduce"}},
        {1, {"reduce", "_reduce_oop", "nccl:_reduce_oop", "c10d::reduce_", "mpi:reduce"}},
        {2,
         {"all_gather", "_allgather_base", "nccl:_all_gather_base", "c10d::_allgather_base_",
          "c10d::allgather_", "c10d::allgather_coalesced_", "allgather_into_tensor_coalesced",
          "nccl:all_gather_into_tensor_coalesced", "c10d::allgather_into_tensor_coalesced_",
          "_c10d_functional::all_gather_into_tensor",
          "_c10d_functional::all_gather_into_tensor_out"}},
        {3, {"gather", "c10d::gather_", "nccl:gather"}},
        {4, {"scatter", "c10d::scatter_", "gloo:scatter"}},
        {5, {"broadcast", "_broadcast_oop", "nccl:_broadcast_oop", "c10d::broadcast_"}},
        {6,
         {"all_to_all", "all_to_allv", "nccl:all_to_all", "c10d::alltoall_", "c10d::alltoall_base_",
          "alltoall_base", "_c10d_functional::all_to_all_single"}},
        {7,
         {"reduce_scatter", "_reduce_scatter_base", "nccl:_reduce_scatter_base",
          "c10d::reduce_scatter_", "reduce_scatter_tensor_coalesced",
          "c10d::reduce_scatter_tensor_coalesced_", "_c10d_functional::reduce_scatter_tensor"}},
        {9, {"barrier", "c10d::barrier", "c10d::monitored_barrier_", "nccl:all_reduce_barrier"}},
        {SYN__PT_CALL_SEND, {"send", "nccl:send 0->1", "c10d::send", "gloo:send", "isend"}},
        {SYN__PT_CALL_RECV,
         {"recv", "nccl:recv 0<-1", "c10d::recv_", "c10d::recv_any_source_", "gloo:recvAnySource"}},
        {SYN__PT_CALL_NONE,
         {"wait", "init", "nccl:coalesced", "_c10d_functional::wait_tensor", "endCoalescing"}},
        {SYN__PT_CALL_UNKNOWN,
         {"", "allfoo", "reduced", "nccl:",
          "all_reduce_of_something_far_too_long"
          "_to_be_a_name_of_a_collective"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < 14 && rows[i].names[j] != NULL; j++)
            CHECK_MSG(kind_of(rows[i].names[j]) == rows[i].kind, "%s", rows[i].names[j]);
    }
}

static int kernel_of(const char *name) {
    return syn__pt_kernel_kind(syn__str_of(name));
}

static void test_kernel_names(void) {
    CHECK_INT(kernel_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)"), 0);
    CHECK_INT(kernel_of("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)"), 0);
    CHECK_INT(kernel_of("ncclDevKernel_Reduce_Sum_f32_RING_LL"), 1);
    CHECK_INT(kernel_of("ncclDevKernel_AllGather_RING_LL"), 2);
    CHECK_INT(kernel_of("ncclKernel_Broadcast_RING_LL_Sum_int8_t"), 5);
    CHECK_INT(kernel_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"), 7);
    CHECK_INT(kernel_of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
              SYN__PT_CALL_SEND);
    CHECK_INT(kernel_of("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"),
              SYN__PT_CALL_UNKNOWN);
    CHECK(syn__pt_is_nccl(syn__str_of("ncclDevKernel_Generic")));
    CHECK(syn__pt_is_nccl(syn__str_of("void rcclKernel<4>")));
    CHECK(syn__pt_is_nccl(syn__str_of("NCCL_kernel")));
    CHECK(!syn__pt_is_nccl(syn__str_of("vectorized_elementwise_kernel")));
    CHECK(!syn__pt_is_nccl(syn__str_of("ncc")));
}

static void test_types(void) {
    static const struct {
        const char *name;
        int64_t bytes;
    } rows[] = {{"Float", 4},
                {"BFloat16", 2},
                {"Half", 2},
                {"Double", 8},
                {"Long", 8},
                {"Int", 4},
                {"Short", 2},
                {"Char", 1},
                {"Byte", 1},
                {"Bool", 1},
                {"ComplexHalf", 4},
                {"ComplexFloat", 8},
                {"ComplexDouble", 16},
                {"Float8_e5m2", 1},
                {"Float8_e4m3fn", 1},
                {"Float8_e4m3fnuz", 1},
                {"Float8_e8m0fnu", 1},
                {"UInt16", 2},
                {"UInt64", 8},
                {"QInt32", 4},
                {"c10::BFloat16", 2},
                {"long int", 8},
                {"unsigned char", 1},
                {"float", 4},
                {"c10::Half", 2},
                {"Undefined", 0},
                {"", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_MSG(syn__pt_dtype_bytes(syn__str_of(rows[i].name)) == rows[i].bytes, "%s",
                  rows[i].name);
}

static void test_tensors(void) {
    static const struct {
        const char *value;
        int64_t bytes;
    } rows[] = {
        {TENSOR("10", "4"), 40},
        {"[" TENSOR("10", "4") "," TENSOR("3", "2") "]", 46},
        {"[[[" TENSOR("10", "4") "]]]", 40},
        {"[" TENSOR("10", "4") ", 33, [\"0\", \"default_pg\"], [1, 2, 3, 4, 5, 6]]", 40},
        {"[1, 2, 0, 10, 4, 'cpu']", 40},
        {"[1, 2, 0, 0, 4, \"cpu\"]", 0},
        {"[]", -1},
        {"", -1},
        {"\"<UNKNOWN>\"", -1},
        {"[\"<UNKNOWN>\", 3]", -1},
        {"[1, 2, 3, 4, 5, 6]", -1},
        {"[1, 2, 0, -10, 4, \"cpu\"]", -1},
        {"[1, 2, 0, 10, 4", -1},
        {"[1, 2, 0, 9223372036854775807, 8, \"cpu\"]", INT64_MAX},
        {"[[1, 2, 0, 9223372036854775807, 1, \"cpu\"], " TENSOR("10", "4") "]", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_MSG(syn__pt_tensor_bytes(syn__str_of(rows[i].value)) == rows[i].bytes, "%s",
                  rows[i].value);
}

static const test_case cases[] = {
    {"names", test_names},
    {"kernel_names", test_kernel_names},
    {"types", test_types},
    {"tensors", test_tensors},
};

TEST_MAIN(cases)
