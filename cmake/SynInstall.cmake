# cmake --install: library, headers, programs, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

set(SYN_HEADER_DIR ${CMAKE_INSTALL_INCLUDEDIR}/syntorch-${PROJECT_VERSION})
install(TARGETS syntorch EXPORT syntorch-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(SYN_PROGRAMS)
  install(TARGETS ${SYN_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(folder syntorch ops comm models export)
  file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.h ${folder}/*.def)
  install(FILES ${headers} DESTINATION ${SYN_HEADER_DIR}/${folder})
endforeach()

# What a static library needs from others, for pkg-config's Libs.private and for the CMake package.
set(SYN_PC_REQUIRES "")
foreach(pair OPENBLAS:openblas CGRAPH:libcgraph PCRE2:libpcre2-8 PROTOBUF_C:libprotobuf-c)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 opt)
  list(GET pair 1 module)
  if(SYN_HAVE_${opt})
    list(APPEND SYN_PC_REQUIRES ${module})
  endif()
endforeach()
string(REPLACE ";" ", " SYN_PC_REQUIRES "${SYN_PC_REQUIRES}")
set(SYN_PC_LIBS "-lpthread -lm")
if(SYN_HAVE_MPI)
  foreach(lib ${MPI_C_LIBRARIES})
    string(APPEND SYN_PC_LIBS " ${lib}")
  endforeach()
endif()
configure_file(cmake/syntorch.pc.in syntorch.pc @ONLY)
configure_package_config_file(cmake/syntorch-config.cmake.in syntorch-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/syntorch)
write_basic_package_version_file(syntorch-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/syntorch.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/syntorch-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/syntorch-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/syntorch)
install(EXPORT syntorch-targets NAMESPACE syntorch:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/syntorch)
