// A loaded model: the verified bytes of a loadable, and what running it needs from them. Immutable; contexts of several
// threads share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph_import/graph.h"
#include "isa/machine.h"
#include "isa/program.h"
#include "runtime/loadable_generated.h"
#include "runtime/mapped_file.h"

namespace atalla {

// What a reader of this version accepts and a writer writes.
constexpr uint16_t loadable_major = 1, loadable_minor = 3;

class Model {
public:
    // Maps the file. Error, naming it, unless it is a loadable of this major version, whole and consistent.
    static std::shared_ptr<const Model> load(const std::filesystem::path &file);
    // The bytes are copied. `name` stands for the file in messages.
    static std::shared_ptr<const Model> from_bytes(std::span<const uint8_t> bytes, std::string_view name);

    const loadable::Model &table() const { return *table_; }
    const Machine &machine() const { return machine_; }

    struct HostWork {
        Node node;  // its value ids are indices of the specialization's values
    };
    struct DeviceWork {
        uint32_t entry = 0;
        std::vector<int32_t> reads, writes;
    };
    struct Step {
        std::string node;
        std::unique_ptr<const HostWork> host;  // or
        std::unique_ptr<const DeviceWork> device;
    };
    struct Specialization {
        const loadable::Specialization *table = nullptr;
        Program program;
        std::vector<Step> steps;
        Graph values;  // without nodes: the types of the values, for the nodes of the host's steps
        std::vector<int64_t> sizes_of(int32_t value) const;
        DType dtype_of(int32_t value) const;
    };
    const std::vector<Specialization> &specializations() const { return specializations_; }
    // A view of the mapped bytes, which it keeps alive.
    HostTensor constant(size_t index) const;

private:
    Model() = default;
    static std::shared_ptr<const Model> open(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                                             std::string_view name);

    std::shared_ptr<const void> owner_;
    const loadable::Model *table_ = nullptr;
    Machine machine_;
    std::vector<Specialization> specializations_;
};

// Which specialization runs a call.
struct Choice {
    size_t specialization = 0;
    // Sizes of the call that are less than the specialization's: symbols that may be filled up.
    Bindings filled;
};

// The specialization for inputs of these sizes, else the smallest that they can be filled up to. Error that names the input,
// the dimension and what is possible.
Choice choose_specialization(const Model &model, const std::vector<std::vector<int64_t>> &inputs);
// The same error for sizes with more elements than any specialization takes, before somebody makes room for them.
void check_elements(const Model &model, size_t input, const std::vector<int64_t> &sizes);

// What a port's tensor of a specialization is in a call: the sizes of dimensions that are a filled symbol.
std::vector<int64_t> sizes_in_call(const loadable::Port &port, std::vector<int64_t> sizes, const Bindings &filled);

}  // namespace atalla
