#include "tools/emit.h"

#include <ostream>

#include "isa/in_file.h"
#include "isa/write_file.h"

namespace atalla {

namespace {

constexpr uint32_t parameter_block = 0x3C;

void append_bytes(std::vector<uint8_t> &bytes, uint64_t value, int count) {
    for (int byte = 0; byte < count; byte++) bytes.push_back(static_cast<uint8_t>(value >> (8 * byte)));
}

}  // namespace

Program program_with_data(const KernelDefinition &kernel, const codegen::CompiledKernel &compiled, const Machine &machine,
                          const std::vector<TensorData> &inputs) {
    const std::vector<uint64_t> addresses = place_tensors(kernel, machine);
    std::map<uint32_t, std::vector<uint8_t>> image;
    for (uint64_t address : addresses) append_bytes(image[parameter_block], address, 4);
    for (size_t i = 0; i < inputs.size(); i++)
        for (uint16_t value : inputs[i]) append_bytes(image[static_cast<uint32_t>(addresses[i])], value, 2);
    for (const auto &[address, word] : compiled.program.data) append_bytes(image[address], word, 4);
    Program program = compiled.program;
    program.data = overlapping_words(image);
    return program;
}

void write_text_file(const std::filesystem::path &file, const std::string &text) {
    write_file(file, [&](std::ostream &out) { out << text; });
}

void write_program_file(const std::filesystem::path &file, const Program &program) {
    write_file(file, [&](std::ostream &out) { write_in(program, out); });
}

}  // namespace atalla
