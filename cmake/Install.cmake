# What `cmake --install` puts in place beside the programs: the library, its header, ckpt.pc, and ckptConfig.cmake with
# the target ckpt::ckpt.

include(CMakePackageConfigHelpers)

install(TARGETS libckpt EXPORT ckptTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
	COMPONENT libckpt0 NAMELINK_COMPONENT libckpt-dev)
install(FILES ${PROJECT_SOURCE_DIR}/libckpt/ckpt.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	COMPONENT libckpt-dev)

set(static_libraries "-ljansson -lxxhash -pthread")
if(NOT CKPT_SANITIZE)
	install(FILES ${PROJECT_BINARY_DIR}/lib/libckpt.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libckpt-dev)
endif()
if(CKPT_HAVE_CUDA)
	get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
	string(APPEND static_libraries " ${cudart} -lstdc++ -ldl -lrt")
endif()

# Relative, so that a moved prefix still works.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/ckpt.pc.in ${PROJECT_BINARY_DIR}/ckpt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ckpt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libckpt-dev)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ckpt)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ckptConfig.cmake.in ${PROJECT_BINARY_DIR}/ckptConfig.cmake
	INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ckptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ckptConfig.cmake ${PROJECT_BINARY_DIR}/ckptConfigVersion.cmake
	DESTINATION ${package} COMPONENT libckpt-dev)
install(EXPORT ckptTargets NAMESPACE ckpt:: DESTINATION ${package} COMPONENT libckpt-dev)
