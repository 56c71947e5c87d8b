# The Python package, complete in build/python, from where tests import it and
# python/build_syntorch.py packs wheels. The package calls a shared library of its own, which
# contains the library and the parts of programs that tools/embed/ calls.
set(SYN_PYTHON AUTO CACHE STRING "Build the Python package: AUTO, ON or OFF")
set_property(CACHE SYN_PYTHON PROPERTY STRINGS AUTO ON OFF)
set(found OFF)
if(NOT SYN_PYTHON STREQUAL "OFF")
  # Debian's Python before others, because its packages have cffi.
  find_program(PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(PYTHON3 python3)
  if(PYTHON3)
    execute_process(COMMAND ${PYTHON3} -c "import cffi, _cffi_backend as b; print(b.__file__)"
      OUTPUT_VARIABLE cffi_backend OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
      RESULT_VARIABLE failed)
    if(failed EQUAL 0)
      set(found ON)
    endif()
  endif()
endif()
if(SYN_PYTHON STREQUAL "OFF")
  list(APPEND SYN_SUMMARY "Python package: off")
elseif(found)
  list(APPEND SYN_SUMMARY "Python package: yes")
elseif(SYN_PYTHON STREQUAL "ON")
  message(FATAL_ERROR "SYN_PYTHON=ON, but Python 3 with cffi was not found")
else()
  list(APPEND SYN_SUMMARY "Python package: not found (no Python 3 with cffi)")
endif()
if(NOT found)
  return()
endif()

set(package ${CMAKE_BINARY_DIR}/python/syntorch)
add_library(syntorch_python SHARED tools/embed/embed.c $<TARGET_OBJECTS:syn_objects>)
add_dependencies(syntorch_python syn_cli)
target_compile_definitions(syntorch_python PRIVATE SYN_VERSION="${PROJECT_VERSION}")
set_target_properties(syntorch_python PROPERTIES C_VISIBILITY_PRESET hidden LINKER_LANGUAGE C
  LIBRARY_OUTPUT_DIRECTORY ${package})
# Without what syn_cli links, which would add the objects of the library once more.
target_link_libraries(syntorch_python PRIVATE syn_flags -Wl,--exclude-libs,libsyn_cli.a
  $<TARGET_FILE:syn_cli> ${SYN_DEP_TARGETS} Threads::Threads m ${CMAKE_DL_LIBS})

# Declarations and builders are generated from the headers.
set(declarations ${package}/_declarations.py)
add_custom_command(OUTPUT ${declarations}
  COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/python/declarations.py ${CMAKE_C_COMPILER}
    ${SYN_INCLUDE} ${CMAKE_SOURCE_DIR}/tools/embed/embed.h ${declarations}
  DEPENDS python/declarations.py tools/embed/embed.h ${SYN_INCLUDE}/syntorch/syntorch.h VERBATIM)
set(builders ${package}/_builders.py)
add_custom_command(OUTPUT ${builders}
  COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/python/builders.py ${CMAKE_SOURCE_DIR}/ops/ops.h
    ${builders}
  DEPENDS python/builders.py ops/ops.h VERBATIM)

file(GLOB modules CONFIGURE_DEPENDS python/syntorch/*.py python/syntorch/*.pyi
  python/syntorch/py.typed)
set(copied "")
foreach(module ${modules})
  get_filename_component(name ${module} NAME)
  add_custom_command(OUTPUT ${package}/${name}
    COMMAND ${CMAKE_COMMAND} -E copy ${module} ${package}/${name} DEPENDS ${module} VERBATIM)
  list(APPEND copied ${package}/${name})
endforeach()
get_filename_component(name ${cffi_backend} NAME)
add_custom_command(OUTPUT ${package}/${name}
  COMMAND ${CMAKE_COMMAND} -E copy ${cffi_backend} ${package}/${name} VERBATIM)
list(APPEND copied ${package}/${name})
# The program, and the files that it and the library look for next to it.
foreach(name configs tiny-gpt2 tiny-bert squad)
  file(GLOB files CONFIGURE_DEPENDS examples/${name}/*)
  foreach(file ${files})
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/examples ${file})
    add_custom_command(OUTPUT ${package}/share/syntorch/${name}
      COMMAND ${CMAKE_COMMAND} -E copy ${file} ${package}/share/syntorch/${name} DEPENDS ${file}
      VERBATIM)
    list(APPEND copied ${package}/share/syntorch/${name})
  endforeach()
endforeach()
add_custom_command(OUTPUT ${package}/bin/syntorch
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:syntorch_command> ${package}/bin/syntorch
  DEPENDS syntorch_command VERBATIM)
list(APPEND copied ${package}/bin/syntorch)
add_custom_target(python_package ALL DEPENDS syntorch_python ${declarations} ${builders}
  ${copied})
