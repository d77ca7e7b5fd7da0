# cmake -D "files=A;B" -D "names=kA;kB" -D output=FILE.cpp -P embed_sources.cmake: the texts of the files as constants of these names.
set(delimiter ddprun_source)
set(cpp "// Made by embed_sources.cmake.\n#include \"imaging/kernel_compiler.h\"\n\nnamespace ddprun {\n\n")
foreach(file name IN ZIP_LISTS files names)
  file(READ ${file} text)
  string(APPEND cpp "const char* const ${name} = R\"${delimiter}(${text})${delimiter}\";\n\n")
endforeach()
string(APPEND cpp "}  // namespace ddprun\n")
file(WRITE ${output} "${cpp}")
