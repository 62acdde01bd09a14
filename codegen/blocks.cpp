#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "codegen/code_cost.h"
#include "codegen/dependence.h"
#include "codegen/passes.h"
#include "codegen/pending_transfers.h"

namespace atalla::codegen {

namespace {

// What makes constants, each in front of the first operation that reads it. Those that the block behind uses come last.
std::vector<Op> made_before_use(const std::vector<Op> &constants, const std::vector<Op> &ops) {
    std::map<Reg, Op> waiting;
    for (const Op &op : constants) waiting.emplace(op.dst, op);
    std::vector<Op> out;
    const std::function<void(const Op &)> append = [&](const Op &op) {
        for (Reg r : reads_of(op))
            if (auto made = waiting.extract(r)) append(made.mapped());
        out.push_back(op);
    };
    for (const Op &op : ops) append(op);
    while (!waiting.empty()) append(waiting.extract(std::prev(waiting.end())).mapped());
    return out;
}

class Flatten {
public:
    Flatten(Kernel &kernel, bool in_order, MakeConstants constants)
        : kernel_(kernel), in_order_(in_order), constants_(constants) {}

    Blocks run() {
        open("entry");
        load_tensor_addresses();
        visit(kernel_.body);
        if (kernel_.routine) {
            open("return");
            wait_for_transfers();
        }
        blocks_.back().end.kind = kernel_.routine ? Terminator::Return : Terminator::Halt;
        load_constants();
        return std::move(blocks_);
    }

private:
    void open(const std::string &label) {
        Block block;
        block.label = label;
        block.rare = rare_;
        blocks_.push_back(std::move(block));
    }

    void load_tensor_addresses() {
        // Words of the parameter block in argument order; their place is given when the program is emitted.
        const auto load = [&](Reg dst, size_t word) {
            Op op;
            op.opcode = Opcode::lw_s;
            op.dst = dst;
            op.src = {kernel_.routine ? kernel_.routine->parameters : zero_scalar};
            op.imm = (kernel_.routine ? 0 : kernel_.parameter_block) + static_cast<int32_t>(4 * word);
            blocks_.back().ops.push_back(op);
        };
        size_t word = 0;
        for (const Tensor &tensor : kernel_.tensors) load(tensor.base, word++);
        if (!kernel_.routine) return;
        load(kernel_.routine->next, word++);
        load(kernel_.routine->parameters, word);  // the next routine's
    }

    // The operations that make a constant.
    void make_constant(Reg r, std::vector<Op> &ops) {
        const int32_t value = *kernel_.registers[r.id].constant;
        Op op;
        op.opcode = Opcode::addi_s;
        op.dst = r;
        op.src = {zero_scalar};
        op.imm = value;
        if (value < -2048 || value > 2047) {
            op.opcode = Opcode::lui_s;
            op.src = {};
            op.imm = value >> 7;
            const int32_t low = value & 127;
            if (low != 0) {
                op.dst = kernel_.scalar("upper");
                ops.push_back(op);
                Op add;
                add.opcode = Opcode::addi_s;
                add.dst = r;
                add.src = {op.dst};
                add.imm = low;
                op = add;
            }
        }
        ops.push_back(op);
    }

    bool is_constant(Reg r) const { return r.id > all_lanes.id && kernel_.registers[r.id].constant.has_value(); }

    static void replace(Op &op, Reg from, Reg to) {
        for (Reg &r : op.src)
            if (r == from) r = to;
        if (!op.side) return;
        op.side = std::make_shared<std::vector<Op>>(*op.side);
        for (Op &inner : *op.side) replace(inner, from, to);
    }

