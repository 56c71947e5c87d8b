# Finds NVIDIA's toolkit: nvcc, the runtime, cuBLASLt, and NCCL's header (needed for several
# devices). SYN_CUDA=AUTO: use the toolkit if found; ON: fail if it is not found; OFF: do not
# search. With SYN_SANITIZE, AUTO means OFF: sanitizers do not check kernels, which take minutes to
# compile.

# Library sources that are compiled into the module a second time, because it shares no symbol with
# the program. They have no global state.
set(SYN_MODULE_CORE syntorch/base/clock.c syntorch/base/memory.c syntorch/base/status.c
  syntorch/base/types.c)
list(TRANSFORM SYN_MODULE_CORE PREPEND ${CMAKE_SOURCE_DIR}/)

include(${CMAKE_CURRENT_LIST_DIR}/SynCudaArchitectures.cmake)
set(SYN_CUDA_OLDEST 12.0) # toolkit
set(found_cuda OFF)
if(NOT SYN_CUDA STREQUAL "OFF" AND NOT (SYN_SANITIZE AND SYN_CUDA STREQUAL "AUTO"))
  include(CheckLanguage)
  check_language(CUDA)
  set(nvcc "")
  if(CMAKE_CUDA_COMPILER) # get its version first; it may not support the architectures below
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc ERROR_QUIET)
    string(REGEX MATCH "release ([0-9.]+)" nvcc "${nvcc}")
    set(nvcc ${CMAKE_MATCH_1})
  endif()
  if(nvcc AND nvcc VERSION_LESS SYN_CUDA_OLDEST)
    if(SYN_CUDA STREQUAL "ON")
      message(FATAL_ERROR "SYN_CUDA=ON needs NVIDIA's toolkit ${SYN_CUDA_OLDEST} or newer; "
        "${CMAKE_CUDA_COMPILER} is ${nvcc}")
    endif()
    message(STATUS "NVIDIA's toolkit ${nvcc} is older than ${SYN_CUDA_OLDEST}: not used")
  elseif(nvcc)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      syn_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    if(TARGET CUDA::cudart_static AND TARGET CUDA::cublasLt)
      set(found_cuda ON)
    endif()
  endif()
endif()
if(found_cuda)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_TARGET_DIR}/lib)
endif()
set(label "CUDA")
if(found_cuda AND NCCL_INCLUDE)
  set(label "CUDA with NCCL")
endif()
syn_use(CUDA "${label}" "no --device cuda" ${found_cuda})
set(SYN_CUDA_FOUND ${found_cuda} CACHE INTERNAL "whether there is a target syntorch_cuda") # for dev

# syn_cuda_module(target): sets the compile and link options of the CUDA module.
function(syn_cuda_module target)
  set_target_properties(${target} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    CUDA_RUNTIME_LIBRARY Static)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE SYN_VERSION="${PROJECT_VERSION}"
    _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra -lineinfo
      $<$<BOOL:${SYN_WERROR}>:-Werror=all-warnings>>)
  target_link_libraries(${target} PRIVATE CUDA::cublasLt Threads::Threads)
  target_link_options(${target} PRIVATE -Wl,--no-undefined
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/ops/cuda/module.map)
  # Search libraries in the module's folder and where they are now. NCCL is loaded by name.
  set(rpath "$ORIGIN")
  if(NCCL_INCLUDE)
    target_include_directories(${target} PRIVATE ${NCCL_INCLUDE})
    target_compile_definitions(${target} PRIVATE SYN_HAVE_NCCL)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    if(NCCL_LIBRARY)
      get_filename_component(folder ${NCCL_LIBRARY} DIRECTORY)
      list(APPEND rpath ${folder})
    endif()
  endif()
  set_target_properties(${target} PROPERTIES BUILD_RPATH "${rpath}" INSTALL_RPATH "${rpath}"
    INSTALL_RPATH_USE_LINK_PATH ON)
endfunction()
