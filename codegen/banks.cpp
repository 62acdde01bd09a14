// Register banks. For vectors, registers of one role (made by the same kinds of operations, read by the same kinds) share
// banks, and roles that are read in the same packets get different ones.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "codegen/code_cost.h"
#include "codegen/dependence.h"
#include "codegen/passes.h"

namespace atalla::codegen {

namespace {

constexpr int registers_for_one_bank = 62;  // of 64
constexpr int short_lived_at_once = 48;     // of registers that live inside one block only, as many are in use at a time
constexpr size_t many_stored = 16;
constexpr double inner_loop_weight = 10, same_operation_weight = 1000;

struct Role {
    std::vector<Reg> registers;
    double weight = 0;
    size_t stored = 0;    // registers that straight code stores and no inner loop uses
    bool turned = false;  // the array makes them, and nothing but stores reads them
    std::vector<int> banks;
    std::vector<double> shares;  // of the registers that each bank has
    double share(int bank) const {
        const auto found = std::find(banks.begin(), banks.end(), bank);
        return found == banks.end() ? 0 : shares[static_cast<size_t>(found - banks.begin())];
    }
};

struct RoleKey {
    std::set<int> writers, readers;  // opcodes
    int part = 0;                    // where operations read two of one role: such parts are roles of their own
    auto operator<=>(const RoleKey &) const = default;
};

// The first and the last block that name a register.
struct Span {
    size_t first = 0, last = 0;
};

std::map<Reg, Span> spans_of(const Blocks &blocks) {
    std::map<Reg, Span> spans;
    for (size_t b = 0; b < blocks.size(); b++)
        for (const Op &op : blocks[b].ops) {
            std::vector<Reg> named = reads_of(op);
            if (op.dst.defined()) named.push_back(op.dst);
            for (Reg r : named) spans.try_emplace(r, Span{b, b}).first->second.last = b;
        }
    return spans;
}

// Most of these registers that are carried from block to block at the same time: nests that follow each other have the same
// room.
int carried_at_once(const std::vector<Reg> &registers, const std::map<Reg, Span> &spans, size_t blocks) {
    std::vector<int> change(blocks + 1, 0);
    for (Reg reg : registers) {
        const Span &span = spans.at(reg);
        if (span.first == span.last) continue;
        change[span.first]++;
        change[span.last + 1]--;
    }
    int most = 0, now = 0;
    for (int c : change) most = std::max(most, now += c);
    return most;
}

// The registers of each bank that blocks carry to the next ones.
class CarriedInBanks {
public:
    CarriedInBanks(const std::map<Reg, Span> &spans, size_t blocks, int banks)
        : spans_(spans), in_(static_cast<size_t>(banks), std::vector<int>(blocks, 0)) {}
    void add(int bank, Reg reg) {
        const Span &span = spans_.at(reg);
        if (span.first == span.last) return;
        for (size_t b = span.first; b <= span.last; b++) in_[static_cast<size_t>(bank)][b]++;
    }
    // Where one of these registers is named.
    int most(int bank, const std::vector<Reg> &registers) const {
        int most = 0;
        for (Reg reg : registers) {
            const Span &span = spans_.at(reg);
            const auto counts = in_[static_cast<size_t>(bank)].begin();
            most = std::max(most, *std::max_element(counts + static_cast<std::ptrdiff_t>(span.first),
                                                    counts + static_cast<std::ptrdiff_t>(span.last) + 1));
        }
        return most;
    }

private:
    const std::map<Reg, Span> &spans_;
    std::vector<std::vector<int>> in_;
};

// Of `all` registers, those that do not fit `room`, at even distances: what is read beside them then needs few other registers
// at a time.
bool spills(size_t i, size_t all, size_t room) {
    const size_t over = all > room ? all - room : 0;
    return (i + 1) * over / all != i * over / all;
}

}  // namespace

// Scalars: the operands of one operation in different banks, inner loops first.
static void assign_scalar_banks(Kernel &kernel, const Blocks &blocks) {
    const int banks = static_cast<int>(kernel.machine->regs.scalar_banks);
    std::vector<int> load(banks, 0);
    for (RegInfo &reg : kernel.registers) {
        if (reg.cls != RegisterClass::Scalar || reg.bank < 0) continue;
        reg.bank = static_cast<int8_t>(reg.bank % banks);  // preferences are made for four
        load[reg.bank]++;
    }
    const auto is_inner = [&](const Block &block) {
        return block.end.kind == Terminator::Loop && &blocks[block.end.target] == &block;
    };
    const auto is_scalar = [&](Reg r) { return r.defined() && r.id > all_lanes.id && kernel.cls(r) == RegisterClass::Scalar; };
    const auto for_operations = [&](const Block &block, const auto &visit) {
        for (const Op &op : block.ops) {
            visit(op.src);
            if (!op.side) continue;
            for (const Op &inner : *op.side) visit(inner.src);
        }
        visit(std::array<Reg, 3>{block.end.index, block.end.limit, Reg{}});
    };
    // How much it costs if two registers share a bank.
    std::map<Reg, std::map<Reg, double>> read_with;
    for (const Block &block : blocks)
        for_operations(block, [&](const std::array<Reg, 3> &operands) {
            for (Reg a : operands)
                for (Reg b : operands)
                    if (is_scalar(a) && is_scalar(b) && a != b) read_with[a][b] += is_inner(block) ? inner_loop_weight : 1;
        });
    const auto assign = [&](const std::array<Reg, 3> &operands) {
        for (Reg r : operands) {
            if (!is_scalar(r) || kernel.registers[r.id].bank >= 0) continue;
            std::vector<double> cost(banks, 0);
            for (const auto &[other, weight] : read_with[r])
                if (const int bank = kernel.registers[other.id].bank; bank >= 0) cost[bank] += weight;
            int best = 0;
            for (int bank = 1; bank < banks; bank++)
                if (std::pair(cost[bank], load[bank]) < std::pair(cost[best], load[best])) best = bank;
            kernel.registers[r.id].bank = static_cast<int8_t>(best);
            load[best]++;
        }
    };
    // Constants that only packing uses.
    for (RegInfo &reg : kernel.registers)
        if (reg.cls == RegisterClass::Scalar && reg.constant && reg.physical < 0 && reg.bank < 0 &&
            (*reg.constant == 0x3F800000 || *reg.constant == static_cast<int32_t>(0xBF800000)))
            reg.bank = static_cast<int8_t>(banks - 1);
    for (const bool inner_loops : {true, false})
        for (const Block &block : blocks)
            if (is_inner(block) == inner_loops) for_operations(block, assign);
}

void assign_banks(Kernel &kernel, const Blocks &blocks) {
    const Machine &machine = *kernel.machine;
    if (machine.timed() && machine.regs.scalar_conflict && machine.regs.scalar_banks > 1) assign_scalar_banks(kernel, blocks);
    const int banks = static_cast<int>(machine.regs.vector_banks);
    if (!machine.timed() || !machine.regs.vector_conflict || banks < 2) return;

    const auto is_vector = [&](Reg r) { return r.id > all_lanes.id && kernel.cls(r) == RegisterClass::Vector; };
    const auto inner = [&](size_t b) {
        return blocks[b].end.kind == Terminator::Loop && blocks[b].end.target == static_cast<int>(b);
    };
    std::set<Reg> sums;  // of rows of the array
    for (const Block &block : blocks)
        for (const Op &op : block.ops)
            if (adds_to_sum(op)) sums.insert(op.dst);
    // A sum that is cleared in some lanes is not read for it.
    const auto clears_sum = [&](const Op &op) { return sums.contains(op.dst) && clears_under_mask(kernel, op); };
    const auto reads_of = [&](const Op &op) { return clears_sum(op) ? std::vector<Reg>{} : codegen::reads_of(op); };
    std::map<Reg, RoleKey> keys;
    std::set<Reg> stored, looped;  // by straight code; used in an inner loop
    std::set<Reg> cleared;         // by lanes, beside rows of the array
    for (const Block &block : blocks)
        for (const Op &op : block.ops) {
            if (clears_sum(op)) cleared.insert(op.dst);
            if (inner(static_cast<size_t>(&block - blocks.data()))) {
                for (Reg r : reads_of(op)) looped.insert(r);
                looped.insert(op.dst);
            } else if (op.opcode == Opcode::vreg_st) {
                for (Reg r : reads_of(op)) stored.insert(r);
            }
            for (Reg r : reads_of(op))
                if (is_vector(r)) keys[r].readers.insert(static_cast<int>(op.opcode));
            // What clears a register is made of nothing that has a bank, by either unit.
            if (op.dst.defined() && is_vector(op.dst) && !makes_constant(kernel, op) && !clears_sum(op))
                keys[op.dst].writers.insert(static_cast<int>(op.opcode));
        }
    // Registers of one role that an operation reads together: parts of it that differ.
    std::map<Reg, std::vector<Reg>> together;
    for (const Block &block : blocks)
        for (const Op &op : block.ops)
            if (op.src[0].defined() && op.src[1].defined() && op.src[0] != op.src[1] && is_vector(op.src[0]) &&
                is_vector(op.src[1]) && keys[op.src[0]] == keys[op.src[1]] && !kernel.takes(Choice::SharedRoles)) {
                together[op.src[0]].push_back(op.src[1]);
                together[op.src[1]].push_back(op.src[0]);
            }
    for (const Block &block : blocks)
        for (const Op &op : block.ops)
            for (Reg r : {op.src[0], op.src[1]})
                if (const auto found = together.find(r); found != together.end() && keys[r].part == 0) {
                    std::set<int> taken;
                    for (Reg other : found->second) taken.insert(keys[other].part);
                    int part = 1;
                    while (taken.contains(part)) part++;
                    keys[r].part = part;
                }
    const std::map<Reg, Span> spans = spans_of(blocks);
    // What lives in an inner loop of little work has a role of its own, so that it decides nothing for the loops that take the
    // time.
    constexpr int64_t little = 16;  // times less than the most
    const auto work = [&](size_t b) { return executions(kernel, blocks, b) * static_cast<int64_t>(blocks[b].ops.size()); };
    int64_t most_work = 0;
    for (size_t b = 0; b < blocks.size(); b++) most_work = std::max(most_work, inner(b) ? work(b) : 0);
    for (auto &[reg, key] : keys)
        if (const Span &span = spans.at(reg); key.part == 0 && span.first == span.last &&
                                              inner(static_cast<size_t>(span.first)) &&
                                              work(static_cast<size_t>(span.first)) * little < most_work)
            key.part = -1;
    std::map<RoleKey, int> index;
    std::vector<Role> roles;
    std::map<Reg, int> role_of;
    for (const auto &[reg, key] : keys) {
        const auto [it, inserted] = index.try_emplace(key, static_cast<int>(roles.size()));
        if (inserted) roles.emplace_back();
        roles[it->second].registers.push_back(reg);
        const bool only_turned = key.writers == std::set<int>{static_cast<int>(Opcode::gemm_vv)} &&
                                 key.readers == std::set<int>{static_cast<int>(Opcode::vreg_st)};
        roles[it->second].turned = only_turned;
        roles[it->second].stored += only_turned || (stored.contains(reg) && !looped.contains(reg));
        role_of[reg] = it->second;
    }

    // How much it costs if two roles share a bank: operations that read both, and operations of different units that could
    // share a packet, as often as they run.
    std::vector<std::vector<double>> conflict(roles.size(), std::vector<double>(roles.size(), 0));
    for (size_t b = 0; b < blocks.size(); b++) {
        const auto weight = static_cast<double>(executions(kernel, blocks, b));
        std::map<std::pair<int, Unit>, int> reads;  // role and reading unit -> operations
        for (const Op &op : blocks[b].ops) {
            std::vector<int> read;
            for (Reg r : reads_of(op))
                if (is_vector(r)) read.push_back(role_of[r]);
            for (int role : read) {
                reads[{role, info(op.opcode).unit}]++;
                roles[role].weight += weight;
                for (int other : read)
                    if (other != role) conflict[role][other] += same_operation_weight * weight;
            }
        }
        for (const auto &[a, count_a] : reads)
            for (const auto &[c, count_c] : reads)
                if (a.first != c.first && a.second != c.second)
                    conflict[a.first][c.first] += weight * std::min(count_a, count_c);
    }

    std::vector<int> order(roles.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return roles[a].weight > roles[b].weight; });
    // Gives each role its banks, and returns what these cost. A role that fills more than two has as much in each of them, or
    // in the last what does not fit the others, which leaves that one to roles that are read beside it.
    const auto place = [&](bool rest_in_last) {
        std::vector<double> load(banks, 0);
        CarriedInBanks carried(spans, blocks.size(), banks);
        std::vector<int> placed;
        double total = 0;
        for (int r : order) {
            Role &role = roles[r];
            std::vector<double> conflicts(banks, 0);
            std::vector<std::pair<double, int>> costs;
            for (int bank = 0; bank < banks; bank++) {
                for (int other : placed) conflicts[bank] += conflict[r][other] * roles[other].share(bank);
                costs.push_back({conflicts[bank] + load[bank] / 64, bank});
            }
            std::stable_sort(costs.begin(), costs.end());
            const int at_once = std::min(static_cast<int>(role.registers.size()),
                                         std::max(carried_at_once(role.registers, spans, blocks.size()), short_lived_at_once));
            // A packet can store two results, of two banks. In a loop both would collide with what else it reads.
            const int least = role.stored >= many_stored ? 2 : 1;
            // Nothing is read beside what the array turns: it leaves banks that are full of what blocks carry.
            const auto room = [&](int bank) {
                return role.turned ? std::max(0, registers_for_one_bank - carried.most(bank, role.registers))
                                   : registers_for_one_bank;
            };
            int even_room = 0, all_room = 0;  // of the banks but the last, and of all
            role.banks.clear();
            int wanted = 0;
            for (; wanted < banks && (wanted < least || all_room < at_once); wanted++) {
                role.banks.push_back(costs[static_cast<size_t>(wanted)].second);
                even_room = all_room;
                all_room += room(role.banks.back());
            }
            const bool full = even_room < (wanted - 1) * registers_for_one_bank;
            const bool rest = wanted > least && (full || (rest_in_last && wanted > 2));
            std::sort(role.banks.begin(), role.banks.end() - rest);
            role.shares.assign(role.banks.size(), 0);
            const size_t even = role.banks.size() - rest;
            // What lanes clear in a loop would wait to be written behind what is loaded to the last bank all the time.
            size_t over = 0;
            for (size_t i = 0; i < role.registers.size(); i++) {
                over += rest &&
                        spills(i % static_cast<size_t>(at_once), static_cast<size_t>(at_once), static_cast<size_t>(even_room));
                const bool last = over > 0 && !cleared.contains(role.registers[i]);
                over -= last;
                const size_t at = last ? even : i % even;
                kernel.registers[role.registers[i].id].bank = static_cast<int8_t>(role.banks[at]);
                role.shares[at] += 1 / static_cast<double>(role.registers.size());
                load[role.banks[at]]++;
                carried.add(role.banks[at], role.registers[i]);
            }
            placed.push_back(r);
        }
        // A role that came early did not know those behind it: it moves where two fifths of its reads would no longer meet
        // others.
        const auto cost = [&](int r, int bank) {
            double sum = 0;
            for (int other : placed) sum += other == r ? 0 : conflict[r][other] * roles[other].share(bank);
            return sum;
        };
        constexpr int most_rounds = 4;
        bool moved = true;
        for (int round = 0; moved && round < most_rounds; round++) {
            moved = false;
            for (int r : placed) {
                Role &role = roles[r];
                if (role.banks.size() != 1) continue;
                const auto registers = static_cast<double>(role.registers.size());
                const int from = role.banks[0];
                int to = from;
                double least = cost(r, from) + (load[from] - registers) / 64;
                for (int bank = 0; bank < banks; bank++)
                    if (const double here = cost(r, bank) + load[bank] / 64; bank != from && here < least) {
                        least = here;
                        to = bank;
                    }
                if (to == from || cost(r, from) - cost(r, to) < 0.4 * role.weight) continue;
                moved = true;
                role.banks[0] = to;
                load[from] -= registers;
                load[to] += registers;
                for (Reg member : role.registers) kernel.registers[member.id].bank = static_cast<int8_t>(to);
            }
        }
        for (int r : placed)
            for (size_t i = 0; i < roles[r].banks.size(); i++) total += cost(r, roles[r].banks[i]) * roles[r].shares[i];
        return total;
    };
    if (const double even = place(false); even > 0 && place(true) >= even) place(false);

    // What an operation of an inner loop reads beside a register of its bank moves to another one, if it lives in this block
    // only.
    int next = 0;
    for (size_t b = 0; b < blocks.size(); b++)
        for (const Op &op : blocks[b].ops) {
            if (!inner(b) || !op.src[0].defined() || !op.src[1].defined() || op.src[0] == op.src[1] || !is_vector(op.src[0]) ||
                !is_vector(op.src[1]))
                continue;
            const int bank = kernel.registers[op.src[0].id].bank;
            if (kernel.registers[op.src[1].id].bank != bank) continue;
            for (Reg r : {op.src[0], op.src[1]}) {
                if (spans.at(r).first != spans.at(r).last) continue;
                kernel.registers[r.id].bank = static_cast<int8_t>((bank + 1 + next++ % (banks - 1)) % banks);
                break;
            }
        }
}

}  // namespace atalla::codegen
