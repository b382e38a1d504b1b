# Run by cpack when the staging folders are filled, before they are packed. Paths are those of PackagesPaths.cmake.

set(top ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(control ${CKPT_BINARY}/packages)
set(ENV{LC_ALL} C)

function(run)
	execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The library is where the loader looks anyway.
file(RPATH_REMOVE FILE ${top}/ckpt/usr/bin/ckpt)

file(MAKE_DIRECTORY ${top}/ckpt/usr/share/zsh)
file(RENAME ${top}/ckpt/usr/share/zsh/site-functions ${top}/ckpt/usr/share/zsh/vendor-completions)

file(MAKE_DIRECTORY ${top}/ckptd/etc/ckpt)
file(COPY_FILE ${CKPT_BINARY}/ckpt.conf ${top}/ckptd/etc/ckpt/ckpt.conf)

# Of the last commit, so that the same sources make the same packages.
execute_process(COMMAND git -C ${CKPT_SOURCE} log -1 --format=%ct OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
	set(epoch $ENV{SOURCE_DATE_EPOCH})
elseif(epoch)
	set(ENV{SOURCE_DATE_EPOCH} ${epoch})
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog "ckpt (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

foreach(package libckpt0 libckptreader0 libckpt-dev ckptd ckpt)
	set(doc ${top}/${package}/usr/share/doc/${package})
	file(WRITE ${doc}/changelog "${changelog}")
	file(COPY_FILE ${CKPT_SOURCE}/packaging/copyright ${doc}/copyright)
	file(GLOB pages ${top}/${package}/usr/share/man/man*/*.[1-8])
	run(gzip -9n ${doc}/changelog ${pages})
	run(chmod -R u=rwX,go=rX ${top}/${package})
endforeach()

# Which version of the library first had a symbol: all have been there since the first.
file(REMOVE_RECURSE ${control})
file(MAKE_DIRECTORY ${control}/debian)
file(WRITE ${control}/debian/control
	"Source: ckpt\n\nPackage: libckpt0\nArchitecture: any\n\nPackage: libckptreader0\nArchitecture: any\n")
foreach(package libckpt0 libckptreader0)
	string(REGEX REPLACE "0$" "" name ${package})
	file(GLOB library ${top}/${package}/usr/${CKPT_LIBDIR}/${name}.so.0.*)
	file(MAKE_DIRECTORY ${control}/${package})
	execute_process(COMMAND dpkg-gensymbols -p${package} -P${top}/${package} -v${CPACK_PACKAGE_VERSION} -e${library}
		-O${control}/${package}/symbols WORKING_DIRECTORY ${control} COMMAND_ERROR_IS_FATAL ANY)
	run(chmod 644 ${control}/${package}/symbols)
endforeach()
