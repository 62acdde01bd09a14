#include "library/kernel_library.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "isa/checksum.h"
#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "isa/read_file.h"
#include "library/atlib_generated.h"
#include "simulator/simulator.h"
#include "simulator/tensor_places.h"

namespace atalla {

namespace {

constexpr uint32_t version = 2, without_checksum = 1;
constexpr size_t slot_bytes = 5;

auto key(const LibraryKernel &kernel) { return std::tie(kernel.op, kernel.workload); }

std::vector<uint8_t> packet_bytes_of(const LibraryKernel &kernel) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < kernel.program.packets.size(); i++) {
        const PlacedPacket &packet = kernel.program.packets[i];
        if (packet.address != i * packet_bytes)
            throw Error(
                fmt::format("{} {}: its program has a gap before address {}", kernel.op, kernel.workload, packet.address));
        for (const Instruction &slot : packet.packet) {
            const uint64_t word = encode(slot);
            for (size_t byte = 0; byte < slot_bytes; byte++) bytes.push_back(static_cast<uint8_t>(word >> (8 * byte)));
        }
    }
    return bytes;
}

Program program_of(const atlib::Kernel &kernel) {
    Program program;
    const flatbuffers::Vector<uint8_t> &bytes = *kernel.packets();
    if (bytes.size() == 0 || bytes.size() % packet_bytes != 0)
        throw Error(fmt::format("a program of {} bytes has no whole packets", bytes.size()));
    for (const uint8_t *at = bytes.data(); at < bytes.data() + bytes.size();) {
        Packet packet;
        for (Instruction &slot : packet) {
            uint64_t word = 0;
            for (size_t byte = 0; byte < slot_bytes; byte++) word |= uint64_t{*at++} << (8 * byte);
            slot = decode(word);
        }
        program.append(packet);
    }
    for (const atlib::Word *word : *kernel.data()) program.data[word->address()] = word->value();
    return program;
}

using Tensors = flatbuffers::Vector<flatbuffers::Offset<atlib::Tensor>>;

flatbuffers::Offset<Tensors> write_tensors(flatbuffers::FlatBufferBuilder &builder, const std::vector<LibraryTensor> &tensors) {
    std::vector<flatbuffers::Offset<atlib::Tensor>> offsets;
    for (const LibraryTensor &tensor : tensors)
        offsets.push_back(atlib::CreateTensorDirect(builder, tensor.name.c_str(), &tensor.extents));
    return builder.CreateVector(offsets);
}

std::vector<LibraryTensor> read_tensors(const Tensors &tensors) {
    constexpr int64_t most_elements = int64_t{1} << 40;
    std::vector<LibraryTensor> list;
    for (const atlib::Tensor *tensor : tensors) {
        LibraryTensor read{tensor->name()->str(), {tensor->extents()->begin(), tensor->extents()->end()}};
        int64_t elements = 1;
        for (int64_t extent : read.extents) {
            if (extent < 1 || extent > most_elements / elements)
                throw Error(fmt::format("tensor {} has an extent of {}", read.name, extent));
            elements *= extent;
        }
        list.push_back(std::move(read));
    }
    return list;
}

Machine machine_of(const atlib::Library &table) {
    Machine machine;
    machine.name = table.machine()->str();
    machine.model = table.functional() ? MachineModel::Functional : MachineModel::Hardware;
    for (const atlib::Parameter *parameter : *table.machine_parameters()) {
        const ParameterEntry *entry = find_parameter(parameter->key()->string_view());
        if (!entry)
            throw Error(fmt::format("its machine has a parameter '{}' that this program does not know",
                                    parameter->key()->string_view()));
        entry->set(machine, parameter->value());
    }
    check_machine(machine);
    if (machine.fingerprint() != table.machine_fingerprint()->string_view())
        throw Error("the values of its machine contradict its fingerprint");
    return machine;
}

LibraryKernel kernel_of(const atlib::Kernel &kernel) {
    LibraryKernel read;
    read.op = kernel.op()->str();
    read.workload = kernel.workload()->str();
    read.point = kernel.point()->str();
    read.cycles = kernel.cycles();
    read.bound_cycles = kernel.bound_cycles();
    read.inputs = read_tensors(*kernel.inputs());
    read.outputs = read_tensors(*kernel.outputs());
    read.parameters = kernel.parameters();
    if (kernel.items() > 0) {
        read.items = kernel.items();
        if (kernel.sliced()) read.sliced.assign(kernel.sliced()->begin(), kernel.sliced()->end());
        const auto divides = [&](const LibraryTensor &tensor) { return tensor.elements() % read.items == 0; };
        bool whole = read.sliced.size() == read.inputs.size() && std::ranges::all_of(read.outputs, divides);
        for (size_t i = 0; whole && i < read.inputs.size(); i++) whole = !read.sliced[i] || divides(read.inputs[i]);
        if (!whole)
            throw Error(fmt::format("{} {}: its tensors do not fall into {} parts", read.op, read.workload, read.items));
    }
    read.program = program_of(kernel);
    read.run = kernel.provenance()->run()->str();
    read.recorded = kernel.provenance()->recorded();
    return read;
}

