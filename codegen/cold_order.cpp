#include "codegen/cold_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "codegen/branches.h"
#include "codegen/code_cost.h"

namespace atalla::codegen {

namespace {

// Packets at neighbouring places, `end` not counted, that run one after the other; a jump leads to the next run.
struct Run {
    int first = 0, end = 0;
};
using Path = std::vector<Run>;

// What is at each place of a block: one of its packets, or only a jump.
struct Order {
    static constexpr int jump_alone = -1;
    std::vector<int> packet;
    std::map<int, int> jumps;  // from place to place
    Path path;
};

class ColdOrder {
public:
    ColdOrder(const Kernel &kernel, Blocks &blocks) : kernel_(kernel), machine_(*kernel.machine), blocks_(blocks) {}

    void run() {
        if (!machine_.timed()) return;
        // In the order of addresses: a block that grows moves those behind it.
        for (const int b : lay_out(blocks_).order)
            if (b >= 0) visit(static_cast<size_t>(b));
    }

private:
    int64_t line_of(int64_t byte) const { return floor_div(byte, machine_.icache.line); }
    int64_t first_line(int place) const { return line_of(start_ + place * packet_bytes); }
    int64_t last_line(int place) const { return line_of(start_ + place * packet_bytes + packet_bytes - 1); }

    void visit(size_t b) {
        Block &block = blocks_[b];
        constexpr size_t least_packets = 8;
        const auto branches_away = [](const Op &op) { return op.side != nullptr; };
        const bool sides = std::any_of(block.packets.begin(), block.packets.end(), [&](const OpGroup &packet) {
            return std::any_of(packet.begin(), packet.end(), branches_away);
        });
        if (block.from_block >= 0 || sides || block.packets.size() < least_packets) return;
        start_ = lay_out(blocks_).start[b];
        std::optional<Order> best;
        int64_t most_saved = 0;
        // The first pairs are the least worth: what runs before them is short.
        constexpr size_t most_one_by_one = 4;
        for (size_t one_by_one = 0; one_by_one < most_one_by_one; one_by_one++) {
            const std::optional<Order> order = order_of(block, one_by_one);
            if (!order) continue;
            const int64_t saved = saved_cycles(b, *order);
            if (saved <= most_saved) continue;
            most_saved = saved;
            best = order;
        }
        if (!best) return;
        const std::vector<int64_t> nests = nests_around(b);
        const Block before = block;
        rearrange(block, static_cast<int>(b), *best);
        const std::vector<int64_t> grown = nests_around(b);
        const auto leaves_cache = [&](int64_t was, int64_t is) {
            return was <= machine_.icache.bytes && is > machine_.icache.bytes;
        };
        if (!branches_reach(blocks_) || !std::equal(nests.begin(), nests.end(), grown.begin(), std::not_fn(leaves_cache)))
            block = before;
    }

    // Bytes of code of each loop around a block, innermost first.
    std::vector<int64_t> nests_around(size_t b) const {
        const ProgramLayout layout = lay_out(blocks_);
        std::vector<int64_t> bytes;
        for (size_t end = b; end < blocks_.size(); end++) {
            const Terminator &terminator = blocks_[end].end;
            if (terminator.kind != Terminator::Loop || terminator.target > static_cast<int>(b)) continue;
            bytes.push_back(layout.start[end] + packet_bytes * static_cast<int64_t>(blocks_[end].packets.size()) -
                            layout.start[static_cast<size_t>(terminator.target)]);
        }
        return bytes;
    }

    // Runs that begin with packets across two absent lines, the last ones first. The block is entered at its first place and
    // left at its last ones, of which `tail` must not be apart. So many of the first pairs of lines come one by one. Empty
    // where there are none.
    Path path_of(int places, int tail, size_t one_by_one) const {
        std::vector<int> starts;  // descending
        const int64_t present = line_of(start_ - 1);
        int64_t line = last_line(places - 1);
        for (int place = places - tail - 1; place > 0 && line > present + 1; place--) {
            line = std::min(line, last_line(place));
            if (last_line(place) != line || first_line(place) != line - 1 || line - 1 <= present) continue;
            starts.push_back(place);
            line -= 2;
            while (place > 1 && last_line(place - 1) > line) place--;
        }
        if (starts.size() <= one_by_one) return {};
        starts.resize(starts.size() - one_by_one);
        int lead = 0;  // places that need nothing of the first pair
        while (lead < starts.back() && last_line(lead) < first_line(starts.back())) lead++;
        if (lead == 0) return {};
        Path path = {{0, lead}};
        int end = places - tail;
        for (const int first : starts) {
            path.push_back({first, end});
            end = first;
        }
        if (lead < end) path.push_back({lead, end});
        path.push_back({places - tail, places});
        return path;
    }

    bool takes_jump(const OpGroup &packet) const {
        if (static_cast<int64_t>(packet.size()) >= machine_.issue.slots) return false;
        return std::none_of(packet.begin(), packet.end(), [](const Op &op) {
            return info(op.opcode).unit == info(Opcode::jal).unit || op.opcode == Opcode::halt_s;
        });
    }

