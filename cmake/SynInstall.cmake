# cmake --install: library, headers, programs, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS syntorch EXPORT syntorch-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS syntorch_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(name inference pretrain synth) # `syntorch-inference` runs `syntorch inference`
  install(CODE "file(CREATE_LINK syntorch
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/syntorch-${name}\" SYMBOLIC)")
endforeach()
install(DIRECTORY ${SYN_INCLUDE}/syntorch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(SYN_MANUALS) # OPTIONAL: the target `programs` makes them
  install(DIRECTORY ${SYN_MANUALS}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(DIRECTORY ${SYN_MANUALS}/bash/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
  install(DIRECTORY ${SYN_MANUALS}/zsh/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
  install(DIRECTORY ${SYN_MANUALS}/fish/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
endif()
file(GLOB SYN_PAGES CONFIGURE_DEPENDS docs/*.md) # --help refers to them
install(FILES ${SYN_PAGES} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES ${SYN_EXAMPLES} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY examples/configs examples/squad examples/tiny-gpt2 examples/tiny-bert
  DESTINATION ${CMAKE_INSTALL_DATADIR}/syntorch)

# The libraries that Syntorch depends on. Users of a static library must link them too; users of a
# shared library need not. They are listed as libraries, not as pkg-config packages ("Requires"),
# which would add their compile flags to the user's, although no public header includes theirs.
set(libs "")
foreach(pair OPENBLAS:openblas CGRAPH:cgraph PROTOBUF_C:protobuf_c PCRE2:pcre2 UTF8PROC:utf8proc)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 opt)
  list(GET pair 1 module)
  if(SYN_HAVE_${opt} AND "PkgConfig::${module}" IN_LIST SYN_DEP_TARGETS)
    list(APPEND libs ${${module}_LDFLAGS})
  endif()
endforeach()
if(SYN_HAVE_ZLIB)
  list(APPEND libs ${ZLIB_LIBRARIES})
endif()
list(APPEND libs -lpthread -lm)
if(SYN_HAVE_MPI)
  list(APPEND libs ${MPI_C_LIBRARIES})
endif()
string(REPLACE ";" " " libs "${libs}")
if(BUILD_SHARED_LIBS)
  set(SYN_PC_PRIVATE "Libs.private: ${libs}")
else()
  set(SYN_PC_LIBS " ${libs}")
endif()
# The .pc file computes the prefix from its own location, so that an installation can be moved.
file(RELATIVE_PATH SYN_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/syntorch.pc.in syntorch.pc @ONLY)
configure_package_config_file(cmake/syntorch-config.cmake.in syntorch-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/syntorch)
write_basic_package_version_file(syntorch-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/syntorch.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/syntorch-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/syntorch-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/syntorch)
install(EXPORT syntorch-targets NAMESPACE syntorch::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/syntorch)
