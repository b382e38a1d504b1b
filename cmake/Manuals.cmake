# Manual pages and completion scripts: made by the programs that they describe, with every build, and installed. Pages need Python.
# Sanitizer builds are for tests and make none.

set(manuals ${PROJECT_BINARY_DIR}/man)
set(completions ${PROJECT_BINARY_DIR}/completions)

add_custom_command(OUTPUT ${completions}/ckpt ${completions}/_ckpt ${completions}/ckpt.fish
	COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
	COMMAND ckpt completion bash > ${completions}/ckpt
	COMMAND ckpt completion zsh > ${completions}/_ckpt
	COMMAND ckpt completion fish > ${completions}/ckpt.fish
	DEPENDS ckpt VERBATIM COMMENT "Completion scripts")
add_custom_target(completions ALL DEPENDS ${completions}/ckpt ${completions}/_ckpt ${completions}/ckpt.fish)
install(FILES ${completions}/ckpt DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ckpt)
install(FILES ${completions}/_ckpt DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT ckpt)
install(FILES ${completions}/ckpt.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ckpt)

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
	set(script ${PROJECT_SOURCE_DIR}/scripts/manuals.py)
	file(GLOB_RECURSE docs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
	add_custom_command(OUTPUT ${manuals}/help.json
		COMMAND ${CMAKE_COMMAND} -E rm -rf ${manuals}
		COMMAND ${CMAKE_COMMAND} -E make_directory ${manuals}
		COMMAND ckpt help --json > ${manuals}/help.json
		COMMAND ${Python3_EXECUTABLE} ${script} ${manuals}/help.json ${PROJECT_SOURCE_DIR} ${manuals}
		DEPENDS ckpt ${script} ${docs} ${PROJECT_SOURCE_DIR}/libckpt/ckpt.h ${PROJECT_SOURCE_DIR}/libckpt/ckpt_reader.h VERBATIM COMMENT "Manual pages")
	add_custom_target(manuals ALL DEPENDS ${manuals}/help.json)
	set(sections 1 3 5 8)
	set(owners ckpt libckpt-dev ckptd ckptd)
	foreach(section package IN ZIP_LISTS sections owners)
		install(DIRECTORY ${manuals}/man${section} DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${package}
			FILES_MATCHING PATTERN "*.${section}")
	endforeach()
else()
	message(STATUS "without manual pages: no Python")
endif()
