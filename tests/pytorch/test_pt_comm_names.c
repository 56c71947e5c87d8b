/* Tests the tables of names: which ops and kernels communicate and how, and the sizes of element
   types. Also tests how tensors are read from the values of a host node. The names are those that
   PyTorch and the libraries use in their sources. */
#include "export/pytorch/read/pt_kernel_names.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_tensors.h"
#include "tests/support/test.h"

#define TENSOR(elems, bytes) "[1,2,0," elems "," bytes ",\"cuda:0\"]"

static int kind_of(const char *name) {
    return syn__pt_call_kind(syn__str_of(name));
}

/* The names that ProcessGroupNCCL, ProcessGroupGloo, the c10d dispatcher and functional collectives
   write in PyTorch 1.13 to 2.15. kind: a value of CollectiveCommType in et_def.proto, or
   SYN__PT_CALL_... */
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
          "_c10d_functional::all_gather_into_tensor_out", "all_gather_single_coalesced"}},
        {3,
         {"gather", "c10d::gather_", "nccl:gather", "c10d::gather_into_tensor_",
          "nccl:gather_single"}},
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
        {SYN__PT_CALL_SEND,
         {"send", "nccl:send 0->1", "c10d::send", "gloo:send", "isend", "_c10d_functional::isend"}},
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
}

static syn__pt_kernel_library library_of(const char *name) {
    return syn__pt_kernel_library_of(syn__str_of(name));
}

