# A public library, shared and static, of rooms that tests link with their private symbols.

include_guard()

# ckpt_library(NAME [MAP file] OBJECTS room... ROOMS room...): the target libNAME, and libNAME.a. OBJECTS are object libraries, linked
# whole; of ROOMS what these need. MAP, else NAME.map: what is exported.
function(ckpt_library name)
	cmake_parse_arguments(LIBRARY "" "MAP" "OBJECTS;ROOMS" ${ARGN})
	if(NOT LIBRARY_MAP)
		set(LIBRARY_MAP ${name}.map)
	endif()
	set(map ${CMAKE_CURRENT_SOURCE_DIR}/${LIBRARY_MAP})
	add_library(lib${name} SHARED)
	target_link_libraries(lib${name} PRIVATE ${LIBRARY_OBJECTS})
	target_link_options(lib${name} PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined-version)
	if(NOT CKPT_SANITIZE)
		target_link_options(lib${name} PRIVATE -Wl,-z,defs)
	endif()
	set_target_properties(lib${name} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${name} LINKER_LANGUAGE C
		LINK_DEPENDS ${map} VERSION ${PROJECT_VERSION} SOVERSION 0 LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
	target_include_directories(lib${name} INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
		$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
	add_library(ckpt::${name} ALIAS lib${name})
	if(NOT CKPT_SANITIZE)
		ckpt_archive(${name} "${LIBRARY_OBJECTS}" "${LIBRARY_ROOMS}")
	endif()
endfunction()

# The same for programs that are linked statically: one object, in which only what is exported has a global name.
function(ckpt_archive name objects rooms)
	set(archive ${PROJECT_BINARY_DIR}/lib/lib${name}.a)
	set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}_static.o)
	list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE whole)
	list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE needed)
	add_custom_command(OUTPUT ${archive}
		COMMAND ${CMAKE_LINKER} -r -o ${object} ${whole} --start-group ${needed} --end-group
		COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
		COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
		COMMAND ${CMAKE_AR} qcs ${archive} ${object}
		DEPENDS ${objects} ${rooms} ${whole} COMMAND_EXPAND_LISTS VERBATIM COMMENT "lib${name}.a")
	add_custom_target(lib${name}_static ALL DEPENDS ${archive})
endfunction()
