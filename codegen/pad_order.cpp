#include "codegen/pad_order.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

constexpr size_t most_pads = 8;
// So many iterations show whether a loop fills a queue.
constexpr int most_iterations = 64;

// What the pads have still to write, in cycles from now.
struct Queues {
    std::array<int, most_pads> free{};  // by pad: until the last row is written
    // By allocation, and by slot of those whose slots rotate: until the last of its rows starts.
    std::map<std::pair<int, int>, int> started;
    // By allocation and pad: until a transfer may read the first row, if it reads the others behind it in order.
    std::map<std::pair<int, int>, int> settled;
    bool operator==(const Queues &) const = default;

    void join(const Queues &other) {
        for (size_t pad = 0; pad < most_pads; pad++) free[pad] = std::max(free[pad], other.free[pad]);
        for (const auto &[rows, cycles] : other.started) started[rows] = std::max(started[rows], cycles);
        for (const auto &[rows, cycles] : other.settled) settled[rows] = std::max(settled[rows], cycles);
    }
    // Cycles later.
    void pass(int cycles) {
        for (int &left : free) left = std::max(left - cycles, 0);
        for (auto *times : {&started, &settled})
            for (auto entry = times->begin(); entry != times->end();) {
                entry->second -= cycles;
                entry = entry->second <= 0 ? times->erase(entry) : std::next(entry);
            }
    }
};

class PadOrder {
public:
    PadOrder(const Kernel &kernel, Blocks &blocks, Delays &delays, const std::function<bool(size_t)> &is_loop_body)
        : kernel_(kernel), blocks_(blocks), delays_(delays), is_loop_body_(is_loop_body) {}

    void run() {
        find_queues();
        for (size_t b = 0; b < blocks_.size(); b++)
            while (const std::optional<Late> late = find_late(b))
                if (late->own || !delay_in_front(b, *late)) insert(b, *late);
    }

private:
    // A load, or a transfer from a pad, that may start so many cycles too early.
    struct Late {
        int packet = 0, missing = 0;
        bool own = false;  // the store is in the same block
    };
    struct Store {
        const PadAccess *access;
        int pad, start;
    };

    static std::pair<int, int> rows_of(const PadAccess &access) { return {access.allocation, access.turn}; }
    bool turns(size_t b) const {
        return blocks_[b].end.kind == Terminator::Loop && blocks_[b].end.target == static_cast<int>(b);
    }
    int64_t iterations(size_t b) const {
        for (const LoopInfo &loop : kernel_.loops)
            if (turns(b) && loop.index == blocks_[b].end.index) return loop.extent;
        return 1;
    }

