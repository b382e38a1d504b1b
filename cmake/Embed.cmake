# A file as an array of bytes: ckpt_embed(OUT_VARIABLE FILE SYMBOL) names a C source that defines SYMBOL[] and SYMBOL_len.

include_guard()

function(ckpt_embed out file symbol)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
	file(READ ${file} bytes HEX)
	string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
	string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
	set(source ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
	file(CONFIGURE OUTPUT ${source} CONTENT
		"#include <stddef.h>\n\nextern const unsigned char @symbol@[];\nextern const size_t @symbol@_len;\n\nconst unsigned char @symbol@[] = {\n@bytes@\n};\nconst size_t @symbol@_len = sizeof(@symbol@);\n" @ONLY)
	set(${out} ${source} PARENT_SCOPE)
endfunction()
