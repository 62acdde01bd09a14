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

namespace {

class VectorRoles {
public:
    VectorRoles(Kernel &kernel, const Blocks &blocks) : kernel_(kernel), blocks_(blocks), spans_(spans_of(blocks)) {
        find_uses();
        part_what_is_read_together();
        set_little_loops_apart();
        make_roles();
        find_conflicts();
    }

    std::vector<Role> &all() { return roles_; }
    // How much it costs if two roles share a bank.
    double conflict(int a, int b) const { return conflict_[a][b]; }
    std::vector<int> by_weight() const {
        std::vector<int> order(roles_.size());
        for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int>(i);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return roles_[a].weight > roles_[b].weight; });
        return order;
    }
    const std::map<Reg, Span> &spans() const { return spans_; }
    bool lives_in_one_block(Reg r) const { return spans_.at(r).first == spans_.at(r).last; }
    // By lanes, beside rows of the array.
    bool is_cleared(Reg r) const { return cleared_.contains(r); }

    bool is_vector(Reg r) const { return r.id > all_lanes.id && kernel_.cls(r) == RegisterClass::Vector; }
    bool is_inner(size_t b) const {
        return blocks_[b].end.kind == Terminator::Loop && blocks_[b].end.target == static_cast<int>(b);
    }
    // Two vectors, whose banks should be different ones.
    bool reads_two(const Op &op) const {
        return op.src[0].defined() && op.src[1].defined() && op.src[0] != op.src[1] && is_vector(op.src[0]) &&
               is_vector(op.src[1]);
    }

private:
    // A sum that is cleared in some lanes is not read for it.
    bool clears_sum(const Op &op) const { return sums_.contains(op.dst) && clears_under_mask(kernel_, op); }
    std::vector<Reg> reads_of(const Op &op) const { return clears_sum(op) ? std::vector<Reg>{} : codegen::reads_of(op); }

    void find_uses() {
        for (const Block &block : blocks_)
            for (const Op &op : block.ops)
                if (adds_to_sum(op)) sums_.insert(op.dst);
        for (size_t b = 0; b < blocks_.size(); b++)
            for (const Op &op : blocks_[b].ops) {
                if (clears_sum(op)) cleared_.insert(op.dst);
                if (is_inner(b)) {
                    for (Reg r : reads_of(op)) looped_.insert(r);
                    looped_.insert(op.dst);
                } else if (op.opcode == Opcode::vreg_st) {
                    for (Reg r : reads_of(op)) stored_.insert(r);
                }
                for (Reg r : reads_of(op))
                    if (is_vector(r)) keys_[r].readers.insert(static_cast<int>(op.opcode));
                // What clears a register is made of nothing that has a bank, by either unit.
                if (op.dst.defined() && is_vector(op.dst) && !makes_constant(kernel_, op) && !clears_sum(op))
                    keys_[op.dst].writers.insert(static_cast<int>(op.opcode));
            }
    }

    // Registers of one role that an operation reads together: parts of it that differ.
    void part_what_is_read_together() {
        std::map<Reg, std::vector<Reg>> together;
        for (const Block &block : blocks_)
            for (const Op &op : block.ops)
                if (reads_two(op) && keys_[op.src[0]] == keys_[op.src[1]] && !kernel_.takes(Choice::SharedRoles)) {
                    together[op.src[0]].push_back(op.src[1]);
                    together[op.src[1]].push_back(op.src[0]);
                }
        for (const Block &block : blocks_)
            for (const Op &op : block.ops)
                for (Reg r : {op.src[0], op.src[1]})
                    if (const auto found = together.find(r); found != together.end() && keys_[r].part == 0) {
                        std::set<int> taken;
                        for (Reg other : found->second) taken.insert(keys_[other].part);
                        int part = 1;
                        while (taken.contains(part)) part++;
                        keys_[r].part = part;
                    }
    }

    // What lives in an inner loop of little work has a role of its own, so that it decides nothing for the loops that take the
    // time.
    void set_little_loops_apart() {
        constexpr int64_t little = 16;  // times less than the most
        const auto work = [&](size_t b) {
            return executions(kernel_, blocks_, b) * static_cast<int64_t>(blocks_[b].ops.size());
        };
        int64_t most_work = 0;
        for (size_t b = 0; b < blocks_.size(); b++) most_work = std::max(most_work, is_inner(b) ? work(b) : 0);
        for (auto &[reg, key] : keys_) {
            const size_t block = spans_.at(reg).first;
            if (key.part == 0 && lives_in_one_block(reg) && is_inner(block) && work(block) * little < most_work) key.part = -1;
        }
    }

    void make_roles() {
        std::map<RoleKey, int> index;
        for (const auto &[reg, key] : keys_) {
            const auto [it, inserted] = index.try_emplace(key, static_cast<int>(roles_.size()));
            if (inserted) roles_.emplace_back();
            Role &role = roles_[it->second];
            role.registers.push_back(reg);
            role.turned = key.writers == std::set<int>{static_cast<int>(Opcode::gemm_vv)} &&
                          key.readers == std::set<int>{static_cast<int>(Opcode::vreg_st)};
            role.stored += role.turned || (stored_.contains(reg) && !looped_.contains(reg));
            role_of_[reg] = it->second;
        }
    }

    // Operations that read both, and operations of different units that could share a packet, as often as they run.
    void find_conflicts() {
        conflict_.assign(roles_.size(), std::vector<double>(roles_.size(), 0));
        for (size_t b = 0; b < blocks_.size(); b++) {
            const auto weight = static_cast<double>(executions(kernel_, blocks_, b));
            std::map<std::pair<int, Unit>, int> reads;  // role and reading unit -> operations
            for (const Op &op : blocks_[b].ops) {
                std::vector<int> read;
                for (Reg r : reads_of(op))
                    if (is_vector(r)) read.push_back(role_of_[r]);
                for (int role : read) {
                    reads[{role, info(op.opcode).unit}]++;
                    roles_[role].weight += weight;
                    for (int other : read)
                        if (other != role) conflict_[role][other] += same_operation_weight * weight;
                }
            }
            for (const auto &[a, count_a] : reads)
                for (const auto &[c, count_c] : reads)
                    if (a.first != c.first && a.second != c.second)
                        conflict_[a.first][c.first] += weight * std::min(count_a, count_c);
        }
    }

    Kernel &kernel_;
    const Blocks &blocks_;
    const std::map<Reg, Span> spans_;
    std::set<Reg> sums_;             // of rows of the array
    std::set<Reg> stored_, looped_;  // by straight code; used in an inner loop
    std::set<Reg> cleared_;
    std::map<Reg, RoleKey> keys_;
    std::vector<Role> roles_;
    std::map<Reg, int> role_of_;
    std::vector<std::vector<double>> conflict_;
};

