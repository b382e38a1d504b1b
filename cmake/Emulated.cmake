# Kernels compiled as C++ for the emulator of tests/cuda, which stands in the place of the toolkit: no CUDA is needed.

include_guard()

# ckpt_emulated(NAME [WEAK] SOURCES file.cu... [INCLUDE folder...]): an object library. WEAK: each access to memory is told to tests/cuda/weak.cpp,
# by the calls that the compiler makes for its thread sanitizer; functions that begin with gpu_ begin with weak_gpu_ then, beside the others.
function(ckpt_emulated name)
	cmake_parse_arguments(EMULATED "WEAK" "" "SOURCES;INCLUDE" ${ARGN})
	set_source_files_properties(${EMULATED_SOURCES} PROPERTIES LANGUAGE CXX)
	add_library(${name} OBJECT ${EMULATED_SOURCES})
	target_include_directories(${name} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda)
	target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/libckpt ${EMULATED_INCLUDE})
	target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-unknown-pragmas)
	target_compile_definitions(${name} PRIVATE ${CKPT_DEFINITIONS})
	if(EMULATED_WEAK)
		target_compile_options(${name} PRIVATE -fno-sanitize=all -fsanitize=thread
			$<IF:$<CXX_COMPILER_ID:GNU>,--param=tsan-distinguish-volatile=1,SHELL:-mllvm -tsan-distinguish-volatile>
			-include ${PROJECT_SOURCE_DIR}/tests/cuda/weak_names.h)
	endif()
	target_link_libraries(${name} PUBLIC emulator)
endfunction()
