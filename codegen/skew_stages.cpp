#include "codegen/skew_stages.h"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "codegen/dependence.h"
#include "codegen/index.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

[[noreturn]] void refuse(const Loop &loop, const std::string &reason) {
    throw Error(fmt::format("cannot generate code: the loops inside of '{}' do not become one: {}", loop.name, reason));
}

Loop *loop_inside(const Loop &loop) {
    const auto found = std::find_if(loop.body.begin(), loop.body.end(), [](const Node &node) { return node.loop != nullptr; });
    return found == loop.body.end() ? nullptr : found->loop.get();
}

// What a node reads and writes, all of its iterations together.
struct Uses {
    std::set<Reg> read, written;
    std::map<int, std::set<LinearForm>> loaded, stored;  // rows by allocation
};

void add(const Op &op, const LoopShapes &shapes, Uses &uses) {
    for (Reg r : reads_of(op)) uses.read.insert(r);
    if (op.dst.defined() && op.dst.id > all_lanes.id) uses.written.insert(op.dst);
    if (op.access)
        (op.opcode == Opcode::vreg_st ? uses.stored : uses.loaded)[op.access->allocation].insert(
            shapes.in_first(op.access->row));
}
void add(const Node &node, const LoopShapes &shapes, Uses &uses) {
    if (node.op) add(*node.op, shapes, uses);
    if (node.loop)
        for (const Node &inner : node.loop->body) add(inner, shapes, uses);
}

bool meet(const std::set<Reg> &a, const std::set<Reg> &b) {
    return std::any_of(a.begin(), a.end(), [&](Reg r) { return b.count(r) > 0; });
}

}  // namespace

LinearForm LoopShapes::in_first(const LinearForm &form) const {
    LinearForm result{form.constant, {}};
    for (const auto &[atom, coefficient] : form.terms) {
        const auto found = first.find(atom);
        result += LinearForm{0, {{found == first.end() ? atom : found->second, coefficient}}};
    }
    return result;
}

LoopShapes shapes_of(Kernel &kernel, Loop &rows) {
    LoopShapes shapes;
    const auto variable_of = [&](const Loop &loop) {
        for (size_t a = 0; a < kernel.atoms.size(); a++)
            if (kernel.atoms[a].is_loop && kernel.atoms[a].loop == loop.id) return static_cast<int>(a);
        const std::string &name = kernel.loops[static_cast<size_t>(loop.id)].name;
        kernel.atoms.push_back({Halide::Internal::Variable::make(Halide::Int(32), name), name, loop.id, true});
        return static_cast<int>(kernel.atoms.size()) - 1;
    };
    // What is not linear in the variable of a later loop, such as a quotient, is the same of the first one's.
    const auto in_variable_of = [&](int atom, const Loop &loop, const Loop &like) {
        const LinearForm form{0, {{atom, 1}}};
        IndexScope scope(kernel);
        const LinearForm same = scope.at(form, loop.id, kernel.atoms[static_cast<size_t>(variable_of(like))].expr);
        if (!scope.at(form, loop.id, 0).is_constant() || same.constant != 0 || same.terms.size() != 1 ||
            same.terms.begin()->second != 1)
            refuse(rows, fmt::format("'{}' is not linear in '{}'", kernel.atoms[static_cast<size_t>(atom)].text, loop.name));
        return same.terms.begin()->first;
    };
    // Rows that the first pass reads may be kept for the others.
    const auto refuse_curved = [&](const Loop &loop, const auto &is_curved) {
        for (const Node &node : loop.body) {
            if (!node.op || !node.op->access) continue;
            for (const auto &[atom, step] : node.op->access->row.terms)
                if (is_curved(atom))
                    refuse(rows,
                           fmt::format("'{}' is not linear in '{}'", kernel.atoms[static_cast<size_t>(atom)].text, loop.name));
        }
    };
    const Loop *first = nullptr;
    for (const Node &node : rows.body) {
        if (!node.loop) continue;
        if (first == nullptr) first = node.loop.get();
        const Loop *loop = node.loop.get(), *like = first;
        for (; loop != nullptr && like != nullptr; loop = loop_inside(*loop), like = loop_inside(*like)) {
            if (loop->extent != like->extent || kernel.loops[static_cast<size_t>(loop->id)].varies())
                refuse(rows,
                       fmt::format("'{}' runs {} times and '{}' {} times", like->name, like->extent, loop->name, loop->extent));
            if (std::count_if(loop->body.begin(), loop->body.end(), [](const Node &inner) { return inner.loop != nullptr; }) >
                1)
                refuse(rows, fmt::format("'{}' has several loops inside", loop->name));
            if (std::any_of(loop->body.begin(), loop->body.end(), [](const Node &inner) { return inner.branch || inner.copy; }))
                refuse(rows, fmt::format("'{}' has branches or copies inside", loop->name));
            if (loop != like) shapes.first[variable_of(*loop)] = variable_of(*like);
            const auto is_curved = [&](int atom) {
                const Atom &of_loop = kernel.atoms[static_cast<size_t>(atom)];
                return of_loop.loop == loop->id && !of_loop.is_loop;
            };
            if (loop == like) refuse_curved(*loop, is_curved);
            for (int atom = 0, count = static_cast<int>(kernel.atoms.size()); loop != like && atom < count; atom++)
                if (is_curved(atom)) shapes.first[atom] = in_variable_of(atom, *loop, *like);
        }
        if (loop != nullptr || like != nullptr) refuse(rows, "not all have a loop inside");
    }
    return shapes;
}

