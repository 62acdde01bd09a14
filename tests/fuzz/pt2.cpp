// Fuzz target of the importer: archives, and the JSON of a program in an archive that is otherwise right. What is accepted
// survives the passes, and every form can be written.
#include <zip.h>

#include <string>
#include <string_view>

#include "graph_import/emit.h"
#include "graph_import/import.h"
#include "graph_import/passes.h"
#include "graph_import/print.h"
#include "graph_import/symbolic.h"
#include "isa/error.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

namespace {

void use(std::span<const std::byte> bytes) {
    try {
        Graph graph = import_model(bytes, "fuzz").graph;
        verify(graph);
        print_table(graph);
        print_code(graph);
        graph_json(graph);
        emit_mlir(graph);
        emit_dot(graph);
        run_passes(graph);
        verify(graph);
    } catch (const Error &) {
    }
}

// An archive whose program is `json`, without weights.
std::string archive_of(std::string_view json) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *buffer = zip_source_buffer_create(nullptr, 0, 0, &error);
    zip_source_keep(buffer);
    zip_t *zip = zip_open_from_source(buffer, ZIP_TRUNCATE, &error);
    const auto add = [&](const char *name, std::string_view data) {
        const zip_int64_t index = zip_file_add(zip, name, zip_source_buffer(zip, data.data(), data.size(), 0), ZIP_FL_ENC_UTF_8);
        zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    };
    add("archive_format", "pt2");
    add("models/model.json", json);
    zip_close(zip);
    zip_stat_t stat;
    zip_source_stat(buffer, &stat);
    std::string bytes(stat.size, '\0');
    zip_source_open(buffer);
    zip_source_read(buffer, bytes.data(), bytes.size());
    zip_source_close(buffer);
    zip_source_free(buffer);
    return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(bytes), size);
    use(std::as_bytes(std::span(text)));
    if (text.starts_with('{')) {
        const std::string archive = archive_of(text);
        use(std::as_bytes(std::span(archive)));
    }
    try {
        parse_symbolic(text);
    } catch (const Error &) {
    }
    return 0;
}
