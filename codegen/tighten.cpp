#include "codegen/tighten.h"

#include <algorithm>

namespace atalla::codegen {

namespace {

class Tightener {
public:
    // `interval`: of a loop's iterations, 0 for straight code, whose packets stand for so many cycles.
    Tightener(const Kernel &kernel, ScheduleGraph &graph, ResourceTable &table, int interval, int packet_cycles = 1)
        : kernel_(kernel),
          graph_(graph),
          table_(table),
          interval_(interval),
          packet_cycles_(packet_cycles),
          claims_(table.claims(graph.ops)) {
        int last = 0;
        for (int cycle : graph.cycle) last = std::max(last, cycle);
        rows_.resize(last + 1);
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (!is_marker(graph.ops[i])) rows_[graph.cycle[i]].push_back(static_cast<int>(i));
    }

    void loads_late() {
        for (int row = static_cast<int>(rows_.size()); row-- > 0;)
            for (int i : std::vector<int>(rows_[row]))
                if (graph_.ops[i].opcode == Opcode::vreg_ld) load_late(i);
    }
    void dissolve_packets() {
        for (size_t row = 0; row < rows_.size(); row++) dissolve(static_cast<int>(row));
    }

private:
    // The cycles that an operation's neighbours in the graph leave it.
    std::pair<int, int> range(int i) const {
        int first = 0, last = static_cast<int>(rows_.size()) - 1;
        for (int e : graph_.in[i])
            if (const Edge &edge = graph_.edges[e]; edge.from != i)
                first = std::max(first, graph_.cycle[edge.from] + packets(edge) - edge.distance * interval_);
        for (int e : graph_.out[i])
            if (const Edge &edge = graph_.edges[e]; edge.to != i)
                last = std::min(last, graph_.cycle[edge.to] - packets(edge) + edge.distance * interval_);
        return {first, last};
    }

    int packets(const Edge &edge) const {
        return edge.hard ? edge.latency : (edge.latency + packet_cycles_ - 1) / packet_cycles_;
    }

    void move(int i, int to) {
        std::vector<int> &from = rows_[graph_.cycle[i]];
        from.erase(std::find(from.begin(), from.end(), i));
        rows_[to].push_back(i);
        graph_.cycle[i] = to;
    }

    bool move_if_fits(int i, int to) {
        const int now = graph_.cycle[i];
        // What makes no room in other packets by leaving its own.
        if (claims_[i].busy == 1 && table_.refuses(claims_[i], to)) return false;
        table_.release(claims_[i], now);
        const bool fits = table_.fits(claims_[i], to);
        table_.take(claims_[i], fits ? to : now);
        if (fits) move(i, to);
        return fits;
    }

    void load_late(int i) {
        constexpr int margin = 6;  // a load may find its pad busy
        const auto [first, last] = range(i);
        for (int to = last - margin; to > graph_.cycle[i]; to--)
            if (!rows_[to].empty() && move_if_fits(i, to)) return;
    }

    // Moves all operations of a packet to others, or none.
    void dissolve(int row) {
        const std::vector<int> ops = rows_[row];
        constexpr size_t most = 3;
        if (ops.empty() || ops.size() > most) return;
        std::vector<int> moved;
        for (int i : ops) {
            if (elsewhere(i, row)) {
                moved.push_back(i);
                continue;
            }
            for (int j : moved) {
                table_.release(claims_[j], graph_.cycle[j]);
                move(j, row);
                table_.take(claims_[j], row);
            }
            return;
        }
    }

    bool elsewhere(int i, int row) {
        const Op &op = graph_.ops[i];
        // The array and the lanes keep their pace, which in a loop the interval does.
        if (interval_ == 0 && (op.opcode == Opcode::gemm_vv || op.opcode == Opcode::lw_vi ||
                               (is_lane_operation(op.opcode) && packet_cycles_ == 1)))
            return false;
        // Waits and branches stand for more than their registers say.
        if (op.side || op.orders >= 0) return false;
        // There are as many masks alive at a time as there are registers: what makes or reads one stays.
        if (op.mask.defined() || kernel_.is_mask(op.dst)) return false;
        constexpr int furthest = 48;
        const auto [first, last] = range(i);
        for (int apart = 1; apart <= furthest; apart++)
            for (int to : {row + apart, row - apart})
                if (to >= first && to <= last && !rows_[to].empty() && move_if_fits(i, to)) return true;
        return false;
    }

    const Kernel &kernel_;
    ScheduleGraph &graph_;
    ResourceTable &table_;
    const int interval_, packet_cycles_;
    std::vector<Claim> claims_;           // of the operations
    std::vector<std::vector<int>> rows_;  // operations by cycle
};

}  // namespace

void tighten(const Kernel &kernel, ScheduleGraph &graph, ResourceTable &table) {
    Tightener tightener(kernel, graph, table, 0);
    tightener.loads_late();
    tightener.dissolve_packets();
}

void tighten_most(const Kernel &kernel, ScheduleGraph &graph, int packet_cycles) {
    ResourceTable table(kernel, 0, packet_cycles);
    for (size_t i = 0; i < graph.ops.size(); i++)
        if (!is_marker(graph.ops[i])) table.take(graph.ops[i], graph.cycle[i]);
    Tightener(kernel, graph, table, 0, packet_cycles).dissolve_packets();
}

void tighten_loop(const Kernel &kernel, ScheduleGraph &graph, int interval) {
    ResourceTable table(kernel, interval);
    table.reserve_loop_end();
    for (size_t i = 0; i < graph.ops.size(); i++)
        if (!is_marker(graph.ops[i])) table.take(graph.ops[i], graph.cycle[i]);
    Tightener(kernel, graph, table, interval).dissolve_packets();
}

}  // namespace atalla::codegen
