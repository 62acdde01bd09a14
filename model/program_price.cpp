#include "model/program_price.h"

#include <algorithm>

#include <fmt/format.h>

#include "isa/error.h"
#include "model/specialization.h"
#include "simulator/tensor_places.h"

namespace atalla {

namespace {

std::vector<int64_t> tensor_bytes(const Workload &workload) {
    std::vector<int64_t> bytes;
    for (const std::vector<TensorSpec> &tensors : {workload.inputs(), workload.outputs()})
        for (const TensorSpec &tensor : tensors) bytes.push_back(2 * tensor.elements());
    return bytes;
}

}  // namespace

ProgramPrices::Cost ProgramPrices::cost(const Graph &graph, std::vector<PlacedNode> placed, bool whole) {
    constexpr size_t neighbours = 4;  // the instruction cache holds the code of few kernels
    kernels_.search_ahead(placed, Effort::Full);
    Cost cost;
    std::vector<int> kernel_of(placed.size(), -1);
    std::map<size_t, bool> runs;
    for (size_t n = 0; n < placed.size(); n++) {
        if (placed[n].place == PlacedNode::Device) {
            const size_t kernel = index_of(placed[n]);
            const auto [entry, is_new] = runs.try_emplace(kernel, true);
            if (is_new) entry->second = has_schedule(kernel);
            if (entry->second)
                kernel_of[n] = static_cast<int>(kernel);
            else
                placed[n].place = PlacedNode::Host;
        }
        cost.host_calls += placed[n].place == PlacedNode::Host;
    }
    std::vector<ChosenKernel> kernels(asked_.size());
    for (size_t i = 0; i < asked_.size(); i++) kernels[i].routine.tensors = tensor_bytes(*asked_[i].workload).size();
    for (const Segment &segment : planned_segments({graph, placed, kernel_of, kernels, {}, false}, kernels_.machine())) {
        std::vector<Call> calls;
        for (const KernelCall &call : segment.calls) calls.push_back({call.routine, call.addresses});
        if (whole) {
            cost.rows[calls]++;
            continue;
        }
        const auto length = static_cast<ptrdiff_t>(std::min(neighbours, calls.size()));
        cost.rows[moved({calls.begin(), calls.begin() + length})]++;
        for (auto end = calls.begin() + length; end != calls.end(); ++end) {
            cost.rows[moved({end - length + 1, end + 1})]++;
            cost.rows[moved({end - length + 1, end})]--;
        }
    }
    return cost;
}

bool ProgramPrices::takes_less(const Cost &one, const Cost &other) {
    if (one.host_calls != other.host_calls) return one.host_calls < other.host_calls;
    std::map<std::vector<Call>, int64_t> difference = one.rows;
    for (const auto &[row, count] : other.rows) difference[row] -= count;
    int64_t cycles = 0;
    try {
        for (const auto &[row, count] : difference) {
            if (count == 0) continue;
            std::vector<KernelSet::Call> calls;
            for (const auto &[kernel, addresses] : row) calls.push_back({asked_[kernel], addresses});
            cycles += count * kernels_.cycles_in_a_row(calls);
        }
    } catch (const Error &) {
        return false;
    }
    return cycles < 0;
}

// The same calls with their tensors at the beginning of memory, those that share an address still at one: a kernel waits for
// what it reads of the one before.
std::vector<ProgramPrices::Call> ProgramPrices::moved(std::vector<Call> row) const {
    constexpr uint64_t first = 0x1000;  // behind the parameter words of so few
    std::map<uint32_t, int64_t> bytes_at;
    for (const Call &call : row) {
        const std::vector<int64_t> bytes = tensor_bytes(*asked_[call.kernel].workload);
        for (size_t i = 0; i < bytes.size(); i++)
            bytes_at[call.addresses.at(i)] = std::max(bytes_at[call.addresses[i]], bytes[i]);
    }
    std::map<uint32_t, uint32_t> places;
    uint64_t at = first;
    for (Call &call : row)
        for (uint32_t &address : call.addresses) {
            const auto bytes = static_cast<uint64_t>(bytes_at.at(address));
            const auto [entry, is_new] =
                places.try_emplace(address, static_cast<uint32_t>(tensor_start(at, bytes, kernels_.machine())));
            if (is_new) at = entry->second + bytes;
            address = entry->second;
        }
    return row;
}

size_t ProgramPrices::index_of(const PlacedNode &kernel) {
    const auto [entry, is_new] =
        indices_.try_emplace(fmt::format("{} {}", kernel.op->name(), kernel.workload->text()), asked_.size());
    if (is_new) asked_.push_back({kernel.op, kernel.workload});
    return entry->second;
}

bool ProgramPrices::has_schedule(size_t kernel) {
    try {
        kernels_.schedule(*asked_[kernel].op, asked_[kernel].workload);
        return true;
    } catch (const Error &) {
        return false;
    }
}

}  // namespace atalla
