// Passes over a row are loops one after the other: each fills and drains its pipeline, waits for the sum of the pass before and
// leaves the units of the others idle. Shifted against each other by iterations of the loop around them and fused (loop
// skewing), they are one loop that keeps all units busy, and what lies between them has an iteration's time.
#include "codegen/skew.h"

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "codegen/dependence.h"
#include "codegen/index.h"
#include "codegen/loop_tree.h"
#include "codegen/skew_stages.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

[[noreturn]] void refuse(const Loop &loop, const std::string &reason) {
    throw Error(fmt::format("cannot generate code: the loops inside of '{}' do not become one: {}", loop.name, reason));
}

bool is_skewed(const Loop &loop) { return loop.name.ends_with("_skewed"); }

void for_each_op(Body &body, const std::function<void(Op &)> &visit) {
    for (Node &node : body) {
        if (node.op) visit(*node.op);
        if (node.loop) for_each_op(node.loop->body, visit);
        if (node.branch) for_each_op(node.branch->body, visit);
    }
}

Op copy_of(const Kernel &kernel, Reg from, Reg to) {
    Op op;
    const bool vector = kernel.cls(from) == RegisterClass::Vector;
    op.opcode = vector ? Opcode::sub_vv : Opcode::or_s;
    op.src = {from, vector ? zero_vector : zero_scalar};
    op.dst = to;
    return op;
}

// One loop that is skewed, with the loop around it where that has nothing else to do but copies.
class Skewer {
public:
    Skewer(Kernel &kernel, const std::map<std::string, PadLayout> &layouts, Loop &rows, Loop *around)
        : kernel_(kernel), layouts_(layouts), rows_(rows), outer_(around != nullptr ? *around : rows), scope_(kernel) {
        inner_ = around != nullptr ? rows.extent : 1;
        iterations_ = outer_.extent;
        for (int id : {rows_.id, outer_.id})
            if (kernel.loops[static_cast<size_t>(id)].varies()) refuse(rows_, "it does not always run as often");
        for (size_t l = 0; l < kernel.loops.size(); l++)
            scope_.bind(kernel.loops[l].name, scope_.loop_variable(static_cast<int>(l)));
    }

    void run() {
        find_accesses();
        begin_anew();
        stages_ = skew_stages(kernel_, rows_);
        const int last = *std::max_element(stages_.begin(), stages_.end());
        delay_ = static_cast<int>(round_up<int64_t, int64_t>(last, inner_));
        for (int &stage : stages_)
            if (stage == last) stage = delay_;
        keep_rows();
        shift();
        give_slots();
        Body straight = carry_registers();
        fuse(std::move(straight));
    }

private:
    // Is it of the loop or of one around it? Passes run through the others.
    bool is_around(int atom) const {
        int loop = kernel_.atoms[static_cast<size_t>(atom)].loop;
        while (loop >= 0 && loop != rows_.id) loop = kernel_.loops[static_cast<size_t>(loop)].parent;
        return loop < 0 || kernel_.atoms[static_cast<size_t>(atom)].loop == rows_.id;
    }
    bool is_around(const LinearForm &form) const {
        return std::any_of(form.terms.begin(), form.terms.end(), [&](const auto &term) { return is_around(term.first); });
    }

    void find_accesses() {
        for_each_op(rows_.body, [&](Op &op) {
            if (op.access) here_[op.access->allocation]++;
            if (op.side || op.fence || op.orders >= 0 || op.value) refuse(rows_, "they do more than compute rows");
        });
        const std::function<void(const Body &)> count = [&](const Body &body) {
            for (const Node &node : body) {
                if (node.op && node.op->access) all_[node.op->access->allocation]++;
                if (node.copy) copied_.insert(node.copy->allocation);
                if (node.loop) count(node.loop->body);
                if (node.branch) count(node.branch->body);
            }
        };
        count(kernel_.body);
    }
    // Rows that no other code touches and that do not depend on the iteration.
    bool is_own(int allocation) {
        bool own = here_[allocation] == all_[allocation] && copied_.count(allocation) == 0;
        for_each_op(rows_.body, [&](Op &op) {
            own = own && !(op.access && op.access->allocation == allocation && is_around(op.access->row));
        });
        return own;
    }

