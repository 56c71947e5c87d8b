# The schema of execution traces, export/chakra/wire/et_def.proto. protoc-c compiles it into the
# library, which gets names, types and enums from protobuf-c's descriptors (et_schema.c). Numbers
# that C needs as constants become enumerators of a header, written here from the same file, so that
# code that names them compiles without protobuf-c as well:
#   value COMP_NODE of an enum                     SYN__ET_COMP_NODE
#   field ctrl_deps of the message Node            SYN__ET_NODE_CTRL_DEPS
#   members int64_val and int64_list of a oneof    SYN__ET_INT64, SYN__ET_INT64_LIST
set(SYN_SCHEMA ${CMAKE_SOURCE_DIR}/export/chakra/wire/et_def.proto)
set(SYN_GENERATED ${CMAKE_BINARY_DIR}/generated)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SYN_SCHEMA})

file(READ ${SYN_SCHEMA} text)
string(REGEX REPLACE "//[^\n]*" "" text "${text}")
string(REPLACE ";" "," text "${text}")
string(REGEX MATCHALL "(enum|message|oneof) +[A-Za-z0-9_]+|}|[A-Za-z0-9_]+ *= *[0-9]+" tokens
  "${text}")
set(numbers "")
foreach(token ${tokens})
  if(token MATCHES "^message +(.*)")
    string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1_\\2" prefix "${CMAKE_MATCH_1}_")
    set(outer "${prefix}")
  elseif(token MATCHES "^(enum|oneof) ")
    set(prefix "")
  elseif(token STREQUAL "}")
    set(prefix "${outer}") # of a oneof; nothing follows the other ends but a message or an enum
  elseif(token MATCHES "^([A-Za-z0-9_]+) *= *([0-9]+)")
    set(number ${CMAKE_MATCH_2})
    string(REGEX REPLACE "_val$" "" name "${prefix}${CMAKE_MATCH_1}")
    string(TOUPPER "${name}" name)
    string(APPEND numbers "    SYN__ET_${name} = ${number},\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${SYN_GENERATED}/export/chakra/wire/et_numbers.h CONTENT
  "/* The numbers of et_def.proto, as cmake/SynSchema.cmake writes them. */
#ifndef EXPORT_ET_NUMBERS_H
#define EXPORT_ET_NUMBERS_H

enum {
${numbers}};

#endif
" @ONLY)

# syn_compile_schema(PROTO FOLDER): what protoc-c makes of PROTO, as FOLDER/chakra_schema.pb-c.c and
# .h. The package becomes syn.chakra, so that the names begin like all of the library's, and a
# program may have its own code for the same schema beside it.
function(syn_compile_schema proto folder)
  add_custom_command(OUTPUT ${folder}/chakra_schema.pb-c.c ${folder}/chakra_schema.pb-c.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND sed "s/^package .*/package syn.chakra;/" ${proto} > ${folder}/chakra_schema.proto
    COMMAND ${PROTOC_C} -I${folder} --c_out=${folder} chakra_schema.proto
    DEPENDS ${proto} VERBATIM)
  set_source_files_properties(${folder}/chakra_schema.pb-c.c PROPERTIES COMPILE_OPTIONS -w)
endfunction()
