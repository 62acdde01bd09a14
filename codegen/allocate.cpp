// Physical registers: liveness over the blocks, then a linear scan with bank preferences.
#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "codegen/dependence.h"
#include "codegen/passes.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

// A set of virtual registers: a bit for each.
class RegSet {
public:
    explicit RegSet(size_t registers) : words_((registers + 63) / 64) {}
    bool contains(int32_t r) const { return (words_[static_cast<size_t>(r) / 64] >> (r % 64) & 1) != 0; }
    void insert(int32_t r) { words_[static_cast<size_t>(r) / 64] |= uint64_t{1} << (r % 64); }
    // Is one of them new?
    bool add(const RegSet &others) {
        uint64_t more = 0;
        for (size_t w = 0; w < words_.size(); w++) {
            more |= others.words_[w] & ~words_[w];
            words_[w] |= others.words_[w];
        }
        return more != 0;
    }
    void add(const RegSet &others, const RegSet &but) {
        for (size_t w = 0; w < words_.size(); w++) words_[w] |= others.words_[w] & ~but.words_[w];
    }
    void for_each(const std::function<void(int32_t)> &visit) const {
        for (size_t w = 0; w < words_.size(); w++)
            for (uint64_t left = words_[w]; left != 0; left &= left - 1)
                visit(static_cast<int32_t>(w * 64) + std::countr_zero(left));
    }

private:
    std::vector<uint64_t> words_;
};

struct Interval {
    Reg reg;
    int first = 0, last = 0;  // packets, both included
};

class Allocator {
public:
    Allocator(Kernel &kernel, Blocks &blocks) : kernel_(kernel), machine_(*kernel.machine), blocks_(blocks) {}

    void run() {
        std::vector<Interval> intervals = live_intervals();
        std::sort(intervals.begin(), intervals.end(),
                  [](const Interval &a, const Interval &b) { return a.first != b.first ? a.first < b.first : a.reg < b.reg; });
        for (RegisterClass cls : {RegisterClass::Scalar, RegisterClass::Vector, RegisterClass::Mask}) scan(intervals, cls);
    }

private:
    // ---- liveness

