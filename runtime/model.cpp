#include "runtime/model.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph_import/guards.h"
#include "isa/error.h"
#include "runtime/check.h"
#include "runtime/checksum.h"

namespace atalla {

namespace {

Program program_of(const loadable::Code &code) {
    Program program;
    const uint8_t *at = code.packets()->data();
    const size_t count = code.packets()->size() / packet_bytes;
    program.packets.reserve(count);
    for (size_t p = 0; p < count; p++) {
        Packet packet;
        for (Instruction &slot : packet) {
            uint64_t word = 0;
            constexpr size_t slot_bytes = 5;
            std::memcpy(&word, at, slot_bytes);
            slot = decode(word);
            at += slot_bytes;
        }
        program.append(packet, code.sources() != nullptr && code.sources()->size() != 0
                                   ? code.sources()->Get(static_cast<uint32_t>(p))
                                   : -1);
    }
    for (const auto *word : *code.data()) program.data[word->address()] = word->value();
    const auto text = [](const flatbuffers::String *s) { return s == nullptr ? std::string() : s->str(); };
    if (code.places() != nullptr)
        for (const auto *place : *code.places())
            program.sources.push_back({text(place->func()), text(place->loop()), text(place->node())});
    return program;
}

Argument argument_of(const loadable::Argument &a) {
    const auto value_id = [](int64_t index) { return ValueId{static_cast<int32_t>(index)}; };
    switch (a.kind()) {
        case loadable::ArgumentKind_Tensor:
            return value_id(a.ints()->Get(0));
        case loadable::ArgumentKind_Tensors: {
            std::vector<ValueId> ids;
            if (a.ints() != nullptr)
                for (int64_t index : *a.ints()) ids.push_back(value_id(index));
            return ids;
        }
        case loadable::ArgumentKind_Int:
            return SymInt(a.ints()->Get(0));
        case loadable::ArgumentKind_Ints: {
            Sizes sizes;
            if (a.ints() != nullptr)
                for (int64_t value : *a.ints()) sizes.emplace_back(value);
            return sizes;
        }
        case loadable::ArgumentKind_Float:
            return a.floats()->Get(0);
        case loadable::ArgumentKind_Floats:
            return a.floats() == nullptr ? std::vector<double>() : std::vector<double>(a.floats()->begin(), a.floats()->end());
        case loadable::ArgumentKind_Bool:
            return a.ints()->Get(0) != 0;
        case loadable::ArgumentKind_Bools: {
            std::vector<bool> flags;
            if (a.ints() != nullptr)
                for (int64_t value : *a.ints()) flags.push_back(value != 0);
            return flags;
        }
        case loadable::ArgumentKind_String:
            return a.text()->str();
        case loadable::ArgumentKind_Type:
            return static_cast<DType>(a.ints()->Get(0));
        default:
            return std::monostate{};
    }
}

Model::Step step_of(const loadable::Step &table) {
    Model::Step step;
    if (table.node() != nullptr) step.node = table.node()->str();
    if (const auto *device = table.work_as_DeviceCall()) {
        step.device =
            std::make_unique<const Model::DeviceWork>(Model::DeviceWork{device->entry(),
                                                                        {device->reads()->begin(), device->reads()->end()},
                                                                        {device->writes()->begin(), device->writes()->end()}});
        return step;
    }
    const auto *host = table.work_as_HostCall();
    Model::HostWork work;
    work.node.target = host->target()->str();
    work.node.module = step.node;
    for (const auto *argument : *host->arguments())
        work.node.arguments.push_back({argument->name()->str(), argument_of(*argument)});
    for (int32_t v : *host->results()) work.node.outputs.push_back({v});
    step.host = std::make_unique<const Model::HostWork>(std::move(work));
    return step;
}

}  // namespace

std::vector<int64_t> Model::Specialization::sizes_of(int32_t value) const {
    const auto *sizes = table->values()->Get(static_cast<uint32_t>(value))->sizes();
    return {sizes->begin(), sizes->end()};
}
DType Model::Specialization::dtype_of(int32_t value) const {
    return static_cast<DType>(table->values()->Get(static_cast<uint32_t>(value))->dtype());
}

std::shared_ptr<const Model> Model::open(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                                         std::string_view name) {
    try {
        std::shared_ptr<Model> model(new Model);
        model->owner_ = std::move(owner);
        model->table_ = verified_table(bytes);
        model->machine_ = machine_of(*model->table_);
        check_contents(*model->table_, model->machine_);
        check_checksum(bytes, *model->table_);
        for (const auto *table : *model->table_->specializations()) {
            Specialization specialization;
            specialization.table = table;
            if (table->code() != nullptr) specialization.program = program_of(*table->code());
            for (const auto *value : *table->values()) {
                TensorType type;
                type.dtype = static_cast<DType>(value->dtype());
                type.sizes.assign(value->sizes()->begin(), value->sizes()->end());
                specialization.values.values.push_back({value->name()->str(), Value::Kind::Tensor, std::move(type), 0, -1});
            }
            for (const auto *step : *table->steps()) specialization.steps.push_back(step_of(*step));
            model->specializations_.push_back(std::move(specialization));
        }
        return model;
    } catch (const Error &error) {
        throw Error(fmt::format("{}: {}", name, error.what()));
    }
}

std::shared_ptr<const Model> Model::load(const std::filesystem::path &file) {
    auto mapped = std::make_shared<const MappedFile>(file);
    const std::span<const uint8_t> bytes = mapped->bytes();
    return open(bytes, std::move(mapped), file.string());
}

std::shared_ptr<const Model> Model::from_bytes(std::span<const uint8_t> bytes, std::string_view name) {
    // Aligned like a file's first page, which the constants' alignment relies on.
    constexpr size_t alignment = 64;
    const size_t size = (bytes.size() + alignment) / alignment * alignment;
    std::shared_ptr<uint8_t> copy(static_cast<uint8_t *>(std::aligned_alloc(alignment, size)), std::free);
    if (!copy) throw Error(fmt::format("{}: no memory for {} bytes", name, bytes.size()));
    if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
    const std::span<const uint8_t> copied(copy.get(), bytes.size());
    return open(copied, std::move(copy), name);
}

HostTensor Model::constant(size_t index) const {
    const auto &table = *table_->constants()->Get(static_cast<uint32_t>(index));
    HostTensor tensor;
    tensor.dtype = static_cast<DType>(table.dtype());
    tensor.sizes.assign(table.sizes()->begin(), table.sizes()->end());
    tensor.strides = dense_strides(tensor.sizes);
    tensor.storage = std::make_shared<const Storage>(
        Storage{owner_, reinterpret_cast<const std::byte *>(table.data()->data()), static_cast<int64_t>(table.data()->size())});
    return tensor;
}

namespace {

// Values of the symbols in a call, from dimensions that are one. Nothing for a call that the model was not exported for.
std::optional<Bindings> symbols_of(const loadable::Model &model, const std::vector<std::vector<int64_t>> &inputs) {
    Bindings symbols;
    std::map<std::string, std::vector<int64_t>> by_name;
    for (size_t i = 0; i < inputs.size(); i++) {
        const auto &port = *model.inputs()->Get(static_cast<uint32_t>(i));
        if (port.dims()->size() != inputs[i].size()) return std::nullopt;
        by_name[port.name()->str()] = inputs[i];
        for (size_t d = 0; d < inputs[i].size(); d++)
            if (const auto *expression = port.dims()->Get(static_cast<uint32_t>(d))->expression())
                if (symbols.try_emplace(expression->str(), inputs[i][d]).first->second != inputs[i][d]) return std::nullopt;
    }
    if (model.symbols() != nullptr)
        for (const auto *symbol : *model.symbols())
            if (const auto found = symbols.find(symbol->name()->str());
                found != symbols.end() && (found->second < symbol->least() || found->second > symbol->most()))
                return std::nullopt;
    if (model.guards() != nullptr)
        for (const auto *guard : *model.guards())
            if (!guard_holds(guard->str(), by_name)) return std::nullopt;
    return symbols;
}

// What a call leaves free of a specialization whose symbols may be filled up. Nothing if the call does not fit into it.
std::optional<Bindings> filled_symbols(const loadable::Model &model, const Model::Specialization &specialization,
                                       const std::vector<std::vector<int64_t>> &inputs, const Bindings &symbols) {
    Bindings filled;
    if (model.symbols() == nullptr || specialization.table->symbols() == nullptr) return std::nullopt;
    for (const auto *symbol : *model.symbols()) {
        const auto found = symbols.find(symbol->name()->str());
        if (!symbol->filled() || found == symbols.end() || found->second < 1) continue;
        for (const auto *value : *specialization.table->symbols())
            if (value->name()->str() == symbol->name()->str() && found->second < value->value())
                filled[found->first] = found->second;
    }
    for (size_t i = 0; i < inputs.size(); i++) {
        const auto at = static_cast<uint32_t>(i);
        if (sizes_in_call(*model.inputs()->Get(at), specialization.sizes_of(specialization.table->inputs()->Get(at)), filled) !=
            inputs[i])
            return std::nullopt;
    }
    return filled;
}

}  // namespace

std::vector<int64_t> sizes_in_call(const loadable::Port &port, std::vector<int64_t> sizes, const Bindings &filled) {
    for (size_t d = 0; d < std::min<size_t>(sizes.size(), port.dims()->size()); d++)
        if (const auto *expression = port.dims()->Get(static_cast<uint32_t>(d))->expression())
            if (const auto found = filled.find(expression->str()); found != filled.end())
                sizes[d] = std::min(sizes[d], found->second);
    return sizes;
}

namespace {

std::vector<std::vector<int64_t>> sizes_of_input(const Model &model, size_t input) {
    std::vector<std::vector<int64_t>> all;
    for (const Model::Specialization &s : model.specializations())
        all.push_back(s.sizes_of(s.table->inputs()->Get(static_cast<uint32_t>(input))));
    return all;
}

[[noreturn]] void refuse_sizes(const Model &model, size_t input, const std::vector<int64_t> &sizes) {
    std::vector<std::string> possible;
    for (const std::vector<int64_t> &taken : sizes_of_input(model, input))
        possible.push_back(fmt::format("[{}]", fmt::join(taken, ", ")));
    possible.erase(std::unique(possible.begin(), possible.end()), possible.end());
    throw Error(fmt::format("input '{}' has sizes [{}], but the model is compiled for {}",
                            model.table().inputs()->Get(static_cast<uint32_t>(input))->name()->str(), fmt::join(sizes, ", "),
                            fmt::join(possible, " or ")));
}

}  // namespace

void check_elements(const Model &model, size_t input, const std::vector<int64_t> &sizes) {
    const auto elements = [](const std::vector<int64_t> &of) {
        return std::accumulate(of.begin(), of.end(), int64_t{1}, std::multiplies<>());
    };
    const auto enough = [&](const std::vector<int64_t> &taken) { return elements(taken) >= elements(sizes); };
    if (std::ranges::none_of(sizes_of_input(model, input), enough)) refuse_sizes(model, input, sizes);
}

Choice choose_specialization(const Model &model, const std::vector<std::vector<int64_t>> &inputs) {
    const std::vector<Model::Specialization> &all = model.specializations();
    for (size_t s = 0; s < all.size(); s++) {
        bool fits = true;
        for (size_t i = 0; i < inputs.size(); i++)
            fits = fits && all[s].sizes_of(all[s].table->inputs()->Get(static_cast<uint32_t>(i))) == inputs[i];
        if (fits) return {s, {}};
    }
    if (const std::optional<Bindings> symbols = symbols_of(model.table(), inputs)) {
        std::optional<Choice> smallest;
        for (size_t s = 0; s < all.size(); s++) {
            const std::optional<Bindings> filled = filled_symbols(model.table(), all[s], inputs, *symbols);
            if (filled && (!smallest || all[s].table->memory_bytes() < all[smallest->specialization].table->memory_bytes()))
                smallest = Choice{s, *filled};
        }
        if (smallest) return *smallest;
    }
    // The first input that fits no specialization is what to complain of.
    for (size_t i = 0; i < inputs.size(); i++) {
        const std::vector<std::vector<int64_t>> possible = sizes_of_input(model, i);
        if (std::ranges::find(possible, inputs[i]) == possible.end()) refuse_sizes(model, i, inputs[i]);
    }
    throw Error("each input has a size that the model is compiled for, but not all of them together");
}

}  // namespace atalla
