# What `cmake --install` puts in place beside the programs: the libraries, their headers, ckpt.pc and ckptreader.pc, and ckptConfig.cmake with
# the targets ckpt::ckpt and ckpt::ckptreader.

include(CMakePackageConfigHelpers)

foreach(library libckpt libckptreader)
	install(TARGETS ${library} EXPORT ckptTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
		COMPONENT ${library}0 NAMELINK_COMPONENT libckpt-dev)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/libckpt/ckpt.h ${PROJECT_SOURCE_DIR}/libckpt/ckpt_reader.h
	DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libckpt-dev)

set(cuda_libraries)
if(CKPT_HAVE_CUDA)
	get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
	set(cuda_libraries " ${cudart} -lstdc++ -ldl -lrt")
endif()

# Relative, so that a moved prefix still works.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)

# ckpt_pkgconfig(NAME "DESCRIPTION" "LIBRARIES"): NAME.pc; of a static link LIBRARIES are needed, too.
function(ckpt_pkgconfig library_name library_description static_libraries)
	configure_file(${PROJECT_SOURCE_DIR}/cmake/ckpt.pc.in ${PROJECT_BINARY_DIR}/${library_name}.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${library_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libckpt-dev)
	if(NOT CKPT_SANITIZE)
		install(FILES ${PROJECT_BINARY_DIR}/lib/lib${library_name}.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libckpt-dev)
	endif()
endfunction()
ckpt_pkgconfig(ckpt "${PROJECT_DESCRIPTION}" "-ljansson -lxxhash -pthread${cuda_libraries}")
ckpt_pkgconfig(ckptreader "Reads checkpoints out of a store" "-luring -lzstd -ljansson -lxxhash -lm -pthread")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ckpt)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ckptConfig.cmake.in ${PROJECT_BINARY_DIR}/ckptConfig.cmake
	INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ckptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ckptConfig.cmake ${PROJECT_BINARY_DIR}/ckptConfigVersion.cmake
	DESTINATION ${package} COMPONENT libckpt-dev)
install(EXPORT ckptTargets NAMESPACE ckpt:: DESTINATION ${package} COMPONENT libckpt-dev)
