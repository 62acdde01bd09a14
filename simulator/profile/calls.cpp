#include "simulator/profile/calls.h"

#include <algorithm>
#include <map>

namespace atalla {

CallShares::CallShares(const Program &program, const std::vector<CallRange> &calls)
    : share_of_packet_(program.packets.size(), -1), shares_{{"(entry)", {}}} {
    std::map<std::string, int32_t> numbers;
    for (const CallRange &call : calls) {
        const auto [found, is_new] = numbers.try_emplace(call.name, static_cast<int32_t>(shares_.size()));
        if (is_new) {
            shares_.push_back({call.name, {}});
        }
        auto packet = std::ranges::lower_bound(program.packets, call.begin, {}, &PlacedPacket::address);
        for (; packet != program.packets.end() && packet->address < call.end; ++packet) {
            share_of_packet_[static_cast<size_t>(packet - program.packets.begin())] = found->second;
        }
    }
}

std::vector<SourceShare> CallShares::take() {
    std::erase_if(shares_, [](const SourceShare &one) { return one.share.cycles() == 0; });
    std::ranges::stable_sort(shares_, std::greater(), [](const SourceShare &one) { return one.share.cycles(); });
    return std::move(shares_);
}

void CallShares::enter(int32_t packet) {
    if (packet >= 0 && share_of_packet_[static_cast<size_t>(packet)] >= 0) {
        current_ = static_cast<size_t>(share_of_packet_[static_cast<size_t>(packet)]);
    }
}

void CallShares::waits(int32_t packet, Stall cause, int64_t from, int64_t to) {
    enter(packet);
    shares_[current_].share.stalls[static_cast<size_t>(cause)] += static_cast<uint64_t>(to - from);
}

void CallShares::issues(int32_t packet, int64_t, const MachineState &) {
    enter(packet);
    shares_[current_].share.packets++;
}

void CallShares::halted(int64_t halt, int64_t last) {
    shares_[current_].share.stalls[static_cast<size_t>(Stall::Drain)] += static_cast<uint64_t>(last - halt);
    current_ = 0;
}

}  // namespace atalla
