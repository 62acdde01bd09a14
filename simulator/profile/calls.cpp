#include "simulator/profile/calls.h"

#include <algorithm>
#include <map>

namespace atalla {

CallShares::CallShares(const Program &program, const std::vector<CallRange> &calls) : shares_{{"(entry)", {}}} {
    std::map<std::string, size_t> numbers;
    for (const CallRange &call : calls) {
        const auto [found, is_new] = numbers.try_emplace(call.name, shares_.size());
        if (is_new) {
            shares_.push_back({call.name, {}});
        }
        const auto packet = std::ranges::lower_bound(program.packets, call.begin, {}, &PlacedPacket::address);
        if (packet != program.packets.end() && packet->address < call.end) {
            entries_.push_back({static_cast<int32_t>(packet - program.packets.begin()), found->second});
        }
    }
}

std::vector<SourceShare> CallShares::take() {
    std::erase_if(shares_, [](const SourceShare &one) { return one.share.cycles() == 0; });
    std::ranges::stable_sort(shares_, std::greater(), [](const SourceShare &one) { return one.share.cycles(); });
    return std::move(shares_);
}

void CallShares::enter(int32_t packet) {
    if (waiting_ || entries_.empty() || packet != entries_[next_].packet) {
        return;
    }
    current_ = entries_[next_].share;
    next_ = (next_ + 1) % entries_.size();
    waiting_ = true;
}

void CallShares::waits(int32_t packet, Stall cause, int64_t from, int64_t to) {
    enter(packet);
    shares_[current_].share.stalls[static_cast<size_t>(cause)] += static_cast<uint64_t>(to - from);
}

void CallShares::issues(int32_t packet, int64_t, const MachineState &) {
    enter(packet);
    waiting_ = false;
    shares_[current_].share.packets++;
}

void CallShares::halted(int64_t halt, int64_t last) {
    shares_[current_].share.stalls[static_cast<size_t>(Stall::Drain)] += static_cast<uint64_t>(last - halt);
    current_ = 0;
}

}  // namespace atalla