// Gives each role its banks. A role that fills more than two has as much in each of them, or in the last what does not fit the
// others, which leaves that one to roles that are read beside it.
class Placement {
public:
    Placement(Kernel &kernel, VectorRoles &roles, size_t blocks, int banks, bool rest_in_last)
        : kernel_(kernel),
          roles_(roles),
          blocks_(blocks),
          banks_(banks),
          rest_in_last_(rest_in_last),
          load_(banks, 0),
          carried_(roles.spans(), blocks, banks) {}

    // Returns what the banks cost.
    double run() {
        for (int r : roles_.by_weight()) {
            divide(role(r), choose_banks(r));
            placed_.push_back(r);
        }
        move_roles();
        double total = 0;
        for (int r : placed_)
            for (size_t i = 0; i < role(r).banks.size(); i++) total += cost(r, role(r).banks[i]) * role(r).shares[i];
        return total;
    }

private:
    // How a role lies in its banks: this many registers at once, of which the even banks have room for so many.
    struct Division {
        int at_once = 0, even_room = 0;
        bool rest = false;  // the last bank has what does not fit the others
    };

    Role &role(int r) { return roles_.all()[r]; }
    double cost(int r, int bank) {
        double sum = 0;
        for (int other : placed_) sum += other == r ? 0 : roles_.conflict(r, other) * role(other).share(bank);
        return sum;
    }

    // Those in which it meets others least, the emptier first.
    std::vector<int> cheapest_banks(int r) {
        std::vector<std::pair<double, int>> costs;
        for (int bank = 0; bank < banks_; bank++) costs.push_back({cost(r, bank) + load_[bank] / 64, bank});
        std::stable_sort(costs.begin(), costs.end());
        std::vector<int> cheapest;
        for (const auto &[cost, bank] : costs) cheapest.push_back(bank);
        return cheapest;
    }

