# Writes HEADER with the macro ATALLA_SOURCE_DIGEST: a digest of the contents of FILES (a list), in the order given. Run with
# cmake -DHEADER=... -DFILES=... -P; the header is only touched if it changes.
set(digests "")
foreach(file IN LISTS FILES)
    file(SHA256 "${file}" digest)
    string(APPEND digests "${digest}")
endforeach()
string(SHA256 digest "${digests}")
file(CONFIGURE OUTPUT "${HEADER}" CONTENT "// Generated.\n#pragma once\n\n#define ATALLA_SOURCE_DIGEST \"${digest}\"\n")
