# cmake -D FROM=folder -D TO=file.c -P SynEmbed.cmake: writes page.css, page.html and view_*.js to a
# C file, as the strings that export/html/html_page.h declares. The scripts are joined in the order
# of their names. Comments on lines of their own and indentation are left out, which makes reports
# smaller.
file(GLOB scripts ${FROM}/view_*.js)
list(SORT scripts)
set(out "#include \"export/html/html_page.h\"\n")

function(embed name)
  set(hex "")
  foreach(file ${ARGN})
    file(READ ${file} text)
    string(REGEX REPLACE "\n +" "\n" text "\n${text}")
    string(REGEX REPLACE "\n/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
    string(REGEX REPLACE "\n\n+" "\n" text "${text}")
    string(HEX "${text}" bytes)
    string(APPEND hex ${bytes})
  endforeach()
  string(REGEX REPLACE "(................................)" "\\1\n" hex ${hex})
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex ${hex})
  set(out "${out}\nconst char ${name}[] = {\n${hex}0};\n" PARENT_SCOPE)
endfunction()

embed(syn__html_style ${FROM}/page.css)
embed(syn__html_body ${FROM}/page.html)
embed(syn__html_script ${scripts})
file(WRITE ${TO} "${out}")
