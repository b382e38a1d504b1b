# Compiler and linker flags of every target.

include_guard()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17) # of the emulator of kernels alone
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Assertions stay in every build: no -DNDEBUG.
if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g" CACHE STRING "" FORCE)
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -g" CACHE STRING "" FORCE)

set(CKPT_DEFINITIONS _GNU_SOURCE)
set(warnings -Wall -Wextra -Wshadow -Wvla -Wpointer-arith -Wwrite-strings -Wstrict-prototypes -Wold-style-definition)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
	list(APPEND warnings -Wno-missing-field-initializers) # gcc does not mean the last row of a table
endif()
# What another compiler or level of optimisation warns about is no reason to have no program.
if(CKPT_WERROR)
	list(APPEND warnings -Werror=implicit -Werror=int-conversion -Werror=incompatible-pointer-types -Werror=return-type
		-Werror=format -Werror=vla -Werror=strict-prototypes)
endif()
set(CKPT_C_FLAGS ${warnings} -fstack-protector-strong -fno-strict-aliasing)
add_link_options(-Wl,-z,relro,-z,now -Wl,--as-needed)

# A sanitizer's report needs functions and lines, and nothing of variables.
if(CKPT_SANITIZE)
	add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-g1>)
endif()
if(CKPT_SANITIZE STREQUAL "address")
	add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-O1> $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
		$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address,undefined>
		$<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
	# Programs have a fixed address: what the sanitizers add to one has 170,000 pointers, which each process would move, and copy their pages.
	add_link_options(-fsanitize=address,undefined $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
	# The shared libubsan has 6 MiB of variables, through which each process that ends looks for leaks: a third of what a short one takes.
	if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
		add_link_options(-static-libubsan)
	endif()
elseif(CKPT_SANITIZE STREQUAL "thread")
	add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=thread>)
	add_link_options(-fsanitize=thread)
elseif(CKPT_SANITIZE STREQUAL "fuzzer")
	add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-O1> $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
		$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address,undefined,fuzzer-no-link>
		$<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
	add_link_options(-fsanitize=address,undefined)
elseif(CKPT_SANITIZE)
	message(FATAL_ERROR "CKPT_SANITIZE=${CKPT_SANITIZE} is not one of address, thread, fuzzer")
else()
	# Some distributions predefine another level; glibc's checks and the sanitizers' do not mix.
	list(APPEND CKPT_C_FLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

list(TRANSFORM CKPT_C_FLAGS REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:C>:\\1>")
