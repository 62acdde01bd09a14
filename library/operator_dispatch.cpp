#include "library/operator_dispatch.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "isa/error.h"

namespace atalla {

namespace {

using nlohmann::json;
using Shape = std::vector<int64_t>;

int64_t elements(const Shape &shape) { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

std::string canonical(const std::string &attributes) {
    const json parsed = json::parse(attributes.empty() ? "{}" : attributes, nullptr, false);
    if (!parsed.is_object()) throw Error(fmt::format("the attributes must be a JSON object, not {}", attributes));
    return parsed.dump();
}

// The outermost extents of a kernel's tensor, whose product is the number of its items.
Shape outer_part(const Shape &shape, int64_t items) {
    size_t count = 0;
    for (int64_t product = 1; product < items && count < shape.size(); count++) product *= shape[count];
    return {shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count)};
}

// What is left of `shape` before the extents that an item has; nothing if an item of it has others.
std::optional<Shape> outer_part_of_call(const Shape &shape, const Shape &of_kernel, const Shape &outer) {
    const auto inner = static_cast<std::ptrdiff_t>(of_kernel.size() - outer.size());
    if (std::ssize(shape) < inner || !std::equal(of_kernel.end() - inner, of_kernel.end(), shape.end() - inner))
        return std::nullopt;
    return Shape(shape.begin(), shape.end() - inner);
}

// Whether a kernel over items of these outer extents means the same over those: attributes count dimensions from the first, and
// a dimension of one element hides what is done along it.
bool means_the_same(const Shape &of_kernel, const Shape &of_call, bool attributes) {
    const bool has_one = std::ranges::find(of_kernel, 1) != of_kernel.end();
    if (!has_one && !attributes) return true;
    if (of_kernel.size() != of_call.size()) return false;
    for (size_t i = 0; i < of_kernel.size(); i++)
        if (of_kernel[i] == 1 && of_call[i] != 1) return false;
    return true;
}

std::string shapes_text(const OperatorCall &call) {
    std::vector<std::string> shapes;
    for (const CallTensor &tensor : call.inputs) shapes.push_back(fmt::format("{}", fmt::join(tensor.shape, "x")));
    return fmt::format("{}", fmt::join(shapes, ", "));
}

}  // namespace

OperatorDispatch::OperatorDispatch(const KernelLibrary &library) : library_(library) {
    for (const LibraryKernel &kernel : library.kernels) {
        const json workload = json::parse(kernel.workload, nullptr, false);
        if (!workload.is_object() || !workload.contains("tensors") || !workload.contains("attributes")) continue;
        Entry entry{&kernel, {}};
        try {
            for (const json &tensor : workload.at("tensors")) entry.shapes.push_back(tensor.at(1).get<Shape>());
        } catch (const json::exception &) {
            continue;
        }
        // A kernel that takes other tensors than its operator is called by its library's own names only.
        bool same = entry.shapes.size() == kernel.inputs.size();
        for (size_t i = 0; same && i < entry.shapes.size(); i++)
            same = elements(entry.shapes[i]) == kernel.inputs[i].elements();
        if (same) entries_[{kernel.op, workload.at("attributes").dump()}].push_back(std::move(entry));
    }
}

std::optional<OperatorChoice> OperatorDispatch::fit(const Entry &entry, const OperatorCall &call) const {
    const LibraryKernel &kernel = *entry.kernel;
    if (entry.shapes.size() != call.inputs.size()) return std::nullopt;
    const auto same = [&](size_t i) { return entry.shapes[i] == call.inputs[i].shape; };
    bool all = true;
    for (size_t i = 0; i < call.inputs.size(); i++) all = all && same(i);
    if (all) return OperatorChoice{&kernel, 0, 1, kernel.cycles};
    if (kernel.items == 0) return std::nullopt;
    std::optional<Shape> kernel_outer, call_outer;
    for (size_t i = 0; i < call.inputs.size(); i++) {
        if (!kernel.sliced[i]) {
            if (!same(i)) return std::nullopt;
            continue;
        }
        const Shape outer = outer_part(entry.shapes[i], kernel.items);
        const std::optional<Shape> here = outer_part_of_call(call.inputs[i].shape, entry.shapes[i], outer);
        // Tensors that are divided alike in the kernel are so in the call.
        if (!here || (kernel_outer && (*kernel_outer != outer || *call_outer != *here))) return std::nullopt;
        kernel_outer = outer;
        call_outer = here;
    }
    if (!call_outer || !means_the_same(*kernel_outer, *call_outer, canonical(call.attributes) != "{}")) return std::nullopt;
    const int64_t items = elements(*call_outer);
    const int64_t runs = (items + kernel.items - 1) / kernel.items;
    return OperatorChoice{&kernel, items, runs, runs * kernel.cycles};
}

std::optional<OperatorChoice> OperatorDispatch::choose(const OperatorCall &call) const {
    const auto found = entries_.find({call.op, canonical(call.attributes)});
    if (found == entries_.end()) return std::nullopt;
    std::optional<OperatorChoice> best;
    for (const Entry &entry : found->second) {
        const std::optional<OperatorChoice> choice = fit(entry, call);
        if (!choice) continue;
        if (choice->exact()) return choice;
        if (!best || std::tie(choice->cycles, choice->kernel->workload) < std::tie(best->cycles, best->kernel->workload))
            best = choice;
    }
    return best;
}

std::vector<Bf16> OperatorDispatch::run(const OperatorCall &call, OperatorChoice *chosen) const {
    for (const CallTensor &tensor : call.inputs)
        if (std::ranges::any_of(tensor.shape, [](int64_t extent) { return extent < 1; }))
            throw Error(fmt::format("{}: a tensor of {} has no elements", call.op, fmt::join(tensor.shape, "x")));
    const std::optional<OperatorChoice> choice = choose(call);
    if (!choice)
        throw Error(
            fmt::format("the library for machine {} has no kernel that serves {} of {} with attributes {}: `atalla library "
                        "list` shows what it has",
                        library_.machine.name, call.op, shapes_text(call), canonical(call.attributes)));
    const LibraryKernel &kernel = *choice->kernel;
    const int64_t wanted = choice->exact() ? 1 : choice->items, each = choice->exact() ? 1 : kernel.items;
    std::vector<Bf16> results;
    for (const LibraryTensor &output : kernel.outputs)
        results.emplace_back(static_cast<size_t>(output.elements() / each * wanted));
    OperatorChoice done = *choice;
    done.cycles = 0;
    for (int64_t first = 0; first < wanted; first += each) {
        const int64_t items = std::min(each, wanted - first);
        std::vector<Bf16> inputs;
        for (size_t i = 0; i < call.inputs.size(); i++) {
            const int64_t size = kernel.inputs[i].elements(), part = size / each;
            Bf16 input(static_cast<size_t>(size), 0);
            const bool sliced = !choice->exact() && kernel.sliced[i];
            const uint16_t *from = call.inputs[i].data + (sliced ? first * part : 0);
            std::copy_n(from, sliced ? items * part : size, input.begin());
            inputs.push_back(std::move(input));
        }
        const LibraryRun run = run_kernel(library_, kernel, inputs);
        done.cycles += run.cycles;
        for (size_t i = 0; i < results.size(); i++) {
            const int64_t part = kernel.outputs[i].elements() / each;
            std::copy_n(run.outputs[i].begin(), items * part, results[i].begin() + first * part);
        }
    }
    if (chosen) *chosen = done;
    return results;
}

}  // namespace atalla