    // A register that straight code makes anew is another one from there on.
    void begin_anew() {
        std::set<Reg> mentioned;
        Renaming names;
        const auto mention = [&](Op &op) {
            for (Reg r : reads_of(op)) mentioned.insert(r);
            mentioned.insert(op.dst);
            rename(op, names);
        };
        for (Node &node : rows_.body) {
            if (node.loop) for_each_op(node.loop->body, mention);
            if (!node.op) continue;
            const Reg made = node.op->dst;
            const bool anew = made.defined() && made.id > all_lanes.id && !reads(*node.op, made) && mentioned.count(made) > 0;
            mention(*node.op);
            if (anew) node.op->dst = names[made.id] = kernel_.register_like(made);
        }
    }

    // Rows that come from elsewhere are those of the first pass: later ones find them where it has put them.
    void keep_rows() {
        const LoopShapes first = shapes_of(kernel_, rows_);
        std::map<std::pair<int, LinearForm>, std::pair<Body *, size_t>> loaded;  // and where
        std::map<int, int> kept;                                                 // allocations, and those for their rows
        for (const bool early : {true, false})
            for (size_t i = 0; i < rows_.body.size(); i++) {
                if (!rows_.body[i].loop || (stages_[i] == 0) != early) continue;
                for_each_innermost(*rows_.body[i].loop, [&](Body &body) {
                    for (size_t at = 0; at < body.size(); at++) {
                        if (!body[at].op || body[at].op->opcode != Opcode::vreg_ld || !is_around(body[at].op->access->row))
                            continue;
                        PadAccess &access = *body[at].op->access;
                        const std::pair key{access.allocation, first.in_first(access.row)};
                        if (early) {
                            loaded.try_emplace(key, &body, at);
                            continue;
                        }
                        const auto source = loaded.find(key);
                        // Those that stay in the pads are still there for the last pass.
                        if (source == loaded.end() && stages_[i] == delay_ && !is_copied_inside(access.allocation)) continue;
                        if (source == loaded.end())
                            refuse(rows_, fmt::format("a later one reads rows of '{}' that the first does not",
                                                      kernel_.allocations[static_cast<size_t>(access.allocation)].name));
                        const auto [entry, inserted] =
                            kept.try_emplace(access.allocation, static_cast<int>(kernel_.allocations.size()));
                        if (inserted) {
                            Allocation rows;
                            rows.name = kernel_.allocations[static_cast<size_t>(access.allocation)].name + "_kept";
                            kernel_.allocations.push_back(std::move(rows));
                        }
                        const auto local = [&](const PadAccess &whole) {
                            PadAccess part{entry->second, whole.row, {}};
                            std::erase_if(part.row.terms, [&](const auto &term) { return is_around(term.first); });
                            return part;
                        };
                        const auto [from, position] = source->second;
                        if (stores_.try_emplace({from, position}).second) {
                            Op store;
                            store.opcode = Opcode::vreg_st;
                            store.access = local(*(*from)[position].op->access);
                            store.src = {Reg{}, Reg{}, (*from)[position].op->dst};
                            store.imm = lanes - 1;
                            store.source = (*from)[position].op->source;
                            stores_[{from, position}] = store;
                            int64_t highest = store.access->row.constant;
                            for (const auto &[atom, rows] : store.access->row.terms)
                                highest +=
                                    std::max<int64_t>(0, rows) *
                                    (kernel_.loops[static_cast<size_t>(kernel_.atoms[static_cast<size_t>(atom)].loop)].extent -
                                     1);
                            int64_t &rows = kernel_.allocations[static_cast<size_t>(entry->second)].rows;
                            rows = std::max(rows, highest + 1);
                        }
                        access = local(access);
                    }
                });
            }
        for (auto store = stores_.rbegin(); store != stores_.rend(); ++store) {
            const auto [body, at] = store->first;
            body->insert(body->begin() + static_cast<std::ptrdiff_t>(at) + 1, Node(store->second));
        }
    }
    bool is_copied_inside(int allocation) const {
        return std::any_of(outer_.body.begin(), outer_.body.end(),
                           [&](const Node &node) { return node.copy && node.copy->allocation == allocation; });
    }
    static void for_each_innermost(Loop &loop, const std::function<void(Body &)> &visit) {
        visit(loop.body);
        for (Node &node : loop.body)
            if (node.loop) for_each_innermost(*node.loop, visit);
    }