    // Constants are made once, at the start; where they are so many that they would fill the registers, each in front of the
    // outermost loop around its users whose constants are few enough, or where a block that uses it is entered, unless one that
    // ran before has made it. So are those of straight code that runs a few times, which has room for them beside other
    // operations, where they would make the start long. Plus and minus one serve packing: delays, and the -0 of deferred sums.
    void load_constants() {
        constexpr size_t most = 144;
        std::set<Reg> everywhere = {kernel_.constant(0x3F800000), kernel_.constant(static_cast<int32_t>(0xBF800000))};
        for (const Block &block : blocks_)
            for (Reg r : {block.end.index, block.end.limit})
                if (r.defined() && is_constant(r)) everywhere.insert(r);
        // What a transfer keeps busy is waited for in other blocks.
        for (const Block &block : blocks_)
            for (const Op &op : block.ops)
                if (op.dst.defined() && is_constant(op.dst)) everywhere.insert(op.dst);
        std::map<Reg, std::set<size_t>> users;
        for (size_t b = 0; b < blocks_.size(); b++)
            for (const Op &op : blocks_[b].ops)
                for (Reg r : reads_of(op))
                    if (is_constant(r) && !everywhere.count(r)) users[r].insert(b);
        const bool many = constants_ == MakeConstants::InBlocks || users.size() + everywhere.size() > most;
        std::vector<std::vector<Op>> entered(blocks_.size());
        std::map<std::tuple<size_t, bool, Constant>, Reg> made;  // by block: its user, or the one in front of a nest
        const std::vector<std::optional<InFront>> nests = constants_ == MakeConstants::InBlocks
                                                              ? std::vector<std::optional<InFront>>(blocks_.size())
                                                              : in_front_of_nests(users);
        // While the first loads run there is time for a few.
        constexpr int64_t most_beside_loads = 16;
        const bool fill_entry = kernel_.machine->timed() && std::ranges::count_if(users, [&](const auto &use) {
                                                                return in_straight_code(use.second);
                                                            }) > most_beside_loads;
        for (const auto &[r, blocks] : users) {
            if (!many && !(fill_entry && in_straight_code(blocks))) {
                everywhere.insert(r);
                continue;
            }
            for (size_t b : blocks) {
                const Constant constant = as_used(r, b);
                const bool nest = nests[b] && nests[b]->constants.contains(constant);
                if (b == 0 || (!nest && is_loop(b) && blocks_[b - 1].end.kind != Terminator::Next)) {
                    everywhere.insert(r);
                    continue;
                }
                const size_t at = nest ? nests[b]->block : is_loop(b) ? b - 1 : b;
                if (!nest && !is_loop(b) && constants_ == MakeConstants::AtStart) {
                    const auto before = std::ranges::find_if(made, [&](const auto &entry) {
                        const auto &[block, of_nest, same] = entry.first;
                        return !of_nest && same == constant && !is_loop(block) && runs_before(block, b);
                    });
                    if (before != made.end()) {
                        for (Op &op : blocks_[b].ops) replace(op, r, before->second);
                        continue;
                    }
                }
                const auto [known, first] = made.try_emplace({nest ? at : b, nest, constant});
                if (first) {
                    known->second = kernel_.scalar(std::string(kernel_.registers[r.id].name));
                    kernel_.registers[known->second.id].constant = constant.first;
                    kernel_.registers[known->second.id].bank = static_cast<int8_t>(constant.second);
                    make_constant(known->second, entered[at]);
                }
                for (Op &op : blocks_[b].ops) replace(op, r, known->second);
            }
        }
        for (Reg r : everywhere) make_constant(r, entered[0]);
        for (size_t b = 0; b < blocks_.size(); b++) {
            std::vector<Op> &ops = blocks_[b].ops;
            if (in_order_ && b > 0)
                ops = made_before_use(entered[b], ops);
            else
                ops.insert(ops.begin(), entered[b].begin(), entered[b].end());
        }
    }

    bool is_loop(size_t b) const {
        return blocks_[b].end.kind == Terminator::Loop && blocks_[b].end.target == static_cast<int>(b);
    }

    // Is all of this straight code behind the first block that runs so few times that what it makes once more costs little?
    bool in_straight_code(const std::set<size_t> &blocks) const {
        constexpr int64_t few = 4;
        return std::ranges::all_of(blocks,
                                   [&](size_t b) { return b > 0 && !is_loop(b) && executions(kernel_, blocks_, b) <= few; });
    }

    // Whenever a block runs, has another one run before it, in the same turn of all loops around that one?
    bool runs_before(size_t other, size_t b) const {
        if (other >= b) return false;
        for (size_t end = other; end < b; end++) {
            const Terminator &terminator = blocks_[end].end;
            if (terminator.kind == Terminator::Loop && terminator.target <= static_cast<int>(other)) return false;
        }
        for (size_t from = 0; from < other; from++) {
            const Terminator &terminator = blocks_[from].end;
            if (terminator.kind == Terminator::Skip && terminator.target > static_cast<int>(other) &&
                terminator.target <= static_cast<int>(b))
                return false;
        }
        return true;
    }

