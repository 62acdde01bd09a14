// Writes the hand-made loadable to a file, for tests of other programs; with a second argument its first size differs from call
// to call.
#include <fstream>

#include "tests/runtime/small_model.h"

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    atalla::loadable::ModelT model = atalla::small_model();
    if (argc > 2) {
        model.symbols.push_back(std::make_unique<atalla::loadable::SymbolT>());
        model.symbols[0]->name = "s0";
        model.symbols[0]->least = 2;
        for (const auto *ports : {&model.inputs, &model.outputs}) ports->at(0)->dims[0]->expression = "s0";
        model.specializations[0]->symbols.push_back(std::make_unique<atalla::loadable::SymbolValueT>());
        model.specializations[0]->symbols[0]->name = "s0";
        model.specializations[0]->symbols[0]->value = 2;
    }
    const std::vector<uint8_t> bytes = atalla::loadable_bytes(model);
    std::ofstream stream(argv[1], std::ios::binary);
    stream.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return stream.good() ? 0 : 1;
}