// Where the file has its checksum; nothing if it has none.
std::optional<size_t> checksum_offset(const atlib::Library &table, std::span<const uint8_t> bytes) {
    const uint8_t *field = reinterpret_cast<const flatbuffers::Table &>(table).GetAddressOf(atlib::Library::VT_CHECKSUM);
    return field == nullptr ? std::nullopt : std::optional(static_cast<size_t>(field - bytes.data()));
}

void check_version(const atlib::Library &table, std::span<const uint8_t> bytes) {
    if (table.version() != version && table.version() != without_checksum)
        throw Error(fmt::format("the kernel library has version {}, this program reads versions {} and {}: build it again",
                                table.version(), without_checksum, version));
    const std::optional<size_t> at = checksum_offset(table, bytes);
    if (!at && table.version() == version) throw Error("the kernel library is damaged: its checksum is missing");
    if (at && checksum_around(bytes, *at) != table.checksum())
        throw Error(
            "the kernel library is damaged: its bytes do not have its checksum; copy the file again, or build it again");
}

// What macros of a library with this name begin with.
std::string capitals(std::string_view name) {
    std::string text = name.empty() ? "ATLIB" : std::isdigit(static_cast<unsigned char>(name.front())) ? "ATLIB_" : "";
    for (const char c : name)
        text +=
            std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : '_';
    return text;
}

std::string identifier(std::string_view name) {
    std::string text;
    for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return text;
}

// As a C string literal.
std::string c_literal(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + "\"";
}

// A function for each operator that atalla_operator() serves.
std::string operator_functions(const KernelLibrary &library, const std::string &prefix) {
    std::string text;
    std::string last;
    for (const LibraryKernel &kernel : library.kernels) {
        // Operators with a number of inputs that varies are for atalla_operator() itself.
        std::set<size_t> counts;
        for (const LibraryKernel &other : library.kernels)
            if (other.op == kernel.op) counts.insert(other.inputs.size());
        if (kernel.op == last || kernel.op == "gemm" || kernel.outputs.size() != 1 || counts.size() != 1) continue;
        last = kernel.op;
        std::string parameters, tensors;
        for (size_t i = 0; i < kernel.inputs.size(); i++) {
            parameters += fmt::format("const atalla_operand *input_{}, ", i);
            tensors += fmt::format("{}*input_{}", i == 0 ? "" : ", ", i);
        }
        text += fmt::format(
            "static inline int {}_{}(const atalla_library *library, const char *attributes, {}uint16_t *output, size_t "
            "output_elements, atalla_operator_report *report) {{\n"
            "    const atalla_operand inputs[] = {{{}}};\n    return atalla_operator(library, {}, attributes, inputs, {}, "
            "output, output_elements, report);\n}}\n\n",
            prefix, identifier(kernel.op), parameters, tensors, c_literal(kernel.op), kernel.inputs.size());
    }
    return text.empty() ? text : "#include \"atalla_kernels.h\"\n\n/* atalla_operator() for each operator. */\n" + text;
}

}  // namespace

int64_t LibraryTensor::elements() const {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    return count;
}

const LibraryKernel *KernelLibrary::find(std::string_view op, std::string_view workload) const {
    const auto found = std::lower_bound(
        kernels.begin(), kernels.end(), std::pair(op, workload), [](const LibraryKernel &kernel, const auto &wanted) {
            return std::pair<std::string_view, std::string_view>(kernel.op, kernel.workload) < wanted;
        });
    return found != kernels.end() && found->op == op && found->workload == workload ? &*found : nullptr;
}