    // A constant as a block uses it: value and bank. Both copies of a row offset are one where the code is straight: odd ones
    // in one bank, even ones in the other, so that neighbouring rows can still share a packet.
    using Constant = std::pair<int32_t, int>;
    Constant as_used(Reg r, size_t b) const {
        constexpr int first_offset_bank = 2;  // of the addresses' row offsets
        const int32_t value = *kernel_.registers[r.id].constant;
        const int bank = kernel_.registers[r.id].bank;
        return {value, !is_loop(b) && bank >= first_offset_bank ? first_offset_bank + (value & 1) : bank};
    }

    // Constants in front of a loop of a few turns take registers for long and save little.
    bool turns_often(const Terminator &loop) const {
        constexpr int32_t few = 4;
        const std::optional<int32_t> &last = kernel_.registers[loop.limit.id].constant;
        return !last || *last + 1 >= few;
    }

    // What is made in front of a nest of loops, for all of its blocks.
    struct InFront {
        size_t block = 0;
        std::set<Constant> constants;
    };
    // For each block the outermost loop around it whose constants leave each bank room for pointers; or else the loop around an
    // innermost one, and as many of its constants as do.
    std::vector<std::optional<InFront>> in_front_of_nests(const std::map<Reg, std::set<size_t>> &users) const {
        constexpr size_t most_of_a_bank = 58, most_of_some = 40;
        std::vector<std::optional<InFront>> front(blocks_.size());
        // Loops that end later are around those that end before them.
        for (size_t end = 0; end < blocks_.size(); end++) {
            if (blocks_[end].end.kind != Terminator::Loop) continue;
            const auto first = static_cast<size_t>(blocks_[end].end.target);
            if (first == 0 || first == end || blocks_[first - 1].end.kind != Terminator::Next || !turns_often(blocks_[end].end))
                continue;
            std::set<Constant> used;
            for (const auto &[r, blocks] : users)
                for (auto b = blocks.lower_bound(first); b != blocks.end() && *b <= end; ++b) used.insert(as_used(r, *b));
            std::map<int, size_t> of_bank;
            for (const auto &[value, bank] : used) of_bank[bank]++;
            const bool all = std::ranges::all_of(of_bank, [](const auto &count) { return count.second <= most_of_a_bank; });
            const bool innermost = std::none_of(front.begin() + static_cast<std::ptrdiff_t>(first),
                                                front.begin() + static_cast<std::ptrdiff_t>(end),
                                                [](const auto &inner) { return inner.has_value(); });
            InFront here{first - 1, {}};
            of_bank.clear();
            for (const Constant &constant : used)
                if (all || of_bank[constant.second]++ < most_of_some) here.constants.insert(constant);
            if (all || innermost)
                for (size_t b = first; b <= end; b++) front[b] = here;
        }
        return front;
    }

    // Reads the base register of every transfer that may still be under way at the end, but of those whose registers the
    // calling convention names: the next routine waits for them.
    void wait_for_transfers() {
        std::vector<Reg> pending = transfers_at_end(kernel_.body);
        std::erase_if(pending, [&](Reg r) { return kernel_.registers[r.id].physical >= 0; });
        for (size_t i = 0; i < pending.size(); i += 2) {
            Op op;
            op.opcode = Opcode::or_s;
            op.dst = zero_scalar;
            op.src = {pending[i], i + 1 < pending.size() ? pending[i + 1] : zero_scalar};
            blocks_.back().ops.push_back(op);
        }
    }

