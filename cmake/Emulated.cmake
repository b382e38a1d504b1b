# Kernels compiled as C++ for the emulator of tests/cuda, which stands in the place of the toolkit: no CUDA is needed.

include_guard()

# ckpt_emulated(NAME SOURCES file.cu... [INCLUDE folder...]): an object library.
function(ckpt_emulated name)
	cmake_parse_arguments(EMULATED "" "" "SOURCES;INCLUDE" ${ARGN})
	set_source_files_properties(${EMULATED_SOURCES} PROPERTIES LANGUAGE CXX)
	add_library(${name} OBJECT ${EMULATED_SOURCES})
	target_include_directories(${name} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda)
	target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/libckpt ${EMULATED_INCLUDE})
	target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-unknown-pragmas)
	target_compile_definitions(${name} PRIVATE ${CKPT_DEFINITIONS})
	target_link_libraries(${name} PUBLIC emulator)
endfunction()