    Division choose_banks(int r) {
        Role &role = this->role(r);
        Division division;
        division.at_once = std::min(static_cast<int>(role.registers.size()),
                                    std::max(carried_at_once(role.registers, roles_.spans(), blocks_), short_lived_at_once));
        // A packet can store two results, of two banks. In a loop both would collide with what else it reads.
        const int least = role.stored >= many_stored ? 2 : 1;
        // Nothing is read beside what the array turns: it leaves banks that are full of what blocks carry.
        const auto room = [&](int bank) {
            return role.turned ? std::max(0, registers_for_one_bank - carried_.most(bank, role.registers))
                               : registers_for_one_bank;
        };
        const std::vector<int> cheapest = cheapest_banks(r);
        int all_room = 0, wanted = 0;
        role.banks.clear();
        for (; wanted < banks_ && (wanted < least || all_room < division.at_once); wanted++) {
            role.banks.push_back(cheapest[static_cast<size_t>(wanted)]);
            division.even_room = all_room;
            all_room += room(role.banks.back());
        }
        const bool full = division.even_room < (wanted - 1) * registers_for_one_bank;
        division.rest = wanted > least && (full || (rest_in_last_ && wanted > 2));
        std::sort(role.banks.begin(), role.banks.end() - division.rest);
        return division;
    }

    void divide(Role &role, const Division &division) {
        role.shares.assign(role.banks.size(), 0);
        const size_t even = role.banks.size() - division.rest, at_once = static_cast<size_t>(division.at_once);
        // What lanes clear in a loop would wait to be written behind what is loaded to the last bank all the time.
        size_t over = 0;
        for (size_t i = 0; i < role.registers.size(); i++) {
            over += division.rest && spills(i % at_once, at_once, static_cast<size_t>(division.even_room));
            const bool last = over > 0 && !roles_.is_cleared(role.registers[i]);
            over -= last;
            const size_t at = last ? even : i % even;
            kernel_.registers[role.registers[i].id].bank = static_cast<int8_t>(role.banks[at]);
            role.shares[at] += 1 / static_cast<double>(role.registers.size());
            load_[role.banks[at]]++;
            carried_.add(role.banks[at], role.registers[i]);
        }
    }

    // A role that came early did not know those behind it: it moves where two fifths of its reads would no longer meet
    // others.
    void move_roles() {
        constexpr int most_rounds = 4;
        bool moved = true;
        for (int round = 0; moved && round < most_rounds; round++) {
            moved = false;
            for (int r : placed_) {
                Role &role = this->role(r);
                if (role.banks.size() != 1) continue;
                const auto registers = static_cast<double>(role.registers.size());
                const int from = role.banks[0];
                int to = from;
                double least = cost(r, from) + (load_[from] - registers) / 64;
                for (int bank = 0; bank < banks_; bank++)
                    if (const double here = cost(r, bank) + load_[bank] / 64; bank != from && here < least) {
                        least = here;
                        to = bank;
                    }
                if (to == from || cost(r, from) - cost(r, to) < 0.4 * role.weight) continue;
                moved = true;
                role.banks[0] = to;
                load_[from] -= registers;
                load_[to] += registers;
                for (Reg member : role.registers) kernel_.registers[member.id].bank = static_cast<int8_t>(to);
            }
        }
    }

    Kernel &kernel_;
    VectorRoles &roles_;
    const size_t blocks_;
    const int banks_;
    const bool rest_in_last_;
    std::vector<double> load_;  // registers
    CarriedInBanks carried_;
    std::vector<int> placed_;
};

// What an operation of an inner loop reads beside a register of its bank moves to another one, if it lives in this block only.
void move_colliding(Kernel &kernel, const Blocks &blocks, const VectorRoles &roles, int banks) {
    int next = 0;
    for (size_t b = 0; b < blocks.size(); b++)
        for (const Op &op : blocks[b].ops) {
            if (!roles.is_inner(b) || !roles.reads_two(op)) continue;
            const int bank = kernel.registers[op.src[0].id].bank;
            if (kernel.registers[op.src[1].id].bank != bank) continue;
            for (Reg r : {op.src[0], op.src[1]}) {
                if (!roles.lives_in_one_block(r)) continue;
                kernel.registers[r.id].bank = static_cast<int8_t>((bank + 1 + next++ % (banks - 1)) % banks);
                break;
            }
        }
}

}  // namespace

void assign_banks(Kernel &kernel, const Blocks &blocks) {
    const Machine &machine = *kernel.machine;
    if (machine.timed() && machine.regs.scalar_conflict && machine.regs.scalar_banks > 1) assign_scalar_banks(kernel, blocks);
    const int banks = static_cast<int>(machine.regs.vector_banks);
    if (!machine.timed() || !machine.regs.vector_conflict || banks < 2) return;
    VectorRoles roles(kernel, blocks);
    const auto place = [&](bool rest_in_last) { return Placement(kernel, roles, blocks.size(), banks, rest_in_last).run(); };
    if (const double even = place(false); even > 0 && place(true) >= even) place(false);
    move_colliding(kernel, blocks, roles, banks);
}

}  // namespace atalla::codegen
