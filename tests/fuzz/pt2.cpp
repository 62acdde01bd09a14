// Fuzz target of the importer: archives, and the JSON of a program in an archive that is otherwise right. What is accepted
// survives the passes, and every form can be written.
#include <string>
#include <string_view>

#include "graph_import/emit.h"
#include "graph_import/import.h"
#include "graph_import/passes.h"
#include "graph_import/print.h"
#include "graph_import/symbolic.h"
#include "isa/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/zip.h"

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

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(bytes), size);
    use(std::as_bytes(std::span(text)));
    if (text.starts_with('{')) {
        const std::string archive = testing_zip::zipped({{"archive_format", "pt2"}, {"models/model.json", std::string(text)}});
        use(std::as_bytes(std::span(archive)));
    }
    try {
        parse_symbolic(text);
    } catch (const Error &) {
    }
    return 0;
}