std::vector<int> skew_stages(Kernel &kernel, Loop &rows) {
    const LoopShapes shapes = shapes_of(kernel, rows);
    const size_t count = rows.body.size();
    std::vector<Uses> uses(count);
    for (size_t i = 0; i < count; i++) {
        if (rows.body[i].branch) refuse(rows, "there is a branch between them");
        add(rows.body[i], shapes, uses[i]);
    }
    std::set<Reg> written;
    for (const Uses &use : uses) written.insert(use.written.begin(), use.written.end());
    const auto is_loop = [&](size_t i) { return rows.body[i].loop != nullptr; };
    std::vector<int> stages(count, 0);
    for (size_t i = 0; i < count; i++) {
        for (size_t before = 0; before < i; before++) {
            const bool both = is_loop(i) && is_loop(before);
            int apart = -1;
            if (meet(uses[before].written, uses[i].read)) {
                if (both)
                    apart = 2;
                else if (is_loop(before))
                    apart = 1;
                else
                    apart = is_loop(i) && stages[before] > 0 ? 1 : 0;
            }
            for (const auto &[allocation, stored] : uses[before].stored) {
                const auto loads = uses[i].loaded.find(allocation);
                if (loads == uses[i].loaded.end()) continue;
                const bool same =
                    both && std::includes(stored.begin(), stored.end(), loads->second.begin(), loads->second.end());
                apart = std::max(apart, same ? 0 : 2);
            }
            if (apart >= 0) stages[i] = std::max(stages[i], stages[before] + apart);
        }
    }
    for (size_t i = count; i-- > 0;) {
        if (is_loop(i)) continue;
        // What starts a sum runs with its pass, and what needs nothing of the iteration with the first that reads it.
        int first_reader = -1;
        for (size_t later = i + 1; later < count; later++) {
            if (is_loop(later) && meet(uses[i].written, uses[later].written)) stages[i] = std::max(stages[i], stages[later]);
            if (meet(uses[i].written, uses[later].read))
                first_reader = first_reader < 0 ? stages[later] : std::min(first_reader, stages[later]);
        }
        if (!meet(uses[i].read, written)) stages[i] = std::max(stages[i], first_reader);
    }
    return stages;
}

}  // namespace atalla::codegen
