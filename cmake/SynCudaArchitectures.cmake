# syn_cuda_architectures(variable): sets the default architectures for kernels. Each architecture
# takes minutes to compile, so the default is the architectures of this machine's GPUs, if
# nvidia-smi lists them (CMake's own "native" needs CMake 3.24). Otherwise it is 80, whose PTX newer
# GPUs can run. For releases, set more:
# -DCMAKE_CUDA_ARCHITECTURES="75-real;80-real;86-real;89-real;90".
function(syn_cuda_architectures out)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCHALL "[0-9]+[.][0-9]" capabilities "${capabilities}")
  set(found "")
  foreach(capability ${capabilities})
    string(REPLACE "." "" capability ${capability})
    if(capability GREATER_EQUAL 75)
      list(APPEND found ${capability})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES found)
  if(failed OR NOT found)
    set(found 80)
  endif()
  set(${out} ${found} PARENT_SCOPE)
endfunction()