    // The loop runs as often more as the last pass is behind the first. First passes stay with the last rows meanwhile, and
    // last ones begin with the first: what they make then is made again.
    void shift() {
        using namespace Halide;
        using namespace Halide::Internal;
        const int64_t behind = delay_ / inner_;
        outer_.extent += behind;
        kernel_.loops[static_cast<size_t>(outer_.id)].extent += behind;
        const Expr variable = Variable::make(Int(32), kernel_.loops[static_cast<size_t>(outer_.id)].name);
        const auto number = [](int64_t value) { return IntImm::make(Int(32), value); };
        const Expr early = Min::make(variable, number(iterations_ - 1)), late = Max::make(variable - number(behind), number(0));
        std::set<int> inside;  // allocations that are copied in the loop
        for (Node &node : outer_.body) {
            if (!node.copy) continue;
            Copy &copy = *node.copy;
            if (copy.first_of >= 0) refuse(rows_, "a copy runs in the first iteration alone");
            copy.any_order = true;
            inside.insert(copy.allocation);
            copy.mem = scope_.at(copy.mem, outer_.id, copy.load ? early : late);
            const int64_t constant = std::exchange(copy.mem.constant, 0);  // boxes have it
            for (Box &box : copy.boxes) box.mem += constant;
            copy.pad_row = slots_of(copy.pad_row);
        }
        for (size_t i = 0; i < rows_.body.size(); i++) {
            const auto place = [&](Op &op) {
                if (!op.access || !is_around(op.access->row)) return;
                const int stage = stages_[i];
                if (stage != 0 && stage != delay_)
                    refuse(rows_, fmt::format("rows of '{}' are used neither by the first nor by the last",
                                              kernel_.allocations[static_cast<size_t>(op.access->allocation)].name));
                LinearForm &row = op.access->row;
                row =
                    inside.count(op.access->allocation) ? slots_of(row) : scope_.at(row, outer_.id, stage == 0 ? early : late);
            };
            if (rows_.body[i].op) place(*rows_.body[i].op);
            if (rows_.body[i].loop) for_each_op(rows_.body[i].loop->body, place);
        }
    }
    // A loop of two iterations is the number of a slot, of which there are no more.
    LinearForm slots_of(const LinearForm &form) {
        const Halide::Expr variable =
            Halide::Internal::Variable::make(Halide::Int(32), kernel_.loops[static_cast<size_t>(outer_.id)].name);
        const bool numbers = std::any_of(form.terms.begin(), form.terms.end(), [&](const auto &term) {
            const Atom &atom = kernel_.atoms[static_cast<size_t>(term.first)];
            return atom.is_loop && atom.loop == outer_.id;
        });
        return numbers ? scope_.at(form, outer_.id, variable % Halide::Internal::IntImm::make(Halide::Int(32), iterations_))
                       : form;
    }

