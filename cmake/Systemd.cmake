# libsystemd is optional: CKPT_HAVE_SYSTEMD is ON where it is found. The units are installed in any case.

include_guard()

set(CKPT_HAVE_SYSTEMD OFF)
if(NOT CKPT_SYSTEMD STREQUAL "OFF")
	pkg_check_modules(SYSTEMD IMPORTED_TARGET libsystemd>=250)
	if(SYSTEMD_FOUND)
		set(CKPT_HAVE_SYSTEMD ON)
	elseif(CKPT_SYSTEMD STREQUAL "ON")
		message(FATAL_ERROR "CKPT_SYSTEMD=ON, but libsystemd was not found")
	else()
		message(STATUS "without systemd: libsystemd was not found")
	endif()
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/packaging/systemd/user ${PROJECT_SOURCE_DIR}/packaging/systemd/system
	DESTINATION lib/systemd COMPONENT ckptd)
