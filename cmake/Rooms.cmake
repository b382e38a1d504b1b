# A room is a folder of sources that makes one library. Sources are globbed, so that a new file needs no change here. A
# room without sources is an interface library that only carries the dependencies: the tree configures at any stage.

include_guard()

# ckpt_room(NAME [OBJECT] SOURCES file... [LINK library...] [INCLUDE folder...])
function(ckpt_room name)
	cmake_parse_arguments(ROOM "OBJECT" "" "SOURCES;LINK;INCLUDE" ${ARGN})
	set(scope PUBLIC)
	if(NOT ROOM_SOURCES)
		set(scope INTERFACE)
		add_library(${name} INTERFACE)
	elseif(ROOM_OBJECT)
		add_library(${name} OBJECT ${ROOM_SOURCES})
	else()
		add_library(${name} STATIC ${ROOM_SOURCES})
	endif()
	target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR}/libckpt ${ROOM_INCLUDE})
	target_link_libraries(${name} ${scope} ${ROOM_LINK})
	if(ROOM_SOURCES)
		target_compile_definitions(${name} PRIVATE ${CKPT_DEFINITIONS})
		target_compile_options(${name} PRIVATE ${CKPT_C_FLAGS})
		# -fvisibility reaches nvcc's host compiler too.
		set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden
			CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
	endif()
	target_compile_definitions(${name} ${scope} $<$<BOOL:${CKPT_FAILPOINTS}>:CKPT_FAILPOINTS>)
endfunction()

# ckpt_program(NAME SOURCES file... [LINK library...] [INCLUDE folder...]). Nothing without sources.
function(ckpt_program name)
	cmake_parse_arguments(PROGRAM "" "" "SOURCES;LINK;INCLUDE" ${ARGN})
	if(NOT PROGRAM_SOURCES)
		return()
	endif()
	add_executable(${name} ${PROGRAM_SOURCES})
	target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/libckpt ${PROGRAM_INCLUDE})
	target_compile_definitions(${name} PRIVATE ${CKPT_DEFINITIONS})
	target_compile_options(${name} PRIVATE ${CKPT_C_FLAGS})
	target_link_libraries(${name} PRIVATE ${PROGRAM_LINK})
	set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# ckpt_test_programs(PREFIX FOLDER LINK library...): each test_NOUN.c of the folder is a plain program PREFIX_NOUN; the
# folder's other sources are linked into all of them. The names go to the list CKPT_PROGRAMS_PREFIX of the caller.
function(ckpt_test_programs prefix folder)
	cmake_parse_arguments(TEST "" "" "LINK;INCLUDE" ${ARGN})
	file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
	set(tests ${sources})
	list(FILTER tests INCLUDE REGEX "/test_[^/]*$")
	list(FILTER sources EXCLUDE REGEX "/test_[^/]*$")
	ckpt_room(${prefix}_world OBJECT SOURCES ${sources} LINK ${TEST_LINK} INCLUDE ${folder} ${TEST_INCLUDE})
	set(programs)
	foreach(test IN LISTS tests)
		get_filename_component(noun ${test} NAME_WE)
		string(REGEX REPLACE "^test_" "${prefix}_" program ${noun})
		ckpt_program(${program} SOURCES ${test} LINK ${prefix}_world ${TEST_LINK}
			INCLUDE ${folder} ${TEST_INCLUDE})
		list(APPEND programs ${program})
	endforeach()
	set(CKPT_PROGRAMS_${prefix} ${programs} PARENT_SCOPE)
endfunction()