    // An order of the block, with as few packets more as the jumps need that have no room in others.
    std::optional<Order> order_of(const Block &block, size_t one_by_one) const {
        const auto packets = static_cast<int>(block.packets.size());
        std::vector<bool> room;
        for (const OpGroup &packet : block.packets) room.push_back(takes_jump(packet));
        // A branch that does not reach far comes with a jump.
        const int tail = block.end.kind != Terminator::Next && block.packets.back().front().opcode == Opcode::jal ? 2 : 1;
        for (int more = 0; more <= packets; more++) {
            Order order;
            order.path = path_of(packets + more, tail, one_by_one);
            const auto jumps = static_cast<int>(order.path.size()) - 1;
            if (jumps < more) return std::nullopt;
            if (fill(order, room, packets + more)) return order;
        }
        return std::nullopt;
    }

    // Packets and jumps to their places along the path. False if they do not fill all of them.
    static bool fill(Order &order, const std::vector<bool> &room, int places) {
        const auto packets = static_cast<int>(room.size());
        order.packet.assign(static_cast<size_t>(places), Order::jump_alone);
        int next = 0, alone = places - packets;
        for (size_t r = 0; r < order.path.size(); r++) {
            const Run &run = order.path[r];
            const auto jumps_left = static_cast<int>(order.path.size() - 1 - r);
            for (int place = run.first; place < run.end; place++) {
                if (jumps_left > 0 && place + 1 == run.end) {
                    order.jumps[place] = order.path[r + 1].first;
                    const bool shares = next < packets && room[static_cast<size_t>(next)] && alone < jumps_left;
                    if (!shares && alone-- == 0) return false;
                    if (!shares) continue;
                }
                if (next == packets) return false;
                order.packet[static_cast<size_t>(place)] = next++;
            }
        }
        return next == packets && alone == 0;
    }

    // Cycles that packets wait for the memory the first time, where the line in front of the block is there.
    int64_t miss_cycles(const Path &path) const {
        // From one open row of the DRAM, with the way there and back.
        const int64_t one = machine_.dram.complete + 2,
                      another =
                          machine_.icache.line / std::max<int64_t>(1, machine_.icache.sector) * machine_.dram.cas_same_group;
        std::set<int64_t> present = {line_of(start_ - 1)};
        int64_t cycles = 0;
        for (const Run &run : path)
            for (int place = run.first; place < run.end; place++) {
                int64_t missing = 0;
                for (int64_t line = first_line(place); line <= last_line(place); line++) missing += present.insert(line).second;
                if (missing > 0) cycles += one + (missing - 1) * another;
            }
        return cycles;
    }

    int64_t saved_cycles(size_t b, const Order &order) const {
        const Block &block = blocks_[b];
        const auto packets = static_cast<int>(block.packets.size());
        const int64_t runs = executions(kernel_, blocks_, b), jumps = static_cast<int64_t>(order.jumps.size()),
                      more = static_cast<int64_t>(order.packet.size()) - packets;
        const bool loop = block.end.kind == Terminator::Loop && block.end.target == static_cast<int>(b) && b > 0;
        // A jump is predicted the next time if none that the predictor keeps in the same place came in between.
        const int64_t entered = loop ? executions(kernel_, blocks_, b - 1) : runs;
        const int64_t wrong = jumps * entered + (loop ? jumps_in_one_place(order) * (runs - entered) : 0);
        return miss_cycles({{0, packets}}) - miss_cycles(order.path) - more * runs - machine_.branch.penalty * wrong;
    }

    // Jumps of a loop, and the branch at its end, that push each other out of the predictor.
    int64_t jumps_in_one_place(const Order &order) const {
        const int64_t entries = std::max<int64_t>(1, machine_.branch.btb), word = 4;
        std::map<int64_t, int64_t> kept;
        for (const auto &[place, to] : order.jumps) kept[floor_mod((start_ + place * packet_bytes) / word, entries)]++;
        kept[floor_mod((start_ + (static_cast<int64_t>(order.packet.size()) - 1) * packet_bytes) / word, entries)]++;
        int64_t together = 0;
        for (const auto &[entry, count] : kept) together += count > 1 ? count : 0;
        return together;
    }

    static void rearrange(Block &block, int index, const Order &order) {
        std::vector<OpGroup> packets(order.packet.size());
        for (size_t place = 0; place < packets.size(); place++)
            if (order.packet[place] != Order::jump_alone)
                packets[place] = std::move(block.packets[static_cast<size_t>(order.packet[place])]);
        for (const auto &[place, to] : order.jumps) {
            Op jump;
            jump.opcode = Opcode::jal;
            jump.dst = zero_scalar;
            jump.imm = index;
            packets[static_cast<size_t>(place)].push_back(jump);
        }
        block.packets = std::move(packets);
        block.jumps = order.jumps;
    }

    const Kernel &kernel_;
    const Machine &machine_;
    Blocks &blocks_;
    int64_t start_ = 0;  // of the block that is looked at
};

}  // namespace

void order_cold_code(const Kernel &kernel, Blocks &blocks) { ColdOrder(kernel, blocks).run(); }

}  // namespace atalla::codegen
