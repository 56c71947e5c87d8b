# cmake -D SOURCE=... -D TO=... -P SynHeaders.cmake: writes the public headers, which are those with
# SYN_API_BEGIN, as they are installed, all below one folder: TO/syntorch/context.h,
# TO/syntorch/ops/ops.h. TO/syntorch/syntorch.h includes them all.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/syntorch/*.h ${SOURCE}/ops/*.h
  ${SOURCE}/comm/*.h ${SOURCE}/models/*.h ${SOURCE}/export/*.h)
file(REMOVE_RECURSE ${TO}/syntorch)

# publish(header text): writes a header with the include paths of an installation.
function(publish header text)
  string(REGEX REPLACE "(ops|comm|models|export)/([a-z0-9_/]+[.](h|def))" "syntorch/\\1/\\2"
    text "${text}")
  string(REGEX REPLACE "^syntorch/" "" inside ${header})
  file(WRITE ${TO}/syntorch/${inside} "${text}")
endfunction()

foreach(header ${headers})
  file(READ ${SOURCE}/${header} text)
  if(text MATCHES "\nSYN_API_BEGIN\n")
    publish(${header} "${text}")
    string(APPEND all "#include \"${header}\"\n")
  endif()
endforeach()
file(READ ${SOURCE}/ops/ops.def text) # a public header includes it
publish(ops/ops.def "${text}")
publish(syntorch/syntorch.h "/* All of Syntorch: one line for each public header. */
#ifndef SYNTORCH_SYNTORCH_H
#define SYNTORCH_SYNTORCH_H

${all}
#endif
")