    // Rows that wait for a later pass have slots that rotate from iteration to iteration, one more than wait, so that what an
    // iteration stores and what the one before still reads are never the same.
    void give_slots() {
        std::map<int, std::pair<int, int>> stored, loaded;  // first and last stages
        const auto note = [](std::map<int, std::pair<int, int>> &stages, int allocation, int stage) {
            auto &[first, last] = stages.try_emplace(allocation, stage, stage).first->second;
            first = std::min(first, stage);
            last = std::max(last, stage);
        };
        for_each_access(
            [&](Op &op, int stage) { note(op.opcode == Opcode::vreg_st ? stored : loaded, op.access->allocation, stage); });
        const int64_t pads = kernel_.machine->pad.count;
        for (const auto &[index, stages] : stored) {
            const auto readers = loaded.find(index);
            if (readers == loaded.end() || (readers->second == stages && stages.first == stages.second)) continue;
            Allocation &allocation = kernel_.allocations[static_cast<size_t>(index)];
            if (stages.first != stages.second || !is_own(index))
                refuse(rows_, fmt::format("rows of '{}' do not wait in slots", allocation.name));
            const auto layout = layouts_.find(allocation.name);
            const int64_t round = layout != layouts_.end() && layout->second.block > 0 ? pads * layout->second.block : pads;
            Rotation rotation{index, round_up(allocation.rows, round), {}};
            const int most = readers->second.second - stages.first;
            for (int slot = 0; slot < most + 2; slot++) rotation.slots.push_back(kernel_.scalar(allocation.name + "_slot"));
            allocation.rows = rotation.rows * static_cast<int64_t>(rotation.slots.size());
            const int first = stages.first, allocated = index;
            for_each_access([&](Op &op, int stage) {
                if (op.access->allocation != allocated) return;
                op.access->slot = rotation.slots[static_cast<size_t>(stage - first)];
                op.access->turn = stage - first;
            });
            kernel_.rotations.push_back(rotation);
            const Reg oldest = kernel_.scalar("oldest");
            moves_.push_back(copy_of(kernel_, rotation.slots.back(), oldest));
            for (size_t slot = rotation.slots.size(); slot-- > 1;)
                moves_.push_back(copy_of(kernel_, rotation.slots[slot - 1], rotation.slots[slot]));
            moves_.push_back(copy_of(kernel_, oldest, rotation.slots[0]));
        }
    }
    void for_each_access(const std::function<void(Op &, int)> &visit) {
        for (size_t i = 0; i < rows_.body.size(); i++) {
            const auto one = [&](Op &op) {
                if (op.access) visit(op, stages_[i]);
            };
            if (rows_.body[i].op) one(*rows_.body[i].op);
            if (rows_.body[i].loop) for_each_op(rows_.body[i].loop->body, one);
        }
    }

    // ---- registers

    // A value of an earlier iteration: the register that it was made in, or where it has been moved since, once in each
    // iteration.
    Reg aged(Reg made, int age) {
        std::vector<Reg> &chain = aged_[made];
        while (static_cast<int>(chain.size()) < age) chain.push_back(kernel_.register_like(made));
        return age == 0 ? made : chain[static_cast<size_t>(age) - 1];
    }