static void test_nccl_kernels(void) {
    static const char *const names[] = {
        "ncclDevKernel_Generic",
        "void rcclKernel<4>",
        "NCCL_kernel",
        "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32(ncclSymkDevWorkArgs4K)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "mscclKernel_Sum_half_LL_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "_Z23ncclDevKernel_AllGather24ncclDevKernelArgsStorageILm4096EE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_MSG(library_of(names[i]) == SYN__PT_KERNEL_OF_NCCL, "%s", names[i]);
}

/* Kernels of libraries whose calls PyTorch does not record, with the names in their sources. Those
   of DeepEP are also from DeepSeek's published traces. The libraries are: DeepEP, MORI,
   Triton-distributed, Iris, PyTorch's symmetric memory, vLLM, SGLang, AITER, quickreduce,
   TensorRT-LLM, FlashInfer, Transformer Engine, MSCCL++, Flux, NVSHMEM, NCCL EP, NIXL, Mooncake,
   MagiAttention, turbomind, llama.cpp, ExLlamaV3. */
static void test_other_kernels(void) {
    static const struct {
        int kind;
        const char *names[24];
    } rows[] = {
        {SYN__PT_CALL_ALL_REDUCE,
         {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)",
          "void vllm::cross_device_reduce_2stage<half, 8>(vllm::RankData*, vllm::RankSignals)",
          "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 4>(sglang::RankData*)",
          "void aiter::cross_device_reduce_2stage_naive<__hip_bfloat16, 8>(aiter::RankData*)",
          "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, "
          "CodecQ4<__half,4>, true>, __half>(__half const*, __half*)",
          "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8, true>(AllRed)",
          "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
          "(flashinfer::AllReduceFusionPattern)1, __nv_bfloat16, 8, false>(AllReduceFusionParams)",
          "void moefinalize_allreduce_fusion_kernel_oneshot_lamport<half>(Params)",
          "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, half>(half*)",
          "void (anonymous namespace)::two_shot_all_reduce_kernel<float, 8>(float**)",
          "void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)",
          "void (anonymous namespace)::multimem_all_reduce_kernel<float, 16>(float*)",
          "multimem_one_shot_all_reduce_kernel<4>(x)",
          "void mscclpp::collective::allreducePacket<float>(float*)",
          "userbuffers_fp16_sum_inplace_gpu_rr",
          "persistent_all_reduce_two_shot",
          "ReduceScatterAllGatherFusedKernel_f32",
          "void rdxn_on_stream_kernel<float, 0>(int)",
          "nvshmemi_reduce_kernel",
          "void aiter::ar_ll_gfx1250<half, 8>(half*)",
          "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataE.kd",
          "void ggml_cuda_ar_kernel<float, __nv_bfloat16>(float const*, float*)"}},
        {SYN__PT_CALL_ALL_TO_ALL,
         {"void deep_ep::internode::dispatch<false, 4>(int4*)",
          "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4>(__nv_bfloat16*)",
          "void deep_ep::internode_ll::dispatch_opt1_hidden6144<1, false>(void*, void*)",
          "void deep_ep::intranode::notify_dispatch<8>(int const*, int*)",
          "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*)",
          "void deep_ep::elastic::hybrid_dispatch_impl<8>(ncclDevComm, ncclWindow_vidmem*)",
          "_ZN7deep_ep9internode8dispatchILb0ELi4EEEvP4int4",
          "nvshmem_alltoall_kernel",
          "void alltoall_on_stream_kernel<long, 2>(int, long*, long const*, unsigned long)",
          "c10d::nvshmem_extension::exchangeSplitAndOffset(long*, int, int)",
          "c10d::nvshmem_extension::allToAllV(void*, void*, long*, unsigned long, int, int)",
          "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<4>(Params)",
          "EpDispatchIntraNodeKernel_bf16",
          "all_to_all_v_2d_kernel",
          "a2a_single_kernel",
          "kernel_dispatch_token_intra_node",
          "kuserbuffers_pushsendrecv",
          "void nixl_ep::ht::dispatch<false, 8>(int4*)",
          "void nccl_ep::hybridep::combine<(int)7168>(nccl_ep::Params)",
          "void mooncake::dispatch<true, 3, 10, 7168>(void*, float*)",
          "void magi_attn_comm::grpcoll::intranode::group_cast_kernel<8>(int*)",
          "void tensorrt_llm::kernels::fusedMoeCommKernel<true>(FusedMoeFieldInfo)"}},
        {SYN__PT_CALL_ALL_GATHER,
         {"void (anonymous namespace)::multimem_all_gather_kernel<16>(char*)",
          "void vllm::cross_device_all_gather<8>(vllm::RankData*)", "fcollect_on_stream_kernel",
          "nvshmem_device_producer_all_gather_2d_put_block_kernel", "persistent_all_gather",
          "void aiter::allgather_lastdim<half, 8>(aiter::RankData*)",
          "userbuffers_fp16_sum_inplace_gpu_rr_ag"}},
        {SYN__PT_CALL_REDUCE_SCATTER,
         {"void vllm::cross_device_reduce_scatter<half, 8>(vllm::RankData*)",
          "reducescatter_on_stream_kernel", "userbuffers_fp16_sum_inplace_gpu_mc_rs_oop",
          "void aiter::reduce_scatter_split_lastdim<half, 8>(half*)"}},
        {SYN__PT_CALL_BARRIER,
         {"void deep_ep::internode::cached_notify<false>(int, int)",
          "void deep_ep::intranode::barrier<8>(int**, int)", "barrier_all_intra_node_kernel",
          "void barrier_on_stream_kernel_threadgroup<2>(int, int)", "CudaIpcBarrierAllKernel",
          "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)"}},
        {SYN__PT_CALL_REDUCE,
         {"void (anonymous namespace)::multimem_one_shot_reduce_kernel<float, 16>(float*)"}},
        {SYN__PT_CALL_GATHER, {"void pg_gather_kernel<true>(PGContext*)"}},
        {SYN__PT_CALL_BROADCAST,
         {"void broadcast_on_stream_kernel<long, 1>(int, long*)",
          "void turbomind::comm::Broadcast_NVLS_V2<uint4, bool>(uint4 const*)",
          "void pg_broadcast_kernel<true, uint4>(PGContext*)"}},
        {SYN__PT_CALL_SEND,
         {"c10d::symmetric_memory::put_signal_kernel(unsigned int**, int, int, int, int)",
          "nvshmemi_proxy_rma_entrypoint(void*, void*)", "kuserbuffers_pushsend",
          "c10d::nccl_extension::lsa_put_kernel(void**, int, unsigned long, void const*)"}},
        {SYN__PT_CALL_RECV,
         {"c10d::symmetric_memory::wait_signal_kernel(unsigned int**, int, int, int, int)",
          "nvshmemi_signal_wait_until_on_stream_kernel(unsigned long volatile*, int, long)"}},
        {SYN__PT_CALL_UNKNOWN, {"void mscclpp::executionKernel<half>(int, half*)"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < 24 && rows[i].names[j] != NULL; j++)
            CHECK_MSG(library_of(rows[i].names[j]) == SYN__PT_KERNEL_OF_OTHER &&
                          kernel_of(rows[i].names[j]) == rows[i].kind,
                      "%s: %d", rows[i].names[j], kernel_of(rows[i].names[j]));
    }
}

/* Kernels that do not communicate although their names are similar, and truncated names. */
static void test_compute_kernels(void) {
    static const char *const names[] = {
        "",
        "void",
        "ncc",
        "(",
        "<",
        "_Z",
        "_ZN",
        "_ZN99x",
        "::",
        "vectorized_elementwise_kernel",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum_functor>>(float)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 4, foo>(int, foo)",
        "void cub::CUB_200700_900_NS::DeviceReduceSingleTileKernel<BlockAllReduce>(int*)",
        "void cub::DeviceScanKernel<cub::DispatchScan<int*, int*>, allgather>(int*)",
        "void at_cuda_detail::cub::DeviceScanKernel<cub::DeviceScanPolicy<long>>(long*)",
        "block_all_reduce_sum_f32_f32_kernel(float*, float*, int)",
        "void softmax_warpAllReduce<float>(float*)",
        "small_gather_kernel",
        "smallReduceKernel",
        "void cutlass::device_kernel<AllGatherGemm<1>>(Params)",
        "persistent_gemm_all_reduce",
        "fused_moe_kernel",
        "void vllm::moe::moe_align_block_size_kernel<int>(int*)",
        "void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        "triton_poi_fused_all_reduce_0",
        "triton_red_fused_all_gather_into_tensor_mul_3",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
        "void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*)",
        "void deep_ep::elastic::combine_reduce_epilogue_impl<8>(__nv_bfloat16*)",
        "void deep_ep::elastic::dispatch_deterministic_prologue_impl<8>(long*)",
        "void nixl_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
        "void at::native::step::combine(float*)",
        "deepep_permute_triton_kernel",
        "_fwd_kernel_ep_gather",
        "void tensorrt_llm::kernels::moe_alltoall::moeA2APrepareDispatchKernel(int*)",
        "void moe_combine<half>(half*)",
        "dispatch_scan",
        "flash_fwd_splitkv_combine_kernel",
        "void splitKreduce_kernel<32, 16, int, float>(float*)",
        "argmax_kernel",
        "__amd_rocclr_fillBufferAligned",
        "nvshmemi_init_array_kernel"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_MSG(library_of(names[i]) == SYN__PT_KERNEL_COMPUTES, "%s", names[i]);
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
    {"nccl_kernels", test_nccl_kernels},
    {"other_kernels", test_other_kernels},
    {"compute_kernels", test_compute_kernels},
    {"types", test_types},
    {"tensors", test_tensors},
};

TEST_MAIN(cases)