    std::vector<Interval> live_intervals() {
        const size_t n = kernel_.registers.size();
        std::vector<RegSet> use(blocks_.size(), RegSet(n)), def(blocks_.size(), RegSet(n)), in(blocks_.size(), RegSet(n)),
            out(blocks_.size(), RegSet(n));
        for (size_t b = 0; b < blocks_.size(); b++)
            for (const OpGroup &packet : blocks_[b].packets) {
                if (blocks_[b].from_block >= 0) break;
                for (const Op &op : packet)
                    for_each_read(op, [&](Reg r) {
                        if (!def[b].contains(r.id)) use[b].insert(r.id);
                    });
                for (const Op &op : packet)
                    if (op.dst.defined()) def[b].insert(op.dst.id);
            }
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t b = blocks_.size(); b-- > 0;) {
                const Terminator &end = blocks_[b].end;
                if (blocks_[b].from_block >= 0) continue;  // counted where it is branched to
                const auto join = [&](size_t successor) {
                    if (successor < blocks_.size()) changed = out[b].add(in[successor]) || changed;
                };
                if (!end.leaves()) join(b + 1);
                if (end.kind == Terminator::Loop || end.kind == Terminator::Skip) join(static_cast<size_t>(end.target));
                in[b] = use[b];
                in[b].add(out[b], def[b]);
            }
        }
        std::vector<Interval> intervals(n);
        std::vector<bool> seen(n);
        auto touch = [&](int32_t r, int packet) {
            if (!seen[r]) {
                intervals[r] = {Reg{r}, packet, packet};
                seen[r] = true;
            }
            intervals[r].first = std::min(intervals[r].first, packet);
            intervals[r].last = std::max(intervals[r].last, packet);
        };
        int position = 0;
        std::vector<int> starts;  // of each block; the last: the end of the program
        for (size_t b = 0; b < blocks_.size(); b++) {
            starts.push_back(position);
            if (blocks_[b].from_block >= 0) continue;
            const int start = position, end = position + static_cast<int>(blocks_[b].packets.size()) - 1;
            in[b].for_each([&](int32_t r) { touch(r, start); });
            out[b].for_each([&](int32_t r) { touch(r, std::max(start, end)); });
            for (const OpGroup &packet : blocks_[b].packets) {
                for (const Op &op : packet) {
                    for_each_read(op, [&](Reg r) { touch(r.id, position); });
                    if (op.dst.defined()) touch(op.dst.id, position);
                    if (op.side)
                        for (const Op &inner : *op.side)
                            if (inner.dst.defined()) touch(inner.dst.id, position);
                }
                position++;
            }
        }
        starts.push_back(position);
        // The base register of a transfer that nothing waits for is busy for longer than it is used: until the next transfer of
        // its pad issues, which waits for it, or else to the end of its block, and through the loops around it.
        for (size_t b = 0; b < blocks_.size(); b++) {
            if (blocks_[b].from_block >= 0) continue;
            std::map<int, int> next;  // transfer of each pad, the packet
            for (size_t p = blocks_[b].packets.size(); p-- > 0;)
                for (const Op &op : blocks_[b].packets[p]) {
                    if (!op.dst.defined()) continue;
                    if (info(op.opcode).unit == Unit::Sdma) {
                        int &behind = next.try_emplace(op.pad, starts[b + 1]).first->second;
                        touch(op.dst.id, std::exchange(behind, starts[b] + static_cast<int>(p)));
                    }
                    if (const auto around = op.ahead ? loops_around(b, starts) : std::nullopt) {
                        touch(op.dst.id, around->first);
                        touch(op.dst.id, around->second);
                    }
                }
        }
        std::vector<Interval> result;
        for (size_t r = all_lanes.id + 1; r < n; r++)
            if (seen[r]) result.push_back(intervals[r]);
        return result;
    }

    // The packets of the outermost loop around a block.
    std::optional<std::pair<int, int>> loops_around(size_t b, const std::vector<int> &starts) const {
        std::optional<std::pair<int, int>> packets;
        for (size_t later = b; later < blocks_.size(); later++)
            if (blocks_[later].end.kind == Terminator::Loop && blocks_[later].end.target <= static_cast<int>(b))
                packets.emplace(starts[static_cast<size_t>(blocks_[later].end.target)], starts[later + 1]);
        return packets;
    }

    // ---- assignment

    // Numbers that registers of the calling convention have from the start belong to them throughout.
    std::set<int> fixed(RegisterClass cls) const {
        std::set<int> numbers;
        for (const RegInfo &reg : kernel_.registers)
            if (reg.cls == cls && reg.physical >= 0) numbers.insert(reg.physical);
        return numbers;
    }

    // What packets read, each register once, and for each register the packets that read it.
    struct Reads {
        std::vector<std::pair<std::set<Reg>, bool>> packets;  // of a block that is a loop
        std::vector<std::vector<size_t>> of_register;
    };
    const Reads &reads() {
        if (reads_) return *reads_;
        reads_.emplace();
        reads_->of_register.resize(kernel_.registers.size());
        for (const Block &block : blocks_)
            for (const OpGroup &packet : block.packets) {
                std::set<Reg> read;
                for (const Op &op : packet) for_each_read(op, [&](Reg r) { read.insert(r); });
                for (Reg r : read) reads_->of_register[static_cast<size_t>(r.id)].push_back(reads_->packets.size());
                reads_->packets.emplace_back(std::move(read), block.end.kind == Terminator::Loop);
            }
        return *reads_;
    }

    // What a register would cost in each bank: packets that read it beside another of the bank.
    std::vector<double> conflicts(const Interval &interval, int banks) {
        constexpr double loop_weight = 10;
        std::vector<double> cost(static_cast<size_t>(banks));
        const RegisterClass cls = kernel_.cls(interval.reg);
        for (size_t packet : reads().of_register[static_cast<size_t>(interval.reg.id)]) {
            const auto &[read, in_loop] = reads().packets[packet];
            for (Reg r : read) {
                const RegInfo &other = kernel_.registers[static_cast<size_t>(r.id)];
                const int bank = other.physical >= 0 ? other.physical : other.bank;
                if (r != interval.reg && other.cls == cls && bank >= 0 && r != zero_scalar)
                    cost[static_cast<size_t>(bank % banks)] += in_loop ? loop_weight : 1;
            }
        }
        return cost;
    }

    void scan(const std::vector<Interval> &intervals, RegisterClass cls) {
        const int count = static_cast<int>(cls == RegisterClass::Scalar   ? machine_.regs.scalar
                                           : cls == RegisterClass::Vector ? machine_.regs.vector
                                                                          : machine_.regs.mask);
        const int banks = static_cast<int>(cls == RegisterClass::Scalar   ? machine_.regs.scalar_banks
                                           : cls == RegisterClass::Vector ? machine_.regs.vector_banks
                                                                          : machine_.regs.mask_banks);
        std::vector<std::set<int>> free(banks);
        const std::set<int> taken = fixed(cls);
        for (int r = 1; r < count; r++)
            if (!taken.contains(r)) free[r % banks].insert(r);
        std::multimap<int, int> active;  // last packet -> register
        int most = 0;
        for (const Interval &interval : intervals) {
            RegInfo &reg = kernel_.registers[interval.reg.id];
            if (reg.cls != cls || reg.physical >= 0) continue;
            while (!active.empty() && active.begin()->first < interval.first) {
                free[active.begin()->second % banks].insert(active.begin()->second);
                active.erase(active.begin());
            }
            int bank = reg.bank < 0 ? -1 : reg.bank % banks;  // preferences are made for four banks
            if (bank < 0 || free[bank].empty()) {
                const std::vector<double> cost =
                    bank < 0 ? std::vector<double>(static_cast<size_t>(banks)) : conflicts(interval, banks);
                const auto rank = [&](int b) {
                    return std::tuple(free[b].empty(), cost[static_cast<size_t>(b)], -static_cast<int64_t>(free[b].size()));
                };
                bank = 0;
                for (int b = 1; b < banks; b++)
                    if (rank(b) < rank(bank)) bank = b;
            }
            if (free[bank].empty())
                throw TooFewRegisters(fmt::format(
                    "cannot generate code: more than {} {} registers are live at once; use a smaller register tile", count - 1,
                    cls == RegisterClass::Scalar   ? "scalar"
                    : cls == RegisterClass::Vector ? "vector"
                                                   : "mask"));
            const int number = *free[bank].begin();
            free[bank].erase(free[bank].begin());
            reg.physical = static_cast<int16_t>(number);
            active.emplace(interval.last, number);
            most = std::max(most, static_cast<int>(active.size()));
        }
    }

    Kernel &kernel_;
    const Machine &machine_;
    Blocks &blocks_;
    std::optional<Reads> reads_;
};

}  // namespace

void allocate(Kernel &kernel, Blocks &blocks) { Allocator(kernel, blocks).run(); }

}  // namespace atalla::codegen
