// They are one allocation from here on, so that whatever moves operations keeps the order of the loads and stores of each row.
#include "codegen/share_rows.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla::codegen {

namespace {

void rename(Body &body, int from, int to) {
    const auto renamed = [&](int &allocation) {
        if (allocation == from)
            allocation = to;
        else if (allocation > from)
            allocation--;
    };
    for (Node &node : body) {
        if (node.op && node.op->access) renamed(node.op->access->allocation);
        if (node.copy) renamed(node.copy->allocation);
        if (node.loop) rename(node.loop->body, from, to);
        if (node.branch) rename(node.branch->body, from, to);
    }
}

bool all_fit(const Kernel &kernel) {
    // What does not divide, what fewer pads hold, guard rows and iterations with rows of their own take the rest.
    const int64_t room = kernel.machine->pad.count * kernel.machine->pad_rows() * 2 / 3;
    return std::accumulate(kernel.allocations.begin(), kernel.allocations.end(), int64_t{0},
                           [](int64_t rows, const Allocation &allocation) { return rows + allocation.rows; }) <= room;
}

}  // namespace

void share_rows(Kernel &kernel) {
    if (all_fit(kernel)) return;
    constexpr std::string_view over = "_over_";
    for (size_t i = 0; i < kernel.allocations.size();) {
        const Allocation &sharing = kernel.allocations[i];
        const size_t at = sharing.name.find(over);
        if (at == std::string::npos) {
            i++;
            continue;
        }
        const std::string other = sharing.name.substr(at + over.size());
        const auto owner = std::find_if(kernel.allocations.begin(), kernel.allocations.end(),
                                        [&](const Allocation &allocation) { return allocation.name == other; });
        if (owner == kernel.allocations.end())
            throw Error(fmt::format(
                "cannot generate code: '{}' is to lie where '{}' does, which is not in the pads; store '{}' in VTCM",
                sharing.name, other, other));
        if (sharing.rows != owner->rows)
            throw Error(
                fmt::format("cannot generate code: '{}' with {} rows is to lie where '{}' does, which has {}; bound the "
                            "storage of both alike",
                            sharing.name, sharing.rows, other, owner->rows));
        const auto from = static_cast<int>(i), to = static_cast<int>(owner - kernel.allocations.begin());
        rename(kernel.body, from, to > from ? to - 1 : to);
        kernel.allocations.erase(kernel.allocations.begin() + from);
    }
}

}  // namespace atalla::codegen