std::vector<uint8_t> library_bytes(KernelLibrary library) {
    std::sort(library.kernels.begin(), library.kernels.end(),
              [](const LibraryKernel &one, const LibraryKernel &other) { return key(one) < key(other); });
    flatbuffers::FlatBufferBuilder builder;
    builder.ForceDefaults(true);  // the checksum's place is there whatever it holds
    std::vector<flatbuffers::Offset<atlib::Kernel>> kernels;
    for (size_t i = 0; i < library.kernels.size(); i++) {
        const LibraryKernel &kernel = library.kernels[i];
        if (i > 0 && key(kernel) == key(library.kernels[i - 1]))
            throw Error(fmt::format("{} {} is in the library twice", kernel.op, kernel.workload));
        const std::vector<uint8_t> packets = packet_bytes_of(kernel);
        std::vector<flatbuffers::Offset<atlib::Word>> words;
        for (const auto &[address, value] : kernel.program.data) words.push_back(atlib::CreateWord(builder, address, value));
        const auto inputs = write_tensors(builder, kernel.inputs), outputs = write_tensors(builder, kernel.outputs);
        const auto provenance = atlib::CreateProvenanceDirect(builder, kernel.run.c_str(), kernel.recorded);
        const auto sliced = kernel.items > 0 ? builder.CreateVector(kernel.sliced) : 0;
        builder.ForceVectorAlignment(packets.size(), 1, 64);
        const auto code = builder.CreateVector(packets);
        const auto data = builder.CreateVector(words);
        kernels.push_back(atlib::CreateKernel(builder, builder.CreateString(kernel.op), builder.CreateString(kernel.workload),
                                              builder.CreateString(kernel.point), kernel.cycles, kernel.bound_cycles, inputs,
                                              outputs, kernel.parameters, code, data, provenance, kernel.items, sliced));
    }
    std::vector<flatbuffers::Offset<atlib::Parameter>> parameters;
    for (const ParameterEntry &entry : parameter_table())
        parameters.push_back(atlib::CreateParameter(builder, builder.CreateString(entry.key.data(), entry.key.size()),
                                                    entry.get(library.machine)));
    const auto table = atlib::CreateLibraryDirect(
        builder, version, library.machine.name.c_str(), library.machine.fingerprint().c_str(), &parameters,
        library.machine.model == MachineModel::Functional, library.compiler.c_str(), &kernels);
    atlib::FinishLibraryBuffer(builder, table);
    std::vector<uint8_t> bytes{builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
    const size_t at = checksum_offset(*atlib::GetLibrary(bytes.data()), bytes).value();
    flatbuffers::WriteScalar(bytes.data() + at, checksum_around(bytes, at));
    return bytes;
}

KernelLibrary parse_library(std::span<const uint8_t> bytes) {
    if (bytes.size() < 8 || !atlib::LibraryBufferHasIdentifier(bytes.data())) throw Error("not a kernel library (.atlib)");
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 64, 100'000'000);
    if (!atlib::VerifyLibraryBuffer(verifier)) throw Error("the kernel library is damaged");
    const atlib::Library &table = *atlib::GetLibrary(bytes.data());
    check_version(table, bytes);
    KernelLibrary library;
    library.machine = machine_of(table);
    library.compiler = table.compiler_fingerprint()->str();
    for (const atlib::Kernel *kernel : *table.kernels()) {
        try {
            library.kernels.push_back(kernel_of(*kernel));
        } catch (const Error &error) {
            throw Error(fmt::format("the kernel library is damaged at {} {}: {}", kernel->op()->string_view(),
                                    kernel->workload()->string_view(), error.what()));
        }
        const size_t count = library.kernels.size();
        if (count > 1 && !(key(library.kernels[count - 2]) < key(library.kernels[count - 1])))
            throw Error("the kernel library is damaged: its kernels are out of order");
    }
    return library;
}

KernelLibrary read_library(const std::filesystem::path &file) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
        throw Error(fmt::format("{}: a kernel library is a regular file", file.string()));
    std::ifstream in = open_to_read(file);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    try {
        return parse_library(bytes);
    } catch (const Error &error) {
        throw Error(fmt::format("{}: {}", file.string(), error.what()));
    }
}

std::string library_header(const KernelLibrary &library, std::string_view name) {
    const std::string prefix = capitals(name);
    std::string text =
        fmt::format("/* Generated: the kernels of a library for machine {}. */\n#ifndef {}_ATLIB_H\n#define {}_ATLIB_H\n\n",
                    library.machine.name, prefix, prefix);
    text += fmt::format("#define {}_MACHINE_FINGERPRINT {}\n#define {}_COMPILER_FINGERPRINT {}\n#define {}_KERNELS {}\n\n",
                        prefix, c_literal(library.machine.fingerprint()), prefix, c_literal(library.compiler), prefix,
                        library.kernels.size());
    text += fmt::format(
        "/* X(op, workload, cycles, bound_cycles) for each kernel, in the order of the file. */\n#define {}_FOR_EACH(X)",
        prefix);
    for (const LibraryKernel &kernel : library.kernels)
        text += fmt::format(" \\\n    X({}, {}, {}, {})", c_literal(kernel.op), c_literal(kernel.workload), kernel.cycles,
                            kernel.bound_cycles);
    text += "\n\n";
    text += operator_functions(library, prefix);
    return text + "#endif\n";
}