    // Until a transfer may read the first row, by allocation and pad, given how many rows it reads in front of each.
    std::map<std::pair<int, int>, int> settled(const std::vector<Store> &stores, const std::vector<int> &in_front) const {
        std::map<std::pair<int, int>, int> times;
        for (size_t i = 0; i < stores.size(); i++) {
            int &time = times[{stores[i].access->allocation, stores[i].pad}];
            time = std::max(time, stores[i].start - in_front[i] * static_cast<int>(kernel_.machine->sdma.row_ii));
        }
        return times;
    }
    // Of each store of a block, the rows of its pad in front of its own that are stored as well: by the same iteration, and by
    // those before where each goes on.
    std::vector<int> rows_in_front(size_t b, const std::vector<Store> &stores) const {
        std::vector<size_t> order(stores.size());
        std::iota(order.begin(), order.end(), 0);
        const auto place = [&](size_t i) {
            const PadAccess &access = *stores[i].access;
            return std::tie(access.allocation, stores[i].pad, access.row.terms);
        };
        std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
            return place(i) != place(j) ? place(i) < place(j) : stores[i].access->row.constant < stores[j].access->row.constant;
        });
        std::vector<int> in_front(stores.size(), 0);
        for (size_t first = 0, end = 0; first < order.size(); first = end) {
            int rows = 0;
            for (end = first; end < order.size() && place(order[end]) == place(order[first]); end++) {
                const bool another =
                    end == first || stores[order[end]].access->row.constant > stores[order[end - 1]].access->row.constant;
                rows += another;
                in_front[order[end]] = rows - 1;
            }
            const int before = goes_on(b, *stores[order[first]].access) ? rows * static_cast<int>(iterations(b) - 1) : 0;
            for (size_t k = first; k < end; k++) in_front[order[k]] += before;
        }
        return in_front;
    }
    // Is each iteration of a block that is a loop on rows behind those of the one before?
    bool goes_on(size_t b, const PadAccess &access) const {
        const int loop = turns(b) ? loop_of(kernel_, blocks_[b].end) : -1;
        return loop >= 0 && std::ranges::any_of(access.row.terms, [&](const auto &term) {
                   const Atom &atom = kernel_.atoms[static_cast<size_t>(term.first)];
                   return atom.is_loop && atom.loop == loop && term.second > 0;
               });
    }

    // What is still to be written behind a block, once through. `visit` gets each load, and each transfer from a pad, with what
    // is known in front of it.
    template <typename Visit>
    Queues through(size_t b, Queues queues, Visit &&visit) const {
        LeastCycles pace = delays_.pace();
        std::vector<Store> own;
        int cycle = -1;
        const std::vector<OpGroup> &packets = blocks_[b].packets;
        for (size_t p = 0; p < packets.size(); p++) {
            cycle = pace.next(packets[p]);
            for (const Op &op : packets[p])
                if ((op.opcode == Opcode::vreg_ld && op.access) || op.opcode == Opcode::scpad_st)
                    visit(static_cast<int>(p), cycle, op, queues, own);
            for (const Op &op : packets[p]) {
                if (op.opcode != Opcode::vreg_st || !op.access) continue;
                int &free = queues.free[static_cast<size_t>(op.pad) % most_pads];
                // A store does not issue while so many of its pad wait.
                const int start = std::clamp(
                    free, cycle, cycle + static_cast<int>(kernel_.machine->vlsu.store_queue * kernel_.machine->pad.write_ii));
                free = start + static_cast<int>(kernel_.machine->pad.write_ii);
                own.push_back({&*op.access, op.pad, start});
            }
        }
        for (const Store &store : own) {
            int &started = queues.started[rows_of(*store.access)];
            started = std::max(started, store.start);
        }
        std::vector<int> &in_front = in_front_[b];
        if (in_front.size() != own.size()) in_front = rows_in_front(b, own);
        for (const auto &[rows, time] : settled(own, in_front)) queues.settled[rows] = std::max(queues.settled[rows], time);
        queues.pass(cycle + 1);
        return queues;
    }

    void find_queues() {
        entered_.assign(blocks_.size(), {});
        const auto nothing = [](int, int, const Op &, const Queues &, const std::vector<Store> &) {};
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t b = 0; b < blocks_.size(); b++) {
                Queues out = through(b, entered_[b], nothing);
                for (int64_t turn = 1; turn < std::min<int64_t>(iterations(b), most_iterations); turn++) {
                    Queues next = through(b, out, nothing);
                    if (next == out) break;
                    out = std::move(next);
                }
                const auto reach = [&](size_t to) {
                    if (to >= blocks_.size()) return;
                    Queues joined = entered_[to];
                    joined.join(out);
                    if (joined == entered_[to]) return;
                    entered_[to] = std::move(joined);
                    changed = true;
                };
                const Terminator &end = blocks_[b].end;
                if (!end.leaves()) reach(b + 1);
                // A loop's own iterations were counted.
                if (end.kind == Terminator::Skip || (end.kind == Terminator::Loop && !turns(b)))
                    reach(static_cast<size_t>(end.target));
            }
        }
    }

    std::optional<Late> find_late(size_t b) const {
        // Rows of a transfer may come in between.
        const int margin = 2 * static_cast<int>(kernel_.machine->pad.write_ii);
        std::optional<Late> late;
        through(b, entered_[b],
                [&](int packet, int cycle, const Op &load, const Queues &queues, const std::vector<Store> &own) {
                    if (late) return;
                    const auto check = [&](int started, bool of_block) {
                        // Stores that do not wait keep the distance that the edges of their block have.
                        if (started + margin > cycle && !late) late = Late{packet, started + margin - cycle, of_block};
                    };
                    if (load.opcode == Opcode::scpad_st) {
                        // It reads later than a load does; stores of a pad that is not known may be for any.
                        const int ahead = static_cast<int>(kernel_.machine->sdma.setup - kernel_.machine->vlsu.present);
                        const auto check_all = [&](const std::map<std::pair<int, int>, int> &times, bool of_block) {
                            for (const int pad : {load.pad, -1})
                                if (const auto found = times.find({load.orders, pad}); found != times.end())
                                    check(found->second - ahead, of_block);
                        };
                        check_all(queues.settled, false);
                        if (!own.empty()) check_all(settled(own, rows_in_front(b, own)), true);
                        return;
                    }
                    if (const auto found = queues.started.find(rows_of(*load.access)); found != queues.started.end())
                        check(found->second, false);
                    for (const Store &store : own)
                        if (may_alias(kernel_, *store.access, *load.access)) check(store.start, true);
                });
        return late;
    }

    // What is late in the first iteration of a loop alone is late because of what runs in front of it, where a delay runs once:
    // in front of the outermost loop around a block for which that is so, and which is entered from the block in front of it
    // alone.
    bool delay_in_front(size_t b, const Late &late) {
        std::vector<size_t> heads;  // innermost first
        for (size_t end = b; end < blocks_.size(); end++) {
            const Terminator &loop = blocks_[end].end;
            if (loop.kind != Terminator::Loop || static_cast<size_t>(loop.target) > (heads.empty() ? b : heads.back()))
                continue;
            const auto head = static_cast<size_t>(loop.target);
            if (head == 0 || blocks_[head - 1].end.kind != Terminator::Next || is_skipped_to(head, end)) break;
            if (heads.empty() || head < heads.back()) heads.push_back(head);
        }
        for (size_t h = heads.size(); h-- > 0;) {
            Block &before = blocks_[heads[h] - 1];
            const size_t packets = before.packets.size();
            append_delay(heads[h] - 1, late.missing);
            find_queues();
            const std::optional<Late> still = find_late(b);
            if (!still || still->own || still->packet > late.packet) return true;
            before.packets.resize(packets);
        }
        find_queues();
        return false;
    }
    // Do branches in front of the blocks lead into them?
    bool is_skipped_to(size_t first, size_t last) const {
        for (size_t b = 0; b < first; b++) {
            const Terminator &end = blocks_[b].end;
            if (end.kind == Terminator::Skip && static_cast<size_t>(end.target) >= first &&
                static_cast<size_t>(end.target) <= last)
                return true;
        }
        return false;
    }

    void append_delay(size_t b, int cycles) {
        const std::vector<OpGroup> delays = delays_.delay_packets(cycles);
        blocks_[b].packets.insert(blocks_[b].packets.end(), delays.begin(), delays.end());
    }
    void insert(size_t b, const Late &late) {
        // A loop's own iterations keep their distance: the delay goes in front of it.
        if (!late.own && is_loop_body_(b) && b > 0) {
            for (const size_t before : blocks_in_front(blocks_, b)) append_delay(before, late.missing);
            entered_[b].pass(late.missing);
            return;
        }
        const std::vector<OpGroup> delays = delays_.delay_packets(late.missing);
        blocks_[b].packets.insert(blocks_[b].packets.begin() + late.packet, delays.begin(), delays.end());
    }

    const Kernel &kernel_;
    Blocks &blocks_;
    Delays &delays_;
    const std::function<bool(size_t)> &is_loop_body_;
    std::vector<Queues> entered_;                          // by block
    mutable std::map<size_t, std::vector<int>> in_front_;  // by block, of all its stores
};

}  // namespace

void keep_loads_behind_stores(const Kernel &kernel, Blocks &blocks, Delays &delays,
                              const std::function<bool(size_t)> &is_loop_body) {
    if (kernel.machine->timed()) PadOrder(kernel, blocks, delays, is_loop_body).run();
}

}  // namespace atalla::codegen
