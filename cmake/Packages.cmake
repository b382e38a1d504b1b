# `cpack -G DEB` makes five packages of what is installed: libckpt0, libckptreader0, libckpt-dev, ckptd, ckpt. What a package needs besides
# (changelog, copyright, symbols, configuration) is made by PackagesFinish.cmake in the staging folder. Dependencies on other packages are
# what dpkg-shlibdeps finds in the binaries; the CUDA runtime is linked statically, so that none is on a driver.

set(conf ${PROJECT_BINARY_DIR}/ckpt.conf)
add_custom_command(OUTPUT ${conf}
	COMMAND ${CMAKE_COMMAND} -E env CKPT_CONFIG=/dev/null $<TARGET_FILE:ckpt> config --json --socket ${PROJECT_BINARY_DIR}/nobody > ${conf}.json
		2> ${conf}.log
	COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/sample_conf.py ${conf}.json > ${conf}
	DEPENDS ckpt ${PROJECT_SOURCE_DIR}/scripts/sample_conf.py VERBATIM COMMENT "Sample configuration")
add_custom_target(sample_conf ALL DEPENDS ${conf})

install(FILES ${PROJECT_SOURCE_DIR}/docs/examples/train.c ${PROJECT_SOURCE_DIR}/docs/examples/read.c DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libckpt-dev/examples
	COMPONENT libckpt-dev)

set(CPACK_PACKAGE_NAME ckpt)
set(CPACK_PACKAGE_VENDOR ckpt)
set(CPACK_PACKAGE_CONTACT "The ckpt maintainers <maintainers@ckpt.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
	WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL libckpt0 libckptreader0 libckpt-dev ckptd ckpt)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PackagesFinish.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/PackagesPaths.cmake)
file(WRITE ${PROJECT_BINARY_DIR}/PackagesPaths.cmake
	"set(CKPT_SOURCE ${PROJECT_SOURCE_DIR})\nset(CKPT_BINARY ${PROJECT_BINARY_DIR})\nset(CKPT_LIBDIR ${CMAKE_INSTALL_LIBDIR})\n")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

# ckpt_package(NAME SECTION SUMMARY "TEXT" [DEPENDS text] [SUGGESTS text] [CONTROL file...])
function(ckpt_package name section summary text)
	cmake_parse_arguments(PACKAGE "" "DEPENDS;SUGGESTS" "CONTROL" ${ARGN})
	string(TOUPPER ${name} var)
	set(CPACK_DEBIAN_${var}_PACKAGE_NAME ${name} PARENT_SCOPE)
	set(CPACK_DEBIAN_${var}_PACKAGE_SECTION ${section} PARENT_SCOPE)
	set(CPACK_DEBIAN_${var}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
	set(CPACK_DEBIAN_${var}_PACKAGE_DEPENDS "${PACKAGE_DEPENDS}" PARENT_SCOPE)
	set(CPACK_DEBIAN_${var}_PACKAGE_SUGGESTS "${PACKAGE_SUGGESTS}" PARENT_SCOPE)
	set(CPACK_DEBIAN_${var}_PACKAGE_CONTROL_EXTRA "${PACKAGE_CONTROL}" PARENT_SCOPE)
endfunction()

set(control ${PROJECT_BINARY_DIR}/packages)
# The trigger has the loader's cache brought up to date. Scripts that are named and are not there keep cpack from writing some that do
# it a second time.
ckpt_package(libckpt0 libs "checkpoints for training jobs, library"
	"Captures the state of the ranks of a training job into shared memory that
outlives them, while training goes on; the daemon (package ckptd) keeps and
stores it. This package has the library that ranks are linked with."
	SUGGESTS "ckptd, ckpt" CONTROL ${control}/libckpt0/symbols ${PROJECT_SOURCE_DIR}/packaging/triggers ${control}/none/postinst
	${control}/none/postrm)
ckpt_package(libckptreader0 libs "checkpoints for training jobs, reader library"
	"Reads checkpoints of training jobs out of a store, each byte checked against
its digest. It needs no daemon and no job."
	SUGGESTS "ckpt" CONTROL ${control}/libckptreader0/symbols ${PROJECT_SOURCE_DIR}/packaging/triggers ${control}/none/postinst
	${control}/none/postrm)
ckpt_package(libckpt-dev libdevel "checkpoints for training jobs, development files"
	"Headers, pkg-config and CMake files, manual pages and examples for programs
that use libckpt or libckptreader."
	DEPENDS "libckpt0 (= ${PROJECT_VERSION}), libckptreader0 (= ${PROJECT_VERSION})" SUGGESTS "pkgconf")
ckpt_package(ckptd admin "checkpoints for training jobs, daemon of a node"
	"Owns the memory into which the ranks of training jobs on this node are
captured, writes it to storage, and answers restores. No unit is enabled on
installation: it runs per user, or as one service for all users. Nodes of a
cluster copy to each other over TCP; libfabric1 is for copies by RDMA."
	SUGGESTS "ckpt, libfabric1" CONTROL ${PROJECT_SOURCE_DIR}/packaging/conffiles ${PROJECT_SOURCE_DIR}/packaging/postinst
	${PROJECT_SOURCE_DIR}/packaging/postrm)
ckpt_package(ckpt admin "checkpoints for training jobs, command line"
	"Runs training jobs and restarts their ranks; lists, verifies, compares,
exports and restores checkpoints."
	DEPENDS "libckpt0 (= ${PROJECT_VERSION})" SUGGESTS "ckptd")

include(CPack)