std::vector<std::string> library_differences(const KernelLibrary &one, const KernelLibrary &other) {
    std::vector<std::string> lines;
    if (one.machine.fingerprint() != other.machine.fingerprint())
        lines.push_back(fmt::format("machine {} ({}) / {} ({})", one.machine.name, one.machine.fingerprint(),
                                    other.machine.name, other.machine.fingerprint()));
    if (one.compiler != other.compiler) lines.push_back(fmt::format("compiler {} / {}", one.compiler, other.compiler));
    for (const LibraryKernel &kernel : one.kernels) {
        const LibraryKernel *now = other.find(kernel.op, kernel.workload);
        const std::string what = fmt::format("{} {}", kernel.op, kernel.workload);
        if (!now)
            lines.push_back(fmt::format("- {}: {} cycles", what, kernel.cycles));
        else if (now->cycles != kernel.cycles)
            lines.push_back(
                fmt::format("~ {}: {} cycles, then {} ({:+.1f} %)", what, kernel.cycles, now->cycles,
                            100.0 * static_cast<double>(now->cycles - kernel.cycles) / static_cast<double>(kernel.cycles)));
        else if (now->point != kernel.point)
            lines.push_back(fmt::format("~ {}: another schedule of {} cycles", what, kernel.cycles));
        else if (packet_bytes_of(*now) != packet_bytes_of(kernel) || now->program.data != kernel.program.data)
            lines.push_back(fmt::format("~ {}: another program of {} cycles", what, kernel.cycles));
        else if (now->run != kernel.run || now->recorded != kernel.recorded)
            lines.push_back(fmt::format("~ {}: the same program from another run", what));
    }
    for (const LibraryKernel &kernel : other.kernels)
        if (!one.find(kernel.op, kernel.workload))
            lines.push_back(fmt::format("+ {} {}: {} cycles", kernel.op, kernel.workload, kernel.cycles));
    return lines;
}

LibraryRun run_kernel(const KernelLibrary &library, const LibraryKernel &kernel, const std::vector<Bf16> &inputs) {
    if (inputs.size() != kernel.inputs.size())
        throw Error(
            fmt::format("{} {} has {} inputs, not {}", kernel.op, kernel.workload, kernel.inputs.size(), inputs.size()));
    Program program = kernel.program;
    std::vector<uint64_t> bytes;
    for (const LibraryTensor &tensor : kernel.inputs) bytes.push_back(static_cast<uint64_t>(tensor.elements()) * 2);
    for (const LibraryTensor &tensor : kernel.outputs) bytes.push_back(static_cast<uint64_t>(tensor.elements()) * 2);
    const std::vector<uint64_t> addresses = place_tensors(bytes, library.machine);
    for (size_t i = 0; i < addresses.size(); i++)
        program.data[kernel.parameters + 4 * static_cast<uint32_t>(i)] = static_cast<uint32_t>(addresses[i]);
    Simulator simulator(library.machine);
    simulator.load(program);
    for (size_t i = 0; i < inputs.size(); i++) {
        if (static_cast<int64_t>(inputs[i].size()) != kernel.inputs[i].elements())
            throw Error(fmt::format("{} of {} {} has {} elements, not {}", kernel.inputs[i].name, kernel.op, kernel.workload,
                                    kernel.inputs[i].elements(), inputs[i].size()));
        simulator.write_memory(addresses[i], {reinterpret_cast<const uint8_t *>(inputs[i].data()), inputs[i].size() * 2});
    }
    const RunResult result = simulator.run();
    if (!result.ok) throw Error(fmt::format("{} {} did not run: {}", kernel.op, kernel.workload, result.error));
    LibraryRun run;
    run.cycles = static_cast<int64_t>(result.counters.cycles);
    for (size_t i = 0; i < kernel.outputs.size(); i++) {
        Bf16 output(static_cast<size_t>(kernel.outputs[i].elements()));
        simulator.read_memory(addresses[inputs.size() + i], {reinterpret_cast<uint8_t *>(output.data()), output.size() * 2});
        run.outputs.push_back(std::move(output));
    }
    return run;
}

}  // namespace atalla
