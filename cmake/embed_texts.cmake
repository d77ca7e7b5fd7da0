# cmake -D "files=A;B" -D "names=kA;kB" -D header=ROOM/FILE.h -D output=FILE.cpp -P embed_texts.cmake: the texts of the files as
# constants of these names, which the header declares.
set(delimiter ddprun_source)
set(cpp "// Made by embed_texts.cmake.\n#include \"${header}\"\n\nnamespace ddprun {\n\n")
foreach(file name IN ZIP_LISTS files names)
  file(READ ${file} text)
  string(APPEND cpp "const char* const ${name} = R\"${delimiter}(${text})${delimiter}\";\n\n")
endforeach()
string(APPEND cpp "}  // namespace ddprun\n")
file(WRITE ${output} "${cpp}")