    // What an earlier stage has made is in the register of its age. The straight code of all stages, the last first: a stage
    // still finds what the one right before it made an iteration ago.
    Body carry_registers() {
        std::map<Reg, int> made_at;  // the last stage so far that writes a register, under the name that it has there
        std::map<Reg, Reg> latest;
        std::map<int, Body> straight;
        for (size_t i = 0; i < rows_.body.size(); i++) {
            const int stage = stages_[i];
            const bool is_loop = rows_.body[i].loop != nullptr;
            if (rows_.body[i].copy) continue;
            std::set<Reg> read, written;
            const auto note = [&](Op &op) {
                for (Reg r : reads_of(op)) read.insert(r);
                if (op.dst.defined() && op.dst.id > all_lanes.id) written.insert(op.dst);
            };
            if (is_loop)
                for_each_op(rows_.body[i].loop->body, note);
            else
                note(*rows_.body[i].op);
            Renaming names;
            for (Reg r : read) {
                const auto known = latest.find(r);
                if (known == latest.end()) continue;
                const int age = stage - made_at.at(known->second);
                const bool in_place = age == 1 && !is_loop && written.count(r) == 0;
                if (age > 0 && kernel_.cls(r) == RegisterClass::Mask) refuse(rows_, "a mask would have to wait");
                names[r.id] = in_place ? known->second : aged(known->second, age);
            }
            for (Reg r : written) {
                const auto known = latest.find(r);
                if (!names.count(r.id) && known != latest.end() && made_at.at(known->second) != stage)
                    names[r.id] = kernel_.register_like(r);
                else if (!names.count(r.id) && known != latest.end())
                    names[r.id] = known->second;
                const Reg now = names.count(r.id) ? names.at(r.id) : r;
                latest[r] = now;
                made_at[now] = stage;
            }
            if (is_loop) {
                for_each_op(rows_.body[i].loop->body, [&](Op &op) { rename(op, names); });
            } else {
                rename(*rows_.body[i].op, names);
                straight[-stage].push_back(std::move(rows_.body[i]));
            }
        }
        Body out;
        // What is moved from a register of another chain goes first.
        for (auto entry = aged_.rbegin(); entry != aged_.rend(); ++entry)
            for (const auto &[made, chain] = *entry;
                 size_t age : std::views::iota(size_t{0}, chain.size()) | std::views::reverse)
                out.push_back(copy_of(kernel_, age == 0 ? made : chain[age - 1], chain[age]));
        for (const Op &move : moves_) out.push_back(move);
        for (auto &[stage, ops] : straight)
            out.insert(out.end(), std::make_move_iterator(ops.begin()), std::make_move_iterator(ops.end()));
        return out;
    }

    // ---- one loop