    void visit(const Body &body) {
        for (const Node &node : body) {
            if (node.op) {
                blocks_.back().ops.push_back(*node.op);
            } else if (node.loop) {
                const Loop &loop = *node.loop;
                const LoopInfo &info = kernel_.loops[loop.id];
                const Reg index = info.index;
                Op reset;
                reset.opcode = Opcode::addi_s;
                reset.dst = index;
                reset.src = {zero_scalar};
                blocks_.back().ops.push_back(reset);
                open(loop.name);
                const int target = static_cast<int>(blocks_.size()) - 1;
                visit(loop.body);
                blocks_.back().end = {Terminator::Loop, index,
                                      info.varies() ? info.last : kernel_.constant(static_cast<int32_t>(loop.extent - 1)),
                                      target};
                open("after " + loop.name);
            } else if (node.branch) {
                const size_t from = blocks_.size() - 1;
                blocks_[from].end = {Terminator::Skip, node.branch->condition, {}, -1};
                const bool around = std::exchange(rare_, rare_ || node.branch->rare);
                open("if");
                visit(node.branch->body);
                rare_ = around;
                open("endif");
                blocks_[from].end.target = static_cast<int>(blocks_.size()) - 1;
            }
        }
    }

    Kernel &kernel_;
    bool in_order_;
    MakeConstants constants_;
    Blocks blocks_;
    bool rare_ = false;  // of the blocks that are opened
};

}  // namespace

Blocks make_blocks(Kernel &kernel, bool in_order, MakeConstants constants) {
    return Flatten(kernel, in_order, constants).run();
}

int loop_of(const Kernel &kernel, const Terminator &end) {
    if (end.kind != Terminator::Loop) return -1;
    const auto found = std::ranges::find(kernel.loops, end.index, &LoopInfo::index);
    return found == kernel.loops.end() ? -1 : static_cast<int>(found - kernel.loops.begin());
}

int innermost_loop(const Kernel &kernel, const Blocks &blocks, size_t b) {
    return blocks[b].end.target == static_cast<int>(b) ? loop_of(kernel, blocks[b].end) : -1;
}

std::vector<size_t> blocks_in_front(const Blocks &blocks, size_t block) {
    std::vector<size_t> found;
    if (block > 0) found.push_back(block - 1);
    for (size_t b = block + 1; b < blocks.size(); b++)
        if (blocks[b].end.kind == Terminator::Loop && blocks[b].end.target == static_cast<int>(block)) found.push_back(b);
    return found;
}

std::string to_string(const Kernel &kernel, const Blocks &blocks) {
    std::string out;
    for (size_t b = 0; b < blocks.size(); b++) {
        const Block &block = blocks[b];
        out += fmt::format("block {} {}: {} operations, {} packets\n", b, block.label, block.ops.size(), block.packets.size());
        if (block.packets.empty())
            for (const Op &op : block.ops) out += "  " + to_string(kernel, op) + "\n";
        for (const OpGroup &packet : block.packets) {
            out += "  {";
            for (size_t i = 0; i < packet.size(); i++) out += (i ? " ; " : " ") + to_string(kernel, packet[i]);
            out += " }\n";
        }
        if (block.end.kind == Terminator::Loop) out += fmt::format("  loop to block {}\n", block.end.target);
        if (block.end.kind == Terminator::Skip) out += fmt::format("  skip to block {}\n", block.end.target);
    }
    return out;
}

bool make_constants_before_use(const Kernel &kernel, Blocks &blocks) {
    bool moved = false;
    for (Block &block : blocks) {
        std::map<Reg, int> written;
        for (const Op &op : block.ops)
            if (op.dst.defined()) written[op.dst]++;
        // Those that nothing else writes, and the upper parts of theirs.
        std::set<Reg> made;
        for (const Op &op : block.ops) {
            const bool whole = op.opcode == Opcode::lui_s ||
                               (op.opcode == Opcode::addi_s && (op.src[0] == zero_scalar || made.count(op.src[0]) > 0));
            const bool upper = op.opcode == Opcode::lui_s && op.dst.defined() && !kernel.registers[op.dst.id].constant;
            if (op.dst.defined() && written[op.dst] == 1 && whole && (upper || kernel.registers[op.dst.id].constant))
                made.insert(op.dst);
        }
        std::vector<Op> constants, others;
        for (const Op &op : block.ops) (made.count(op.dst) > 0 ? constants : others).push_back(op);
        std::vector<Op> late = made_before_use(constants, others);
        moved = moved || !std::equal(late.begin(), late.end(), block.ops.begin(), block.ops.end(),
                                     [](const Op &a, const Op &b) { return a.dst == b.dst && a.opcode == b.opcode; });
        block.ops = std::move(late);
    }
    return moved;
}

}  // namespace atalla::codegen