    void fuse(Body body) {
        std::vector<std::pair<int, Loop *>> passes;
        for (size_t i = 0; i < rows_.body.size(); i++)
            if (rows_.body[i].loop) passes.emplace_back(-stages_[i], rows_.body[i].loop.get());
        std::stable_sort(passes.begin(), passes.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
        const LoopShapes shapes = shapes_of(kernel_, rows_);
        std::vector<Loop *> loops;
        for (const auto &[stage, loop] : passes) {
            for_each_op(loop->body, [&](Op &op) {
                if (op.access) op.access->row = shapes.in_first(op.access->row);
            });
            loops.push_back(loop);
        }
        Loop one = fused(loops);
        const Loop *const first = std::find_if(rows_.body.begin(), rows_.body.end(), [](const Node &node) {
                                      return node.loop != nullptr;
                                  })->loop.get();
        take_identity(one, *first);
        forward_rows(one);
        body.push_back(Node(std::move(one)));
        Body loads, results;
        for (Node &node : rows_.body)
            if (node.copy) (node.copy->load ? loads : results).push_back(std::move(node));
        rows_.body = std::move(loads);
        for (Body *part : {&body, &results})
            rows_.body.insert(rows_.body.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end()));
    }
    // What stands in front of the loops inside, these, and what stands behind them.
    Loop fused(const std::vector<Loop *> &loops) {
        Loop one;
        one.id = loops.front()->id;
        one.extent = loops.front()->extent;
        one.name = loops.front()->name;
        std::vector<Loop *> inner;
        Body behind;
        for (Loop *loop : loops) {
            bool passed = false;
            for (Node &node : loop->body) {
                if (node.loop) {
                    inner.push_back(node.loop.get());
                    passed = true;
                } else {
                    (passed ? behind : one.body).push_back(std::move(node));
                }
            }
        }
        if (!inner.empty()) one.body.push_back(Node(fused(inner)));
        one.body.insert(one.body.end(), std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
        return one;
    }
    static void take_identity(Loop &loop, const Loop &like) {
        loop.id = like.id;
        loop.name = like.name;
        for (Node &node : loop.body)
            for (const Node &other : like.body)
                if (node.loop && other.loop) take_identity(*node.loop, *other.loop);
    }

    // What a pass stores and another one loads in the same iteration stays in its register; rows that nobody loads then are not
    // stored.
    void forward_rows(Loop &loop) {
        for (Node &node : loop.body)
            if (node.loop) return forward_rows(*node.loop);
        std::map<Reg, int> made;
        std::map<int, int> accesses;
        for (const Node &node : loop.body) {
            made[node.op->dst]++;
            if (node.op->access) accesses[node.op->access->allocation]++;
        }
        std::erase_if(accesses, [&](const auto &entry) {
            return copied_.count(entry.first) > 0 || (all_.count(entry.first) > 0 && all_.at(entry.first) != entry.second);
        });
        std::map<std::pair<int, LinearForm>, Reg> stored;  // by row, of the slot that is stored to
        std::map<int, int> loads;
        Renaming names;
        std::erase_if(loop.body, [&](Node &node) {
            Op &op = *node.op;
            rename(op, names);
            if (!op.access) return false;
            const std::pair row{op.access->allocation, op.access->row};
            if (op.opcode == Opcode::vreg_st) {
                stored.erase(row);
                if (made[op.src[2]] == 1) stored[row] = op.src[2];
                return false;
            }
            const auto value = stored.find(row);
            const bool same =
                op.access->turn <= 0 && accesses.count(row.first) > 0 && value != stored.end() && made[op.dst] == 1;
            if (same)
                names[op.dst.id] = value->second;
            else
                loads[row.first]++;
            return same;
        });
        std::erase_if(loop.body, [&](const Node &node) {
            return node.op->opcode == Opcode::vreg_st && accesses.count(node.op->access->allocation) > 0 &&
                   loads.count(node.op->access->allocation) == 0;
        });
    }

    Kernel &kernel_;
    const std::map<std::string, PadLayout> &layouts_;
    Loop &rows_, &outer_;
    IndexScope scope_;
    int64_t inner_ = 1, iterations_ = 0;  // iterations of the loop in one of the loop around it; of the outer one
    int delay_ = 0;                       // iterations that the last pass is behind the first
    std::vector<int> stages_;             // by node of the loop's body: how many iterations it is behind
    std::map<int, int> here_, all_;       // accesses by allocation
    std::set<int> copied_;
    std::map<std::pair<Body *, size_t>, Op> stores_;
    std::vector<Op> moves_;  // of slots
    std::map<Reg, std::vector<Reg>> aged_;
};

void visit(Kernel &kernel, const std::map<std::string, PadLayout> &layouts, Body &body, Loop *around) {
    for (Node &node : body) {
        if (!node.loop) continue;
        Loop &loop = *node.loop;
        const auto loops =
            std::count_if(loop.body.begin(), loop.body.end(), [](const Node &inner) { return inner.loop != nullptr; });
        if (!is_skewed(loop) || loops < 2) {
            visit(kernel, layouts, loop.body, &loop);
            continue;
        }
        const bool only_copies =
            around != nullptr && std::all_of(around->body.begin(), around->body.end(),
                                             [&](const Node &other) { return other.copy || &other == &node; });
        Skewer(kernel, layouts, loop, only_copies ? around : nullptr).run();
    }
}

}  // namespace

void skew(Kernel &kernel, const std::map<std::string, PadLayout> &layouts) { visit(kernel, layouts, kernel.body, nullptr); }

void aim_rotations(Kernel &kernel) {
    Body aims;
    for (const Rotation &rotation : kernel.rotations) {
        const Allocation &allocation = kernel.allocations[static_cast<size_t>(rotation.allocation)];
        for (size_t slot = 0; slot < rotation.slots.size(); slot++) {
            Op op;
            op.opcode = Opcode::addi_s;
            op.dst = rotation.slots[slot];
            op.value =
                LinearForm{(allocation.base_row + static_cast<int64_t>(slot) * allocation.step_in_pad(rotation.rows).value()) *
                               kernel.machine->pad.row_bytes,
                           {}};
            aims.push_back(Node(std::move(op)));
        }
    }
    kernel.body.insert(kernel.body.begin(), std::make_move_iterator(aims.begin()), std::make_move_iterator(aims.end()));
}

}  // namespace atalla::codegen
